"""Workers: claim a task with a lease, decode, charge, beat, and stop when a cancel reaches them."""

from collections.abc import Iterator
from dataclasses import dataclass

from orphanwatch.exporter.instants import SECOND, Instant, Micros
from orphanwatch.exporter.stack.admission import AdmissionQueue
from orphanwatch.exporter.stack.books import Books, Charge
from orphanwatch.exporter.stack.cancels import CancelChannel
from orphanwatch.exporter.stack.requests import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """What the workers of one pool are like. ``size`` is also the pool's cap on leases."""

    pool: str
    size: int
    heartbeat: Micros
    tokens_per_second: int
    prefix: str = ""
    """What its workers' names begin with."""
    first_beats: tuple[Micros, ...] = ()
    """How long after it took a task each worker beats first; all others after one heartbeat."""
    hears_at_heartbeats: bool = False
    """A cancel waits for the worker's next heartbeat."""
    charges_workers: bool = False
    """Tokens are charged to the worker instead of the task."""


@dataclass(slots=True, kw_only=True)
class _Work:
    """A task in a worker's hands."""

    worker_id: str
    request: Request
    acquired_at: Instant
    beats_at: Instant
    """When its next heartbeat is due."""
    is_second: bool
    """Another worker had it already: this one is nobody's, and hears of no cancel."""
    decoded: int = 0
    has_read_prompt: bool = False
    is_cancelled: bool = False

    @property
    def total(self) -> int:
        """All tokens spent so far."""
        return self.decoded + (self.request.prompt_tokens if self.has_read_prompt else 0)


class Workers:
    """The workers of one pool, each with at most one task."""

    def __init__(self, crew: Crew, cancels: CancelChannel, books: Books) -> None:
        self._crew = crew
        self._cancels = cancels
        self._books = books
        self._hands: dict[str, _Work | None] = {
            f"{crew.prefix}{crew.pool}-worker-{number}": None for number in range(1, crew.size + 1)
        }
        self._first_beats = dict(zip(self._hands, crew.first_beats, strict=False))

    @property
    def busy(self) -> int:
        """How many tasks are being decoded."""
        return sum(1 for _ in self._at_work())

    def held(self) -> frozenset[str]:
        """Return the tasks in any worker's hands."""
        return frozenset(work.request.task_id for work in self._at_work())

    def step(self, now: Instant, queue: AdmissionQueue) -> list[str]:
        """Do all work up to now; returns the tasks whose answers are complete."""
        cancelled = self._cancels.arrived(now)
        finished = []
        for worker_id, work in self._hands.items():
            if work is None:
                self._claim(worker_id, now, queue)
                continue
            self._decode(work, now)
            if work.decoded == work.request.tokens:
                finished.append(work.request.task_id)
                self._release(work, now)
                continue
            work.is_cancelled |= work.request.task_id in cancelled and not work.is_second
            self._listen(work, now)
        return finished

    def _claim(self, worker_id: str, now: Instant, queue: AdmissionQueue) -> None:
        request = queue.take(self._crew.pool)
        if request is None:
            return
        is_second = request.task_id in self.held()
        work = _Work(
            worker_id=worker_id,
            request=request,
            acquired_at=now,
            beats_at=Instant(now + self._first_beats.get(worker_id, self._crew.heartbeat)),
            is_second=is_second,
        )
        self._hands[worker_id] = work
        self._books.acquired(request.task_id, worker_id, self._crew.pool, now)
        self._decode(work, now)

    def _listen(self, work: _Work, now: Instant) -> None:
        """Beat when it is time, and let go where a cancel was heard."""
        is_time = now >= work.beats_at
        if work.is_cancelled and (is_time or not self._crew.hears_at_heartbeats):
            self._release(work, now)
        elif is_time:
            work.beats_at = Instant(now + self._crew.heartbeat)
            self._books.beat(work.request.task_id, work.worker_id, now)

    def _decode(self, work: _Work, now: Instant) -> None:
        request, rate = work.request, self._crew.tokens_per_second
        decoded = min(request.tokens, (now - work.acquired_at) * rate // SECOND)
        prompt = 0 if work.has_read_prompt else request.prompt_tokens
        tokens = decoded - work.decoded + prompt
        work.decoded, work.has_read_prompt = decoded, True
        if tokens > 0:
            key = work.worker_id if self._crew.charges_workers else request.task_id
            charge = Charge(
                key=key,
                worker_id=work.worker_id,
                tokens=tokens,
                prompt_tokens=prompt,
                total=work.total,
                started_at=work.acquired_at,
                at=now,
            )
            self._books.charged(charge)

    def _release(self, work: _Work, now: Instant) -> None:
        self._books.released(work.request.task_id, work.worker_id, now)
        self._hands[work.worker_id] = None

    def _at_work(self) -> Iterator[_Work]:
        return (work for work in self._hands.values() if work is not None)
