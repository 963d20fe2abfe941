"""What the counter book counts, evaluation by evaluation."""

from collections.abc import Iterator, Sequence

import pytest
from state_worlds import (
    DAY,
    START,
    a_config,
    a_propagation,
    a_tally,
    after,
    an_evaluation,
    moved,
)

from orphanwatch.exporter.board import Exemplar
from orphanwatch.exporter.instants import SECOND
from orphanwatch.exporter.model import Evaluation, Rejected, Tally
from orphanwatch.exporter.names import (
    CANCEL_PROPAGATION_SECONDS,
    PROPAGATION_BUCKETS,
    REFRESH_DURATION_SECONDS,
    ROWS_REJECTED_TOTAL,
    STRADDLING_TOKENS_TOTAL,
    TOKENS_TOTAL,
    Cause,
    RejectReason,
    StoreName,
)
from orphanwatch.exporter.state import CounterBook

CONFIG = a_config()
DAYS = DAY // SECOND
CANCELLED = "orphan_tokens_total['overflow', 'client_cancel', 'charged']"
OVERDUE = "orphan_tokens_total['overflow', 'deadline', 'charged']"
PRORATED = "orphan_tokens_total['overflow', 'client_cancel', 'prorated']"
STRADDLING = "orphan_straddling_tokens_total['overflow']"
UNKNOWN_TOKENS = "orphan_rows_rejected_total['ledger', 'unknown_tokens']"


@pytest.fixture
def book() -> Iterator[CounterBook]:
    """Give a book in memory that counts from the start."""
    book = CounterBook.open(None, CONFIG, START)
    yield book
    book.close()


def counted(book: CounterBook, *evaluations: Evaluation) -> dict[str, float]:
    """Return what is not 0 after the evaluations."""
    for evaluation in evaluations:
        book.apply(evaluation, CONFIG, refresh_seconds=0.01)
    return moved(book.counters)


@pytest.mark.parametrize(
    ("tallies", "expected"),
    [
        pytest.param([a_tally(0)], {}, id="no orphan token is nothing"),
        pytest.param([a_tally(30)], {CANCELLED: 30}, id="all is new where nothing was before"),
        pytest.param(
            [a_tally(30, before=20)], {CANCELLED: 10}, id="what was before the start is not counted"
        ),
        pytest.param(
            [a_tally(30), a_tally(50)], {CANCELLED: 50}, id="growth is counted once, not the total"
        ),
        pytest.param(
            [a_tally(30), a_tally(10), a_tally(30)], {CANCELLED: 30}, id="a dip books nothing"
        ),
        pytest.param(
            [a_tally(30), a_tally(10), a_tally(40)],
            {CANCELLED: 40},
            id="after a dip only what is above the old height is counted",
        ),
        pytest.param(
            [a_tally(30), a_tally(50, cause=Cause.DEADLINE)],
            {CANCELLED: 30, OVERDUE: 20},
            id="an increase books under the present cause",
        ),
        pytest.param(
            [a_tally(30), a_tally(30, cause=Cause.DEADLINE)],
            {CANCELLED: 30},
            id="a new cause alone moves nothing",
        ),
        pytest.param(
            [a_tally(20, before=20), a_tally(35, before=35)],
            {},
            id="a late row from before the start is not counted",
        ),
        pytest.param(
            [a_tally(0), a_tally(20, before=20)],
            {},
            id="a late row from before the start is not counted for a task seen at zero",
        ),
        pytest.param(
            [a_tally(3, prorated=4.5, straddling=9), a_tally(3, prorated=7.5, straddling=9)],
            {CANCELLED: 3, PRORATED: 7.5, STRADDLING: 9},
            id="charged, prorated and straddling have marks of their own",
        ),
        pytest.param(
            [a_tally(5, pool="gone")],
            {"orphan_tokens_total['other', 'client_cancel', 'charged']": 5},
            id="a pool that is not configured is other",
        ),
        pytest.param(
            [a_tally(5, task="\ud800\0x"), a_tally(7, task="\ud800\0x")],
            {CANCELLED: 7},
            id="an id that is no UTF-8 is counted as any other",
        ),
    ],
)
def test_orphan_tokens(
    book: CounterBook, tallies: Sequence[Tally], expected: dict[str, float]
) -> None:
    """Orphan tokens are counted by what rises above each task's highest mark so far."""
    evaluations = [an_evaluation(5 * n, tallies=[one]) for n, one in enumerate(tallies, 1)]
    assert counted(book, *evaluations) == expected


def test_blind_leaves_counters(book: CounterBook) -> None:
    """A blind evaluation moves nothing, and what was charged meanwhile is counted after it."""
    assert counted(book, an_evaluation(5, tallies=[a_tally(30)])) == {CANCELLED: 30}
    assert counted(book, an_evaluation(10, tallies=None, propagations=None)) == {CANCELLED: 30}
    assert counted(book, an_evaluation(15, tallies=[a_tally(90)])) == {CANCELLED: 90}


def test_zero_from_the_first_scrape(book: CounterBook) -> None:
    """Before anything happens, every label set we own exists at 0."""
    first = book.counters
    assert moved(first) == {}
    assert len(first.counters[TOKENS_TOTAL]) == 3 * 5 * 2
    assert set(first.counters[STRADDLING_TOKENS_TOTAL]) == {("overflow",), ("paid",), ("other",)}
    assert len(first.counters[ROWS_REJECTED_TOTAL]) == 20
    assert set(first.histograms[CANCEL_PROPAGATION_SECONDS]) == {
        ("overflow",), ("paid",), ("other",),
    }  # fmt: skip
    assert first.histograms[REFRESH_DURATION_SECONDS][()].count == 0


def test_forgotten_tasks_do_not_replay(book: CounterBook) -> None:
    """A task unseen for 30 days is forgotten, and counting from then on replays nothing of it."""
    counted(book, an_evaluation(5, tallies=[a_tally(30)]))
    assert book.counting_since == START
    counted(book, an_evaluation(5 + 31 * DAYS))
    assert book.counting_since == after(5)
    # Its reader now says that those 30 were charged before counting began.
    again = an_evaluation(10 + 31 * DAYS, tallies=[a_tally(70, before=30)])
    assert counted(book, again) == {CANCELLED: 70}


def test_tasks_in_sight_are_not_forgotten(book: CounterBook) -> None:
    """A task that lives, and charges nothing, keeps its mark however long it does."""
    days = [an_evaluation(day * DAYS + 5, tallies=[a_tally(30)]) for day in range(65)]
    assert counted(book, *days) == {CANCELLED: 30}
    assert book.counting_since == START


@pytest.mark.parametrize(
    ("samples_at", "expected"),
    [
        pytest.param([(61.9, 2)], 0, id="a charge may still land: not yet"),
        pytest.param([(62, 2)], 1, id="one delta window after the last sign it is due"),
        pytest.param([(62, 2), (67, 2), (200, 2)], 1, id="a sample is observed once"),
        pytest.param([(10, 2), (62, 7), (67, 7)], 1, id="a later sign of work moves it out"),
        pytest.param([(70, 2), (500, 400)], 1, id="what was observed stays as it was"),
        pytest.param([(90, 0)], 0, id="what ended before counting began is not counted"),
        pytest.param([(90, 0), (300, 20)], 0, id="nor is it when it turns out to have gone on"),
    ],
)
def test_propagation_is_observed_once(
    book: CounterBook, samples_at: list[tuple[float, float]], expected: int
) -> None:
    """A sample counts once, when no charge of it can be on its way any more."""
    for at, seconds in samples_at:
        settled = [a_propagation(seconds)]
        counted(book, an_evaluation(at, propagations=settled))
    assert book.counters.histograms[CANCEL_PROPAGATION_SECONDS]["overflow",].count == expected


def test_ledger_lag_defers_samples() -> None:
    """Where ledger rows may land late, a sample waits for them."""
    ledger = {"type": "sql", "url": "sqlite://", "shape": "increments", "lag": "30s"}
    config = a_config(stores={"ledger": ledger})
    book = CounterBook.open(None, config, START)
    counts = [
        book.apply(
            an_evaluation(at, propagations=[a_propagation(2)]), config, refresh_seconds=0.01
        ).histograms[CANCEL_PROPAGATION_SECONDS]["overflow",].count
        for at in (91, 92)
    ]  # fmt: skip
    book.close()
    assert counts == [0, 1]


def test_propagation_buckets(book: CounterBook) -> None:
    """Buckets are cumulative, an upper edge belongs to its bucket, and pools stay apart."""
    samples = [
        a_propagation(0.05, task="a"),
        a_propagation(0.06, task="b"),
        a_propagation(700, task="c"),
        a_propagation(1, task="d", pool="paid"),
    ]
    counted(book, an_evaluation(800, propagations=samples))
    overflow = book.counters.histograms[CANCEL_PROPAGATION_SECONDS]["overflow",]
    paid = book.counters.histograms[CANCEL_PROPAGATION_SECONDS]["paid",]
    assert overflow.buckets == (1, *[2] * (len(PROPAGATION_BUCKETS) - 1))
    assert overflow.count == 3
    assert overflow.sum == pytest.approx(700.11)
    assert paid.buckets == tuple(int(edge >= 1) for edge in PROPAGATION_BUCKETS)


def test_two_stops_of_one_task_are_two_samples(book: CounterBook) -> None:
    """Samples are told apart by task and stop."""
    samples = [a_propagation(1), a_propagation(2, stopped=10)]
    assert counted(book, an_evaluation(90, propagations=samples)) == {
        "propagation_count['overflow']": 2,
        "propagation_sum['overflow']": 3,
    }


def bad_row(key: str = "row 1", count: int = 1) -> Rejected:
    """Return a ledger row without tokens."""
    return Rejected(StoreName.LEDGER, RejectReason.UNKNOWN_TOKENS, key, count)


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        pytest.param([[bad_row()]] * 3, 1, id="a row that stays in scope is counted once"),
        pytest.param([[bad_row(), bad_row("row 2")]], 2, id="rows are told apart by their key"),
        pytest.param([[bad_row(), bad_row()]], 1, id="two questions may meet one row"),
        pytest.param([[bad_row(count=2)], [bad_row(count=5)]], 5, id="a growing count adds growth"),
        pytest.param([[bad_row(count=5)], [bad_row(count=2)]], 5, id="a falling one adds nothing"),
        pytest.param([[bad_row()], [], [bad_row()]], 1, id="a row out of sight is not forgotten"),
    ],
)  # fmt: skip
def test_rejected_rows(book: CounterBook, readings: list[list[Rejected]], expected: int) -> None:
    """A row that could not be used is counted once."""
    seen = [an_evaluation(5 * n, rejected=rows) for n, rows in enumerate(readings)]
    assert counted(book, *seen) == {UNKNOWN_TOKENS: expected}


BLIND = [StoreName.LEDGER]


@pytest.mark.parametrize(
    ("evaluations", "expected"),
    [
        pytest.param(
            [an_evaluation(day * 0.4 * DAYS, rejected=[bad_row()]) for day in range(10)],
            1,
            id="one that stays in scope for days counts once",
        ),
        pytest.param(
            [
                an_evaluation(5, rejected=[bad_row()]),
                *[an_evaluation(day * DAYS, down=BLIND) for day in (2, 4)],
                an_evaluation(5 * DAYS, rejected=[bad_row()]),
            ],
            1,
            id="a store that can't be read forgets none of its rows",
        ),
        pytest.param(
            [
                an_evaluation(5, rejected=[bad_row()]),
                an_evaluation(2 * DAYS),
                an_evaluation(3 * DAYS, rejected=[bad_row()]),
            ],
            2,
            id="a key that was away for a day is another row",
        ),
    ],
)
def test_marks_of_rejected_rows(
    book: CounterBook, evaluations: list[Evaluation], expected: int
) -> None:
    """Marks of bad rows go a day after the rows went, and not before."""
    assert counted(book, *evaluations) == {UNKNOWN_TOKENS: expected}


def test_a_reason_that_is_new_is_shown(book: CounterBook) -> None:
    """A reason that its store was not known to give appears as soon as it is given."""
    row = Rejected(StoreName.QUEUE, RejectReason.MISSING_INSTANT, "row 1")
    assert counted(book, an_evaluation(5, rejected=[row])) == {
        "orphan_rows_rejected_total['queue', 'missing_instant']": 1
    }


def test_exemplars_name_the_worst_task(book: CounterBook) -> None:
    """A series that rose carries the task of the largest increase, until the next."""
    tallies = [a_tally(10, task="a"), a_tally(30, task="b"), a_tally(20, task="c")]
    counted(book, an_evaluation(5, tallies=tallies))
    first = {
        (TOKENS_TOTAL, ("overflow", "client_cancel", "charged")): Exemplar(
            labels={"task_id": "b", "retry_id": "r-b"}, value=30, timestamp=1_700_000_005
        )
    }
    assert book.counters.exemplars == first
    counted(book, an_evaluation(10, tallies=tallies))
    assert book.counters.exemplars == first
    nameless = [a_tally(15, task="a")._replace(retry_id=None)]
    counted(book, an_evaluation(15, tallies=nameless))
    assert list(book.counters.exemplars.values()) == [
        Exemplar(labels={"task_id": "a"}, value=5, timestamp=1_700_000_015)
    ]


def test_refresh_durations(book: CounterBook) -> None:
    """Each refresh is one sample of the duration histogram."""
    for seconds in (0.004, 0.3, 20):
        book.apply(an_evaluation(5), CONFIG, refresh_seconds=seconds)
    value = book.counters.histograms[REFRESH_DURATION_SECONDS][()]
    assert value.count == 3
    assert value.sum == pytest.approx(20.304)
    assert value.buckets == (1, 1, 1, 1, 1, 2, 2, 2, 2, 2)


def test_nothing_new_writes_nothing(book: CounterBook) -> None:
    """A refresh that finds nothing new writes no row."""
    same = {
        "tallies": [a_tally(30)], "propagations": [a_propagation(2)], "open_tasks": ["t2"],
        "rejected": [bad_row()], "last_evidence": after(1),
    }  # fmt: skip
    counted(book, an_evaluation(90, **same))  # type: ignore[arg-type]  # each as its name says
    rows = book._file.connection.total_changes
    counted(book, an_evaluation(95, **same))  # type: ignore[arg-type]  # each as its name says
    assert book._file.connection.total_changes == rows
