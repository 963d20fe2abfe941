"""Workers: claim a task with a lease, decode, charge, beat, and stop when a cancel reaches them."""

from dataclasses import dataclass

from sqlalchemy import Connection, insert, update

from orphanwatch.exporter.demo.admission import AdmissionQueue
from orphanwatch.exporter.demo.cancels import CancelChannel
from orphanwatch.exporter.demo.ledger import charge
from orphanwatch.exporter.demo.tables import LEASES
from orphanwatch.exporter.demo.traffic import Request
from orphanwatch.exporter.instants import SECOND, Instant, Micros, seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """What the workers of one pool are like. ``size`` is also the pool's cap on leases."""

    pool: str
    size: int
    heartbeat: Micros
    tokens_per_second: int


@dataclass(slots=True, kw_only=True)
class _Work:
    """A task in a worker's hands."""

    request: Request
    acquired_at: Instant
    beat_at: Instant
    charged: int = 0


class Workers:
    """The workers of one pool, each with at most one task."""

    def __init__(self, crew: Crew, cancels: CancelChannel) -> None:
        self._crew = crew
        self._cancels = cancels
        self._hands: dict[str, _Work | None] = {
            f"{crew.pool}-worker-{number}": None for number in range(1, crew.size + 1)
        }

    @property
    def busy(self) -> int:
        """How many tasks are being decoded."""
        return sum(work is not None for work in self._hands.values())

    def step(self, now: Instant, queue: AdmissionQueue, connection: Connection) -> list[str]:
        """Do all work up to now; returns the tasks whose answers are complete."""
        cancelled = self._cancels.arrived(now)
        finished = []
        for worker, work in self._hands.items():
            if work is None:
                self._claim(worker, now, queue, connection)
                continue
            self._decode(work, now, connection)
            is_done = work.charged == work.request.tokens
            if is_done:
                finished.append(work.request.task_id)
            if is_done or work.request.task_id in cancelled:
                self._release(worker, work, now, connection)
            elif now - work.beat_at >= self._crew.heartbeat:
                work.beat_at = now
                self._write(work, connection, heartbeat_at=seconds(now))
        return finished

    def _claim(
        self, worker: str, now: Instant, queue: AdmissionQueue, connection: Connection
    ) -> None:
        request = queue.take(self._crew.pool)
        if request is None:
            return
        self._hands[worker] = _Work(request=request, acquired_at=now, beat_at=now)
        connection.execute(
            insert(LEASES).values(
                task_id=request.task_id,
                worker_id=worker,
                pool=self._crew.pool,
                acquired_at=seconds(now),
                heartbeat_at=seconds(now),
            )
        )

    def _decode(self, work: _Work, now: Instant, connection: Connection) -> None:
        rate = self._crew.tokens_per_second
        decoded = min(work.request.tokens, (now - work.acquired_at) * rate // SECOND)
        charge(work.request.task_id, decoded - work.charged, now, connection)
        work.charged = decoded

    def _release(self, worker: str, work: _Work, now: Instant, connection: Connection) -> None:
        self._write(work, connection, released_at=seconds(now))
        self._hands[worker] = None

    @staticmethod
    def _write(work: _Work, connection: Connection, **values: float) -> None:
        held = LEASES.c.task_id == work.request.task_id
        connection.execute(update(LEASES).where(held).values(**values))
