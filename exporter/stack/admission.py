"""The admission queue: requests wait here for a worker of their pool, up to a cap."""

from orphanwatch.exporter.instants import Instant, seconds
from orphanwatch.exporter.stack.books import QueueState
from orphanwatch.exporter.stack.requests import Request


class AdmissionQueue:
    """First come, first served, within each pool."""

    def __init__(self, *, cap: int) -> None:
        self._cap = cap
        self._waiting: list[Request] = []

    def admit(self, request: Request) -> None:
        """Put a request at the end of the line, once for each worker that will decode it."""
        self._waiting += [request] * request.decoders

    def withdraw(self, task_id: str) -> bool:
        """Take out a request whose client left; returns whether it was still waiting."""
        before = len(self._waiting)
        self._waiting = [request for request in self._waiting if request.task_id != task_id]
        return len(self._waiting) < before

    def take(self, pool: str) -> Request | None:
        """Hand out the request of a pool that waited longest; None if there is none."""
        for position, request in enumerate(self._waiting):
            if request.pool == pool:
                return self._waiting.pop(position)
        return None

    def state(self, now: Instant, in_flight: int) -> QueueState:
        """Return depth, age and what is in flight; ``in_flight`` is what the workers hold."""
        oldest = min((request.submitted_at for request in self._waiting), default=now)
        return QueueState(len(self._waiting), seconds(now - oldest), in_flight, self._cap)
