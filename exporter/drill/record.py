"""What really happened in a drill: its own truth, kept beside the books that it writes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from orphanwatch.exporter.instants import Instant, Micros
from orphanwatch.exporter.stack.books import Books, Charge, QueueState
from orphanwatch.exporter.stack.requests import Request


@dataclass(slots=True)
class Held:
    """One lease, as it really was."""

    task_id: str
    worker_id: str
    acquired_at: Instant
    beat_at: Instant
    released_at: Instant | None = None


@dataclass(slots=True)
class Record:
    """Everything that a stack did, in order, and forwarded to the books behind.

    What a ledger and a lease store can't tell, the exporter can't know: a record of theirs says
    so, and a record of what really was leaves the defaults.
    """

    books: Books
    shape: Literal["increments", "cumulative", "final"] = "increments"
    """What a charge is: tokens as they are spent, or the one row at the end of a lease."""
    states_starts: bool = True
    states_prompts: bool = True
    states_acquisitions: bool = True
    states_beats: bool = True
    requests: dict[str, Request] = field(default_factory=dict)
    cancelled_at: dict[str, Instant] = field(default_factory=dict)
    finished_at: dict[str, Instant] = field(default_factory=dict)
    leases: list[Held] = field(default_factory=list)
    charges: list[tuple[str, Charge]] = field(default_factory=list)
    """Each with the task that the tokens were really spent on."""

    def submitted(self, request: Request) -> None:
        """Note a request."""
        self.requests[request.task_id] = request
        self.books.submitted(request)

    def cancelled(self, task_id: str, at: Instant) -> None:
        """Note a client that left."""
        self.cancelled_at[task_id] = at
        self.books.cancelled(task_id, at)

    def finished(self, task_id: str, at: Instant) -> None:
        """Note an answer that arrived."""
        self.finished_at[task_id] = at
        self.books.finished(task_id, at)

    def acquired(self, task_id: str, worker_id: str, pool: str, at: Instant) -> None:
        """Note a lease."""
        self.leases.append(Held(task_id, worker_id, at, at))
        self.books.acquired(task_id, worker_id, pool, at)

    def beat(self, task_id: str, worker_id: str, at: Instant) -> None:
        """Note a heartbeat."""
        self._held(task_id, worker_id).beat_at = at
        self.books.beat(task_id, worker_id, at)

    def released(self, task_id: str, worker_id: str, at: Instant) -> None:
        """Note the end of a lease."""
        self._held(task_id, worker_id).released_at = at
        self.books.released(task_id, worker_id, at)

    def charged(self, charge: Charge) -> None:
        """Note tokens, under the task that they were really spent on."""
        self.charges.append((self._task_of(charge), charge))
        self.books.charged(charge)

    def sampled(self, queue: QueueState, at: Instant) -> None:
        """Pass it on."""
        self.books.sampled(queue, at)

    def flush(self) -> None:
        """Pass it on."""
        self.books.flush()

    def decoded(self, task_id: str, until: Instant) -> int:
        """Return the tokens decoded for a task up to an instant, its prompt left out."""
        return sum(
            charge.tokens - charge.prompt_tokens
            for of, charge in self.charges
            if of == task_id and charge.at <= until
        )

    def leases_of(self, task_id: str) -> Sequence[Held]:
        """Return the leases of a task."""
        return [lease for lease in self.leases if lease.task_id == task_id]

    def propagation(self, task_id: str) -> Micros | None:
        """Return how long its cancel took to stop a task; None while it is open, or has none."""
        cancelled, leases = self.cancelled_at.get(task_id), self.leases_of(task_id)
        if cancelled is None or not leases:
            return None
        signs = [lease.released_at for lease in leases]
        if any(sign is None for sign in signs):
            return None
        last = max(sign for sign in signs if sign is not None)
        return Micros(max(0, last - cancelled))

    def _held(self, task_id: str, worker_id: str) -> Held:
        return next(
            lease
            for lease in reversed(self.leases)
            if lease.task_id == task_id and lease.worker_id == worker_id
        )

    def _task_of(self, charge: Charge) -> str:
        return next(
            lease.task_id for lease in reversed(self.leases) if lease.worker_id == charge.worker_id
        )
