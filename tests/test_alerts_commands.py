"""The ``alerts`` commands, as a user types them."""

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest
from alert_configs import alert_config
from click.testing import CliRunner, Result

from orphanwatch.alerts import commands
from orphanwatch.alerts.artifacts import ALERTMANAGER, PROMETHEUS_RULE, RULE_TESTS, RULES
from orphanwatch.alerts.catalogue import ALERTS
from orphanwatch.alerts.commands import alerts
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.errors import ConfigError, OrphanwatchError, RenderError

GOLDEN = Path(__file__).parent / "golden" / "alerts"
CONFIG = str(GOLDEN / "orphanwatch.yml")


def type_in(*arguments: str) -> Result:
    """Return what the command does."""
    return CliRunner().invoke(alerts, arguments)


def test_the_committed_files_are_what_the_command_builds(tmp_path: Path) -> None:
    """The golden files are whole outputs; ``REWRITE_GOLDEN=1`` writes them anew."""
    out = GOLDEN if os.environ.get("REWRITE_GOLDEN") else tmp_path
    result = type_in("build", "--config.file", CONFIG, "--out", str(out))
    assert result.exit_code == 0, result.output
    for name in (RULES, RULE_TESTS, PROMETHEUS_RULE, ALERTMANAGER):
        assert (out / name).read_text() == (GOLDEN / name).read_text()
        assert str(out / name) in result.output


def test_check_is_content_with_what_was_just_built(tmp_path: Path) -> None:
    """A second look changes nothing and exits 0."""
    type_in("build", "--config.file", CONFIG, "--out", str(tmp_path))
    result = type_in("build", "--config.file", CONFIG, "--out", str(tmp_path), "--check")
    assert (result.exit_code, result.output) == (0, "")


@pytest.mark.parametrize(
    ("text", "state"),
    [
        pytest.param(None, "is missing", id="a missing file"),
        pytest.param("edited", "is out of date", id="an edited file"),
    ],
)
def test_check_names_what_differs(text: str | None, state: str, tmp_path: Path) -> None:
    """It exits 1, names the file and writes nothing."""
    type_in("build", "--config.file", CONFIG, "--out", str(tmp_path))
    changed = tmp_path / RULES
    changed.unlink() if text is None else changed.write_text(text)
    result = type_in("build", "--config.file", CONFIG, "--out", str(tmp_path), "--check")
    assert result.exit_code == 1
    assert result.output == f"{changed} {state}; run orphanwatch alerts build again\n"
    assert (changed.read_text() if changed.exists() else None) == text


def test_a_folder_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    """The error names the path and what to do."""
    (tmp_path / "file").write_text("")
    result = type_in("build", "--config.file", CONFIG, "--out", str(tmp_path / "file" / "rules"))
    assert isinstance(result.exception, RenderError)
    assert "choose another --out" in str(result.exception)


def test_a_wrong_config_is_named(tmp_path: Path) -> None:
    """The loader's error goes through as it is."""
    result = type_in("test", "--config.file", str(tmp_path / "none.yml"))
    assert isinstance(result.exception, ConfigError)


def test_test_proves_the_rules_with_promtool(tmp_path: Path) -> None:
    """One line for each alert, one for the healthy stacks; exit 0 says that all passed."""
    config = tmp_path / "orphanwatch.yml"
    config.write_text('stores: {queue: {type: sql, url: "sqlite:///stack.db"}}\n')
    result = type_in("test", "--config.file", str(config))
    assert result.exit_code == 0, result.output
    first, *told, whole, last = result.output.splitlines()
    assert first == "ok: promtool check rules orphanwatch.rules.yml"
    expected = [alert for alert in ALERTS if alert.rules(load_config(config))]
    for line, alert in zip(told, expected, strict=True):
        assert re.fullmatch(rf"ok: {alert.name}, \d+ cases", line)
    assert whole == "ok: whole stack, 6 cases"
    counted = re.fullmatch(r"coverage: (\d+) of (\d+) rules", last)
    assert counted
    assert counted[1] == counted[2] != "0"


def test_test_names_the_case_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The alert's line says so, promtool's words name the case, and only its rule is uncovered."""
    queue = next(alert for alert in ALERTS if alert.name == "OrphanDuplicateDecoders")
    right = queue.cases(alert_config())
    wrong = tuple(
        replace(case, checks=tuple(replace(check, firing=()) for check in case.checks))
        for case in right
    )
    monkeypatch.setattr(commands, "ALERTS", (replace(queue, cases=lambda _: wrong), *ALERTS[5:6]))
    result = type_in("test", "--config.file", CONFIG)
    assert result.exit_code == 1
    assert f"FAILED: OrphanDuplicateDecoders, {len(right)} cases\n" in result.output
    assert "name: OrphanDuplicateDecoders: just above the threshold" in result.output
    assert "ok: OrphanShedOverdue, 10 cases\n" in result.output
    assert "not covered: OrphanDuplicateDecoders (warning): no passed test demands" in result.output
    assert result.output.endswith("coverage: 1 of 2 rules\n")


def test_test_reports_what_promtool_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that fails is told with promtool's own words, and the exit code is 1."""
    program = tmp_path / "promtool"
    program.write_text("#!/bin/sh\necho no such function >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    result = type_in("test", "--config.file", CONFIG)
    assert result.exit_code == 1
    assert "FAILED: promtool check rules orphanwatch.rules.yml\nno such function" in result.output
    assert re.search(
        r"^FAILED: whole stack, 6 cases\nno such function$", result.output, re.MULTILINE
    )
    assert re.search(r"^coverage: 0 of \d+ rules$", result.output, re.MULTILINE)


def test_test_without_promtool_says_where_it_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the program and a remedy."""
    monkeypatch.setenv("PATH", str(tmp_path))
    result = type_in("test", "--config.file", CONFIG)
    assert type(result.exception) is OrphanwatchError
    assert "promtool is not on PATH" in str(result.exception)
    assert "apt-get install prometheus" in str(result.exception)


@pytest.mark.parametrize("command", [pytest.param((), id="the group"), ("build",), ("test",)])
def test_help_has_an_example(command: tuple[str, ...]) -> None:
    """Each command's help shows a line to copy."""
    result = type_in(*command, "--help")
    assert result.exit_code == 0
    assert "Example: orphanwatch alerts " in result.output
