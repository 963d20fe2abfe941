"""The coverage that ``alerts test`` reports is what promtool saw, not what was hoped for."""

from dataclasses import replace
from pathlib import Path

import pytest
from alert_configs import alert_config

from orphanwatch.alerts.alert import Alert, Case, Rule
from orphanwatch.alerts.catalogue import ALERTS
from orphanwatch.alerts.coverage import Coverage, arms, coverage
from orphanwatch.alerts.documents import document_text
from orphanwatch.alerts.parts import Part
from orphanwatch.alerts.promtool import proof, shown
from orphanwatch.alerts.rules import rule_file
from orphanwatch.exporter.config import Config

TOKENS = next(alert for alert in ALERTS if alert.name == "OrphanTokensAccruing")
OTHER = next(alert for alert in ALERTS if alert.name == "OrphanSplitSignal")
CASES = {case.name: case for case in TOKENS.cases(alert_config())}
LATE = CASES["rows that land after the delta window fire by the counter alone"]
GAUGE = CASES[
    "tokens in the delta window, just above the threshold: fires after its hold and not before, "
    "and clears"
]
SILENT = CASES["one late row does not page"]
ONLY_FIRES = replace(GAUGE, checks=GAUGE.checks[1:2])
ONLY_LATE = replace(LATE, checks=LATE.checks[1:])


def covered(folder: Path, *cases: Case, alert: Alert = TOKENS) -> Coverage:
    """Return the coverage of one alert's rules by some cases alone."""
    evidence = shown(alert_config(), Part(alert.name, (alert,), cases), folder)
    return coverage(alert_config(), (alert,), [evidence])


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
    """Where one of an alert's tests did not pass, none of its rules is covered; others are."""
    config = alert_config()
    part = Part(TOKENS.name, (TOKENS,), (ONLY_FIRES, ONLY_LATE, SILENT))
    rules = document_text(rule_file(config, (TOKENS,)))
    passed = proof(config, part, rules, tmp_path)
    failed = proof(config, part, rules.replace("increase(", "1e9 * increase("), tmp_path)
    assert (passed.passed, failed.passed) == (True, False)
    both = coverage(config, (TOKENS, OTHER), [passed.evidence])
    assert str(both) == "coverage: 1 of 2 rules"
    assert {gap.rule for gap in both.gaps} == {f"{OTHER.name} (critical)"}
    assert str(coverage(config, (TOKENS,), [failed.evidence])) == "coverage: 0 of 1 rules"


def test_a_rule_that_another_alerts_case_makes_fire_is_covered(tmp_path: Path) -> None:
    """What is shown counts for the rule it is shown of, wherever the case stands."""
    config = alert_config()
    part = Part("OrphanOther", (TOKENS,), (ONLY_FIRES, ONLY_LATE, SILENT))
    evidence = proof(config, part, document_text(rule_file(config, (TOKENS,))), tmp_path).evidence
    assert str(coverage(config, (TOKENS,), [evidence])) == "coverage: 1 of 1 rules"


def test_a_severity_that_is_not_tested_is_a_gap(tmp_path: Path) -> None:
    """Of two rules of one alert each has to be shown, not the alert as a whole."""

    def twice(config: Config) -> tuple[Rule, ...]:
        once = TOKENS.rules(config)
        return (*once, *(replace(rule, labels={"window": "1h"}) for rule in once))

    alert = replace(TOKENS, rules=twice)
    result = covered(tmp_path, ONLY_FIRES, ONLY_LATE, SILENT, alert=alert)
    assert str(result) == "coverage: 1 of 2 rules"
    assert result.gaps[0].rule == "OrphanTokensAccruing (critical, 1h)"
