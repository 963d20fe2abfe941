"""When nobody waits for a task any more, and from when on its work is orphan.

Pure functions from facts to the words of the contract (section 2): stop, pool, cutoff, cause.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import Instant, Micros
from orphanwatch.exporter.model import Completion, Lease, Stop, Task
from orphanwatch.exporter.names import Cause

# On a tie the first of these is the cause.
_ORDER: Final = (Cause.CLIENT_CANCEL, Cause.DEADLINE, Cause.SIBLING_COMPLETED)

Completions = Mapping[str, Sequence[Completion]]
"""The completions of each request, by retry id."""


def cancel_of(task: Task, at: Instant) -> Instant | None:
    """Return the client's cancel that binds the task; one before its submission does not."""
    cancelled = task.cancelled_at
    if cancelled is None or cancelled > at:
        return None
    if task.submitted_at is not None and cancelled < task.submitted_at:
        return None
    return cancelled


def finish_of(task: Task, at: Instant) -> Instant | None:
    """Return when the task finished, None where it has not by now."""
    return None if task.finished_at is None or task.finished_at > at else task.finished_at


def completion_of(task: Task, at: Instant) -> Completion | None:
    """Return the task's completion: ok, before any cancel of its own, not after its deadline."""
    finished = finish_of(task, at)
    if finished is None or not task.ok or task.retry_id is None:
        return None
    cancelled = cancel_of(task, at)
    if cancelled is not None and cancelled <= finished:
        return None
    if task.deadline_at is not None and finished > task.deadline_at:
        return None
    return Completion(task.retry_id, task.task_id, finished)


def completions_of(tasks: Iterable[Task], at: Instant) -> dict[str, list[Completion]]:
    """Return the completions among tasks, by retry id."""
    found: dict[str, list[Completion]] = {}
    for task in tasks:
        if task.retry_id is not None and (completion := completion_of(task, at)) is not None:
            found.setdefault(task.retry_id, []).append(completion)
    return found


def stop_of(
    task: Task, completions: Completions, *, deadline_stops: bool, at: Instant
) -> Stop | None:
    """Return the moment since when nobody waits for the task, None while somebody does.

    A task that finished before that moment has no stop; nor has one that finished at it, unless
    it was the client who left then.
    """
    stops: list[tuple[Instant, int]] = []
    if (cancelled := cancel_of(task, at)) is not None:
        stops.append((cancelled, 0))
    if deadline_stops and task.deadline_at is not None and task.deadline_at <= at:
        stops.append((task.deadline_at, 1))
    if task.retry_id is not None and task.retry_id in completions:
        stops += [
            (sibling.finished_at, 2)
            for sibling in completions[task.retry_id]
            if _binds(sibling, task)
        ]
    if not stops:
        return None
    moment, rank = min(stops)
    finished = finish_of(task, at)
    if finished is not None and (finished < moment or (finished == moment and rank > 0)):
        return None
    return Stop(moment, _ORDER[rank])


def _binds(sibling: Completion, task: Task) -> bool:
    if sibling.task_id is not None and sibling.task_id == task.task_id:
        return False
    return task.submitted_at is None or sibling.finished_at > task.submitted_at


def first_lease(leases: Iterable[Lease]) -> Lease | None:
    """Return the lease acquired earliest, None where there is none."""
    return min(leases, key=_order, default=None)


def _order(lease: Lease) -> tuple[bool, int, str]:
    acquired = lease.acquired_at
    return (acquired is None, acquired or 0, lease.worker_id or "")


def age_of(lease: Lease, at: Instant) -> Micros:
    """Return the time since the last heartbeat, or acquisition before the first; never negative."""
    sign = lease.heartbeat_at if lease.heartbeat_at is not None else lease.acquired_at
    return Micros(max(0, at - sign)) if sign is not None else Micros(0)


def is_live(lease: Lease, config: Config, *, beats: bool, at: Instant) -> bool:
    """Return whether an acquired lease is alive: not released, its worker not silent for long.

    Without ``beats`` its store states no heartbeats, and it lives until release.
    """
    store = config.stores.leases
    if lease.released_at is not None or store is None:
        return False
    return not beats or age_of(lease, at) <= store.lease_ttl


def pool_of(task: Task | None, leases: Sequence[Lease], config: Config) -> str:
    """Return the pool label of a task: its own, else its first lease's, else ``other``."""
    if task is not None and task.pool is not None:
        return config.label(task.pool)
    first = leases[0] if len(leases) == 1 else first_lease(leases)
    return config.label(first.pool if first is not None else None)


def cutoff_of(moment: Instant, pool: str, config: Config) -> Instant:
    """Return ``A + g``: charges and leases strictly after it are orphan."""
    return Instant(moment + config.grace_of(pool) + config.clock_skew_allowance)


def newest_submissions(tasks: Iterable[Task]) -> tuple[list[Task], list[Task]]:
    """Return the tasks that hold and the ones that don't: of one id the newest submission does."""
    held: dict[str, Task] = {}
    rest: list[Task] = []
    nameless: list[Task] = []
    for task in tasks:
        if task.task_id is None:
            nameless.append(task)
            continue
        rival = held.get(task.task_id)
        if rival is None:
            held[task.task_id] = task
        elif (task.submitted_at or 0) > (rival.submitted_at or 0):
            held[task.task_id] = task
            rest.append(rival)
        else:
            rest.append(task)
    return [*held.values(), *nameless], rest
