"""The whole stack: its parts, wired, and moved together by one step."""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection, Engine, delete, or_

from orphanwatch.exporter.demo.admission import AdmissionQueue
from orphanwatch.exporter.demo.cancels import CancelChannel
from orphanwatch.exporter.demo.gateway import Gateway
from orphanwatch.exporter.demo.tables import LEASES, LEDGER, QUEUE, TASKS
from orphanwatch.exporter.demo.traffic import Clients, Habit
from orphanwatch.exporter.demo.workers import Crew, Workers
from orphanwatch.exporter.instants import Instant, Micros, micros, seconds

PAID: Final = "paid"
OVERFLOW: Final = "overflow"

CREWS: Final = (
    Crew(pool=PAID, size=2, heartbeat=micros(2), tokens_per_second=40),
    Crew(pool=OVERFLOW, size=10, heartbeat=micros(4), tokens_per_second=40),
)

# Most overflow clients leave early. Once their cancels get lost, the pool still has workers to
# spare, so that the queue stays calm while the spend climbs: the picture that misleads.
CLIENTS: Final = (
    Clients(
        pool=PAID,
        every=micros(3),
        deadline=micros(12),
        patience=micros(2),
        pause=micros(2),
        tokens=240,
        habits=(Habit.STAYS, Habit.STAYS, Habit.STAYS, Habit.LEAVES),
    ),
    Clients(
        pool=OVERFLOW,
        every=micros(2),
        deadline=micros(30),
        patience=micros(3.5),
        pause=micros(2),
        tokens=400,
        habits=(Habit.LEAVES, Habit.STAYS, Habit.LEAVES, Habit.LEAVES, Habit.RETRIES),
    ),
)

STEP: Final = micros(0.2)
"""How finely the stack moves: fine enough that a delivered cancel stays far below the grace."""

_CANCEL_DELAY: Final = micros(0.2)
_ADMISSION_CAP: Final = 32
_KEEP: Final = micros(900)
_TIDY_EVERY: Final = micros(60)


class Stack:
    """Gateway, queue and workers on one database."""

    def __init__(
        self,
        engine: Engine,
        start: Instant,
        *,
        clients: Sequence[Clients] = CLIENTS,
        crews: Sequence[Crew] = CREWS,
        keep: Micros = _KEEP,
    ) -> None:
        self._engine = engine
        self._keep = keep
        self._now = start
        self._tidied_at = start
        self._gateway = Gateway(stream.requests(start) for stream in clients)
        self._queue = AdmissionQueue(cap=_ADMISSION_CAP)
        self.cancels = {crew.pool: CancelChannel(delay=_CANCEL_DELAY) for crew in crews}
        """The hop of each pool that can be broken and mended."""
        self._pools = {crew.pool: Workers(crew, self.cancels[crew.pool]) for crew in crews}

    def advance(self, to: Instant) -> None:
        """Move on to an instant, in steps, so that a late call leaves no gap in the rows."""
        while self._now + STEP <= to:
            self._now = Instant(self._now + STEP)
            with self._engine.begin() as connection:
                self.step(self._now, connection)

    def step(self, now: Instant, connection: Connection) -> None:
        """Do what every part does up to now, as one transaction."""
        for request in self._gateway.submissions(now, connection):
            self._queue.admit(request)
        for request in self._gateway.departures(now, connection):
            if not self._queue.withdraw(request.task_id):
                self.cancels[request.pool].send(request.task_id, now)
        for workers in self._pools.values():
            for task_id in workers.step(now, self._queue, connection):
                self._gateway.finish(task_id, now, connection)
        busy = sum(workers.busy for workers in self._pools.values())
        self._queue.sample(now, busy, connection)
        self._tidy(now, connection)

    def _tidy(self, now: Instant, connection: Connection) -> None:
        """Forget, now and then, what is older than anybody asks for: a demo may run for days."""
        if now - self._tidied_at < _TIDY_EVERY:
            return
        self._tidied_at = now
        before = seconds(now - self._keep)
        ended = or_(TASKS.c.finished_at < before, TASKS.c.cancelled_at < before)
        connection.execute(delete(TASKS).where(ended))
        connection.execute(delete(LEASES).where(LEASES.c.released_at < before))
        connection.execute(delete(LEDGER).where(LEDGER.c.charged_at < before))
        connection.execute(delete(QUEUE).where(QUEUE.c.sampled_at < before))
