"""Runs the real promtool over the generated rules, their parts side by side."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from orphanwatch.alerts.artifacts import RULE_TESTS, RULES
from orphanwatch.alerts.coverage import PROBE_TESTS, Evidence, Probe
from orphanwatch.alerts.documents import document_text
from orphanwatch.alerts.parts import Part
from orphanwatch.alerts.rule_tests import promtool_file
from orphanwatch.alerts.rules import rule_file
from orphanwatch.exporter.artifacts import write_files
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.errors import OrphanwatchError

PROMTOOL: Final = "promtool"

# It lives for seconds, on small heaps: collecting them less often saves a fifth of its time.
_COLLECT_LESS: Final = {"GOGC": "400"}


class Outcome(NamedTuple):
    """What promtool said of a rule file, or of one part of its tests."""

    passed: bool
    about: str
    output: str
    evidence: Evidence = Evidence()
    """What is shown of the rules; nothing where a test failed."""


def run_promtool(folder: Path, *arguments: str) -> Outcome:
    """Return what one run of promtool in a folder says.

    Raises ``OrphanwatchError`` where promtool is missing.
    """
    program = shutil.which(PROMTOOL)
    if program is None:
        raise OrphanwatchError(
            "promtool is not on PATH; it comes with Prometheus "
            "(on Debian: apt-get install prometheus)"
        )
    done = subprocess.run(
        [program, *arguments],
        cwd=folder,
        env=_COLLECT_LESS | os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    output = (done.stdout + done.stderr).strip()
    return Outcome(done.returncode == 0, " ".join((PROMTOOL, *arguments)), output)


def prove(
    config: Config, rules: str, played: Iterable[Part], finished: Callable[[int], None]
) -> tuple[Outcome, ...]:
    """Return how the text of a rule file fares, and then each part, in the order given.

    ``finished`` is told how many of these are done. Raises as ``run_promtool`` does.
    """
    parts = tuple(played)
    with (
        TemporaryDirectory(prefix="orphanwatch-") as folder,
        ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as threads,
    ):
        checked = threads.submit(_check, rules, Path(folder) / "rules")
        # The longest first, so that none of them is still waited for when all others are done.
        longest_first = sorted(enumerate(parts), key=lambda item: -item[1].scrapes)
        running = {
            position: threads.submit(_proof, config, part, Path(folder) / str(position))
            for position, part in longest_first
        }
        outcomes = (checked, *(running[position] for position in range(len(parts))))
        try:
            return _gathered(outcomes, finished)
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise


def proof(config: Config, part: Part, rules: str, folder: Path) -> Outcome:
    """Return what ``play`` does, and what the cases show of the rules if all passed."""
    played = play(config, part, rules, folder)
    return played._replace(evidence=shown(config, part, folder)) if played.passed else played


def play(config: Config, part: Part, rules: str, folder: Path) -> Outcome:
    """Return how a part's cases fare against the text of a rule file.

    Writes its files into the folder. Raises as ``run_promtool`` does.
    """
    tests = document_text(promtool_file(config, (part,), RULES))
    write_files({RULES: rules, RULE_TESTS: tests}, folder)
    return run_promtool(folder, "test", "rules", RULE_TESTS)._replace(about=str(part))


def shown(config: Config, part: Part, folder: Path) -> Evidence:
    """Return what a part that passed shows of its rules: plays it once more, with its probe."""
    probe = Probe(config, part)
    documents = probe.documents()
    if not documents:
        return probe.evidence("")
    write_files({name: document_text(one) for name, one in documents.items()}, folder)
    return probe.evidence(run_promtool(folder, "test", "rules", PROBE_TESTS).output)


def _proof(config: Config, part: Part, folder: Path) -> Outcome:
    return proof(config, part, document_text(rule_file(config, part.alerts)), folder)


def _check(rules: str, folder: Path) -> Outcome:
    write_files({RULES: rules}, folder)
    return run_promtool(folder, "check", "rules", RULES)


def _gathered(
    outcomes: tuple[Future[Outcome], ...], finished: Callable[[int], None]
) -> tuple[Outcome, ...]:
    for count, one in enumerate(as_completed(outcomes), start=1):
        one.result()
        finished(count)
    return tuple(one.result() for one in outcomes)
