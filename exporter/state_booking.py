"""How one evaluation moves the counters: by what is above the highest already booked.

Every function writes through a connection that is inside a transaction. High-water marks and
counters move together in it, so an increase is booked once, whenever the process is killed.
"""

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from orphanwatch.exporter.board import LabelValues
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import SECOND, Instant
from orphanwatch.exporter.model import Propagation, Rejected, Tally
from orphanwatch.exporter.names import (
    CANCEL_PROPAGATION_SECONDS,
    ROWS_REJECTED_TOTAL,
    STRADDLING_TOKENS_TOTAL,
    TOKENS_TOTAL,
    Basis,
    StoreName,
)
from orphanwatch.exporter.state_rows import (
    Series,
    add_to_counters,
    add_to_histograms,
    key_list,
    storable,
)

TASK_MARKS_KEPT: Final = 30 * 86400 * SECOND
ROW_MARKS_KEPT: Final = 86400 * SECOND
# A mark that does not move is written again only now and then, to say that it is still seen.
_SEEN_STEP: Final = 24


class Amounts(NamedTuple):
    """One task's orphan tokens, by how they are known."""

    charged: float
    prorated: float
    straddling: float

    def at_least(self, floor: "Amounts") -> "Amounts":
        """Return the larger of each."""
        return Amounts(
            max(self.charged, floor.charged),
            max(self.prorated, floor.prorated),
            max(self.straddling, floor.straddling),
        )


class Largest(NamedTuple):
    """The task with the largest increase of one series."""

    task_id: str
    retry_id: str | None
    increase: float


def book_tokens(
    connection: sqlite3.Connection, tallies: Sequence[Tally], config: Config, at: Instant
) -> dict[LabelValues, Largest]:
    """Book what each task was charged above its marks, under its present pool and cause.

    Returns the largest single increase of each series of ``orphan_tokens_total`` that rose. What
    is known to be from before counting began is never booked: a mark is at least that.
    """
    marks = _task_marks(connection, [tally.task_id for tally in tallies])
    added: dict[Series, float] = {}
    largest: dict[LabelValues, Largest] = {}
    moved: dict[str, Amounts] = {}
    for tally in tallies:
        mark, seen_at = marks.get(tally.task_id, (Amounts(0, 0, 0), at))
        before = Amounts(tally.charged_before, tally.prorated_before, tally.straddling_before)
        floor = mark.at_least(before)
        reached = Amounts(tally.charged, tally.prorated, tally.straddling).at_least(floor)
        if reached != mark or at - seen_at > TASK_MARKS_KEPT // _SEEN_STEP:
            moved[tally.task_id] = reached
            marks[tally.task_id] = (reached, at)
        for series, increase in _increases(tally, floor, reached, config.label(tally.pool)):
            added[series] = added.get(series, 0.0) + increase
            family, labels = series
            best = largest.get(labels)
            if family is TOKENS_TOTAL and (best is None or best.increase < increase):
                largest[labels] = Largest(tally.task_id, tally.retry_id, increase)
    connection.executemany(
        "INSERT OR REPLACE INTO task_marks VALUES (?, ?, ?, ?, ?)",
        ((storable(task_id), *amounts, at) for task_id, amounts in moved.items()),
    )
    add_to_counters(connection, added)
    return largest


def _increases(
    tally: Tally, floor: Amounts, reached: Amounts, pool: str
) -> Iterator[tuple[Series, float]]:
    for family, labels, increase in (
        (TOKENS_TOTAL, (pool, tally.cause, Basis.CHARGED), reached.charged - floor.charged),
        (TOKENS_TOTAL, (pool, tally.cause, Basis.PRORATED), reached.prorated - floor.prorated),
        (STRADDLING_TOKENS_TOTAL, (pool,), reached.straddling - floor.straddling),
    ):
        if increase > 0:
            yield (family, tuple(str(label) for label in labels)), increase


def _task_marks(
    connection: sqlite3.Connection, task_ids: Sequence[str]
) -> dict[str, tuple[Amounts, int]]:
    stored = {
        task_id: (Amounts(charged, prorated, straddling), seen_at)
        for task_id, charged, prorated, straddling, seen_at in connection.execute(
            "SELECT task_id, charged, prorated, straddling, seen_at FROM task_marks"
            " WHERE task_id IN (SELECT value FROM json_each(?))",
            (key_list(task_ids),),
        )
    }
    # Keyed by the ids as given, since a few can't be stored letter by letter.
    return {
        task_id: stored[storable(task_id)] for task_id in task_ids if storable(task_id) in stored
    }


def is_due(sample: Propagation, config: Config, at: Instant) -> bool:
    """Say whether every charge that could move a sample's last sign of work must have landed."""
    return sample.last_sign + config.lag + config.delta_window <= at


def observe_propagations(
    connection: sqlite3.Connection,
    samples: Sequence[Propagation],
    config: Config,
    at: Instant,
    counting_since: Instant,
) -> None:
    """Keep every due sample that is new, and count those that ended after counting began."""
    due = [sample for sample in samples if is_due(sample, config, at)]
    known = set(
        connection.execute(
            "SELECT task_id, stopped_at FROM propagations"
            " WHERE task_id IN (SELECT value FROM json_each(?))",
            (key_list(sample.task_id for sample in due),),
        )
    )
    new = {
        key: sample
        for sample in due
        if (key := (storable(sample.task_id), sample.stopped_at)) not in known
    }
    counted: dict[LabelValues, list[float]] = {}
    for sample in new.values():
        if sample.last_sign > counting_since:
            counted.setdefault((config.label(sample.pool),), []).append(sample.seconds)
    connection.executemany(
        "INSERT INTO propagations VALUES (?, ?, ?, ?, ?, ?, ?, 'observed')",
        (
            (*key, storable(config.label(sample.pool)), sample.seconds, sample.last_sign, at,
             int(sample.last_sign > counting_since))
            for key, sample in new.items()
        ),
    )  # fmt: skip
    add_to_histograms(connection, CANCEL_PROPAGATION_SECONDS, counted)


def count_rejected(
    connection: sqlite3.Connection,
    rejected: Iterable[Rejected],
    readable: Collection[StoreName],
    at: Instant,
) -> None:
    """Count each row that could not be used once, and forget those out of scope for a day.

    A store that can't be read shows no row, so only a readable store's rows are forgotten.
    """
    counts: dict[tuple[str, str, str], int] = {}
    for row in rejected:
        key = (str(row.store), str(row.reason), storable(row.key))
        counts[key] = max(row.count, counts.get(key, 0))
    marks = _row_marks(connection, counts)
    added: dict[Series, float] = {}
    seen: list[tuple[str | int, ...]] = []
    for key, count in counts.items():
        mark, seen_at = marks.get(key, (0, at))
        if count > mark:
            series = (ROWS_REJECTED_TOTAL, key[:2])
            added[series] = added.get(series, 0.0) + count - mark
        if count > mark or at - seen_at > ROW_MARKS_KEPT // _SEEN_STEP:
            seen.append((*key, max(count, mark), at))
    connection.executemany("INSERT OR REPLACE INTO row_marks VALUES (?, ?, ?, ?, ?)", seen)
    add_to_counters(connection, added)
    connection.executemany(
        "DELETE FROM row_marks WHERE store = ? AND seen_at < ?",
        [(str(store), at - ROW_MARKS_KEPT) for store in readable],
    )


def _row_marks(
    connection: sqlite3.Connection, keys: Iterable[tuple[str, str, str]]
) -> dict[tuple[str, str, str], tuple[int, int]]:
    return {
        (store, reason, key): (count, seen_at)
        for store, reason, key, count, seen_at in connection.execute(
            "SELECT store, reason, key, count, seen_at FROM row_marks"
            " WHERE (store, reason, key) IN (SELECT json_extract(value, '$[0]'),"
            " json_extract(value, '$[1]'), json_extract(value, '$[2]') FROM json_each(?))",
            (json.dumps(list(keys), ensure_ascii=False),),
        )
    }


def forget_marks(connection: sqlite3.Connection, config: Config, at: Instant) -> int:
    """Forget tasks not seen and samples observed for 30 days (longer where the grace needs them).

    Returns when the youngest of them was last written, 0 if there was none: all that was booked
    for them was charged by then, so counting unknown tasks from there on replays nothing.
    """
    oldest = {
        "tasks": at - TASK_MARKS_KEPT,
        "samples": at - max(TASK_MARKS_KEPT, config.grace_window),
    }
    (youngest,) = connection.execute(
        "SELECT max(coalesce((SELECT max(seen_at) FROM task_marks WHERE seen_at < :tasks), 0),"
        " coalesce((SELECT max(observed_at) FROM propagations WHERE observed_at < :samples), 0))",
        oldest,
    ).fetchone()
    connection.execute("DELETE FROM task_marks WHERE seen_at < :tasks", oldest)
    connection.execute("DELETE FROM propagations WHERE observed_at < :samples", oldest)
    return int(youngest)
