"""The service page: one threshold line, the verdict, the owners, the rollback, the limits."""

import html
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from artifact_configs import POOLS, STORES, small_config
from cli_session import run
from runbook_pages import ALERT_NAMES, RENDERED, page, section

from orphanwatch.exporter.config import ACTION_WORDS, Config
from orphanwatch.exporter.diagnosis import HOP_STEPS
from orphanwatch.exporter.drill.faults import HOP_WORDS, Hop
from orphanwatch.exporter.errors import RenderError
from orphanwatch.exporter.instants import Instant, Micros, micros
from orphanwatch.exporter.measurement import (
    MeasuredFrom,
    Measurement,
    MeasurementFile,
    PoolMeasurement,
)
from orphanwatch.exporter.measurement_file import measurement_text
from orphanwatch.exporter.names import Action, Role
from orphanwatch.runbooks.render import render_all
from orphanwatch.runbooks.threshold import grace_text, threshold_of

LINE = re.compile(
    r"^Shed overflow when lease_age \+ (\S+) > deadline_slack; "
    r"utilization on the free pool is not an SLO\.$",
    re.MULTILINE,
)


def test_one_threshold_line() -> None:
    """The service page has exactly one threshold line, a proposal, with the default grace."""
    for text in (
        page("service-page"),
        html.unescape(RENDERED["service-page.html"]),
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


MEASURED_AT = Instant(1_790_000_000_000_000)
VALID_UNTIL = Instant(MEASURED_AT + 30 * 86_400_000_000)
PROVENANCE = (
    "`measured`: quantile 0.99 is 400ms, at most 501ms, over 412 settled and 3 open cancels of "
    "pool `overflow`, from stores by product-limit, with orphanwatch 0.1.0, vllm 0.11.2, "
    "margin 1.5, on 2026-09-21T14:13:20Z, valid until 2026-10-21T14:13:20Z"
)


def measured(keys: dict[str, Any] | None = None, **changes: Any) -> Config:
    """Return the small config with a measured grace of 760 ms for the pool ``overflow``."""
    file = MeasurementFile(
        path="grace.yml", remedy="orphanwatch grace --save", measurement=found(**changes)
    )
    return small_config(**(keys or {})).with_measurement(file)


def found(**changes: Any) -> Measurement:
    """Return a measurement of the pool ``overflow``, with some fields changed."""
    whole = Measurement(
        service=None,
        quantile=0.99,
        margin=1.5,
        window=micros(7 * 86400),
        method="product-limit",
        version="0.1.0",
        engines={"vllm": "0.11.2"},
        measured_at=MEASURED_AT,
        valid_until=VALID_UNTIL,
        pools={
            "overflow": PoolMeasurement(
                role=Role.OVERFLOW,
                in_force=micros(0.76),
                estimate=micros(0.4),
                upper=micros(0.501),
                settled=412,
                open=3,
                source=MeasuredFrom.STORES,
            )
        },
    )
    return replace(whole, **changes)


def test_measured_grace_is_no_proposal() -> None:
    """Once the grace is measured, the page says what it rests on, and calls it no proposal."""
    text = section(render_all(measured())["service-page.md"], "Threshold").split("| pool |")[0]
    assert LINE.findall(text) == ["760ms"]
    assert f"| Source | {PROVENANCE} |" in text
    assert "| Measured at | 2026-09-21T14:13:20Z |" in text
    assert "| Expires at | 2026-10-21T14:13:20Z |" in text
    assert "proposal" not in text
    assert "grace digest `sha256:0a`" in render_all(measured(digest="sha256:0a"))["service-page.md"]


@pytest.mark.parametrize(
    ("keys", "saved"),
    [
        pytest.param({}, "", id="no file is read: the numbers are looked at"),
        pytest.param(
            {"grace": {"file": "my grace.yml"}}, " --save 'my grace.yml'", id="the file is read"
        ),
    ],
)
def test_to_measure_again_saves_where_the_config_reads(keys: dict[str, Any], saved: str) -> None:
    """Else the pages go on with the old number. What "changes nothing" saves nowhere."""
    files = render_all(small_config(**keys))
    text = section(files["service-page.md"], "Threshold")
    assert f"orphanwatch grace --config.file orphanwatch.yml{saved}\n" in text
    unmeasured = files["OrphanGraceUnmeasured.md"]
    assert "orphanwatch grace --config.file orphanwatch.yml\n" in unmeasured


def test_measured_grace_on_an_alert_page() -> None:
    """The cards of the alerts say the same as the service page."""
    files = render_all(measured())
    for name in ALERT_NAMES:
        text = files[f"{name}.md"].split("\n## ")[0]
        assert f"| Threshold line | {threshold_of(measured()).line} |" in text
        assert f"| Its source | {PROVENANCE} |" in text
        assert "| Expires at | 2026-10-21T14:13:20Z |" in text


def test_a_pool_that_is_not_measured_keeps_it_a_proposal() -> None:
    """One overflow pool without a measurement makes the line a proposal, and is named."""
    pools = {"overflow": {"role": "overflow"}, "night": {"role": "overflow", "grace_seconds": 0.5}}
    text = section(render_all(measured({"pools": pools}))["service-page.md"], "Threshold")
    assert LINE.findall(text) == ["760ms"]
    assert (
        "| Source | `proposal`: not every overflow pool is measured, `night` is missing |" in text
    )
    assert "| `overflow` | 760ms | `measured` | quantile 0.99 is 400ms" in text
    assert "| `night` | 500ms | `proposal` | not measured yet |" in text


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        pytest.param({"method": " "}, "method", id="how it was measured"),
        pytest.param({"version": ""}, "version", id="what measured it"),
        pytest.param(
            {"pools": {"overflow": replace(found().pools["overflow"], settled=0)}},
            "settled",
            id="how many cancels carry it",
        ),
    ],
)
def test_a_measurement_that_lacks_a_field_is_refused(changes: dict[str, Any], field: str) -> None:
    """A threshold line that can't say what it rests on is not rendered."""
    with pytest.raises(RenderError, match=f"does not say its {field}.*orphanwatch grace --save"):
        render_all(measured(**changes))


def test_an_expired_measurement_is_refused(tmp_path: Path) -> None:
    """``runbook render`` writes nothing on an expired grace, and names what mends it."""
    (tmp_path / "grace.yml").write_text(
        measurement_text(found(measured_at=Instant(0), valid_until=Instant(1)))
    )
    config = tmp_path / "orphanwatch.yml"
    config.write_text(
        yaml.safe_dump({"pools": POOLS, "stores": STORES, "grace": {"file": "grace.yml"}})
    )
    answer = run(tmp_path, "runbook", "render", "--config.file", str(config), "--out", "runbook")
    assert answer.code != 0
    assert "has expired" in answer.err
    assert "orphanwatch grace" in answer.err
    assert not (tmp_path / "runbook").exists()


def test_served_pages_say_that_a_measurement_expired() -> None:
    """What is served goes on with the proposal, and says why it is one."""
    config = measured().as_of(Instant(VALID_UNTIL + 1))
    text = section(render_all(config)["service-page.md"], "Threshold")
    assert LINE.findall(text) == ["1s"]
    assert "| Source | `proposal`: the measured grace is not used, " in text
    assert "has expired" in text


def test_rollback_order() -> None:
    """The rollback has its five steps in the one safe order, with the config's numbers."""
    text = page(
        "service-page", reopen_hold="7m", pools={"o": {"role": "overflow", "grace_seconds": 2}}
    )
    steps = re.findall(r"^(\d)\. (.+)$", section(text, "Rollback"), re.MULTILINE)
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


def test_rollback_steps_are_whole() -> None:
    """Each step of the rollback says how, how it is undone, and what else it touches."""
    text = section(page("service-page"), "Rollback")
    for step in re.split(r"^\d\. ", text, flags=re.MULTILINE)[1:]:
        assert re.findall(r"^   - (How|Undo|Blast radius): \S", step, re.MULTILINE) == [
            "How",
            "Undo",
            "Blast radius",
        ]


def test_what_to_trust() -> None:
    """The decision table has the four numbers, each with what it is good for and what not."""
    table = section(page("service-page"), "Which number to trust for what")
    found = re.findall(r"^\| ([A-Z][\w ]+) \| (.+) \| (.+) \|$", table, re.MULTILINE)
    assert [number for number, _, _ in found] == [
        "Queue age",
        "Utilization",
        "Deadline slack",
        "Orphan token delta",
    ]


def test_hops_are_those_of_diagnose_and_drill() -> None:
    """The page names the hops as ``diagnose`` and the drill do, in the same words."""
    table = section(page("service-page"), "The hops")
    found = re.findall(
        r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \| ([^|]+) \| [^|]+ \|$", table, re.MULTILINE
    )
    assert found == [(str(hop), HOP_WORDS[hop], HOP_STEPS[hop]) for hop in Hop]


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
    assert "| Owner | Batch team (`overflow`), Serving team (`paid`) |" in service
    hops = section(service, "The hops")
    assert hops.count("| Batch team (`overflow`) |") == 3
    assert "| you, who are on call for llm-inference |" in hops
    for name in ALERT_NAMES:
        assert "| Owner | Batch team (`overflow`), Serving team (`paid`) |" in page(
            name, pools=pools
        )


def test_wrong_bets() -> None:
    """Six conditions make free overflow the wrong bet, each with its fail-closed query."""
    text = section(page("service-page"), "When free overflow is the wrong bet")
    shown = re.findall(r'orphan_fail_closed\{condition="(\w+)"\}', text)
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
