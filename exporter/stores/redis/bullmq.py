"""BullMQ's keys as leases and as a queue.

A job in the list of active ones is held for as long as its lock lives. A worker sets the lock to
expire after its ``lockDuration`` and does so again each half of that: what is left of it tells
the last beat. BullMQ's own counters may change a queue that they look at; these are plain reads.
"""

from collections.abc import Sequence
from typing import Final

from orphanwatch.exporter.clock import Clock
from orphanwatch.exporter.config_redis import RedisLeaseSource, RedisSource
from orphanwatch.exporter.instants import SECOND, Instant, Micros, seconds
from orphanwatch.exporter.names import RejectReason, StoreName
from orphanwatch.exporter.stores.questions import Windows
from orphanwatch.exporter.stores.redis.cells import Instants, instants_of, task_ids_of, texts_of
from orphanwatch.exporter.stores.redis.source import RedisRows
from orphanwatch.exporter.stores.redis.wire import WRONG_TYPE, RedisDatabase
from orphanwatch.exporter.stores.rows import Row, RowSource

_LISTS: Final = ("wait", "paused", "active")
_SIGNS: Final = ("meta", "id", "prioritized", *_LISTS)
_FIELDS: Final = ("processedOn", "pb")
"""Of a job: when a worker took it, and that worker's name where it was given one."""

_LOCK_DURATION: Final = Micros(30 * SECOND)
"""What a worker's ``lockDuration`` is where it is not set."""

_FOR_EVER: Final = -1


def bullmq_rows(store: StoreName, config: RedisSource, clock: Clock) -> RowSource:
    """Return BullMQ as one of the stores that it can be."""
    if isinstance(config, RedisLeaseSource):
        return BullmqLeases(config, clock)
    return BullmqQueue(store, config, clock)


class BullmqKeys:
    """Where BullMQ keeps what, in one database."""

    def __init__(self, database: RedisDatabase, config: RedisSource) -> None:
        self._database = database
        self._prefix = config.prefix
        self._queues = config.queues

    def of(self, *parts: str) -> str:
        """Return the key of these parts: ``bull:QUEUE:active``."""
        return ":".join((self._prefix, *parts))

    def queues(self) -> tuple[str, ...]:
        """Return the queues that are looked at; raises where there is no sign of one."""
        seen = self._database.ask_all(
            ("EXISTS", *(self.of(name, sign) for sign in _SIGNS)) for name in self._queues
        )
        for name, count in zip(self._queues, seen, strict=True):
            if not count:
                raise self._database.missing(
                    f"BullMQ's queue {name}", "check queues, prefix and the database number"
                )
        return self._queues


class BullmqLeases(RedisRows):
    """Active jobs. One whose lock has expired has no heartbeat: its age is from its start."""

    columns = ("task_id", "worker_id", "pool", "acquired_at", "heartbeat_at")
    tells_only_of_now = True

    def __init__(self, config: RedisLeaseSource, clock: Clock) -> None:
        super().__init__(StoreName.LEASES, config, clock)
        self._keys = BullmqKeys(self._database, config)
        self._ttl = config.ttl or _LOCK_DURATION

    def rows(self, windows: Windows) -> Sequence[Row]:  # noqa: ARG002  (the list is as of now)
        """Return the active jobs of all queues."""
        rows: list[Row] = []
        for queue in self._keys.queues():
            # Whole, in one command: what ends shifts the places of all others.
            rows += self._leases(
                queue, self._database.ask("LRANGE", self._active(queue), "0", "-1")
            )
        return rows

    def _active(self, queue: str) -> str:
        return self._keys.of(queue, "active")

    def _leases(self, queue: str, jobs: Sequence[str]) -> list[Row]:
        locks = [self._keys.of(queue, job, "lock") for job in jobs]
        asked_at = self._clock()
        left = self._database.ask_each(locks, "PTTL")
        tokens = self._database.ask_each(locks, "GET")
        found = self._database.ask_each(
            [self._keys.of(queue, job) for job in jobs], "HMGET", *_FIELDS
        )
        bad = {place for place, number in enumerate(left) if number == _FOR_EVER}
        for place in bad:
            self.reject(RejectReason.INVALID_INSTANT, f"{locks[place]}: has no expiry")
        taken = self._column(found, 0)
        acquired, unread = instants_of(taken, "ms", self._config.zone)
        for place in unread:
            self.reject(RejectReason.INVALID_INSTANT, f"{queue} {jobs[place]}: {_FIELDS[0]}")
        beats: Instants = [
            Instant(asked_at - self._ttl + number * 1000) if number >= 0 else None
            for number in left
        ]
        workers = [
            name or _holder(token)
            for name, token in zip(self._column(found, 1), tokens, strict=True)
        ]
        ids = task_ids_of(jobs, self._config.id_rule)
        rows = zip(ids, texts_of(workers), [queue] * len(ids), acquired, beats, strict=True)
        bad.update(unread)
        return [row for place, row in enumerate(rows) if place not in bad]

    def _column(self, found: Sequence[object], place: int) -> list[str | None]:
        return [cells[place] if isinstance(cells, list) else None for cells in found]


class BullmqQueue(RedisRows):
    """All queues taken together. Delayed jobs do not wait yet."""

    columns = ("sampled_at", "depth", "age_seconds", "in_flight")
    tells_only_of_now = True

    def __init__(self, store: StoreName, config: RedisSource, clock: Clock) -> None:
        super().__init__(store, config, clock)
        self._keys = BullmqKeys(self._database, config)

    def rows(self, windows: Windows) -> Sequence[Row]:
        """Return one sample."""
        depth = in_flight = 0
        first: list[str] = []
        for queue in self._keys.queues():
            wait, paused, active, prioritized = self._database.ask_all(
                (
                    *(("LLEN", self._keys.of(queue, name)) for name in _LISTS),
                    ("ZCARD", self._keys.of(queue, "prioritized")),
                )
            )
            depth += wait + paused + prioritized
            in_flight += active
            first += self._first_of(queue)
        age = self._age(first) if depth else 0.0
        return [(windows.at, float(depth), age, float(in_flight))]

    def _first_of(self, queue: str) -> list[str]:
        """Return the keys of the jobs that are next in line, one of each line."""
        wait, paused, prioritized = self._database.ask_all(
            (
                ("LINDEX", self._keys.of(queue, "wait"), "-1"),
                ("LINDEX", self._keys.of(queue, "paused"), "-1"),
                ("ZRANGE", self._keys.of(queue, "prioritized"), "0", "0"),
            )
        )
        return [self._keys.of(queue, job) for job in (wait, paused, *prioritized) if job]

    def _age(self, jobs: Sequence[str]) -> float | None:
        """Return how long ago the oldest of the jobs was added, None where none says so."""
        stamps = self._database.ask_each(jobs, "HGET", "timestamp")
        instants, _ = instants_of(
            [None if stamp is WRONG_TYPE else stamp for stamp in stamps], "ms", self._config.zone
        )
        known = [instant for instant in instants if instant is not None]
        return seconds(max(0, self._clock() - min(known))) if known else None


def _holder(token: object) -> str | None:
    """Return which worker a lock's token is of: what stands before the count of its fetches."""
    return token.rpartition(":")[0] or token if isinstance(token, str) else None
