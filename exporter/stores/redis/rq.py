"""RQ's keys as a gateway, as leases and as a queue.

A job's execution is the lease, not the registry of started jobs: a cancel empties that at once,
while the work goes on. Nothing here asks RQ's own library, which cleans up whatever it reads, and
nothing touches ``data`` and ``meta``, which are pickles.
"""

from collections.abc import Sequence
from typing import Final

from orphanwatch.exporter.clock import Clock
from orphanwatch.exporter.config_redis import RedisSource
from orphanwatch.exporter.instants import seconds
from orphanwatch.exporter.key_patterns import KeyPattern
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.questions import Windows
from orphanwatch.exporter.stores.redis.cells import instants_of
from orphanwatch.exporter.stores.redis.lease_form import LeaseForm, LeaseTable
from orphanwatch.exporter.stores.redis.leases import RedisLeases
from orphanwatch.exporter.stores.redis.rq_jobs import RqGateway
from orphanwatch.exporter.stores.redis.rq_keys import RqKeys
from orphanwatch.exporter.stores.redis.source import RedisRows
from orphanwatch.exporter.stores.redis.wire import WRONG_TYPE
from orphanwatch.exporter.stores.rows import Row, RowSource

_COLUMNS: Final = {
    "worker_id": "worker_name",
    "acquired_at": "created_at",
    "heartbeat_at": "last_heartbeat",
}
"""The fields of an execution, as epoch seconds."""


def rq_rows(store: StoreName, config: RedisSource, clock: Clock) -> RowSource:
    """Return RQ as one of the stores that it can be."""
    if store is StoreName.LEASES:
        return RqLeases(config, clock)
    if store is StoreName.QUEUE:
        return RqQueue(config, clock)
    return RqGateway(config, clock)


class RqLeases(RedisLeases):
    """Executions: what a worker is at, and beats for every 30 s."""

    def __init__(self, config: RedisSource, clock: Clock) -> None:
        prefix = KeyPattern.literal(config.prefix)
        form = LeaseForm(
            key=KeyPattern.parse(f"{prefix}:execution:{{task_id}}:*"), columns=_COLUMNS, unit="s"
        )
        super().__init__(config, clock, form, frozenset({"task_id", "pool", *_COLUMNS}))
        self._keys = RqKeys(self._database, config)

    def rows(self, windows: Windows) -> Sequence[Row]:
        """Return what workers are at."""
        rows = super().rows(windows)
        if not rows:
            self._keys.expect_signs()
        return rows

    def complete(self, table: LeaseTable) -> None:
        """Add the queue of each job as the pool, and drop those of queues not looked at."""
        jobs = [job for job in table.texts["task_id"] if job is not None]
        table.texts["pool"] = self._keys.queue_of(jobs)
        if self._config.queues:
            names = table.texts["pool"]
            table.keep([at for at, name in enumerate(names) if name in self._config.queues])


class RqQueue(RedisRows):
    """All queues taken together: how many jobs wait, since when, and how many are worked at."""

    columns = ("sampled_at", "depth", "age_seconds", "in_flight")
    tells_only_of_now = True

    def __init__(self, config: RedisSource, clock: Clock) -> None:
        super().__init__(StoreName.QUEUE, config, clock)
        self._keys = RqKeys(self._database, config)

    def rows(self, windows: Windows) -> Sequence[Row]:
        """Return one sample."""
        lists = [self._keys.of("queue", name) for name in self._keys.queues()]
        depth = sum(self._database.ask_all(("LLEN", key) for key in lists))
        age = self._age(lists) if depth else 0.0
        in_flight = float(len(self._keys.running()))
        return [(windows.at, float(depth), age, in_flight)]

    def _age(self, lists: Sequence[str]) -> float | None:
        """Return for how long the first in line has waited, None where that is not known."""
        first = self._database.ask_all(("LINDEX", key, "0") for key in lists)
        jobs = [self._keys.of("job", job) for job in first if job is not None]
        stamps = self._database.ask_each(jobs, "HGET", "enqueued_at")
        instants, _ = instants_of(
            [None if stamp is WRONG_TYPE else stamp for stamp in stamps], "iso", self._config.zone
        )
        known = [instant for instant in instants if instant is not None]
        return seconds(max(0, self._clock() - min(known))) if known else None
