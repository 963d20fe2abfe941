"""The real program in a session: what was typed, what came out, and the exit code.

``REWRITE_GOLDEN=1`` writes the committed sessions anew.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PROGRAM = Path(sys.executable).with_name("orphanwatch")
GOLDEN = Path(__file__).parent / "golden" / "cli"

# What differs from run to run: clocks of this machine.
_VARYING = (
    (re.compile(r'(orphan_store_clock_skew_seconds\{store="\w+"\}) \S+'), r"\1 <skew>"),
    (re.compile(r"(read as of) \S+Z"), r"\1 <now>"),
)


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a command answered."""

    code: int
    out: str
    err: str


def run(folder: Path, *arguments: str, **environ: str) -> Answer:
    """Return the answer of the program, run in a folder."""
    done = subprocess.run(
        [PROGRAM, *arguments],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Answer(code=done.returncode, out=done.stdout, err=done.stderr)


def session(folder: Path, *commands: str) -> str:
    """Return a session in a folder as one would copy it from a terminal."""
    told = []
    for command in commands:
        answer = run(folder, *command.split())
        told.append(f"$ orphanwatch {command}\n{answer.out}{answer.err}exit {answer.code}\n")
    text = "\n".join(told).replace(f"{folder}/", "")
    for pattern, replacement in _VARYING:
        text = pattern.sub(replacement, text)
    return text


def golden(name: str, text: str) -> str:
    """Return the committed session, which was just rewritten where that was asked for."""
    path = GOLDEN / name
    if os.environ.get("REWRITE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return path.read_text(encoding="utf-8")
