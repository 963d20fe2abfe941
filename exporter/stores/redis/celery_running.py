"""What Celery's workers are at, pieced together from their events; pure but for a clock.

Nothing says what a worker was at before we listened. But each beat says at how many tasks it is:
where that is more than we saw begin, we don't know what runs, and say so until we do.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from orphanwatch.exporter.instants import SECOND, Instant, Micros, parse_instant
from orphanwatch.exporter.stores.redis.celery_events import Event

_ENDS: Final = frozenset(
    f"task-{how}" for how in ("succeeded", "failed", "retried", "revoked", "rejected", "cancelled")
)
_BEATS: Final = frozenset({"worker-online", "worker-heartbeat", "worker-offline"})
_HEEDED: Final = _BEATS | _ENDS | {"task-received", "task-started"}
"""What workers say; clients have events of their own."""

_SETTLED_SECONDS: Final = 0.3
"""Task events are sent a moment later than the beat that already counts them."""

_SILENT_SECONDS: Final = 30.0
"""A worker beats every 2 s: one that was silent for so long is at nothing any more."""

_FORGOTTEN_SECONDS: Final = 86400.0


class Running(NamedTuple):
    """One task that a worker is at."""

    task_id: str
    worker: str
    started_at: Instant
    beat_at: Instant | None
    """The worker's last beat since then."""


class _Beat(NamedTuple):
    """What one beat said, until the task events from before it have come."""

    heard: float
    at: Instant
    active: int
    processed: int


@dataclass
class _Worker:
    """One worker's process, which is another one once its pid is."""

    pid: object
    heard: float
    tasks: dict[str, Instant] = field(default_factory=dict)
    """When each started, by the worker's clock."""
    ended: list[tuple[Instant, Instant]] = field(default_factory=list)
    """Start and end of those that ended since the last beat that was judged."""
    beats: list[_Beat] = field(default_factory=list)
    """Those not judged yet."""
    beat_at: Instant | None = None
    ahead: int = 0
    """Microseconds by which its clock is ahead of ours, by its last beat and what that waited."""
    unseen: int | None = None
    """How many tasks it may be at which began before we listened; None before a first beat."""
    processed: int | None = None
    """How many it had begun at the first beat."""
    tells_tasks: bool = False
    is_mute: bool = False
    """It begins tasks and says nothing of them."""
    is_offline: bool = False


class RunningTasks:
    """The tasks that have begun and not ended, by worker."""

    def __init__(self, longest_skew: Micros) -> None:
        """``longest_skew`` is how far a worker's clock may be off ours."""
        self._longest_skew = longest_skew
        self._workers: dict[str, _Worker] = {}
        self.has_heard = False
        """Whether any worker was ever heard."""

    def take_in(self, event: Event, now: float, wall: Instant) -> None:
        """Take in one event, heard at a moment of a monotonic clock, and of the wall clock.

        Raises ``ValueError`` where it lacks what its type needs.
        """
        kind, name = event.get("type"), event.get("hostname")
        if kind not in _HEEDED:
            return
        if not isinstance(name, str):
            raise ValueError("names no worker")  # noqa: TRY004  (one kind to catch)
        at = parse_instant(event.get("timestamp"))
        worker = self._worker(name, event.get("pid"), now)
        if kind in _BEATS:
            _take_beat(worker, event, at, now)
            worker.ahead = at - wall
        else:
            _follow(worker, kind, event.get("uuid"), at)

    def judge(self, now: float) -> None:
        """Judge the beats whose task events have come by now, and forget who has long gone."""
        for worker in self._workers.values():
            while worker.beats and now - worker.beats[0].heard >= _SETTLED_SECONDS:
                _judge(worker, worker.beats.pop(0))
        self._workers = {
            name: worker
            for name, worker in self._workers.items()
            if now - worker.heard < _FORGOTTEN_SECONDS
        }

    def running(self) -> Iterator[Running]:
        """Yield the tasks; those of a worker that fell silent keep its last beat."""
        for name, worker in self._workers.items():
            for task_id, started in worker.tasks.items():
                beat = worker.beat_at
                is_of_task = beat is not None and beat >= started
                yield Running(task_id, name, started, beat if is_of_task else None)

    def problem(self, now: float) -> str | None:
        """Return why it is not known what runs, None where it is."""
        heard = {
            name: worker
            for name, worker in self._workers.items()
            if now - worker.heard < _SILENT_SECONDS and not worker.is_offline
        }
        for name, worker in heard.items():
            if worker.is_mute:
                return f"Celery's worker {name} sends no events of its tasks; start it with -E"
            if worker.unseen is None and not worker.beats:
                return (
                    f"Celery's worker {name} has not beaten yet; it must run without "
                    "--without-heartbeat, and beat every 2 s"
                )
            if abs(worker.ahead) > self._longest_skew:
                return (
                    f"the clock of Celery's worker {name} is {worker.ahead / SECOND:+.0f} s off "
                    "ours, so that nothing tells whether it is alive; set both by NTP"
                )
        unseen = sum(worker.unseen or 0 for worker in heard.values())
        if unseen or any(worker.unseen is None for worker in heard.values()):
            return (
                f"{unseen or 'some'} of Celery's tasks began before we listened, and what they are "
                "is not known until they end; with acks_late in Celery, set it here too"
            )
        return None

    def _worker(self, name: str, pid: object, now: float) -> _Worker:
        self.has_heard = True
        worker = self._workers.get(name)
        if worker is None or (pid is not None and worker.pid != pid):
            # Another process under the same name is not at what the last one was at.
            worker = self._workers[name] = _Worker(pid, now)
        worker.heard = now
        return worker


def _take_beat(worker: _Worker, event: Event, at: Instant, now: float) -> None:
    active, processed = event.get("active"), event.get("processed")
    if not (isinstance(active, int) and isinstance(processed, int)):
        raise ValueError("counts no tasks")  # noqa: TRY004  (one kind to catch)
    worker.beat_at = at
    worker.is_offline = event["type"] == "worker-offline"
    worker.beats.append(_Beat(now, at, active, processed))
    if not active:
        worker.unseen = 0


def _follow(worker: _Worker, kind: object, task_id: object, at: Instant) -> None:
    if not isinstance(task_id, str):
        raise ValueError("names no task")  # noqa: TRY004  (one kind to catch)
    worker.tells_tasks, worker.is_mute = True, False
    if kind == "task-started":
        worker.tasks[task_id] = at
    elif kind in _ENDS and task_id in worker.tasks:
        worker.ended.append((worker.tasks.pop(task_id), at))


def _judge(worker: _Worker, beat: _Beat) -> None:
    """Compare what a beat counted with what we saw by then."""
    known = sum(started <= beat.at for started in worker.tasks.values())
    known += sum(started <= beat.at < ended for started, ended in worker.ended)
    worker.ended = [pair for pair in worker.ended if pair[1] > beat.at]
    unseen = max(0, beat.active - known)
    # Never more than before: what begins while we listen is seen.
    worker.unseen = unseen if worker.unseen is None else min(worker.unseen, unseen)
    if not beat.active:
        # Some ends are told by no event.
        worker.tasks = {it: start for it, start in worker.tasks.items() if start >= beat.at}
    if worker.processed is None:
        worker.processed = beat.processed
    worker.is_mute = beat.processed > worker.processed and not worker.tells_tasks
