"""Pools, grace, admission and budget: their numbers come from the config, and wrong rules fail."""

from decimal import Decimal
from pathlib import Path

import pytest
from alert_configs import alert_config, alerting_rules, all_rules, bent_rule_is_caught, with_store
from promql_facts import disagreements

from orphanwatch.alerts import budget
from orphanwatch.alerts.burn_rules import orphans, ratio
from orphanwatch.alerts.slow_cancels import allowed_share, edge_of, slow_share
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import format_duration, micros, parse_duration

SLOW = "OrphanCancelSlowerThanGrace"
BURN = "OrphanWasteBudgetBurn"


def exprs(config: Config, name: str) -> list[str]:
    """Return the expressions of an alert's rules."""
    return [rule["expr"] for rule in alerting_rules(config) if rule["alert"] == name]


@pytest.mark.parametrize(
    ("grace", "edge"),
    [
        pytest.param(1, 1.0, id="a grace at an edge is judged by it"),
        pytest.param(1.2, 1.5, id="between two edges by the upper one, never too early"),
        pytest.param(0.01, 0.05, id="below all edges by the first"),
        pytest.param(600, 600.0, id="at the last edge by the last"),
        pytest.param(600.001, None, id="above all edges by none"),
    ],
)
def test_the_edge_of_a_grace(grace: float, edge: float | None) -> None:
    """What is above the edge is surely above the grace."""
    assert edge_of(micros(grace)) == edge


def test_each_pool_is_judged_by_its_own_grace() -> None:
    """Pools with one edge share an arm; one whose grace is above all buckets is left out."""
    pools = {
        "slow": {"role": "overflow", "grace_seconds": 3},
        "vast": {"role": "overflow", "grace_seconds": 900},
        "paid": {"role": "paid"},
    }
    (expr,) = exprs(alert_config(pools=pools), SLOW)
    assert '_bucket{le="1.0",pool=~"paid|other"}' in expr
    assert '_bucket{le="3.0",pool="slow"}' in expr
    assert "vast" not in expr


def test_a_grace_that_no_bucket_can_judge_leaves_no_rule() -> None:
    """A rule that could never fire is not written."""
    assert exprs(alert_config(grace_seconds=900), SLOW) == []


@pytest.mark.parametrize(
    ("quantile", "share"),
    [
        pytest.param(0.99, "0.02", id="0.99 lets one in fifty be slow"),
        pytest.param(0.95, "0.1", id="0.95 lets one in ten"),
        pytest.param(0.999, "0.002", id="0.999 is written exactly"),
    ],
)
def test_the_share_follows_the_quantile(quantile: float, share: str) -> None:
    """Twice what the quantile leaves, without float noise."""
    config = alert_config(grace_quantile=quantile)
    assert allowed_share(config) == Decimal(share)
    assert f" > {share}\nand" in exprs(config, SLOW)[0]


def test_the_burn_follows_the_budget() -> None:
    """Each pair compares both windows with factor times budget, exactly written."""
    limits = [expr.count(limit) for expr, limit in zip(
        exprs(alert_config(thresholds={"waste_budget_ratio": 0.003}), BURN),
        ("> 0.0432", "> 0.018", "> 0.009", "> 0.003"),
        strict=True,
    )]  # fmt: skip
    assert limits == [2, 2, 2, 2]


def test_factors_that_no_waste_can_reach_are_left_out() -> None:
    """With a budget of a fifth, six times it is more than all tokens."""
    rules = [
        rule
        for rule in alerting_rules(alert_config(thresholds={"waste_budget_ratio": 0.2}))
        if rule["alert"] == BURN
    ]
    assert [rule["labels"]["window"] for rule in rules] == ["1d", "3d"]
    assert {rule["labels"]["severity"] for rule in rules} == {"warning"}


def test_the_pairs_spend_what_the_workbook_says() -> None:
    """2, 5, 10 and 10 % of the budget are gone when a pair fires."""
    spent = [burn.factor * burn.long / budget.PERIOD for burn in budget.BURNS]
    assert [round(float(part), 3) for part in spent] == [0.02, 0.05, 0.1, 0.1]


def test_no_window_is_shorter_than_four_scrapes() -> None:
    """A slow scrape lengthens the short windows, and the names say so."""
    config = alert_config(scrape_interval="2m", delta_window="8m")
    records = {rule["record"] for rule in all_rules(config) if "record" in rule}
    assert "job:orphan_tokens_per_spend_tokens:ratio_rate8m" in records
    assert not any(name.endswith("rate5m") for name in records)


@pytest.mark.parametrize("burn", budget.BURNS[:2], ids=["1h", "6h"])
def test_one_straggler_shows_for_less_than_a_page_waits(burn: budget.Burn) -> None:
    """The hold outlasts the short window and a delta window of charges."""
    late = alert_config(stores=with_store("ledger", lag="60s"))
    for config in (alert_config(), late):
        assert budget.hold(config, burn) > burn.short + config.delta_window + config.lag


def test_a_pod_and_its_successors_are_one_exporter(tmp_path: Path) -> None:
    """Deployed anew within a window, it wasted as much over all of it: nothing is lost, or double.

    For as long as the look-back is, the one that went is still counted as there.
    """
    config, window = alert_config(), micros(600)
    lives = {"a": "{0}x19 stale", "b": "_x20 {0}x20"}
    shown = {
        'orphan_tokens_total{pool="overflow",cause="deadline",basis="charged",': "5000+75",
        "orphan_spend_tokens_per_second{": "100+0",
        'orphan_cancel_propagation_seconds_count{pool="overflow",': "0+4",
        'orphan_cancel_propagation_seconds_bucket{pool="overflow",le="1.0",': "0+3",
    }
    series = {
        f'{metric}instance="{pod}"}}': life.format(values)
        for metric, values in shown.items()
        for pod, life in lives.items()
    }
    expected = {ratio(config, window): 0.05, orphans(config, window): 5, slow_share(config): 0.25}
    near = {
        f"abs(sum({expr.replace('1d', '10m')}) / {value} - 1) < bool 0.1": 1
        for expr, value in expected.items()
    }
    assert disagreements(tmp_path, series, near) == ""


def test_tokens_that_are_only_reported_burn_nothing() -> None:
    """With ``prorated: report`` the ratio counts charged tokens alone."""
    config = alert_config(stores=with_store("ledger", shape="final", prorated="report"))
    ratios = [rule["expr"] for rule in all_rules(config) if "record" in rule]
    assert ratios
    assert all('orphan_tokens_total{basis="charged"}' in expr for expr in ratios)


def test_the_longest_window_states_its_time_to_page() -> None:
    """The worst case is the whole long window, and the hold after it."""
    rules = [rule for rule in alerting_rules(alert_config()) if rule["alert"] == BURN]
    for rule in rules:
        stated = rule["annotations"]["time_to_page"].removeprefix("at most ")
        least = parse_duration(rule["labels"]["window"]) + parse_duration(rule["for"])
        assert parse_duration(stated) > least, format_duration(least)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        pytest.param("OrphanPoolsMixed", "for: 2m30s", "for: 1m30s", id="a moved worker"),
        pytest.param("OrphanPoolsMixed", "> 0", ">= 0", id="a threshold that zero reaches"),
        pytest.param(SLOW, '{le="1.0",', '{le="0.75",', id="an edge below the grace"),
        pytest.param(SLOW, '{le="1.0",', '{le="1",', id="an edge that nobody writes"),
        pytest.param(SLOW, "> 58.5", "> 59.5", id="one cancel too many asked for"),
        pytest.param(SLOW, "> 58.5", "> 57.5", id="one cancel too few asked for"),
        pytest.param(SLOW, "> 0.02", ">= 0.02", id="a share that is still allowed"),
        pytest.param(SLOW, "increase(", "last_over_time(", id="counts that are older than a day"),
        pytest.param("OrphanGraceUnmeasured", '"proposal"', '"measured"', id="the wrong source"),
        pytest.param(
            "OrphanGraceUnmeasured", "time() - max", "60 + time() - max", id="a validity cut short"
        ),
        pytest.param(
            "OrphanGraceUnmeasured", "max without (source)", "max without (le)",
            id="a fall-back that is another alert",
        ),
        pytest.param(
            "OrphanOverflowClosed", "unless ignoring", "and ignoring", id="unknown is open"
        ),
        pytest.param(
            "OrphanOverflowClosed", "max_over_time(orphan_fail_closed[1m])", "orphan_fail_closed",
            id="an instant look that one missed scrape resets",
        ),
    ],
)  # fmt: skip
def test_a_wrong_rule_does_not_pass(name: str, right: str, wrong: str, tmp_path: Path) -> None:
    """The cases of an alert fail as soon as its rule is bent, so they prove something."""
    bent_rule_is_caught(name, right, wrong, tmp_path)


@pytest.mark.parametrize(
    ("right", "wrong", "case"),
    [
        pytest.param(
            "for: 6m30s", "for: 5m", "one straggler at low traffic",
            id="a hold that a straggler outlasts",
        ),
        pytest.param(
            "> 0.144", ">= 0.144", "exactly 14.4 times the budget", id="waste exactly at the limit"
        ),
        pytest.param(
            "> 0.01", "> 0.011", "just above 3 times", id="the slowest pair too lenient"
        ),
        pytest.param(
            "> 0.03", "> 0.029", "just below 3 times", id="the ticket of a day too strict"
        ),
        pytest.param(
            "count without (instance", "group without (instance", "two pools",
            id="a sum that doubles with a second replica",
        ),
        pytest.param(
            "rate5m, 0.00000001", "rate1h, 0.00000001", "waste that has stopped",
            id="a page long after the waste ended",
        ),
        pytest.param(
            "if eq .Labels.job $labels.job", "if true", "what another job",
            id="another job's pools told",
        ),
        pytest.param(
            "sum without (pool)", "max without (pool)", "two pools", id="only the worst pool"
        ),
    ],
)  # fmt: skip
def test_a_wrong_burn_rule_fails_the_case_that_is_about_it(
    right: str, wrong: str, case: str, tmp_path: Path
) -> None:
    """Its cases play hours: each bent rule names the one that has to fail."""
    bent_rule_is_caught(BURN, right, wrong, tmp_path, case)
