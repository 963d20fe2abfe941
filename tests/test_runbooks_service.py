"""The service page: one threshold line, the verdict, the owners, the rollback, the limits."""

import html
import re
from typing import Any

import pytest
from artifact_configs import POOLS, STORES, small_config
from runbook_pages import ALERT_NAMES, page, section

from orphanwatch.exporter.config import ACTION_WORDS, Config
from orphanwatch.exporter.instants import Micros
from orphanwatch.exporter.names import Action, GraceSource
from orphanwatch.runbooks.render import (
    render_all,
)
from orphanwatch.runbooks.threshold import grace_text

LINE = re.compile(
    r"^Shed overflow when lease_age \+ (\S+) > deadline_slack; "
    r"utilization on the free pool is not an SLO\.$",
    re.MULTILINE,
)


def test_one_threshold_line() -> None:
    """The service page has exactly one threshold line, a proposal, with the default grace."""
    for text in (
        page("service-page"),
        html.unescape(render_all(small_config())["service-page.html"]),
    ):
        assert text.count("Shed overflow when") == 1
    assert LINE.findall(page("service-page")) == ["1s"]
    assert "`proposal`" in page("service-page")


@pytest.mark.parametrize(
    ("pools", "number"),
    [
        pytest.param(
            {"free": {"role": "overflow", "grace_seconds": "850ms"}},
            "850ms",
            id="below a second it is in ms",
        ),
        pytest.param(
            {"free": {"role": "overflow", "grace_seconds": 1.2}},
            "1.2s",
            id="above it is in seconds",
        ),
        pytest.param(
            {
                "a": {"role": "overflow", "grace_seconds": 3},
                "b": {"role": "overflow"},
                "paid": {"role": "paid", "grace_seconds": 9},
            },
            "3s",
            id="the largest overflow pool counts, a paid pool never",
        ),
        pytest.param(
            {"paid": {"role": "paid", "grace_seconds": 9}},
            "1s",
            id="without overflow it is the default",
        ),
        pytest.param(
            {"free": {"role": "overflow", "grace_seconds": "90s"}}, "90s", id="minutes stay seconds"
        ),
    ],
)
def test_threshold_number(pools: dict[str, Any], number: str) -> None:
    """The number in the line is the grace in force of the overflow pools."""
    assert LINE.findall(page("service-page", pools=pools)) == [number]


@pytest.mark.parametrize(
    ("grace", "text"),
    [
        pytest.param(1_234_100, "1.235s", id="a fraction of a millisecond rounds up"),
        pytest.param(999_001, "1s", id="just below a second is never written as less"),
        pytest.param(1, "1ms", id="the least is a millisecond"),
        pytest.param(10_000_000, "10s", id="zeros of the number stay"),
    ],
)
def test_grace_is_never_understated(grace: int, text: str) -> None:
    """A grace is rounded up, never down."""
    assert grace_text(Micros(grace)) == text


class MeasuredConfig(Config):
    """A configuration whose grace has been measured."""

    def grace_source(self, pool: str) -> GraceSource:
        """Return that every overflow pool was measured."""
        return GraceSource.MEASURED if pool in self.overflow_pools else GraceSource.PROPOSAL


def test_measured_grace_is_no_proposal() -> None:
    """Once the grace is measured, the page says so and no longer calls it a proposal."""
    config = MeasuredConfig.model_validate(
        {"pools": POOLS, "stores": STORES, "grace_seconds": "1.2s"}
    )
    section = render_all(config)["service-page.md"].split("## Threshold")[1].split("| pool |")[0]
    assert LINE.findall(section) == ["1.2s"]
    assert "`measured`" in section
    assert "proposal" not in section


def test_rollback_order() -> None:
    """The rollback has its five steps in the one safe order, with the config's numbers."""
    text = page(
        "service-page", reopen_hold="7m", pools={"o": {"role": "overflow", "grace_seconds": 2}}
    )
    section = text.split("## Rollback")[1].split("## Alerts")[0]
    steps = re.findall(r"^(\d)\. (.+)$", section, re.MULTILINE)
    assert [number for number, _ in steps] == ["1", "2", "3", "4", "5"]
    for (_, step), words in zip(
        steps,
        (
            "Stop overflow admission",
            "Cancel leases older than one grace (2s)",
            "Freeze the ledger for the affected task ids",
            "Drain in-flight decoders",
            "Reopen only after `orphan_token_delta` has stayed at zero for 7m",
        ),
        strict=True,
    ):
        assert step.startswith(words)


def test_verdicts_in_order() -> None:
    """The verdict table asks what the product's verdict asks, in the order in which it decides."""
    table = section(page("service-page"), "Verdict")
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (.+) \|$", table, re.MULTILINE)
    assert rows == [(str(action), ACTION_WORDS[action]) for action in Action]


def test_owners() -> None:
    """The owners of the pools stand at their hop and on the alert pages."""
    pools = {
        "paid": {"role": "paid", "owner": "Serving team"},
        "overflow": {"role": "overflow", "owner": "Batch team"},
    }
    service = page("service-page", pools=pools)
    assert "| Serving team (`paid`) |" in service
    assert "| Batch team (`overflow`) |" in service
    for name in ALERT_NAMES:
        assert "| Owner of the overflow pools | Batch team |" in page(name, pools=pools)


def test_wrong_bets() -> None:
    """Six conditions make free overflow the wrong bet, each with its fail-closed query."""
    section = page("service-page").split("## When free overflow")[1].split("## Rollback")[0]
    shown = re.findall(r'orphan_fail_closed\{condition="(\w+)"\}', section)
    assert shown == [
        "cancel_slower_than_slack",
        "no_cancel_channel",
        "retry_id_missing",
        "ledger_keyed_by_host",
        "heartbeat_too_slow",
        "second_decoder",
    ]


@pytest.mark.parametrize(
    ("stores", "sentence"),
    [
        pytest.param({"queue": None}, "No queue store is configured", id="a store is missing"),
        pytest.param(
            {"gateway": {"rows": "at_end"}}, "no row while a request runs", id="an access log"
        ),
        pytest.param({"gateway": {"deadline": "soft"}}, "Deadlines are soft", id="soft deadlines"),
        pytest.param({"ledger": {"shape": "final"}}, "not a reading", id="a final ledger"),
        pytest.param({"ledger": {"lag": "20s"}}, "may land 20s late", id="a late ledger"),
    ],
)
def test_limits(stores: dict[str, Any], sentence: str) -> None:
    """What this configuration can't know is said under Limits, and only there where it is so."""
    changed = {
        name: {**store, **(stores.get(name) or {})}
        for name, store in STORES.items()
        if stores.get(name, {}) is not None
    }
    assert sentence in page("service-page", stores=changed).split("## Limits")[1]
    assert sentence not in page("service-page")
