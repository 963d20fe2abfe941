"""The gateway: takes requests in, notices clients that leave, and keeps the table of tasks."""

import heapq
from collections.abc import Iterable, Iterator

from sqlalchemy import Connection, insert, update

from orphanwatch.exporter.demo.tables import TASKS
from orphanwatch.exporter.demo.traffic import Request
from orphanwatch.exporter.instants import Instant, seconds


class Gateway:
    """Stands between the clients and the queue."""

    def __init__(self, streams: Iterable[Iterator[Request]]) -> None:
        self._streams = tuple(streams)
        self._coming: list[tuple[Instant, str, Request, Iterator[Request] | None]] = []
        self._waiting: dict[str, Request] = {}
        for stream in self._streams:
            self._draw(stream)

    def submissions(self, now: Instant, connection: Connection) -> list[Request]:
        """Return the requests submitted up to now, and write them down as tasks."""
        submitted = []
        while self._coming and self._coming[0][0] <= now:
            _, _, request, stream = heapq.heappop(self._coming)
            submitted.append(request)
            self._waiting[request.task_id] = request
            if stream is not None:
                self._draw(stream)
        if submitted:
            connection.execute(insert(TASKS), [_row(request) for request in submitted])
        return submitted

    def departures(self, now: Instant, connection: Connection) -> list[Request]:
        """Return the requests that nobody waits for any more since the last call.

        A client that left is written down at the moment it left; a deadline that passed
        needs no row of its own.
        """
        gone = []
        for request in list(self._waiting.values()):
            leaves_at = request.leaves_at
            if leaves_at is not None and leaves_at <= min(now, request.deadline_at):
                self._write(connection, request.task_id, cancelled_at=seconds(leaves_at))
            elif request.deadline_at > now:
                continue
            del self._waiting[request.task_id]
            gone.append(request)
        return gone

    def finish(self, task_id: str, now: Instant, connection: Connection) -> None:
        """Write down that an answer arrived, if its client is still there."""
        if self._waiting.pop(task_id, None) is not None:
            self._write(connection, task_id, finished_at=seconds(now), outcome="ok")

    def _draw(self, stream: Iterator[Request]) -> None:
        """Line up the stream's next first attempt, and the retry that lies before it."""
        for request in stream:
            is_first = request.attempt == 1
            entry = (request.submitted_at, request.task_id, request, stream if is_first else None)
            heapq.heappush(self._coming, entry)
            if is_first:
                return

    @staticmethod
    def _write(connection: Connection, task_id: str, **values: float | str) -> None:
        connection.execute(update(TASKS).where(TASKS.c.task_id == task_id).values(**values))


def _row(request: Request) -> dict[str, object]:
    return {
        "task_id": request.task_id,
        "retry_id": request.retry_id,
        "attempt": request.attempt,
        "pool": request.pool,
        "submitted_at": seconds(request.submitted_at),
        "deadline_at": seconds(request.deadline_at),
        "cancellable": True,
    }
