"""The queries that pages offer, asked for real: in health, in the incident, and in blindness."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from artifact_configs import small_config
from promql_facts import disagreements, family_of, fenced, healthy_series, selectors
from runbook_incidents import INCIDENTS, SERVICE_HEALTH, SERVICE_INCIDENT
from runbook_pages import PAGES, page

from orphanwatch.alerts.catalogue import ALERTS as CATALOGUE
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.errors import RenderError
from orphanwatch.exporter.names import Condition, Family
from orphanwatch.runbooks.checks import CHECKS, checks_of
from orphanwatch.runbooks.checks_service import condition_check, service_checks
from orphanwatch.runbooks.queries import Check, page_queries

TARGETS = ({"job": "orphanwatch", "instance": "a:1"}, {"job": "orphanwatch", "instance": "b:1"})
ALERTS = tuple(alert.name for alert in CATALOGUE)
SERVICE = tuple(service_checks(small_config()))
CONFIGS: dict[str, Mapping[str, Any]] = {
    "of one service": {},
    "of one service among several": {"selector": 'cluster="eu-1"'},
}
CONFIG = pytest.mark.parametrize("keys", CONFIGS.values(), ids=CONFIGS)


def targets(keys: Mapping[str, Any]) -> tuple[Mapping[str, str], ...]:
    """Return two replicas, in the cluster that the config chooses where it chooses one."""
    return tuple({**target, **({"cluster": "eu-1"} if keys else {})} for target in TARGETS)


def rows(expr: str) -> str:
    """Return a query that counts the rows of another, 0 where there is none."""
    return f"(count({expr}) or vector(0))"


def healthy(check: Check) -> dict[str, float | None]:
    """Return what holds in health: there are rows, each the healthy answer and none the real."""
    if check.healthy is None:
        return {rows(check.expr): 0}
    answers: dict[str, float | None] = {
        f"{rows(check.expr)} > bool 0": 1,
        f"{rows(check.expr)} - {rows(f'({check.expr}) {check.healthy}')}": 0,
    }
    if check.real is not None:
        answers[rows(f"({check.expr}) {check.real}")] = 0
    return answers


def real(check: Check) -> dict[str, float | None]:
    """Return what holds in the incident: a row gives the answer that the page calls real."""
    if check.real is None:
        return {rows(check.expr): 0}
    return {f"{rows(f'({check.expr}) {check.real}')} > bool 0": 1}


def families(expr: str) -> set[Family]:
    """Return the families that a query reads."""
    found = {family_of(selector.name) for selector in selectors(expr)}
    return {family for family in found if family is not None}


def without(series: Mapping[str, str], gone: set[Family]) -> dict[str, str]:
    """Return the series of a page that lacks some families."""
    return {
        name: values
        for name, values in series.items()
        if family_of(name.partition("{")[0]) not in gone
    }


def refuted(folder: Path, series: Mapping[str, str], answers: list[dict[str, float | None]]) -> str:
    """Return what promtool says against the answers; empty where all hold."""
    return disagreements(
        folder, series, {expr: value for one in answers for expr, value in one.items()}
    )


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_has_checks_and_an_incident(alert: str) -> None:
    """An alert whose page asks nothing, or that no incident proves, is not finished."""
    assert len(checks_of(small_config(), alert)) == 3
    assert alert in INCIDENTS


def test_nothing_is_left_over() -> None:
    """No checks and no incident belong to an alert that does not exist."""
    assert set(CHECKS) == set(INCIDENTS) == set(ALERTS)


def test_an_alert_without_checks_is_refused() -> None:
    """The error says where its checks are to be written."""
    with pytest.raises(RenderError, match="OrphanNew has no checks; add a line to CHECKS"):
        checks_of(small_config(), "OrphanNew")


def test_two_checks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page asks three questions; fewer do not go unseen."""
    checks = checks_of(small_config(), ALERTS[0])
    monkeypatch.setattr("orphanwatch.runbooks.checks.CHECKS", {"OrphanNew": lambda _: checks[:2]})
    with pytest.raises(RenderError, match="OrphanNew has 2 checks; its page asks 3"):
        checks_of(small_config(), "OrphanNew")


@CONFIG
@pytest.mark.parametrize("alert", ALERTS)
def test_healthy_answers(alert: str, keys: Mapping[str, Any], tmp_path: Path) -> None:
    """In health every query answers, and each of its rows is the healthy answer of the page."""
    series = healthy_series(targets(keys))
    answers = [healthy(check) for check in checks_of(small_config(**keys), alert)]
    assert refuted(tmp_path, series, answers) == ""


@CONFIG
@pytest.mark.parametrize("alert", ALERTS)
def test_true_answers(alert: str, keys: Mapping[str, Any], tmp_path: Path) -> None:
    """In the alert's own incident each query gives the answer that the page calls real."""
    checks = checks_of(small_config(**keys), alert)
    series = healthy_series(targets(keys), INCIDENTS[alert])
    assert refuted(tmp_path, series, [real(check) for check in checks if check.real]) == ""
    silent = [check for check in checks if check.real is None]
    gone = without(series, {family for check in silent for family in families(check.expr)})
    assert refuted(tmp_path, gone, [real(check) for check in silent]) == ""


@pytest.mark.parametrize("alert", ALERTS)
def test_lost_sources_give_no_answer(alert: str, tmp_path: Path) -> None:
    """Where a source is lost its families are absent, and the query says nothing: never a zero."""
    for check in checks_of(small_config(), alert):
        for family in families(check.expr):
            series = without(healthy_series(TARGETS), {family})
            assert refuted(tmp_path, series, [{check.expr: None}]) == ""
        assert check.no_answer.endswith(".")


@pytest.mark.parametrize("alert", ALERTS)
def test_another_service_is_not_asked(alert: str, tmp_path: Path) -> None:
    """In a Prometheus that holds only another service, a query of ours finds nothing."""
    config = small_config(selector='cluster="us-9"')
    series = healthy_series(targets({"selector": "of another"}), INCIDENTS[alert])
    checks = checks_of(config, alert)
    assert refuted(tmp_path, series, [{rows(check.expr): 0} for check in checks]) == ""


@CONFIG
def test_service_page_answers(keys: Mapping[str, Any], tmp_path: Path) -> None:
    """Each check of the service page tells health and incident apart."""
    checks = service_checks(small_config(**keys)).values()
    calm = healthy_series(targets(keys), SERVICE_HEALTH)
    broken = healthy_series(targets(keys), SERVICE_INCIDENT)
    assert refuted(tmp_path, calm, [healthy(check) for check in checks]) == ""
    assert refuted(tmp_path, broken, [real(check) for check in checks]) == ""


@pytest.mark.parametrize("name", SERVICE)
def test_service_page_in_blindness(name: str, tmp_path: Path) -> None:
    """A check of the service page whose source is lost says nothing: never a zero."""
    check = service_checks(small_config())[name]
    for family in families(check.expr):
        series = without(healthy_series(TARGETS, SERVICE_HEALTH), {family})
        assert refuted(tmp_path, series, [{check.expr: None}]) == ""


@pytest.mark.parametrize("condition", list(Condition))
def test_fail_closed_answers(condition: Condition, tmp_path: Path) -> None:
    """The query of a fail-closed condition says 0, 1 or nothing: nothing is no 0."""
    check = condition_check(small_config(), condition)
    calm = healthy_series(TARGETS)
    closed = healthy_series(TARGETS, {names.FAIL_CLOSED: "1"})
    assert refuted(tmp_path, calm, [healthy(check)]) == ""
    assert refuted(tmp_path, closed, [real(check)]) == ""
    assert refuted(tmp_path, without(calm, {names.FAIL_CLOSED}), [{check.expr: None}]) == ""


@CONFIG
def test_every_step_answers(keys: Mapping[str, Any], tmp_path: Path) -> None:
    """No query of a step comes up empty on a healthy stack, but the one that lists what holds."""
    expected: dict[str, float | None] = {
        f"{rows(expr)} > bool 0": 0 if name == "fail_closed" else 1
        for name, expr in page_queries(small_config(**keys)).items()
    }
    series = healthy_series(targets(keys))
    assert disagreements(tmp_path, series, expected) == ""


@pytest.mark.parametrize("name", PAGES)
def test_every_query_on_a_page_is_known(name: str) -> None:
    """What a page offers to paste is a check, a step, a rule or a recording: all are tested."""
    config = small_config()
    known = {*page_queries(config).values()}
    known |= {check.expr for check in service_checks(config).values()}
    known |= {condition_check(config, condition).expr for condition in Condition}
    for alert in CATALOGUE:
        known |= {check.expr for check in checks_of(config, alert.name)}
        known |= {rule.expr for rule in alert.rules(config)}
        known |= {f"# {one.record}\n{one.expr}" for one in alert.recordings(config)}
    assert set(fenced(page(name), "promql")) <= known


def test_a_queue_that_is_not_configured_is_not_asked() -> None:
    """Without a queue a cancel is compared with the whole budget, as the exporter does it."""
    config = Config.model_validate(
        {"pools": {"o": {"role": "overflow"}}, "stores": {"gateway": {"type": "sql", "url": "x"}}}
    )
    check = service_checks(config)[Condition.CANCEL_SLOWER_THAN_SLACK]
    assert str(names.QUEUE_AGE_SECONDS) not in check.expr
