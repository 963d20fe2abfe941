"""The coverage that ``alerts test`` reports is what promtool saw, not what was hoped for."""

from dataclasses import replace
from pathlib import Path

import pytest
from alert_configs import alert_config, run

from orphanwatch.alerts.alert import Alert, Case, Rule
from orphanwatch.alerts.catalogue import ALERTS
from orphanwatch.alerts.coverage import PROBE_TESTS, Coverage, Probe, arms
from orphanwatch.alerts.documents import document_text
from orphanwatch.exporter.config import Config

TOKENS = next(alert for alert in ALERTS if alert.name == "OrphanTokensAccruing")
CASES = {case.name: case for case in TOKENS.cases(alert_config())}
LATE = CASES["rows that land after the delta window fire by the counter alone"]
GAUGE = CASES[
    "tokens in the delta window, just above the threshold: fires after its hold and not before, "
    "and clears"
]
SILENT = CASES["one late row does not page"]
ONLY_FIRES = replace(GAUGE, checks=GAUGE.checks[1:2])
ONLY_LATE = replace(LATE, checks=LATE.checks[1:])


def covered(folder: Path, *cases: Case, passed: bool = True) -> Coverage:
    """Return the coverage of the token alert's rule by some cases alone."""
    alert: Alert = replace(TOKENS, cases=lambda _: cases)
    probe = Probe(alert_config(), (alert,), ())
    for name, document in probe.documents().items():
        (folder / name).write_text(document_text(document))
    played = run(folder, "promtool", "test", "rules", PROBE_TESTS)
    return probe.coverage(played.stdout + played.stderr, passed=passed)


@pytest.mark.parametrize(
    ("expr", "alternatives"),
    [
        pytest.param("a > 0", ("a > 0",), id="one"),
        pytest.param("a > 0 or b > 1 or c", ("a > 0", "b > 1", "c"), id="three"),
        pytest.param("a or (b or c)", ("a", "b", "c"), id="in brackets"),
        pytest.param("sum(a or b) > 0", ("sum(a or b) > 0",), id="within a sum it is one number"),
        pytest.param(
            "a unless (b or c)", ("a unless (b or c)",), id="what silences is no alternative"
        ),
    ],
)
def test_alternatives_of_an_expression(expr: str, alternatives: tuple[str, ...]) -> None:
    """Only an ``or`` at the top makes a rule fire in more than one way."""
    assert tuple(" ".join(arm.split()) for arm in arms(expr)) == alternatives


def test_a_rule_with_all_arms_and_a_silence_is_covered(tmp_path: Path) -> None:
    """Both arms fire, each in a case of its own, and a third case is silent."""
    result = covered(tmp_path, ONLY_FIRES, ONLY_LATE, SILENT)
    assert (str(result), result.gaps) == ("coverage: 1 of 1 rules", ())


@pytest.mark.parametrize(
    ("cases", "missing"),
    [
        pytest.param(
            (ONLY_FIRES, SILENT), ("no case makes this arm fire: max without", "increase("),
            id="an arm that no case reaches",
        ),
        pytest.param(
            (ONLY_FIRES, ONLY_LATE), ("no passed test demands that it is silent",),
            id="never silent",
        ),
        pytest.param(
            (SILENT,), ("no passed test demands that it fires", "no case makes this arm fire"),
            id="never fires",
        ),
    ],
)  # fmt: skip
def test_what_no_case_shows_is_a_gap(
    cases: tuple[Case, ...], missing: tuple[str, ...], tmp_path: Path
) -> None:
    """The rule is named, and what is missing."""
    result = covered(tmp_path, *cases)
    assert str(result) == "coverage: 0 of 1 rules"
    assert result.gaps[0].rule == "OrphanTokensAccruing (critical)"
    for words in missing:
        assert words in result.gaps[0].missing


def test_an_arm_that_fires_where_nobody_demands_it_proves_nothing(tmp_path: Path) -> None:
    """An arm counts only at a moment at which the test demands its rule's firing."""
    silent = tuple(replace(check, firing=()) for check in ONLY_LATE.checks)
    result = covered(tmp_path, ONLY_FIRES, replace(ONLY_LATE, checks=silent))
    assert "increase(" in result.gaps[0].missing


def test_failed_tests_prove_nothing(tmp_path: Path) -> None:
    """Where the rules' own tests did not pass, no rule is covered."""
    result = covered(tmp_path, ONLY_FIRES, ONLY_LATE, SILENT, passed=False)
    assert str(result) == "coverage: 0 of 1 rules"


def test_a_severity_that_is_not_tested_is_a_gap(tmp_path: Path) -> None:
    """Of two rules of one alert each has to be shown, not the alert as a whole."""

    def twice(config: Config) -> tuple[Rule, ...]:
        once = TOKENS.rules(config)
        return (*once, *(replace(rule, labels={"window": "1h"}) for rule in once))

    alert = replace(TOKENS, rules=twice, cases=lambda _: (ONLY_FIRES, ONLY_LATE, SILENT))
    probe = Probe(alert_config(), (alert,), ())
    for name, document in probe.documents().items():
        (tmp_path / name).write_text(document_text(document))
    played = run(tmp_path, "promtool", "test", "rules", PROBE_TESTS)
    result = probe.coverage(played.stdout + played.stderr, passed=True)
    assert str(result) == "coverage: 1 of 2 rules"
    assert result.gaps[0].rule == "OrphanTokensAccruing (critical, 1h)"
