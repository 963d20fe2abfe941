"""Counters that never fall and never replay, in memory or in a state file.

``serve`` opens one ``CounterBook`` and hands it each evaluation. All that an evaluation changes,
marks, counters, samples and memory, is one transaction; only what is committed is returned. So
the process may be killed anywhere: what was not published is booked again from the marks, and
what was published is on disk.
"""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Self

from orphanwatch.exporter.board import Exemplar, HistogramValue, LabelValues
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import Instant, seconds
from orphanwatch.exporter.model import Evaluation
from orphanwatch.exporter.names import (
    CANCEL_PROPAGATION_SECONDS,
    REFRESH_DURATION_SECONDS,
    ROWS_REJECTED_TOTAL,
    STORE_REASONS,
    STRADDLING_TOKENS_TOTAL,
    TOKENS_TOTAL,
    Basis,
    Cause,
    Family,
)
from orphanwatch.exporter.state_booking import (
    Largest,
    book_tokens,
    count_rejected,
    forget_marks,
    observe_propagations,
)
from orphanwatch.exporter.state_memory import (
    LeaseKey,
    LeaseSight,
    Memory,
    complete_leases,
    load_memory,
    save_memory,
)
from orphanwatch.exporter.state_rows import (
    empty_histogram,
    read_counters,
    read_histograms,
    with_sample,
)
from orphanwatch.exporter.state_schema import StateFile, open_state

__all__ = [
    "CounterBook",
    "Counters",
    "LeaseKey",
    "LeaseSight",
    "Memory",
    "complete_leases",
    "zero_counters",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """All counters and histograms, every label set of theirs included."""

    counters: Mapping[Family, Mapping[LabelValues, float]]
    histograms: Mapping[Family, Mapping[LabelValues, HistogramValue]]
    exemplars: Mapping[tuple[Family, LabelValues], Exemplar]
    """The task behind the last increase of each series of ``orphan_tokens_total``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Committed:
    """What is on disk, as far as anybody asks."""

    counting_since: Instant
    memory: Memory
    counters: Counters


class CounterBook:
    """The counters, and what one reading remembers for the next.

    Not for two threads that apply: one refreshes, and any may look at the properties.
    """

    def __init__(self, file: StateFile, committed: _Committed) -> None:
        self._file = file
        self._committed = committed
        self._lock = Lock()

    @classmethod
    def open(cls, path: str | Path | None, config: Config, now: Instant) -> Self:
        """Return the book kept in a state file, or one in memory where there is no path.

        A new one counts from ``now`` on. Raises ``StateError``, which names file and remedy, if
        the file is damaged, not ours, too new, not writable, or open in another process.
        """
        file = open_state(path)
        try:
            with file.transaction() as connection:
                # A start that lies ahead was written by a wrong clock; waiting for it would
                # count nothing. Writing it always shows now, not later, that the file takes it.
                connection.execute(
                    "INSERT INTO facts VALUES ('counting_since', ?) ON CONFLICT (name)"
                    " DO UPDATE SET value = min(value, excluded.value)",
                    (now,),
                )
                committed = _Committed(
                    counting_since=_counting_since(connection),
                    memory=load_memory(connection),
                    counters=_counters(connection, config, zero_counters(config)),
                )
        except BaseException:
            file.close()
            raise
        return cls(file, committed)

    @property
    def counting_since(self) -> Instant:
        """The instant up to which a task that the book doesn't know has been counted already.

        It is when counting began and, once marks are forgotten, when the youngest of those
        was last written: a task seen again after that is counted from there, never replayed.
        """
        return self._committed.counting_since

    @property
    def memory(self) -> Memory:
        """What the next reading of the stores is to know."""
        return self._committed.memory

    @property
    def counters(self) -> Counters:
        """The counters as last committed: what may be published while the file is failing."""
        return self._committed.counters

    def apply(
        self,
        evaluation: Evaluation,
        config: Config,
        *,
        refresh_seconds: float,
        leases: LeaseSight | None = None,
    ) -> Counters:
        """Book one evaluation, all of it or nothing, and return the counters to publish.

        ``evaluation`` is to rest on ``counting_since`` and ``memory`` as they are now; ``leases``
        is what its reading listed, None where the lease store couldn't be read. Raises
        ``StateError`` where the file takes nothing; the book is then as before.
        """
        with self._lock:
            with self._file.transaction() as connection:
                committed = self._book(connection, evaluation, config, refresh_seconds, leases)
            self._committed = committed
            return committed.counters

    def close(self) -> None:
        """Close the file, once a running ``apply`` is through."""
        with self._lock:
            self._file.close()

    def _book(
        self,
        connection: sqlite3.Connection,
        evaluation: Evaluation,
        config: Config,
        refresh_seconds: float,
        leases: LeaseSight | None,
    ) -> _Committed:
        known, at = self._committed, evaluation.at
        largest = book_tokens(connection, evaluation.tallies or (), config, at)
        observe_propagations(
            connection, evaluation.propagations or (), config, at, known.counting_since
        )
        count_rejected(
            connection,
            evaluation.rejected,
            [store for store, health in evaluation.stores.items() if health.up],
            at,
        )
        memory = save_memory(connection, known.memory, evaluation, config, leases)
        since = max(known.counting_since, forget_marks(connection, config, at))
        connection.execute(
            "UPDATE facts SET value = ?1 WHERE name = 'counting_since' AND value <> ?1", (since,)
        )
        return _Committed(
            counting_since=Instant(since),
            memory=memory,
            counters=_counters(
                connection, config, _moved_in_memory(known.counters, largest, at, refresh_seconds)
            ),
        )


def _counting_since(connection: sqlite3.Connection) -> Instant:
    (value,) = connection.execute(
        "SELECT value FROM facts WHERE name = 'counting_since'"
    ).fetchone()
    return Instant(value)


def zero_counters(config: Config) -> Counters:
    """Return every label set at 0, as a first scrape must find them, in the order of the page."""
    pools = config.pool_names
    return Counters(
        counters={
            TOKENS_TOTAL: {
                (pool, cause.value, basis.value): 0.0
                for pool in pools
                for cause in Cause
                for basis in Basis
            },
            STRADDLING_TOKENS_TOTAL: {(pool,): 0.0 for pool in pools},
            ROWS_REJECTED_TOTAL: {
                (store.value, reason.value): 0.0
                for store, reasons in STORE_REASONS.items()
                for reason in reasons
            },
        },
        histograms={
            CANCEL_PROPAGATION_SECONDS: {
                (pool,): empty_histogram(CANCEL_PROPAGATION_SECONDS) for pool in pools
            },
            REFRESH_DURATION_SECONDS: {(): empty_histogram(REFRESH_DURATION_SECONDS)},
        },
        exemplars={},
    )


def _counters(connection: sqlite3.Connection, config: Config, in_memory: Counters) -> Counters:
    """Return what the file holds, zeros where it holds nothing, and what is kept in memory only.

    A pool that is not configured now is not shown; it carries on when it is configured again.
    """
    zero = zero_counters(config)
    counters = {family: dict(values) for family, values in zero.counters.items()}
    for (name, labels), value in read_counters(connection).items():
        family = next(family for family in counters if family.name == name)
        # A reason that a store was not known to give is shown once it was given.
        if labels in counters[family] or family is ROWS_REJECTED_TOTAL:
            counters[family][labels] = value
    propagation = read_histograms(connection, CANCEL_PROPAGATION_SECONDS)
    return Counters(
        counters=counters,
        histograms={
            CANCEL_PROPAGATION_SECONDS: {
                labels: propagation.get(labels, empty)
                for labels, empty in zero.histograms[CANCEL_PROPAGATION_SECONDS].items()
            },
            REFRESH_DURATION_SECONDS: in_memory.histograms[REFRESH_DURATION_SECONDS],
        },
        exemplars=in_memory.exemplars,
    )


def _moved_in_memory(
    known: Counters, largest: Mapping[LabelValues, Largest], at: Instant, refresh_seconds: float
) -> Counters:
    """Return the counters with the parts moved that no restart has to carry on."""
    (refreshes,) = known.histograms[REFRESH_DURATION_SECONDS].values()
    exemplars = {
        (TOKENS_TOTAL, labels): Exemplar(
            labels={
                name: value
                for name, value in (("task_id", task.task_id), ("retry_id", task.retry_id))
                if value is not None
            },
            value=task.increase,
            timestamp=seconds(at),
        )
        for labels, task in largest.items()
    }
    refreshed = with_sample(REFRESH_DURATION_SECONDS, refreshes, refresh_seconds)
    return replace(
        known,
        histograms={**known.histograms, REFRESH_DURATION_SECONDS: {(): refreshed}},
        exemplars={**known.exemplars, **exemplars},
    )
