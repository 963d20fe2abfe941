"""A number that appears in a rule and in a panel is one number."""

import json
import re
from typing import Any

import pytest
from artifact_configs import small_config
from panel_answers import panels_of

from orphanwatch.alerts.catalogue import ALERTS
from orphanwatch.dashboards.build import build
from orphanwatch.dashboards.links import Panel
from orphanwatch.exporter.signals.admission import HEARTBEAT_SLACK


def panel(config_keys: dict[str, Any], number: Panel) -> dict[str, Any]:
    """Return one panel of a changed config."""
    document = json.loads(build(small_config(**config_keys))[f"{number.dashboard}.json"])
    return next(found for found in panels_of(document) if found["id"] == number.id)


def drawn(found: dict[str, Any]) -> list[float]:
    """Return the values at which a panel's lines are drawn."""
    assert found["fieldConfig"]["defaults"]["custom"]["thresholdsStyle"]["mode"] == "dashed"
    steps = found["fieldConfig"]["defaults"]["thresholds"]["steps"]
    return [step["value"] for step in steps if step["value"] is not None]


LINES: dict[str, tuple[Panel, dict[str, Any], str]] = {
    "the token delta's default": (Panel.TOKEN_DELTA, {}, "OrphanTokensAccruing"),
    "a token delta of one's own": (
        Panel.TOKEN_DELTA,
        {"thresholds": {"token_delta": 250.5}},
        "OrphanTokensAccruing",
    ),
    "the age at which a store is stale": (
        Panel.LAST_READ_AGE,
        {"refresh_interval": "20s"},
        "OrphanDetectorBlind",
    ),
    "the same, on the detector's dashboard": (
        Panel.READ_AGE,
        {"refresh_interval": "20s"},
        "OrphanDetectorBlind",
    ),
    "the share of leases due to be shed": (
        Panel.SHED_DUE,
        {"thresholds": {"shed_overdue_ratio": 0.25}},
        "OrphanShedOverdue",
    ),
    "the share of slow cancels, by the quantile": (
        Panel.SLOWER_THAN_GRACE,
        {"grace_quantile": 0.95},
        "OrphanCancelSlowerThanGrace",
    ),
    "how fast the waste budget may burn": (
        Panel.WASTE_RATIO,
        {"thresholds": {"waste_budget_ratio": 0.02}},
        "OrphanWasteBudgetBurn",
    ),
}


@pytest.mark.parametrize(("number", "keys", "name"), LINES.values(), ids=LINES)
def test_lines_are_the_rules_numbers(number: Panel, keys: dict[str, Any], name: str) -> None:
    """The lines in a panel are the numbers that the alert's rules compare with."""
    exprs_of_rules = " ".join(rule_exprs(name, keys))
    compared = {float(found) for found in re.findall(r"> ([0-9.]+)", exprs_of_rules)}
    lines = drawn(panel(keys, number))
    assert lines
    assert set(lines) <= compared


def rule_exprs(name: str, keys: dict[str, Any]) -> list[str]:
    """Return the expressions of an alert's rules."""
    alert = next(alert for alert in ALERTS if alert.name == name)
    return [rule.expr for rule in alert.rules(small_config(**keys))]


def test_unmatched_limit_is_the_rules_ratio() -> None:
    """The limit of unmatched tokens is drawn from the ratio and the window of the rule."""
    keys = {"thresholds": {"unmatched_spend_ratio": 0.125}, "delta_window": "90s"}
    (rule,) = rule_exprs("OrphanLedgerMiskeyed", keys)
    assert "> 0.125" in rule
    assert "90 * last_over_time(orphan_spend_tokens_per_second" in rule
    limit = panel(keys, Panel.UNMATCHED_TOKENS)["targets"][1]["expr"]
    assert limit.endswith(" * 90 * 0.125")


def test_heartbeat_limit_is_the_conditions() -> None:
    """The limit of the heartbeat period is the one by which overflow fails closed."""
    limit = panel({}, Panel.HEARTBEAT)["targets"][1]["expr"]
    assert "orphan_deadline_budget_seconds" in limit
    assert limit.endswith(f" * {HEARTBEAT_SLACK} / 3")


def test_grace_is_said_in_the_title() -> None:
    """The heatmap, which can hold no line, says the grace in force in its title."""
    assert panel({}, Panel.PROPAGATION)["title"].endswith("a grace of 1s")
    pools = {
        "paid": {"role": "paid", "grace_seconds": 0.25},
        "overflow": {"role": "overflow", "grace_seconds": 2},
    }
    title = panel({"pools": pools}, Panel.PROPAGATION)["title"]
    assert title.endswith("a grace of 2s in overflow, 250ms in paid")


def test_share_of_slow_cancels_reads_the_rules_bucket() -> None:
    """The panel judges each pool by the bucket that the rule judges it by."""
    keys = {"grace_seconds": 1.2}
    (rule,) = rule_exprs("OrphanCancelSlowerThanGrace", keys)
    assert 'le="1.5"' in rule
    found = panel(keys, Panel.SLOWER_THAN_GRACE)
    assert [re.findall(r'le="([^"]+)"', t["expr"]) for t in found["targets"]] == [["1.5"]]
