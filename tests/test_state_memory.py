"""What one reading remembers for the next: open tasks, evidence, leases that vanished."""

from pathlib import Path

import pytest
from state_worlds import DAY, START, a_config, a_lease, a_propagation, after, an_evaluation

from orphanwatch.exporter.instants import SECOND, Instant
from orphanwatch.exporter.model import Evaluation, Lease
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.state import CounterBook, LeaseSight, Memory, complete_leases

CONFIG = a_config()
DAYS = DAY // SECOND


def apply(book: CounterBook, evaluation: Evaluation, sight: LeaseSight | None = None) -> Memory:
    """Apply one evaluation, and return what is remembered after it."""
    book.apply(evaluation, CONFIG, refresh_seconds=0.01, leases=sight)
    return book.memory


@pytest.mark.parametrize(
    ("evaluations", "remembered"),
    [
        pytest.param([an_evaluation(5, open_tasks=["t1"])], {"t1"}, id="an open task is"),
        pytest.param(
            [an_evaluation(5, open_tasks=["t1"]), an_evaluation(4000)],
            {"t1"},
            id="one that is not looked at any more still is",
        ),
        pytest.param(
            [
                an_evaluation(5, open_tasks=["t1"]),
                an_evaluation(60, propagations=[a_propagation(50)]),
            ],
            {"t1"},
            id="one that has settled is, until a late charge is ruled out",
        ),
        pytest.param(
            [
                an_evaluation(5, open_tasks=["t1"]),
                an_evaluation(110, propagations=[a_propagation(50)]),
            ],
            set(),
            id="one whose propagation was observed is not",
        ),
        pytest.param(
            [
                an_evaluation(110, propagations=[a_propagation(50)]),
                an_evaluation(115, propagations=[a_propagation(50)], open_tasks=["t1"]),
                an_evaluation(120, propagations=[a_propagation(50)]),
            ],
            set(),
            id="one that opened again, and settled as before, is not",
        ),
        pytest.param(
            [an_evaluation(5, open_tasks=["t1"]), an_evaluation(6.9 * DAYS)],
            {"t1"},
            id="one not heard of for less than 7 days is",
        ),
        pytest.param(
            [an_evaluation(5, open_tasks=["t1"]), an_evaluation(7.1 * DAYS)],
            set(),
            id="one not heard of for 7 days is not",
        ),
        pytest.param(
            [
                an_evaluation(5, open_tasks=["t1"]),
                an_evaluation(5 * DAYS, open_tasks=["t1"]),
                an_evaluation(9 * DAYS),
            ],
            {"t1"},
            id="the 7 days start when it was last heard of",
        ),
        pytest.param(
            [
                an_evaluation(5, open_tasks=["t1"]),
                an_evaluation(9 * DAYS, propagations=None, tallies=None),
            ],
            {"t1"},
            id="a blind evaluation lets none go",
        ),
        pytest.param(
            [an_evaluation(3590, propagations=[a_propagation(3585)])],
            {"t1"},
            id="one that would leave the horizon before it is due is",
        ),
        pytest.param(
            [an_evaluation(10, propagations=[a_propagation(5)])],
            set(),
            id="one that is due well within the horizon needs not be",
        ),
    ],
)
def test_open_tasks(tmp_path: Path, evaluations: list[Evaluation], remembered: set[str]) -> None:
    """Open tasks are remembered until they are observed, a restart in between or not."""
    book = CounterBook.open(tmp_path / "state.db", CONFIG, START)
    for evaluation in evaluations:
        apply(book, evaluation)
    book.close()
    again = CounterBook.open(tmp_path / "state.db", CONFIG, after(10 * DAYS))
    assert book.memory.open_tasks == remembered
    assert again.memory.open_tasks == remembered
    again.close()


def test_last_evidence(tmp_path: Path) -> None:
    """The newest evidence ever known is remembered, also when an evaluation knows none."""
    book = CounterBook.open(tmp_path / "state.db", CONFIG, START)
    assert book.memory.last_evidence is None
    seen = [
        apply(book, an_evaluation(at, last_evidence=evidence)).last_evidence
        for at, evidence in ((5, None), (10, after(8)), (15, after(3)), (20, None))
    ]
    book.close()
    again = CounterBook.open(tmp_path / "state.db", CONFIG, after(60))
    assert [*seen, again.memory.last_evidence] == [None, *[after(8)] * 4]
    again.close()


WATCHED = frozenset({"t1"})
NOW = after(5)


@pytest.mark.parametrize(
    ("before", "listed", "of_watched", "expected"),
    [
        pytest.param(
            [a_lease("t1")], [], [], [a_lease("t1", released_at=NOW)], id="one not listed any more"
        ),
        pytest.param([a_lease("t1")], [a_lease("t1")], [], [], id="none while it is listed"),
        pytest.param(
            [a_lease("t1")],
            [],
            [a_lease("t1", released_at=after(2))],
            [],
            id="none where the store says itself when it was released",
        ),
        pytest.param([a_lease("t2")], [], [], [], id="none of a task that is not watched"),
        pytest.param(
            [a_lease("t1"), a_lease("t1", "w2")],
            [a_lease("t1", "w2")],
            [],
            [a_lease("t1", released_at=NOW)],
            id="only the worker's that left",
        ),
        pytest.param(
            [a_lease("t1")],
            [a_lease("t1", acquired_at=after(4))],
            [],
            [a_lease("t1", released_at=NOW)],
            id="the old one of a worker that took the task again",
        ),
        pytest.param(
            [a_lease("t1", released_at=after(1))],
            [],
            [],
            [a_lease("t1", released_at=after(1))],
            id="one that had vanished before, released when it was first missed",
        ),
        pytest.param(
            [a_lease("t1", released_at=after(1))],
            [a_lease("t1")],
            [],
            [],
            id="none once it is listed again",
        ),
        pytest.param([], [a_lease(None)], [a_lease(None)], [], id="none without a task id"),
    ],
)
def test_vanished_leases(
    before: list[Lease], listed: list[Lease], of_watched: list[Lease], expected: list[Lease]
) -> None:
    """A lease that its store stops listing was released at the first good read that misses it."""
    keyed = {(str(it.task_id), it.worker_id, it.acquired_at): it for it in before}
    memory = Memory(
        leases={key: lease for key, lease in keyed.items() if lease.released_at is None},
        vanished={key: lease for key, lease in keyed.items() if lease.released_at is not None},
    )
    assert complete_leases(memory, listed, of_watched, WATCHED, NOW) == tuple(expected)


def released(book: CounterBook, at: float, sight: LeaseSight) -> dict[str | None, Instant | None]:
    """Read once as a reader does: what vanished by then, and then remember it."""
    gone = complete_leases(
        book.memory, sight.listed, sight.of_watched, sight.watched_ids, after(at)
    )
    apply(book, an_evaluation(at), sight)
    return {lease.task_id: lease.released_at for lease in gone}


def sees(*task_ids: str, watched: tuple[str, ...] = ("t1",)) -> LeaseSight:
    """Return a read that lists the tasks' leases."""
    held = [a_lease(task_id) for task_id in task_ids]
    return LeaseSight(listed=held, of_watched=[], watched_ids=frozenset(watched))


def test_a_vanished_lease_keeps_its_end() -> None:
    """Its end stays the same in later readings, through blind ones and a long life as watched."""
    book = CounterBook.open(None, CONFIG, START)
    assert released(book, 5, sees("t1", "t2")) == {}
    apply(book, an_evaluation(10))
    assert released(book, 15, sees("t2")) == {"t1": after(15)}
    assert released(book, 20, sees("t2")) == {"t1": after(15)}
    assert released(book, 2 * DAYS, sees("t2")) == {"t1": after(15)}
    assert released(book, 2 * DAYS + 5, sees("t2", watched=())) == {}
    assert released(book, 2 * DAYS + 10, sees("t2")) == {}
    book.close()


def test_a_vanished_lease_outlives_a_blind_gateway() -> None:
    """While the gateway can't say which tasks are watched, those that were stay remembered."""
    book = CounterBook.open(None, CONFIG, START)
    released(book, 5, sees("t1", "t2"))
    assert released(book, 10, sees("t2")) == {"t1": after(10)}
    for at in (600, 1200):
        apply(book, an_evaluation(at, down=[StoreName.GATEWAY]), sees("t2", watched=()))
    assert released(book, 1205, sees("t2")) == {"t1": after(10)}
    book.close()


def test_a_cancel_that_lands_after_the_lease_went() -> None:
    """A lease that vanished within the last delta window is known of a task watched only now."""
    book = CounterBook.open(None, CONFIG, START)
    released(book, 5, sees("t1", "t2", watched=()))
    released(book, 10, sees(watched=()))
    assert released(book, 60, sees()) == {"t1": after(10)}
    assert released(book, 75, sees()) == {"t1": after(10)}
    assert released(book, 80, sees(watched=("t1", "t2"))) == {"t1": after(10)}
    book.close()


def test_vanished_leases_outlive_a_restart(tmp_path: Path) -> None:
    """A restart forgets only the leases of tasks that are not watched, in bounded space."""
    path = tmp_path / "state.db"
    book = CounterBook.open(path, CONFIG, START)
    released(book, 5, sees("t1", "t2", "t3", watched=("t1", "t2")))
    released(book, 10, sees("t1", "t3", watched=("t1", "t2")))
    left = book.memory
    book.close()
    book = CounterBook.open(path, CONFIG, after(20))
    assert book.memory.vanished == left.vanished
    assert set(book.memory.leases.values()) == {a_lease("t1")}
    assert released(book, 25, sees(watched=("t1", "t2", "t3"))) == {
        "t2": after(10),
        "t1": after(25),
    }
    released(book, 100, sees(watched=()))
    assert (book.memory.leases, book.memory.vanished) == ({}, {})
    assert book._file.connection.execute("SELECT count(*) FROM leases").fetchone() == (0,)
    book.close()
