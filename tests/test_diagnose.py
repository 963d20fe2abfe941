"""``diagnose`` names the hop that lost the cancel, from the stores and from Prometheus alike."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from cli_session import run
from servers import free_port, running_exporter, running_prometheus, wait_until
from stack_file import StackFile

from orphanwatch.alerts.artifacts import build
from orphanwatch.exporter import names
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.diagnosis import Gauges, diagnose
from orphanwatch.exporter.drill.faults import Hop
from orphanwatch.exporter.model import Sample
from orphanwatch.exporter.names import Action, Family

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
            ("--prometheus.url", "http://127.0.0.1:1"), "check --prometheus.url", id="no server"
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
