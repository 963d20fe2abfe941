"""Celery's keys and events in Redis as leases and as a queue."""

import time
from collections.abc import Sequence
from typing import Final

from orphanwatch.exporter.clock import Clock
from orphanwatch.exporter.config_redis import RedisSource
from orphanwatch.exporter.config_stores import RedisLeaseStore
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import Micros
from orphanwatch.exporter.names import RejectReason, StoreName
from orphanwatch.exporter.stores.questions import Windows
from orphanwatch.exporter.stores.redis.celery_events import EventStream, Noise
from orphanwatch.exporter.stores.redis.celery_results import CeleryGateway
from orphanwatch.exporter.stores.redis.celery_running import RunningTasks
from orphanwatch.exporter.stores.redis.celery_unacked import CeleryUnacked
from orphanwatch.exporter.stores.redis.cells import task_ids_of, texts_of
from orphanwatch.exporter.stores.redis.source import RedisRows
from orphanwatch.exporter.stores.rows import Row, RowSource

_LISTENING_SECONDS: Final = 3.0
"""Within this, a worker that beats every 2 s has beaten, and what it said has settled."""

_PAUSE_SECONDS: Final = 0.1
_MARGIN_SECONDS: Final = 0.5

# A message of priority 0 lies in the list that is named like its queue; another one beside it.
_PRIORITIES: Final = ("", *(f"\x06\x16{priority}" for priority in range(1, 10)))

_REMEDY: Final = "check the database number, prefix (Celery's global_keyprefix) and queues"


def celery_rows(store: StoreName, config: RedisSource, clock: Clock) -> RowSource:
    """Return Celery as one of the stores that it can be."""
    if store is StoreName.GATEWAY:
        return CeleryGateway(config, clock)
    if store is StoreName.QUEUE:
        return CeleryQueue(config, clock)
    if config.acks_late:
        return CeleryUnacked(config, clock)
    if not isinstance(config, RedisLeaseStore):
        raise TypeError(f"no {store} store of Celery's events")  # the config knows of no other
    return CeleryEvents(config, clock)


class CeleryEvents(RedisRows):
    """The tasks that workers are at by their events, each with the beats of its worker."""

    columns = ("task_id", "worker_id", "acquired_at", "heartbeat_at")
    tells_only_of_now = True

    def __init__(self, config: RedisLeaseStore, clock: Clock) -> None:
        super().__init__(StoreName.LEASES, config, clock)
        self._stream = EventStream(StoreName.LEASES, config, self._database)
        # Half a lease: within it, a worker that beats is alive, whatever its clock says.
        self._longest_skew = Micros(config.lease_ttl // 2)
        self._tasks = RunningTasks(self._longest_skew)

    def rows(self, windows: Windows) -> Sequence[Row]:  # noqa: ARG002  (the list is as of now)
        """Return what runs; the first reading, and one after a break, listens for a while."""
        if self._stream.open():
            self._tasks = RunningTasks(self._longest_skew)
        self._hear()
        while (missing := _LISTENING_SECONDS - self._stream.heard_for) > 0:
            if self._database.seconds_left < _MARGIN_SECONDS:
                raise StoreError(
                    StoreName.LEASES,
                    "has not listened to Celery's workers for long enough to know what runs; "
                    f"{missing:.1f} s more",
                )
            time.sleep(min(missing, _PAUSE_SECONDS))
            self._hear()
        self._expect_whole()
        running = list(self._tasks.running())
        ids = task_ids_of([task.task_id for task in running], self._config.id_rule)
        workers = texts_of([task.worker for task in running])
        return [
            (task_id, worker, task.started_at, task.beat_at)
            for task_id, worker, task in zip(ids, workers, running, strict=True)
        ]

    def _hear(self) -> None:
        """Take in what was published by now."""
        for message in self._stream.hear():
            if isinstance(message, Noise):
                self.reject(RejectReason.INVALID_RECORD, f"event: {message.said}")
                continue
            for event in message:
                try:
                    self._tasks.take_in(event, time.monotonic(), self._clock())
                except ValueError as error:
                    self.reject(RejectReason.INVALID_RECORD, f"event: {error}")
        self._tasks.judge(time.monotonic())

    def _expect_whole(self) -> None:
        """Raise where it is not known what runs."""
        if not self._tasks.has_heard:
            raise StoreError(
                StoreName.LEASES,
                f"no Celery worker is heard on {self._stream.channels}; start workers with -E, "
                f"and {_REMEDY}",
            )
        problem = self._tasks.problem(time.monotonic())
        if problem is not None:
            raise StoreError(StoreName.LEASES, problem)


class CeleryQueue(RedisRows):
    """All queues taken together. A message does not say since when it waits.

    Workers take more messages than they run, and keep them unacknowledged. Acknowledged late,
    those are in flight; else they still wait, and what runs is nowhere.
    """

    tells_only_of_now = True

    def __init__(self, config: RedisSource, clock: Clock) -> None:
        super().__init__(StoreName.QUEUE, config, clock)
        in_flight = ("in_flight",) if config.acks_late else ()
        self.columns = ("sampled_at", "depth", *in_flight)

    def rows(self, windows: Windows) -> Sequence[Row]:
        """Return one sample."""
        prefix = self._config.prefix
        lists = [
            f"{prefix}{queue}{priority}"
            for queue in self._config.queues
            for priority in _PRIORITIES
        ]
        *lengths, taken = self._database.ask_all(
            (*(("LLEN", key) for key in lists), ("HLEN", f"{prefix}unacked"))
        )
        depth = float(sum(lengths))
        if not depth and not taken:
            self._expect_signs(prefix)
        if self._config.acks_late:
            return [(windows.at, depth, float(taken))]
        return [(windows.at, depth + taken)]

    def _expect_signs(self, prefix: str) -> None:
        bindings = [f"{prefix}_kombu.binding.{queue}" for queue in self._config.queues]
        if not self._database.ask("EXISTS", *bindings):
            names = ", ".join(self._config.queues)
            raise self._database.missing(f"Celery's queue {names}", _REMEDY)
