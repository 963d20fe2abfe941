"""Runs the real promtool over the generated files."""

import shutil
import subprocess
from pathlib import Path
from typing import Final, NamedTuple

from orphanwatch.alerts.artifacts import RULE_TESTS, RULES
from orphanwatch.alerts.catalogue import ALERTS
from orphanwatch.alerts.coverage import PROBE_TESTS, Coverage, Probe
from orphanwatch.alerts.documents import document_text
from orphanwatch.alerts.stories import stories
from orphanwatch.exporter.artifacts import write_files
from orphanwatch.exporter.config import Config
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
    return (
        _run(folder, "check", "rules", RULES),
        _run(folder, "test", "rules", RULE_TESTS),
    )


def measure(config: Config, folder: Path, *, passed: bool) -> Coverage:
    """Return which rules the cases prove; plays them once more where their tests ``passed``.

    Writes its own files into the folder. Raises as ``run_promtool`` does.
    """
    probe = Probe(config, ALERTS, stories(config, ALERTS))
    if not passed:
        return probe.coverage("", passed=False)
    documents = probe.documents()
    write_files({name: document_text(one) for name, one in documents.items()}, folder)
    return probe.coverage(_run(folder, "test", "rules", PROBE_TESTS).output, passed=True)


def _run(folder: Path, *arguments: str) -> Outcome:
    program = shutil.which(PROMTOOL)
    if program is None:
        raise OrphanwatchError(
            "promtool is not on PATH; it comes with Prometheus "
            "(on Debian: apt-get install prometheus)"
        )
    done = subprocess.run(
        [program, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    output = (done.stdout + done.stderr).strip()
    return Outcome(done.returncode == 0, " ".join((PROMTOOL, *arguments)), output)
