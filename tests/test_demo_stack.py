"""The demo's stack does what a real one does, and tells the story it promises."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text

from orphanwatch.exporter import names
from orphanwatch.exporter.channel import Channels
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.demo.settings import DATABASE, write_config
from orphanwatch.exporter.demo.stack import OVERFLOW, PAID, STEP, demo_stack
from orphanwatch.exporter.demo.story import CALM, LOST, MENDED, Story
from orphanwatch.exporter.demo.tables import METADATA, open_database
from orphanwatch.exporter.evaluation import evaluate
from orphanwatch.exporter.instants import Instant, micros, seconds
from orphanwatch.exporter.model import Evaluation
from orphanwatch.exporter.names import Action
from orphanwatch.exporter.reading import read_stores

START = Instant(1_800_000_000_000_000)
ROUND = CALM + LOST + MENDED
GRACE = 1.0


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """Return a connection to a stack that has played one whole round."""
    engine = open_database(tmp_path_factory.mktemp("played") / "stack.db")
    Story(demo_stack(engine, START), START).advance(Instant(START + ROUND))
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@contextmanager
def new_engine(file: Path) -> Iterator[Engine]:
    """Return an engine on a new stack's database."""
    engine = open_database(file)
    yield engine
    engine.dispose()


def epoch(since_start: int) -> float:
    """Return epoch seconds of an instant given from the start."""
    return seconds(START + since_start)


def ask(connection: Connection, question: str, **values: float | str) -> Any:
    """Return the single answer to a question."""
    return connection.execute(text(question), values).scalar_one()


ORPHAN_TOKENS = """
    SELECT coalesce(sum(tokens), 0) FROM ledger JOIN tasks USING (task_id)
    WHERE charged_at > cancelled_at + :grace AND charged_at > :begin AND charged_at <= :end
      AND pool = :pool
"""


@pytest.mark.parametrize(
    ("pool", "begin", "end", "is_orphan"),
    [
        pytest.param(OVERFLOW, 0, CALM, False, id="no orphan token while all is well"),
        pytest.param(OVERFLOW, CALM, CALM + LOST, True, id="orphan tokens while cancels are lost"),
        pytest.param(
            OVERFLOW, CALM + LOST + micros(1), ROUND, False, id="none once they arrive again"
        ),
        pytest.param(PAID, 0, ROUND, False, id="never one in the paid pool"),
    ],
)
def test_orphan_tokens(
    played: Connection, pool: str, begin: int, end: int, *, is_orphan: bool
) -> None:
    """Tokens past the cutoff accrue in the overflow pool, and only while its cancels are lost."""
    tokens = ask(played, ORPHAN_TOKENS, grace=GRACE, begin=epoch(begin), end=epoch(end), pool=pool)
    assert (tokens > 0) is is_orphan


def test_the_queue_stays_calm(played: Connection) -> None:
    """Depth never comes near half the admission cap: the graph that misleads."""
    assert ask(played, "SELECT max(depth * 1.0 / admission_cap) FROM queue") < 0.5


def test_spend_climbs_while_cancels_are_lost(played: Connection) -> None:
    """As many clients as before spend over a third more, all of it for nobody."""
    spend = "SELECT sum(tokens) FROM ledger WHERE charged_at > :begin AND charged_at <= :end"
    before = ask(played, spend, begin=epoch(CALM - micros(10)), end=epoch(CALM))
    during = ask(played, spend, begin=epoch(CALM + LOST - micros(10)), end=epoch(CALM + LOST))
    assert during > 4 / 3 * before


def test_paid_workers_are_capped_at_two_leases(played: Connection) -> None:
    """At no instant does the paid pool hold more than two leases."""
    held = """
        SELECT max((SELECT count(*) FROM leases b WHERE b.pool = :pool
            AND b.acquired_at <= a.acquired_at
            AND coalesce(b.released_at, 1e12) > a.acquired_at))
        FROM leases a WHERE a.pool = :pool
    """
    assert ask(played, held, pool=PAID) == 2


def test_a_worker_holds_one_lease_at_a_time(played: Connection) -> None:
    """No two leases of one worker overlap."""
    overlaps = """
        SELECT count(*) FROM leases a JOIN leases b USING (worker_id)
        WHERE a.task_id < b.task_id AND a.acquired_at < coalesce(b.released_at, 1e12)
          AND b.acquired_at < coalesce(a.released_at, 1e12)
    """
    assert ask(played, overlaps) == 0


def test_finished_tasks_are_charged_in_full(played: Connection) -> None:
    """The ledger holds exactly the tokens of each answer that a client got."""
    sums = """
        SELECT DISTINCT pool, (SELECT sum(tokens) FROM ledger l WHERE l.task_id = t.task_id)
        FROM tasks t WHERE finished_at IS NOT NULL ORDER BY pool
    """
    assert [tuple(row) for row in played.execute(text(sums))] == [(OVERFLOW, 400), (PAID, 240)]


def test_every_charge_and_lease_is_keyed_by_a_task(played: Connection) -> None:
    """Nothing is booked under a worker or under nothing."""
    for table in ("ledger", "leases"):
        lost = f"SELECT count(*) FROM {table} WHERE task_id NOT IN (SELECT task_id FROM tasks)"  # noqa: S608  (two names of ours)
        assert ask(played, lost) == 0


def test_a_retry_keeps_its_retry_id(played: Connection) -> None:
    """Each second attempt shares its retry_id with the first, which was cancelled before."""
    stray = """
        SELECT count(*) FROM tasks t WHERE attempt > 1 AND NOT EXISTS (
            SELECT 1 FROM tasks f WHERE f.retry_id = t.retry_id AND f.attempt < t.attempt
            AND f.cancelled_at < t.submitted_at)
    """
    assert ask(played, "SELECT count(*) FROM tasks WHERE attempt > 1") > 5
    assert ask(played, stray) == 0


def test_nobody_is_late(played: Connection) -> None:
    """Every client that stays gets its answer before its deadline."""
    late = """
        SELECT count(*) FROM tasks WHERE cancelled_at IS NULL
        AND coalesce(finished_at, :now) > deadline_at
    """
    assert ask(played, late, now=epoch(ROUND)) == 0


def test_live_leases_beat(played: Connection) -> None:
    """No lease that is held is silent for longer than a heartbeat and a step."""
    silent = "SELECT max(:now - heartbeat_at) FROM leases WHERE released_at IS NULL"
    assert ask(played, silent, now=epoch(ROUND)) <= 4 + seconds(STEP)


def contents(engine: Engine) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows of all tables."""
    with engine.connect() as connection:
        return {
            table.name: [tuple(row) for row in connection.execute(table.select())]
            for table in METADATA.sorted_tables
        }


def test_one_leap_writes_the_same_rows_as_small_moves(tmp_path: Path) -> None:
    """A late call leaves no gap, and two runs are alike."""
    end = CALM + micros(10)
    with new_engine(tmp_path / "leap.db") as leap, new_engine(tmp_path / "small.db") as small:
        Story(demo_stack(leap, START), START).advance(Instant(START + end))
        story = Story(demo_stack(small, START), START)
        for passed in range(0, end + 1, micros(0.5)):
            story.advance(Instant(START + passed))
        assert contents(leap) == contents(small)


def test_old_rows_are_forgotten(tmp_path: Path) -> None:
    """A demo that runs for long keeps what is asked for, and every task that still has work."""
    with new_engine(tmp_path / "stack.db") as engine:
        demo_stack(engine, START, keep=micros(60)).advance(Instant(START + micros(185)))
        with engine.connect() as connection:
            oldest = ask(connection, "SELECT min(charged_at) FROM ledger")
            assert 120 <= oldest - seconds(START) < 121, "tidied last at 180 s"
            assert ask(connection, "SELECT count(*) FROM leases WHERE released_at IS NULL") > 0
            test_every_charge_and_lease_is_keyed_by_a_task(connection)


def test_turns_come_when_they_are_due(tmp_path: Path) -> None:
    """The story breaks after the calm, mends, and breaks again."""
    with new_engine(tmp_path / "stack.db") as engine:
        turns = Story(demo_stack(engine, START), START).advance(Instant(START + ROUND))
    assert [turn.at - START for turn in turns] == [CALM, CALM + LOST, ROUND]


@pytest.fixture(scope="module")
def evaluations(tmp_path_factory: pytest.TempPathFactory) -> list[Evaluation]:
    """Return an evaluation every two seconds of a whole round, with the demo's own config."""
    folder = tmp_path_factory.mktemp("evaluated")
    config = load_config(write_config(folder, "127.0.0.1:9787"))
    channels = Channels(config)
    taken = []
    with new_engine(folder / DATABASE) as engine:
        story = Story(demo_stack(engine, START), START)
        for passed in range(micros(2), ROUND, micros(2)):
            now = Instant(START + passed)
            story.advance(now)
            taken.append(evaluate(read_stores(channels, config, now).readings, config))
    channels.stop()
    return taken


def test_the_verdict_goes_through_its_actions(evaluations: list[Evaluation]) -> None:
    """Scale while all is well, shed while cancels are lost, hold after it, and scale again."""
    actions = [evaluation.verdict.action for evaluation in evaluations]
    changes = [action for action, _ in groupby(actions)]
    assert changes == [Action.SCALE, Action.SHED, Action.HOLD, Action.SCALE]


def test_the_verdict_turns_while_one_looks(evaluations: list[Evaluation]) -> None:
    """Shed comes within ten seconds of the loss, scale within two minutes of the start."""
    shed = [e.at - START for e in evaluations if e.verdict.action is Action.SHED]
    again = [e.at - START for e in evaluations if e.verdict.action is Action.HOLD]
    assert CALM < min(shed) <= CALM + micros(10)
    assert max(again) < micros(120)


def test_the_exporter_counts_what_the_ledger_holds(
    evaluations: list[Evaluation], played: Connection
) -> None:
    """At any time the delta is the sum of the rows past the cutoff in its window."""
    for evaluation in evaluations:
        delta = {s.labels[0]: s.value for s in evaluation.gauges[names.TOKEN_DELTA]}
        window = {"begin": seconds(evaluation.at) - 20, "end": seconds(evaluation.at)}
        assert delta == {
            "other": 0.0,
            **{
                pool: ask(played, ORPHAN_TOKENS, grace=GRACE, pool=pool, **window)
                for pool in (PAID, OVERFLOW)
            },
        }


def test_the_split_signal_shows(evaluations: list[Evaluation]) -> None:
    """A calm queue and a rising spend: the contradiction that the demo is about."""
    split = [e.at - START for e in evaluations if e.gauges[names.SPLIT_SIGNAL][0].value == 1]
    assert any(CALM < at <= CALM + LOST for at in split)
