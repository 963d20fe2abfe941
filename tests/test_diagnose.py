"""``diagnose`` names the hop that lost the cancel, from the stores and from Prometheus alike."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from cli_session import run
from pages import Reply, serving
from servers import free_port, running_exporter, running_prometheus, wait_until
from stack_file import StackFile

from orphanwatch.alerts.artifacts import build
from orphanwatch.exporter import names
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.diagnose import verdict_of
from orphanwatch.exporter.diagnosis import diagnose
from orphanwatch.exporter.drill.faults import Hop
from orphanwatch.exporter.instants import micros
from orphanwatch.exporter.model import Sample
from orphanwatch.exporter.names import Action, Family
from orphanwatch.exporter.prometheus_page import ScrapedPage
from orphanwatch.exporter.signals.samples import Gauges

HOLD = micros(300)
CALM: dict[Family, tuple[Sample, ...]] = {
    names.UNMATCHED_TOKENS: (Sample(("worker",), 0.0), Sample(("empty",), 0.0)),
    names.RETRIES_WITHOUT_RETRY_ID: (Sample(("overflow",), 0.0),),
    names.FAIL_CLOSED: (
        Sample(("overflow", "heartbeat_too_slow"), 0.0),
        Sample(("overflow", "no_cancel_channel"), 0.0),
    ),
    names.HEARTBEAT_PERIOD_SECONDS: (Sample(("overflow",), 4.0),),
    names.SECOND_DECODER_LEASES: (Sample(("overflow",), 0.0),),
    names.LEASES: (Sample(("overflow", "client_cancel"), 0.0),),
    names.DUPLICATE_IN_FLIGHT: (Sample(("overflow",), 0.0),),
    names.TOKEN_DELTA: (Sample(("overflow",), 0.0),),
    names.JOIN_ABANDONED_TASKS: (Sample(("with",), 3.0), Sample(("without",), 0.0)),
    names.DEADLINE_BUDGET_SECONDS: (Sample(("overflow",), 12.0),),
    names.OVERFLOW_ADMISSION_ALLOWED: (Sample(("overflow",), 1.0),),
    names.STORE_UP: tuple(Sample((str(store),), 1.0) for store in names.StoreName),
}

ORPHANS: Gauges = {names.LEASES: (Sample(("overflow", "client_cancel"), 2.0),)}


@pytest.mark.parametrize(
    ("shown", "hop"),
    [
        pytest.param({}, None, id="nothing is broken where all is calm"),
        pytest.param(ORPHANS, Hop.CANCEL_CHANNEL, id="orphans alone speak for the cancel's way"),
        pytest.param(
            {names.UNMATCHED_TOKENS: (Sample(("worker",), 9.0),)},
            Hop.LEDGER,
            id="tokens under a worker's id speak for the ledger",
        ),
        pytest.param(
            {names.RETRIES_WITHOUT_RETRY_ID: (Sample(("overflow",), 1.0),)},
            Hop.RETRY,
            id="a retry without its id speaks for the retry",
        ),
        pytest.param(
            {**ORPHANS, names.FAIL_CLOSED: (Sample(("overflow", "heartbeat_too_slow"), 1.0),)},
            Hop.HEARTBEAT,
            id="a slow heartbeat explains orphans",
        ),
        pytest.param(
            {**ORPHANS, names.SECOND_DECODER_LEASES: (Sample(("overflow",), 2.0),)},
            Hop.WORKER,
            id="a second decoder explains orphans",
        ),
        pytest.param(
            {names.DUPLICATE_IN_FLIGHT: (Sample(("overflow",), 1.0),)},
            Hop.WORKER,
            id="two decoders while the client waits speak for the worker",
        ),
    ],
)
def test_the_hop_is_told_by_what_is_shown(shown: Gauges, hop: Hop | None) -> None:
    """Each sign names its hop, and the finding that names it comes first."""
    diagnosis = diagnose({**CALM, **shown}, Action.SHED if shown else Action.SCALE, ())
    assert diagnosis.hop is hop
    if hop is not None:
        assert diagnosis.findings[0].hop is hop
    assert {finding.hop for finding in diagnosis.findings} == set(Hop)


def test_what_is_absent_is_unknown_and_no_step_calls_it_safe() -> None:
    """Without any gauge no hop is sound."""
    diagnosis = diagnose({}, Action.SCALE, ())
    assert {finding.is_broken for finding in diagnosis.findings} == {None}
    assert "safe" not in diagnosis.next_step


def test_ids_that_join_nothing_make_a_calm_doubtful() -> None:
    """None of the abandoned tasks has a row: the ledger's zero proves nothing."""
    apart = (Sample(("with",), 0.0), Sample(("without",), 4.0))
    diagnosis = diagnose({**CALM, names.JOIN_ABANDONED_TASKS: apart}, Action.SCALE, ())
    ledger = next(finding for finding in diagnosis.findings if finding.hop is Hop.LEDGER)
    assert ledger.is_broken is None
    assert "safe" not in diagnosis.next_step


@pytest.mark.parametrize(
    ("family", "hop"),
    [
        (names.UNMATCHED_TOKENS, Hop.LEDGER),
        (names.RETRIES_WITHOUT_RETRY_ID, Hop.RETRY),
        (names.FAIL_CLOSED, Hop.HEARTBEAT),
        (names.HEARTBEAT_PERIOD_SECONDS, Hop.HEARTBEAT),
        (names.DEADLINE_BUDGET_SECONDS, Hop.HEARTBEAT),
        (names.SECOND_DECODER_LEASES, Hop.WORKER),
        (names.DUPLICATE_IN_FLIGHT, Hop.WORKER),
        (names.LEASES, Hop.CANCEL_CHANNEL),
        (names.TOKEN_DELTA, Hop.CANCEL_CHANNEL),
    ],
    ids=str,
)
def test_a_family_that_is_absent_leaves_its_hop_unknown(family: Family, hop: Hop) -> None:
    """One blind arm is enough: nothing that rests on it is called sound, or safe."""
    shown = {name: samples for name, samples in CALM.items() if name is not family}
    diagnosis = diagnose(shown, Action.SCALE, ())
    (finding,) = (finding for finding in diagnosis.findings if finding.hop is hop)
    assert finding.is_broken is None
    assert "safe" not in diagnosis.next_step


@pytest.mark.parametrize("hop_sign", [names.UNMATCHED_TOKENS, names.RETRIES_WITHOUT_RETRY_ID])
def test_the_next_step_sheds_first_where_the_verdict_does(hop_sign: Family) -> None:
    """Whatever the hop: orphan work is shed, not scaled into."""
    shown = {**CALM, **ORPHANS, hop_sign: (Sample(("worker",), 1.0),)}
    assert diagnose(shown, Action.SHED, ()).next_step.startswith("Shed the orphan work")


@pytest.mark.parametrize(
    ("now", "lately", "action"),
    [
        pytest.param({}, {}, Action.SCALE, id="all known and zero"),
        pytest.param(ORPHANS, {}, Action.SHED, id="an orphan lease now"),
        pytest.param({}, ORPHANS, Action.HOLD, id="an orphan lease within the hold"),
        pytest.param(
            {names.STORE_UP: (Sample(("gateway",), 1.0), Sample(("leases",), 1.0))},
            {},
            Action.BLIND,
            id="a store that nobody names",
        ),
        pytest.param(
            {names.FAIL_CLOSED: (Sample(("overflow", "heartbeat_too_slow"), 1.0),)},
            {},
            Action.HOLD,
            id="a condition that fails closed",
        ),
        pytest.param(
            {names.OVERFLOW_ADMISSION_ALLOWED: (Sample(("overflow",), 0.0),)},
            {},
            Action.HOLD,
            id="admission that is closed for no reason that is shown",
        ),
    ],
)
def test_gauges_alone_tell_the_verdict(now: Gauges, lately: Gauges, action: Action) -> None:
    """The first row of the table that holds, from what Prometheus has."""
    assert verdict_of(ScrapedPage({**CALM, **now}, dict(lately), HOLD))[0] is action


@pytest.mark.parametrize(
    ("counted", "action"),
    [
        pytest.param(0.0, Action.SCALE, id="a counter that stands"),
        pytest.param(None, Action.SCALE, id="no counter, while the gauges are known and zero"),
        pytest.param(4.0, Action.HOLD, id="a late row, which only the counter shows"),
    ],
)
def test_the_counter_holds_for_late_rows(counted: float | None, action: Action) -> None:
    """As the gate and the pager see it."""
    assert verdict_of(ScrapedPage(CALM, {}, HOLD, counted))[0] is action


@pytest.mark.parametrize(
    "absent", [names.TOKEN_DELTA, names.LEASES, names.DUPLICATE_IN_FLIGHT], ids=str
)
def test_what_shedding_asks_for_and_is_absent_makes_blind(absent: Family) -> None:
    """Absent is no zero."""
    shown = {name: samples for name, samples in CALM.items() if name is not absent}
    assert verdict_of(ScrapedPage(shown, {}, HOLD))[0] is Action.BLIND


def test_ids_that_join_nothing_are_said_beside_the_verdict() -> None:
    """As a snapshot says it."""
    apart = (Sample(("with",), 0.0), Sample(("without",), 9.0))
    action, reasons = verdict_of(ScrapedPage({**CALM, names.JOIN_ABANDONED_TASKS: apart}, {}, HOLD))
    assert action is Action.SCALE
    assert any("none of 9 abandoned tasks" in reason for reason in reasons)


def orphaned(folder: Path, **settings: Any) -> StackFile:
    """Return a stack on which a worker decodes for a client that left."""
    stack = StackFile(folder, write=lambda offset: time.time() + offset, **settings)
    stack.add("tasks", {"task_id": "t1", "retry_id": "r1", "pool": "overflow",
                        "submitted_at": -30, "cancelled_at": -20})  # fmt: skip
    stack.add("leases", {"task_id": "t1", "worker_id": "w1", "pool": "overflow",
                         "acquired_at": -29, "heartbeat_at": -1})  # fmt: skip
    stack.add("ledger", {"task_id": "t1", "tokens": 40, "charged_at": -5})
    stack.add("queue", {"sampled_at": -1, "depth": 0, "age_seconds": 0, "in_flight": 1})
    return stack


def test_the_stores_are_diagnosed(tmp_path: Path) -> None:
    """Verdict, hop, evidence and next step, as JSON and for people."""
    orphaned(tmp_path)
    told = run(tmp_path, "diagnose", "--config.file", "orphanwatch.yml", "--format", "json")
    document = json.loads(told.out)
    assert told.code == 0
    assert (document["verdict"]["action"], document["hop"]) == ("shed", "cancel_channel")
    assert document["evidence"][0]["broken"] is True
    assert "do not scale" in document["next"]
    text = run(tmp_path, "diagnose", "--config.file", "orphanwatch.yml").out
    assert text.startswith("SHED: ")
    assert "Hop: cancel_channel" in text


@pytest.mark.servers
def test_prometheus_is_diagnosed_like_the_stores(tmp_path: Path) -> None:
    """What was scraped names the same hop."""
    port = free_port()
    stack = orphaned(tmp_path, refresh_interval="1s")
    rules = tmp_path / "orphanwatch.rules.yml"
    rules.write_text(build(load_config(stack.config_file))["orphanwatch.rules.yml"])
    with (
        running_exporter(stack.config_file, port) as exporter,
        running_prometheus(tmp_path, rules, exporter, free_port()) as url,
    ):
        asked = ("diagnose", "--prometheus.url", url, "--format", "json")
        wait_until("the first scrape", lambda: run(tmp_path, *asked).code == 0, 30)
        document = json.loads(run(tmp_path, *asked).out)
    assert (document["verdict"]["action"], document["hop"]) == ("shed", "cancel_channel")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param((), "name one of --config.file and --prometheus.url", id="nothing to look at"),
        pytest.param(
            ("--prometheus.url", "http://127.0.0.1:1"), "can't be reached", id="no server"
        ),
        pytest.param(
            ("--prometheus.url", "http://127.0.0.1:1", "--selector", '"} or vector(1) #'),
            "is no list of label matchers",
            id="no label matchers",
        ),
    ],
)
def test_what_can_not_be_told_is_exit_code_2(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    """With the remedy."""
    told = run(tmp_path, "diagnose", *arguments)
    assert told.code == 2
    assert said in told.err


@pytest.mark.parametrize(
    "body",
    ['{"status":"success"}', "[]", '{"status":"success","data":{"result":[[1,"2"]]}}', "<html>"],
)
def test_an_answer_of_another_shape_is_told_as_one(tmp_path: Path, body: str) -> None:
    """Not as a traceback."""
    with serving({"/api/v1/query": Reply(body=body.encode())}) as site:
        told = run(tmp_path, "diagnose", "--prometheus.url", site.url(""))
    assert told.code == 2
    assert "not as Prometheus does" in told.err
