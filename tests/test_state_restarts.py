"""Restarts and kills at any moment: nothing is lost, nothing is counted twice."""

import json
import random
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from state_worlds import (
    START,
    a_config,
    a_lease,
    a_propagation,
    after,
    an_evaluation,
    live_on,
    moved,
)

from orphanwatch.exporter.instants import SECOND, Instant
from orphanwatch.exporter.model import Evaluation, Lease, Rejected, Tally
from orphanwatch.exporter.names import TOKENS_TOTAL, Cause, RejectReason, StoreName
from orphanwatch.exporter.state import CounterBook, LeaseSight, complete_leases

CONFIG = a_config()
WORLD = Path(__file__).with_name("state_worlds.py")
TASKS = ("t0", "t1", "t2")
GAPS = (5.0, 30.0, 70.0, 4000.0, 90_000.0, 8 * 86400.0, 31 * 86400.0)


class Charge(NamedTuple):
    """Orphan tokens of one task: charged at one step, and landed in the ledger at a later one."""

    task: str
    step: int
    late: int
    tokens: int
    prorated: bool


class Step(NamedTuple):
    """What a refresh finds, apart from the charges."""

    gap: float
    restarts: bool
    blind: bool
    seen: frozenset[str]
    open: frozenset[str]
    settled: frozenset[str]
    bad_rows: frozenset[str]
    leased: frozenset[str]
    cause: Cause


some_tasks = st.frozensets(st.sampled_from(TASKS))
steps = st.lists(
    st.builds(
        Step,
        gap=st.sampled_from(GAPS),
        restarts=st.booleans(),
        blind=st.booleans(),
        seen=some_tasks,
        open=some_tasks,
        settled=some_tasks,
        bad_rows=some_tasks,
        leased=some_tasks,
        cause=st.sampled_from(Cause),
    ),
    min_size=1,
    max_size=12,
)
charges = st.lists(
    st.builds(
        Charge,
        task=st.sampled_from(TASKS),
        step=st.integers(-2, 11),
        late=st.integers(0, 3),
        tokens=st.integers(1, 1000),
        prorated=st.booleans(),
    ),
    max_size=30,
)


class World:
    """The same steps and charges, read as of a step by whoever asks."""

    def __init__(self, taken: Sequence[Step], charged: Sequence[Charge]) -> None:
        self.steps = taken
        self.charges = charged
        self.at = [after(sum(step.gap for step in taken[: n + 1])) for n in range(len(taken))]

    def charged_at(self, charge: Charge) -> Instant:
        """Return when tokens were charged: a second before a step, or before the start."""
        if charge.step < 0 or charge.step >= len(self.at):
            return Instant(START + charge.step * SECOND)
        return Instant(self.at[charge.step] - SECOND)

    def tally(self, task: str, number: int, since: Instant) -> Tally:
        """Return what a task was charged by a step, and the part from before ``since``."""
        landed = [
            charge
            for charge in self.charges
            if charge.task == task
            and self.charged_at(charge) <= self.at[number]
            and charge.step + charge.late <= number
        ]

        def total(*, prorated: bool, until: Instant) -> float:
            return sum(
                charge.tokens
                for charge in landed
                if charge.prorated is prorated and self.charged_at(charge) <= until
            )

        now, cause = self.at[number], self.steps[number].cause
        return Tally(
            task, None, "overflow", cause,
            total(prorated=False, until=now), total(prorated=True, until=now), 0.0,
            total(prorated=False, until=since), total(prorated=True, until=since), 0.0,
        )  # fmt: skip

    def evaluation(self, number: int, since: Instant) -> Evaluation:
        """Return the evaluation at a step."""
        step = self.steps[number]
        return an_evaluation(
            (self.at[number] - START) / SECOND,
            tallies=None
            if step.blind
            else [self.tally(it, number, since) for it in sorted(step.seen)],
            propagations=None
            if step.blind
            else [a_propagation(1, task=it) for it in sorted(step.settled)],
            open_tasks=sorted(step.open),
            rejected=[
                Rejected(StoreName.LEDGER, RejectReason.ADJUSTMENT, it) for it in step.bad_rows
            ],
            last_evidence=self.at[number] if step.open else None,
        )

    def sight(self, number: int) -> LeaseSight | None:
        """Return the leases listed at a step, all of them of watched tasks."""
        held = [a_lease(task, heartbeat_at=self.at[number]) for task in self.steps[number].leased]
        watched = frozenset(TASKS)
        return (
            LeaseSight(listed=held, of_watched=[], watched_ids=watched)
            if not self.steps[number].blind
            else None
        )


class Outcome(NamedTuple):
    """Everything that a step leaves to be seen."""

    moved: dict[str, float]
    counting_since: Instant
    open_tasks: frozenset[str]
    last_evidence: Instant | None
    vanished: frozenset[Lease]


def live(world: World, path: Path | None) -> Iterator[Outcome]:
    """Yield what each step leaves; with a file, the book is opened anew where a step restarts."""
    book = CounterBook.open(path, CONFIG, START)
    for number, step in enumerate(world.steps):
        if step.restarts and path is not None:
            book.close()
            book = CounterBook.open(path, CONFIG, world.at[number])
        sight = world.sight(number)
        gone: tuple[Lease, ...] = ()
        if sight is not None:
            gone = complete_leases(
                book.memory, sight.listed, (), sight.watched_ids, world.at[number]
            )
        evaluation = world.evaluation(number, book.counting_since)
        counters = book.apply(evaluation, CONFIG, refresh_seconds=0.01, leases=sight)
        memory = book.memory
        yield Outcome(
            moved(counters), book.counting_since, memory.open_tasks, memory.last_evidence,
            frozenset(gone),
        )  # fmt: skip
    book.close()


@settings(max_examples=60, deadline=None)
@given(taken=steps, charged=charges)
def test_restarts_change_nothing(taken: list[Step], charged: list[Charge]) -> None:
    """A life with restarts anywhere in it leaves, step by step, what an uninterrupted one does."""
    world = World(taken, charged)
    with tempfile.TemporaryDirectory() as folder:
        interrupted = list(live(world, Path(folder, "state.db")))
    assert interrupted == list(live(world, None))


def orphan_tokens(outcome: Outcome) -> float:
    """Return all orphan tokens counted so far."""
    return sum(value for name, value in outcome.moved.items() if name.startswith(TOKENS_TOTAL.name))


@settings(max_examples=200, deadline=None)
@given(taken=steps, charged=charges)
def test_never_fall_never_replay(taken: list[Step], charged: list[Charge]) -> None:
    """No counter falls, no token is counted twice, and none from before counting began."""
    world = World(taken, charged)
    outcomes = list(live(world, None))
    for number, outcome in enumerate(outcomes):
        earlier = outcomes[number - 1].moved if number else {}
        assert all(outcome.moved.get(name, 0) >= value for name, value in earlier.items())
        truth = sum(
            charge.tokens
            for charge in charged
            if START < world.charged_at(charge) <= world.at[number]
        )
        assert orphan_tokens(outcome) <= truth + late_from_before(world)


def late_from_before(world: World) -> float:
    """Return the tokens that were charged before counting began and landed after it."""
    return sum(
        charge.tokens
        for charge in world.charges
        if world.charged_at(charge) <= START and charge.step + charge.late > 0
    )


@settings(max_examples=200, deadline=None)
@given(taken=steps, charged=charges)
def test_all_that_is_seen_is_counted(taken: list[Step], charged: list[Charge]) -> None:
    """What landed by the last good reading, and is newer than the start, is counted."""
    seen = [step._replace(seen=frozenset(TASKS)) for step in taken]
    seen[-1] = seen[-1]._replace(blind=False)
    prompt = [charge for charge in charged if 0 <= charge.step < len(seen)]
    world = World(seen, [charge._replace(late=0) for charge in prompt])
    *_, last = live(world, None)
    assert orphan_tokens(last) == sum(charge.tokens for charge in prompt)


# Four tasks at 10 charged, 1.5 prorated and 3 straddling tokens a step; 10 were before the start.
TRUTH_AFTER_FOUR = {
    "orphan_tokens_total['overflow', 'client_cancel', 'charged']": 30.0,
    "orphan_tokens_total['overflow', 'client_cancel', 'prorated']": 4.5,
    "orphan_tokens_total['overflow', 'deadline', 'charged']": 30.0,
    "orphan_tokens_total['overflow', 'deadline', 'prorated']": 4.5,
    "orphan_tokens_total['overflow', 'sibling_completed', 'charged']": 30.0,
    "orphan_tokens_total['overflow', 'sibling_completed', 'prorated']": 4.5,
    "orphan_tokens_total['overflow', 'started_after_stop', 'charged']": 30.0,
    "orphan_tokens_total['overflow', 'started_after_stop', 'prorated']": 4.5,
    "orphan_straddling_tokens_total['overflow']": 36.0,
    "orphan_rows_rejected_total['ledger', 'unknown_tokens']": 1.0,
    "propagation_count['overflow']": 1,
    "propagation_sum['overflow']": 0.7,
}


def test_killed_between_any_two_statements() -> None:
    """Killed at its every SQL statement, and started again, a process publishes the truth."""
    run = subprocess.run(
        [sys.executable, str(WORLD), "sweep"], capture_output=True, text=True, check=True
    )
    lives = [json.loads(line) for line in run.stdout.splitlines()]
    undisturbed = lives[-1]
    assert undisturbed["published"][-1] == {"step": 3, "moved": TRUTH_AFTER_FOUR}
    assert [life["killed"] for life in lives] == [True] * (len(lives) - 1) + [False]
    assert len(lives) > 100
    assert [it for it in lives if it["published"] != undisturbed["published"]] == []


def test_killed_at_random_moments(tmp_path: Path) -> None:
    """Killed with -9 again and again, a process publishes what an undisturbed one does."""
    lines: list[str] = []
    chance = random.Random(20)
    for _life in range(8):
        with subprocess.Popen(
            [sys.executable, str(WORLD), "run", str(tmp_path / "killed.db"), str(len(lines))],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            lives_for = chance.randrange(1, 25)
            for number, line in enumerate(process.stdout):
                # A line that it was killed in was not published; its step is read again.
                if line.endswith("\n"):
                    lines.append(line.strip())
                if number == lives_for:
                    process.send_signal(signal.SIGKILL)
    undisturbed: list[str] = []
    live_on(tmp_path / "undisturbed.db", 0, len(lines), undisturbed.append)
    assert lines == undisturbed
