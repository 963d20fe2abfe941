"""What the stores keep of what happens: instants as their columns hold them, rows as they land.

It stands between a stack and the books. Behind it is a second record: what the exporter can know.
"""

from dataclasses import replace

from orphanwatch.exporter.drill.books import StoreBooks
from orphanwatch.exporter.drill.record import Record
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stack.books import Charge, QueueState
from orphanwatch.exporter.stack.requests import Request


class Kept:
    """Passes on what happens as the stores will tell it again; ``record`` notes that."""

    def __init__(self, books: StoreBooks) -> None:
        self._stores = books
        self._is_final = books.shape == "final"
        self._spent: dict[str, Charge] = {}
        self.record = Record(
            books,
            shape=books.shape,
            states_starts=books.states(StoreName.LEDGER, "started_at"),
            states_prompts=books.states(StoreName.LEDGER, "prompt_tokens"),
            states_acquisitions=books.states(StoreName.LEASES, "acquired_at"),
            states_beats=books.states(StoreName.LEASES, "heartbeat_at"),
        )

    def submitted(self, request: Request) -> None:
        """Pass it on."""
        kept = replace(
            request,
            submitted_at=self._kept(StoreName.GATEWAY, "submitted_at", request.submitted_at),
            deadline_at=self._kept(StoreName.GATEWAY, "deadline_at", request.deadline_at),
        )
        self.record.submitted(kept)

    def cancelled(self, task_id: str, at: Instant) -> None:
        """Pass it on."""
        self.record.cancelled(task_id, self._kept(StoreName.GATEWAY, "cancelled_at", at))

    def finished(self, task_id: str, at: Instant) -> None:
        """Pass it on."""
        self.record.finished(task_id, self._kept(StoreName.GATEWAY, "finished_at", at))

    def acquired(self, task_id: str, worker_id: str, pool: str, at: Instant) -> None:
        """Pass it on."""
        acquired = self._kept(StoreName.LEASES, "acquired_at", at)
        self.record.acquired(task_id, worker_id, pool, acquired)

    def beat(self, task_id: str, worker_id: str, at: Instant) -> None:
        """Pass it on."""
        self.record.beat(task_id, worker_id, self._kept(StoreName.LEASES, "heartbeat_at", at))

    def released(self, task_id: str, worker_id: str, at: Instant) -> None:
        """Pass it on; a ``final`` ledger gets its row now."""
        spent = self._spent.pop(worker_id, None)
        if spent is not None:
            self._land(spent._replace(at=at))
        released = self._kept(StoreName.LEASES, "released_at", at)
        self.record.released(task_id, worker_id, released)

    def charged(self, charge: Charge) -> None:
        """Pass it on, or keep it for the one row of a ``final`` ledger."""
        if not self._is_final:
            self._land(charge)
            return
        before = self._spent.get(charge.worker_id)
        prompt = charge.prompt_tokens + (before.prompt_tokens if before is not None else 0)
        self._spent[charge.worker_id] = charge._replace(tokens=charge.total, prompt_tokens=prompt)

    def sampled(self, queue: QueueState, at: Instant) -> None:
        """Pass it on."""
        self.record.sampled(queue, self._kept(StoreName.QUEUE, "sampled_at", at))

    def flush(self) -> None:
        """Pass it on."""
        self.record.flush()

    def drain(self, at: Instant) -> None:
        """Let every worker go: the rows of a ``final`` ledger land with the end of a lease."""
        for lease in self.record.leases:
            if lease.released_at is None:
                self.released(lease.task_id, lease.worker_id, at)
        self.flush()

    def _land(self, charge: Charge) -> None:
        kept = charge._replace(
            at=self._kept(StoreName.LEDGER, "charged_at", charge.at),
            started_at=self._kept(StoreName.LEDGER, "started_at", charge.started_at),
        )
        self.record.charged(kept)

    def _kept(self, store: StoreName, name: str, at: Instant) -> Instant:
        return self._stores.kept(store, name, at)
