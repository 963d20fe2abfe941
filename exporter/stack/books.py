"""Where a stack writes what happens: the seam to the stores."""

from typing import NamedTuple, Protocol

from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.stack.requests import Request


class QueueState(NamedTuple):
    """What the admission queue looks like at a moment."""

    depth: int
    age_seconds: float
    in_flight: int
    admission_cap: int


class Books(Protocol):
    """Gateway, leases, ledger and queue, as a stack writes them.

    Everything up to ``flush`` becomes visible with it. What can't be written raises the store's
    own error.
    """

    def submitted(self, request: Request) -> None:
        """Write down that a request came."""
        ...

    def cancelled(self, task_id: str, at: Instant) -> None:
        """Write down that its client left."""
        ...

    def finished(self, task_id: str, at: Instant) -> None:
        """Write down that its answer arrived in full."""
        ...

    def acquired(self, task_id: str, worker_id: str, pool: str, at: Instant) -> None:
        """Write down that a worker took it."""
        ...

    def beat(self, task_id: str, worker_id: str, at: Instant) -> None:
        """Write down that the worker still has it."""
        ...

    def released(self, task_id: str, worker_id: str, at: Instant) -> None:
        """Write down that the worker let go of it."""
        ...

    def charged(self, charge: "Charge") -> None:
        """Write down tokens."""
        ...

    def sampled(self, queue: QueueState, at: Instant) -> None:
        """Write down what the queue looks like."""
        ...

    def flush(self) -> None:
        """Let everybody see what was written."""
        ...


class Charge(NamedTuple):
    """Tokens that a worker spent on a task since its last charge."""

    key: str
    """What the ledger is told: the task's id, unless something is wrong."""
    worker_id: str
    """Who spent them."""
    tokens: int
    prompt_tokens: int
    """Those of ``tokens`` that were spent on reading the prompt."""
    total: int
    """All tokens of this worker's lease so far."""
    started_at: Instant
    at: Instant
