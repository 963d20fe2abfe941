"""The queries that pages offer, asked for real: in health, and in the incident of each alert."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from artifact_configs import small_config
from promql_facts import disagreements, healthy_series

from orphanwatch.exporter import names
from orphanwatch.exporter.names import Condition, Family
from orphanwatch.runbooks.queries import checks_of, fail_closed, page_queries

TARGETS = ({"job": "orphanwatch", "instance": "a:1"}, {"job": "orphanwatch", "instance": "b:1"})
INCIDENTS: dict[str, Mapping[Family, str]] = {
    "OrphanTokensAccruing": {
        names.TOKEN_DELTA: "340",
        names.TOKENS_TOTAL: "0+40x60",
        names.LEASES_CONFIRMED: "1",
    },
    "OrphanLeasesAlive": {
        names.LEASES: "1",
        names.LEASES_CONFIRMED: "1",
        names.LEASE_OLDEST_SECONDS: "0+15x60",
    },
    "OrphanDetectorBlind": {names.STORE_UP: "0", names.STORE_LAST_SUCCESS: "0"},
    "OrphanSplitSignal": {
        names.SPLIT_SIGNAL: "1",
        names.SPEND_RISING: "1",
        names.UNMATCHED_TOKENS: "900",
    },
}
ALERTS = tuple(checks_of(small_config()))


def rows(expr: str) -> str:
    """Return a query that counts the rows of another, 0 where there is none."""
    return f"(count({expr}) or vector(0))"


@pytest.mark.parametrize("alert", ALERTS)
def test_healthy_answers(alert: str, tmp_path: Path) -> None:
    """In health every query answers, and each of its rows is the healthy answer of the page."""
    expected: dict[str, float | None] = {}
    for check in checks_of(small_config())[alert]:
        expected[f"{rows(check.expr)} > bool 0"] = 1
        expected[f"{rows(check.expr)} - {rows(f'({check.expr}) {check.healthy}')}"] = 0
        if check.real is not None:
            expected[rows(f"({check.expr}) {check.real}")] = 0
    assert disagreements(tmp_path, healthy_series(TARGETS), expected) == ""


@pytest.mark.parametrize("alert", ALERTS)
def test_true_answers(alert: str, tmp_path: Path) -> None:
    """In the alert's own incident each query gives the answer that the page calls real."""
    expected: dict[str, float | None] = {
        f"{rows(f'({check.expr}) {check.real}')} > bool 0": 1
        for check in checks_of(small_config())[alert]
        if check.real is not None
    }
    series = healthy_series(TARGETS, INCIDENTS[alert])
    assert disagreements(tmp_path, series, expected) == ""


def test_no_exporter_gives_no_answer(tmp_path: Path) -> None:
    """Where the page calls no answer the true one, a dead exporter gives none."""
    silent = [check for check in checks_of(small_config())["OrphanDetectorBlind"] if not check.real]
    assert silent
    dead = {'up{job="orphanwatch",instance="a:1"}': "0x60"}
    assert disagreements(tmp_path, dead, {check.expr: None for check in silent}) == ""


def test_every_query_answers(tmp_path: Path) -> None:
    """No query of a page comes up empty on a healthy stack, but the one that lists closed gates."""
    expected: dict[str, float | None] = {
        f"{rows(expr)} > bool 0": 0 if name == "fail_closed" else 1
        for name, expr in page_queries(small_config()).items()
    }
    assert disagreements(tmp_path, healthy_series(TARGETS), expected) == ""


@pytest.mark.parametrize("condition", list(Condition))
def test_fail_closed_queries(condition: Condition, tmp_path: Path) -> None:
    """The query of a fail-closed condition answers when it holds, and only then."""
    expr = rows(f"{fail_closed(small_config(), condition)} == 1")
    assert disagreements(tmp_path, healthy_series(TARGETS), {expr: 0}) == ""
    closed = healthy_series(TARGETS, {names.FAIL_CLOSED: "1"})
    assert disagreements(tmp_path, closed, {f"{expr} > bool 0": 1}) == ""
