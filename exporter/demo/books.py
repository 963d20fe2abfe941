"""The demo's books: the four tables of the embedded default, one transaction a step."""

from contextlib import ExitStack
from typing import Final

from sqlalchemy import Connection, Engine, Table, and_, delete, insert, or_, update

from orphanwatch.exporter.demo.tables import LEASES, LEDGER, QUEUE, TASKS
from orphanwatch.exporter.instants import Instant, Micros, micros, seconds
from orphanwatch.exporter.stack.books import Charge, QueueState
from orphanwatch.exporter.stack.requests import Request

_TIDY_EVERY: Final = micros(60)


class TableBooks:
    """Writes into a database, and forgets now and then what is older than ``keep``."""

    def __init__(self, engine: Engine, start: Instant, keep: Micros) -> None:
        self._engine = engine
        self._keep = keep
        self._tidied_at = start
        self._step = ExitStack()
        self._open: Connection | None = None

    def submitted(self, request: Request) -> None:
        """Add a task."""
        self._add(
            TASKS,
            task_id=request.task_id,
            retry_id=request.retry_id,
            attempt=request.attempt,
            pool=request.pool,
            submitted_at=seconds(request.submitted_at),
            deadline_at=seconds(request.deadline_at),
            cancellable=True,
        )

    def cancelled(self, task_id: str, at: Instant) -> None:
        """Stamp a task."""
        self._stamp(TASKS, task_id, cancelled_at=seconds(at))

    def finished(self, task_id: str, at: Instant) -> None:
        """Stamp a task."""
        self._stamp(TASKS, task_id, finished_at=seconds(at), outcome="ok")

    def acquired(self, task_id: str, worker_id: str, pool: str, at: Instant) -> None:
        """Add a lease."""
        self._add(
            LEASES,
            task_id=task_id,
            worker_id=worker_id,
            pool=pool,
            acquired_at=seconds(at),
            heartbeat_at=seconds(at),
        )

    def beat(self, task_id: str, worker_id: str, at: Instant) -> None:
        """Stamp a lease."""
        self._stamp(LEASES, task_id, worker_id, heartbeat_at=seconds(at))

    def released(self, task_id: str, worker_id: str, at: Instant) -> None:
        """Stamp a lease."""
        self._stamp(LEASES, task_id, worker_id, released_at=seconds(at))

    def charged(self, charge: Charge) -> None:
        """Add a charge."""
        self._add(LEDGER, task_id=charge.key, tokens=charge.tokens, charged_at=seconds(charge.at))

    def sampled(self, queue: QueueState, at: Instant) -> None:
        """Add a sample."""
        self._add(QUEUE, sampled_at=seconds(at), **queue._asdict())
        if at - self._tidied_at >= _TIDY_EVERY:
            self._tidied_at = at
            self._tidy(seconds(at - self._keep))

    def flush(self) -> None:
        """Commit the step."""
        self._open = None
        self._step.close()

    @property
    def _connection(self) -> Connection:
        if self._open is None:
            self._open = self._step.enter_context(self._engine.begin())
        return self._open

    def _add(self, table: Table, **values: object) -> None:
        self._connection.execute(insert(table).values(**values))

    def _stamp(
        self, table: Table, task_id: str, worker_id: str | None = None, **values: object
    ) -> None:
        of = table.c.task_id == task_id
        if worker_id is not None:
            of = and_(of, table.c.worker_id == worker_id)
        self._connection.execute(update(table).where(of).values(**values))

    def _tidy(self, before: float) -> None:
        ended = or_(TASKS.c.finished_at < before, TASKS.c.cancelled_at < before)
        self._connection.execute(delete(TASKS).where(ended))
        self._connection.execute(delete(LEASES).where(LEASES.c.released_at < before))
        self._connection.execute(delete(LEDGER).where(LEDGER.c.charged_at < before))
        self._connection.execute(delete(QUEUE).where(QUEUE.c.sampled_at < before))
