"""The drill rehearses what it promises, and the exporter sees it as it was."""

import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from drills import START, drill, write_stack

from orphanwatch.exporter.drill.faults import HOPS, Fault, Hop, Mode
from orphanwatch.exporter.drill.knobs import Knobs
from orphanwatch.exporter.drill.report import DrillReport, Outcome, TaskReport
from orphanwatch.exporter.drill.scenario import Scenario
from orphanwatch.exporter.instants import Instant, micros, seconds
from orphanwatch.exporter.stack.books import Charge, QueueState
from orphanwatch.exporter.stack.requests import Request

SEEDS = range(20)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[Fault | None, DrillReport]:
    """Return the report of the baseline and of each fault."""
    folder = tmp_path_factory.mktemp("drills")
    config = write_stack(folder)
    return {fault: drill(config, folder, fault) for fault in (None, *Fault)}


def cancelled(report: DrillReport) -> list[TaskReport]:
    """Return the tasks whose clients left."""
    return [task for task in report.tasks if task.cancel_at_s is not None]


def test_an_orphan_decodes_140_tokens_by_the_cancel_and_480_by_the_deadline(
    reports: dict[Fault | None, DrillReport],
) -> None:
    """The contract's own numbers, prompt tokens apart."""
    report = reports[Fault.DROP_CANCEL]
    for task in cancelled(report):
        assert (task.cancel_at_s, task.deadline_s, task.prompt_tokens) == (3.5, 12.0, 800)
        assert (task.decode_tokens_at_cancel, task.decode_tokens_at_deadline) == (140, 480)
        assert task.in_flight_after_cancel
        assert task.propagation_s is None
        assert task.shed_reason is None
    assert report.telemetry.orphan_token_delta == 5 * 460


def test_a_shed_task_freezes_at_140_to_152_tokens(
    reports: dict[Fault | None, DrillReport],
) -> None:
    """The baseline: each cancel arrives within a third of a second."""
    report = reports[None]
    for task in cancelled(report):
        assert task.decode_tokens_at_cancel == 140
        assert 140 <= task.decode_tokens_at_deadline <= 152
        assert not task.in_flight_after_cancel
        assert task.shed_reason == "client_cancel"
        assert task.propagation_s is not None
        assert 0.1 <= task.propagation_s <= 0.3
    assert report.telemetry.orphan_token_delta == 0
    assert report.promoted


def test_a_drill_has_eight_tasks_one_of_them_the_retry(
    reports: dict[Fault | None, DrillReport],
) -> None:
    """Two paid ones, five whose clients leave, and the retry with the first one's id."""
    report = reports[None]
    assert [task.pool for task in report.tasks] == ["paid"] * 2 + ["overflow"] * 6
    assert len(cancelled(report)) == 5
    first, retry = report.tasks[2], report.tasks[7]
    assert retry.retry_id == first.retry_id
    assert retry.cancel_at_s is None
    assert reports[Fault.LOST_RETRY_ID].tasks[7].retry_id == ""


@pytest.mark.parametrize(
    ("fault", "verdict", "promoted"),
    [
        pytest.param(None, Outcome.SHED, True, id="the baseline sheds and is promoted"),
        pytest.param(Fault.DROP_CANCEL, Outcome.ORPHAN_DECODE, False, id="a lost cancel"),
        pytest.param(Fault.SLOW_HEARTBEAT, Outcome.ORPHAN_DECODE, False, id="a slow heartbeat"),
        pytest.param(Fault.SECOND_DECODER, Outcome.ORPHAN_DECODE, False, id="a second decoder"),
        pytest.param(Fault.LOST_RETRY_ID, Outcome.SHED, False, id="a lost retry id sheds, and yet"),
        pytest.param(Fault.MISKEYED_LEDGER, Outcome.SHED, False, id="a zero that nothing joins"),
    ],
)
def test_each_fault_has_its_verdict_and_is_never_promoted(
    reports: dict[Fault | None, DrillReport],
    fault: Fault | None,
    verdict: Outcome,
    *,
    promoted: bool,
) -> None:
    """A zero is promoted only where it is a proof."""
    assert (reports[fault].verdict, reports[fault].promoted) == (verdict, promoted)


@pytest.mark.parametrize("fault", [None, *Fault], ids=str)
def test_the_exporter_agrees_with_the_drills_own_record(
    reports: dict[Fault | None, DrillReport], fault: Fault | None
) -> None:
    """Tokens, leases and duplicates, at each look."""
    assert reports[fault].truth.disagreements == ()


@pytest.mark.parametrize(
    ("fault", "mode", "verdict"),
    [
        pytest.param(None, Mode.ORPHAN, Outcome.ORPHAN_DECODE, id="mode orphan loses the cancels"),
        pytest.param(Fault.DROP_CANCEL, Mode.SHED, Outcome.CANCEL_MISSED, id="a missed cancel"),
        pytest.param(
            Fault.LOST_RETRY_ID, Mode.ORPHAN, Outcome.UNEXPECTED_SHED, id="shed against expectation"
        ),
    ],
)
def test_the_mode_says_what_is_expected(
    tmp_path: Path, fault: Fault | None, mode: Mode, verdict: Outcome
) -> None:
    """The same run reads differently by what it was to be."""
    assert drill(write_stack(tmp_path), tmp_path, fault, mode=mode).verdict is verdict


def test_every_fault_is_told_apart_under_twenty_seeds(tmp_path: Path) -> None:
    """The confusion matrix has no entry beside its diagonal, and a clean run names no hop."""
    config = write_stack(tmp_path)
    named: Counter[tuple[Hop | None, Hop | None]] = Counter()
    for fault in (None, *Fault):
        for seed in SEEDS:
            report = drill(config, tmp_path, fault, seed=seed, look_every=micros(4))
            named[HOPS[fault] if fault is not None else None, report.hop] += 1
            assert report.truth.disagreements == ()
    assert named == {(hop, hop): len(SEEDS) for hop in (None, *Hop)}


class Noted:
    """Books that note when what happened to which task, and not whose hands it was in."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def submitted(self, request: Request) -> None:
        """Note it."""
        self.events.append(("submitted", request))

    def cancelled(self, task_id: str, at: Instant) -> None:
        """Note it."""
        self.events.append(("cancelled", task_id, at))

    def finished(self, task_id: str, at: Instant) -> None:
        """Note it."""
        self.events.append(("finished", task_id, at))

    def acquired(self, task_id: str, worker_id: str, pool: str, at: Instant) -> None:  # noqa: ARG002  (as meant)
        """Note it."""
        self.events.append(("acquired", task_id, pool, at))

    def beat(self, task_id: str, worker_id: str, at: Instant) -> None:  # noqa: ARG002  (as meant)
        """Note it."""
        self.events.append(("beat", task_id, at))

    def released(self, task_id: str, worker_id: str, at: Instant) -> None:  # noqa: ARG002  (as meant)
        """Note it."""
        self.events.append(("released", task_id, at))

    def charged(self, charge: Charge) -> None:
        """Note it."""
        self.events.append(("charged", charge))

    def sampled(self, queue: QueueState, at: Instant) -> None:
        """Note it."""
        self.events.append(("sampled", queue, at))

    def flush(self) -> None:
        """Do nothing."""


def played(fault: Fault | None, seed: int) -> tuple[tuple[Any, ...], ...]:
    """Return all that happens in a drill, in order."""
    books, knobs = Noted(), Knobs()
    scenario = Scenario(
        knobs=knobs,
        fault=fault,
        paid_pool="paid",
        overflow_pool="overflow",
        prefix="d-",
        seed=seed,
    )
    scenario.stack(books, START).advance(Instant(START + knobs.length))
    return tuple(books.events)


@pytest.mark.parametrize("fault", [None, *Fault], ids=str)
def test_twenty_seeds_are_at_least_fifteen_drills(fault: Fault | None) -> None:
    """In what happens when, whatever is broken; and the same seed is the same drill again."""
    assert len({played(fault, seed) for seed in SEEDS}) >= 15
    assert played(fault, 7) == played(fault, 7)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_client_is_left_at_the_contracts_numbers_whatever_the_seed(seed: int) -> None:
    """What varies is what the knobs leave open: how long each cancel takes, and who beats when."""
    for fault in (None, *Fault):
        events = played(fault, seed)
        left = {event[1:] for event in events if event[0] == "cancelled"}
        assert left == {(f"d-task-{n}", START + micros(3.5)) for n in range(3, 8)}
    taken = {
        seconds(Instant(event[2] - START)) - 3.5
        for event in played(None, seed)
        if event[0] == "released" and event[1] in {f"d-task-{n}" for n in range(3, 8)}
    }
    assert all(0.1 <= round(each, 6) <= 0.3 for each in taken)


def test_a_drill_leaves_no_row_of_its_own_and_touches_nobody_elses(tmp_path: Path) -> None:
    """Rows that were there before are there after, whatever they look like."""
    config = write_stack(tmp_path)
    with closing(sqlite3.connect(tmp_path / "stack.db")) as database, database:
        database.execute("INSERT INTO tasks (task_id) VALUES ('orphanwatch_drill-theirs'), ('t')")
        database.execute("INSERT INTO leases (task_id) VALUES ('theirs')")
        database.execute("INSERT INTO queue (sampled_at, depth) VALUES (1.0, 5)")
        before = _rows(database)

    drill(config, tmp_path, Fault.MISKEYED_LEDGER)

    with closing(sqlite3.connect(tmp_path / "stack.db")) as database:
        assert _rows(database) == before
    assert sorted(path.name for path in tmp_path.iterdir() if "journal" in path.name) == []


def _rows(database: sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    tables = ("tasks", "leases", "ledger", "queue")
    return {table: database.execute(f"SELECT * FROM {table}").fetchall() for table in tables}  # noqa: S608  (names of ours)


def test_the_same_knobs_have_the_same_digest() -> None:
    """And others another."""
    assert Knobs().digest == Knobs().digest
    assert Knobs(tasks=9).digest != Knobs().digest
