"""Every alert has its rule, its cases of each kind, its page and its panel."""

import re
from functools import cache

import promql_parser
import pytest
from alert_configs import alert_config, alerting_rules, with_store
from promql_facts import family_of, selectors

from orphanwatch.alerts.alert import Alert, Bearing, Kind, Severity, Variation
from orphanwatch.alerts.catalogue import ALERTS
from orphanwatch.alerts.routing import routing
from orphanwatch.alerts.stories import stories
from orphanwatch.dashboards.links import PANEL_OF_ALERT
from orphanwatch.exporter import names
from orphanwatch.exporter.instants import parse_duration
from orphanwatch.runbooks.checks import CHECKS
from orphanwatch.runbooks.render import render_all

ALERT = pytest.mark.parametrize("alert", [pytest.param(alert, id=alert.name) for alert in ALERTS])

TOLD_BY_LEDGER = {
    "OrphanTokensAccruing", "OrphanSplitSignal", "OrphanLedgerMiskeyed", "OrphanWasteBudgetBurn"
}  # fmt: skip


@ALERT
def test_it_has_a_case_of_each_kind_or_a_reason(alert: Alert) -> None:
    """Below, at, above, reset, born, stale, restart, source lost: tried, or said why not."""
    tried = {kind for case in alert.cases(alert_config()) for kind in case.kinds}
    assert tried | set(alert.excused) == set(Kind)
    assert not tried & set(alert.excused)
    assert all(len(reason) > 15 for reason in alert.excused.values())


@ALERT
def test_no_counter_is_a_true_reason(alert: Alert) -> None:
    """An alert that leaves out the counter reset reads no counter and no histogram."""
    config = alert_config()
    read = [rule["expr"] for rule in alerting_rules(config) if rule["alert"] == alert.name]
    read += [recording.expr for recording in alert.recordings(config)]
    kinds = {
        family.kind
        for expr in read
        for selector in selectors(expr)
        if (family := family_of(selector.name)) is not None
    }
    assert (Kind.COUNTER_RESET in alert.excused) == (kinds == {names.Kind.GAUGE})


@ALERT
def test_its_cases_are_played_with_missed_scrapes_and_two_replicas(alert: Alert) -> None:
    """Each fact, firing or silence, is tried in all three variations by some case."""
    cases = alert.cases(alert_config())
    for wanted in (
        [case for case in cases if any(check.firing for check in case.checks)],
        [case for case in cases if alert.name in case.never],
    ):
        assert {one for case in wanted for one in case.variations} == set(Variation)


@ALERT
def test_it_has_rule_page_checks_and_panel(alert: Alert) -> None:
    """The four are found by the alert's name, and none stands for an alert that is not there."""
    assert alert.rules(alert_config())
    assert {f"{alert.name}.md", f"{alert.name}.html"} <= pages()
    assert alert.name in CHECKS
    assert alert.name in PANEL_OF_ALERT


@ALERT
def test_it_says_its_slowest_time_to_page(alert: Alert) -> None:
    """It covers late rows, a refresh, scrapes, an evaluation, the hold and Alertmanager's wait."""
    config = alert_config(with_store("ledger", lag="90s"))
    route = routing(config, ALERTS)["route"]["routes"][0]
    wait = parse_duration(route["group_wait"])
    for rule in alert.rules(config):
        late = config.lag if alert.name in TOLD_BY_LEDGER else 0
        least = late + config.refresh_interval + 3 * config.scrape_interval + rule.hold + wait
        assert rule.time_to_page >= least


@ALERT
def test_no_label_carries_a_value_or_an_id(alert: Alert) -> None:
    """Labels are constants of few letters: a template in one would reset the hold."""
    for rule in alerting_rules(alert_config()):
        for value in rule["labels"].values():
            assert re.fullmatch(r"[a-z0-9_]+", value), alert.name


def test_without_an_overflow_pool_nothing_is_overdue_for_shedding() -> None:
    """A config leaves out a rule that could never fire, rather than one that matches nothing."""
    config = alert_config(pools={"paid": {"role": "paid"}})
    assert "OrphanShedOverdue" not in {rule["alert"] for rule in alerting_rules(config)}


def test_overflow_pools_are_matched_literally() -> None:
    """Several pools are one matcher, and what is special in an expression is not in a name."""
    pools = {"spare.a": {"role": "overflow"}, "spare": {"role": "overflow"}}
    rules = [rule["expr"] for rule in alerting_rules(alert_config(pools=pools))]
    overdue = next(expr for expr in rules if "orphan_shed_due_leases" in expr)
    assert 'orphan_shed_due_leases{pool=~"spare|spare\\\\.a"}' in overdue
    assert promql_parser.parse(overdue)


@pytest.mark.parametrize(
    "told",
    [
        "a calm stack",
        "a straggler that stops after its cutoff",
        "a worker that crashed with its client's request",
        "load that ramps up with its clients",
        "a ledger with one row at the end, at low traffic",
        "an exporter that restarts and has lost its counters",
    ],
)
def test_healthy_traces_page_nobody(told: str) -> None:
    """The story is there, and every alert that pages or warns has to stay silent in it."""
    case = next(case for case in stories(alert_config(), ALERTS) if case.name == told)
    spoken = {alert.name for alert in ALERTS if alert.bearing is not Bearing.NOTICE}
    assert set(case.never) == spoken
    assert {alert.name for alert in ALERTS if alert.severity is Severity.CRITICAL} <= spoken


def test_stories_feed_every_rule() -> None:
    """Silence proves something: whatever a rule that must be silent reads is there in calm."""
    config = alert_config()
    calm = stories(config, ALERTS)[0]
    told = {str(series.family) for series in calm.series}
    recorded = {one.record for alert in ALERTS for one in alert.recordings(config)}
    for alert in (one for one in ALERTS if one.bearing is not Bearing.NOTICE):
        for text in (
            *(rule.expr for rule in alert.rules(config)),
            *(recording.expr for recording in alert.recordings(config)),
        ):
            assert {selector.name for selector in selectors(text)} <= told | recorded, alert.name


@cache
def pages() -> frozenset[str]:
    """Return the names of all rendered pages."""
    return frozenset(render_all(alert_config()))
