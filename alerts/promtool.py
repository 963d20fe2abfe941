"""Runs the real promtool over the generated files."""

import shutil
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

from orphanwatch.alerts.artifacts import RULE_TESTS, RULES
from orphanwatch.exporter.errors import OrphanwatchError

PROMTOOL: Final = "promtool"


class Outcome(NamedTuple):
    """What one run of promtool said."""

    passed: bool
    command: str
    output: str


def run_promtool(folder: Path) -> tuple[Outcome, ...]:
    """Return how the rules and their tests in a folder fare.

    Raises ``OrphanwatchError`` where promtool is missing.
    """
    program = shutil.which(PROMTOOL)
    if program is None:
        raise OrphanwatchError(
            "promtool is not on PATH; it comes with Prometheus "
            "(on Debian: apt-get install prometheus)"
        )
    return (
        _run(program, folder, "check", "rules", RULES),
        _run(program, folder, "test", "rules", RULE_TESTS),
    )


def _run(program: str, folder: Path, *arguments: str) -> Outcome:
    done = subprocess.run(
        [program, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    output = (done.stdout + done.stderr).strip()
    return Outcome(done.returncode == 0, " ".join((PROMTOOL, *arguments)), output)
