"""The whole stack: its parts, wired, and moved together by one step."""

from collections.abc import Iterable, Iterator, Sequence

from orphanwatch.exporter.instants import Instant, Micros
from orphanwatch.exporter.stack.admission import AdmissionQueue
from orphanwatch.exporter.stack.books import Books
from orphanwatch.exporter.stack.cancels import CancelChannel
from orphanwatch.exporter.stack.gateway import Gateway
from orphanwatch.exporter.stack.requests import Request
from orphanwatch.exporter.stack.workers import Crew, Workers


class Stack:
    """Gateway, queue and workers that write into one set of books."""

    def __init__(
        self,
        books: Books,
        start: Instant,
        streams: Iterable[Iterator[Request]],
        crews: Sequence[Crew],
        *,
        admission_cap: int,
        cancel_delays: Iterator[Micros],
        step: Micros,
    ) -> None:
        """Make a stack whose first step is the one at ``start``.

        ``cancel_delays`` never ends: it yields how long each cancel takes to a worker.
        """
        self._books = books
        self._step = step
        self._next = start
        self._gateway = Gateway(streams, books)
        self._queue = AdmissionQueue(cap=admission_cap)
        self.cancels = {crew.pool: CancelChannel(delays=cancel_delays) for crew in crews}
        """The hop of each pool that can be broken and mended."""
        self._pools = {crew.pool: Workers(crew, self.cancels[crew.pool], books) for crew in crews}

    def advance(self, to: Instant) -> None:
        """Move on to an instant, in steps, so that a late call leaves no gap in the rows."""
        while self._next <= to:
            self._move(self._next)
            self._next = Instant(self._next + self._step)

    def _move(self, now: Instant) -> None:
        """Do what every part does up to now, and let everybody see it at once."""
        for request in self._gateway.submissions(now):
            self._queue.admit(request)
        for request in self._gateway.departures(now):
            if not self._queue.withdraw(request.task_id):
                self.cancels[request.pool].send(request.task_id, now)
        for workers in self._pools.values():
            for task_id in workers.step(now, self._queue):
                self._gateway.finish(task_id, now)
        busy = sum(workers.busy for workers in self._pools.values())
        self._books.sampled(self._queue.state(now, busy), now)
        self._books.flush()
