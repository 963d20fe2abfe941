"""The gateway: takes requests in, notices clients that leave, and keeps the table of tasks."""

import heapq
from collections.abc import Iterable, Iterator

from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.stack.books import Books
from orphanwatch.exporter.stack.requests import Request


class Gateway:
    """Stands between the clients and the queue.

    A stream yields requests, first attempts in the order of their submission, a retry right
    after the attempt that it repeats.
    """

    def __init__(self, streams: Iterable[Iterator[Request]], books: Books) -> None:
        self._books = books
        self._coming: list[tuple[Instant, str, Request, Iterator[Request] | None]] = []
        self._waiting: dict[str, Request] = {}
        for stream in streams:
            self._draw(stream)

    def submissions(self, now: Instant) -> list[Request]:
        """Return the requests submitted up to now, and write them down as tasks."""
        submitted = []
        while self._coming and self._coming[0][0] <= now:
            _, _, request, stream = heapq.heappop(self._coming)
            submitted.append(request)
            self._waiting[request.task_id] = request
            self._books.submitted(request)
            if stream is not None:
                self._draw(stream)
        return submitted

    def departures(self, now: Instant) -> list[Request]:
        """Return the requests that nobody waits for any more since the last call.

        A client that left is written down at the moment it left; a deadline that passed
        needs no row of its own.
        """
        gone = []
        for request in list(self._waiting.values()):
            leaves_at = request.leaves_at
            if leaves_at is not None and leaves_at <= min(now, request.deadline_at):
                self._books.cancelled(request.task_id, leaves_at)
            elif request.deadline_at > now:
                continue
            del self._waiting[request.task_id]
            gone.append(request)
        return gone

    def finish(self, task_id: str, now: Instant) -> None:
        """Write down that an answer arrived, if its client is still there."""
        if self._waiting.pop(task_id, None) is not None:
            self._books.finished(task_id, now)

    def _draw(self, stream: Iterator[Request]) -> None:
        """Line up the stream's next first attempt, and the retry that lies before it."""
        for request in stream:
            is_first = request.attempt == 1
            entry = (request.submitted_at, request.task_id, request, stream if is_first else None)
            heapq.heappush(self._coming, entry)
            if is_first:
                return
