"""What one reading of the stores has to know of the readings before it.

A reader is handed a ``Memory`` and hands back what it saw; what becomes of that is written in the
same transaction as the counters, so that memory and counters never disagree.
"""

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import SECOND, Instant
from orphanwatch.exporter.model import Evaluation, Lease, Propagation
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.state_booking import is_due
from orphanwatch.exporter.state_rows import storable

OPEN_TASKS_KEPT: Final = 7 * 86400 * SECOND
_SEEN_STEP: Final = OPEN_TASKS_KEPT // 24

LeaseKey = tuple[str, str | None, Instant | None]
"""Task, worker, acquisition: what makes two rows the same lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What is remembered from the readings before."""

    open_tasks: frozenset[str] = frozenset()
    """Tasks to be looked at whatever their age: their propagation is not observed yet."""
    last_evidence: Instant | None = None
    """The newest orphan charge or end of an orphan lease ever known; None is none yet."""
    leases: Mapping[LeaseKey, Lease] = field(default_factory=dict)
    """The unreleased leases that the last good read listed."""
    vanished: Mapping[LeaseKey, Lease] = field(default_factory=dict)
    """Leases no longer listed, each with the instant at which it was first missed."""

    def workers(self, keys: Collection[str]) -> frozenset[str]:
        """Return those of the keys that are the id of a worker whose lease is remembered."""
        return frozenset(keys).intersection(
            lease.worker_id
            for leases in (self.leases, self.vanished)
            for lease in leases.values()
            if lease.worker_id is not None
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseSight:
    """What one good read of the lease store listed."""

    listed: Sequence[Lease]
    """Every unreleased lease, live or expired."""
    of_watched: Sequence[Lease]
    """Every lease of the watched tasks, released ones too."""
    watched_ids: frozenset[str]
    """The watched tasks, those of ``Memory.open_tasks`` that were found again among them."""


def complete_leases(
    memory: Memory,
    listed: Sequence[Lease],
    all_of_watched: Sequence[Lease],
    watched_ids: frozenset[str],
    at: Instant,
) -> tuple[Lease, ...]:
    """Return the leases of watched tasks that were listed before and are not any more.

    Each is released at the first good read that missed it: ``at``, or the earlier instant that
    memory holds. One that is listed again is no longer among them: the store's word holds.
    """
    if not memory.leases and not memory.vanished:
        return ()
    gone = _vanished(memory, _by_key((*listed, *all_of_watched)), at)
    return tuple(lease for key, lease in gone.items() if key[0] in watched_ids)


def remember_leases(
    memory: Memory,
    sight: LeaseSight,
    kept_ids: frozenset[str],
    released_after: Instant,
    at: Instant,
) -> tuple[dict[LeaseKey, Lease], dict[LeaseKey, Lease]]:
    """Return the leases and the vanished leases that the next reading is to know.

    A vanished lease is kept while its task is in ``kept_ids``; any other until it is older than
    ``released_after``, because the row that says its task was cancelled may still be on its way,
    and because the ledger may hold charges under its worker's id until then.
    """
    present = _by_key((*sight.listed, *sight.of_watched))
    vanished = {
        key: lease
        for key, lease in _vanished(memory, present, at).items()
        if key[0] in kept_ids or (lease.released_at or at) > released_after
    }
    unreleased = {key: lease for key, lease in present.items() if lease.released_at is None}
    return unreleased, vanished


def _vanished(
    memory: Memory, present: Mapping[LeaseKey, Lease], at: Instant
) -> dict[LeaseKey, Lease]:
    gone = {key: lease for key, lease in memory.vanished.items() if key not in present}
    for key, lease in memory.leases.items():
        if key not in present and key not in gone:
            gone[key] = lease._replace(released_at=at)
    return gone


def _by_key(leases: Sequence[Lease]) -> dict[LeaseKey, Lease]:
    return {
        (lease.task_id, lease.worker_id, lease.acquired_at): lease
        for lease in leases
        if lease.task_id is not None
    }


def load_memory(connection: sqlite3.Connection) -> Memory:
    """Return the memory that the last process left: its leases are those of watched tasks."""
    row = connection.execute("SELECT value FROM facts WHERE name = 'last_evidence'").fetchone()
    leases = _stored_leases(connection)
    return Memory(
        open_tasks=frozenset(_stored_open_tasks(connection)),
        last_evidence=Instant(row[0]) if row else None,
        leases={key: lease for key, lease in leases.items() if lease.released_at is None},
        vanished={key: lease for key, lease in leases.items() if lease.released_at is not None},
    )


def save_memory(
    connection: sqlite3.Connection,
    memory: Memory,
    evaluation: Evaluation,
    config: Config,
    sight: LeaseSight | None,
) -> Memory:
    """Write what one evaluation adds to the memory, and return the whole of it.

    Of the leases, only those of watched tasks are written; the others matter no longer than the
    process lives. Without a sight of them, all stay as they are.
    """
    open_tasks = _save_open_tasks(connection, evaluation, config)
    leases, vanished = memory.leases, memory.vanished
    if sight is not None:
        kept_ids = sight.watched_ids | open_tasks
        gateway = evaluation.stores.get(StoreName.GATEWAY)
        if gateway is None or not gateway.up:
            # Nobody can say which tasks are watched: those that were stay so.
            kept_ids |= {task_id for task_id, _, _ in _stored_leases(connection)}
        released_after = Instant(evaluation.at - config.delta_window - config.lag)
        leases, vanished = remember_leases(memory, sight, kept_ids, released_after, evaluation.at)
        _save_leases(
            connection,
            {key: it for key, it in {**leases, **vanished}.items() if key[0] in kept_ids},
        )
    evidence = max(
        (known for known in (memory.last_evidence, evaluation.last_evidence) if known is not None),
        default=None,
    )
    if evidence != memory.last_evidence:
        connection.execute("INSERT OR REPLACE INTO facts VALUES ('last_evidence', ?)", (evidence,))
    return Memory(open_tasks=open_tasks, last_evidence=evidence, leases=leases, vanished=vanished)


def _save_open_tasks(
    connection: sqlite3.Connection, evaluation: Evaluation, config: Config
) -> frozenset[str]:
    """Remember the open tasks until their sample is observed, or nothing was heard for 7 days."""
    at, stored = evaluation.at, _stored_open_tasks(connection)
    still_open = {storable(task_id) for task_id in evaluation.open_tasks}
    settled = evaluation.propagations or ()
    pending = [sample for sample in settled if not is_due(sample, config, at)]
    observed = {storable(sample.task_id) for sample in settled} - {
        storable(sample.task_id) for sample in pending
    }
    heard = still_open | {
        task_id
        for sample in pending
        if (task_id := storable(sample.task_id)) in stored or _ages_out(sample, config)
    }
    written = {
        task_id for task_id in heard if task_id not in stored or at - stored[task_id] > _SEEN_STEP
    }
    gone = (observed - heard) & stored.keys()
    if evaluation.propagations is not None:
        gone |= {
            task_id
            for task_id, seen_at in stored.items()
            if at - seen_at > OPEN_TASKS_KEPT and task_id not in heard
        }
    connection.executemany(
        "INSERT OR REPLACE INTO open_tasks VALUES (?, ?)", [(task_id, at) for task_id in written]
    )
    connection.executemany(
        "DELETE FROM open_tasks WHERE task_id = ?", [(task_id,) for task_id in gone]
    )
    return frozenset((stored.keys() | heard) - gone)


def _ages_out(sample: Propagation, config: Config) -> bool:
    # Stopped so long ago that it may leave the horizon between now and when it is due.
    due_at = sample.last_sign + config.lag + config.delta_window
    return sample.stopped_at + config.horizon <= due_at + config.stale_after


def _save_leases(connection: sqlite3.Connection, leases: Mapping[LeaseKey, Lease]) -> None:
    wanted = {_row_of(lease) for lease in leases.values()}
    stored = {_row_of(lease) for lease in _stored_leases(connection).values()}
    connection.executemany(
        "DELETE FROM leases WHERE task_id = ? AND worker_id IS ? AND acquired_at IS ?",
        [row[:3] for row in stored - wanted],
    )
    connection.executemany("INSERT INTO leases VALUES (?, ?, ?, ?, ?, ?)", list(wanted - stored))


def _row_of(lease: Lease) -> tuple[str | int | None, ...]:
    worker, pool = lease.worker_id, lease.pool
    return (
        storable(lease.task_id or ""),
        worker if worker is None else storable(worker),
        lease.acquired_at,
        pool if pool is None else storable(pool),
        lease.heartbeat_at,
        lease.released_at,
    )


def _stored_leases(connection: sqlite3.Connection) -> dict[LeaseKey, Lease]:
    return {
        (task_id, worker_id, acquired_at): Lease(
            task_id, worker_id, pool, acquired_at, heartbeat_at, released_at
        )
        for task_id, worker_id, acquired_at, pool, heartbeat_at, released_at in connection.execute(
            "SELECT task_id, worker_id, acquired_at, pool, heartbeat_at, released_at FROM leases"
        )
    }


def _stored_open_tasks(connection: sqlite3.Connection) -> dict[str, int]:
    return dict(connection.execute("SELECT task_id, seen_at FROM open_tasks").fetchall())
