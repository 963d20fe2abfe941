"""Which tasks are watched: pure functions from what was read to pools, stops and cutoffs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.model import Cutoff, Lease, LedgerWindow, Stop, Task
from orphanwatch.exporter.names import Cause
from orphanwatch.exporter.readings import GatewayFacts, Watch
from orphanwatch.exporter.stops import cutoff_of, finish_of, first_lease, is_live, pool_of
from orphanwatch.exporter.stores.questions import Windows


@dataclass(frozen=True, slots=True)
class Watchlist:
    """The watched tasks, and the older ones of which only a trace may be left."""

    watched: Sequence[Watch]
    older: Sequence[Watch]

    @property
    def ids(self) -> frozenset[str]:
        """The ids of the watched ones."""
        return frozenset(w.task.task_id for w in self.watched if w.task.task_id is not None)

    def cutoffs(self) -> list[Cutoff]:
        """Return what the ledger needs to split the charges of all of them."""
        return [
            Cutoff(watch.task.task_id, watch.cutoff, _start_of(watch))
            for watch in (*self.watched, *self.older)
            if watch.task.task_id is not None
        ]


class Watchman:
    """Decides for one evaluation."""

    def __init__(
        self,
        config: Config,
        windows: Windows,
        spent: LedgerWindow | None,
        *,
        beats: bool,
        kept: Collection[str],
    ) -> None:
        """Take what decides besides the tasks; ``kept`` are ids that are watched however old."""
        self._config = config
        self._windows = windows
        self._spent = spent
        self._beats = beats
        self._kept = kept

    def watch(
        self,
        gateway: GatewayFacts | None,
        by_task: Mapping[str, Sequence[Lease]],
        pools: Mapping[str, str],
    ) -> Watchlist:
        """Return the tasks that nobody waits for; none where the gateway can't be read."""
        if gateway is None:
            return Watchlist((), ())
        watched: list[Watch] = []
        older: list[Watch] = []
        nameless = [task for task in gateway.counted if task.task_id is None]
        for task in (*gateway.tasks.values(), *nameless):
            stop = gateway.stops.get(id(task))
            if stop is None and task.finished_at is None:
                continue
            pool = pools.get(task.task_id or "", self._config.label(task.pool))
            stop = stop or self._finish_as_stop(task, pool)
            if stop is None or not task.cancellable:
                continue
            watch = Watch(
                task=task,
                stop=stop,
                cutoff=cutoff_of(stop.at, pool, self._config),
                pool=pool,
                leases=tuple(by_task.get(task.task_id or "", ())),
            )
            is_watched = self._is_watched(watch)
            (watched if is_watched else older).append(watch)
        return Watchlist(watched, older)

    def _finish_as_stop(self, task: Task, pool: str) -> Stop | None:
        finished = finish_of(task, self._windows.at)
        if finished is None or task.task_id is None:
            return None
        if not charged_after(self._spent, task.task_id, cutoff_of(finished, pool, self._config)):
            return None
        return Stop(finished, Cause.AFTER_FINISH)

    def _is_watched(self, watch: Watch) -> bool:
        """Return whether the task counts: an orphan that lives does not age out."""
        if not watch.is_abandoned or watch.stop.at > self._windows.horizon_start:
            return True
        if watch.task.task_id in self._kept:
            return True
        if charged_after(self._spent, watch.task.task_id, self._windows.delta_start):
            return True
        at, config = self._windows.at, self._config
        return any(is_live(lease, config, beats=self._beats, at=at) for lease in watch.leases)


def pools_of(
    gateway: GatewayFacts | None, by_task: Mapping[str, Sequence[Lease]], config: Config
) -> dict[str, str]:
    """Return the pool label of every task that was looked at or holds a lease."""
    tasks = gateway.tasks if gateway is not None else {}
    pools = {
        task_id: config.label(task.pool)
        if task.pool is not None
        else pool_of(task, by_task.get(task_id, ()), config)
        for task_id, task in tasks.items()
    }
    for task_id, leases in by_task.items():
        if task_id not in pools:
            pools[task_id] = pool_of(None, leases, config)
    return pools


def charged_after(spent: LedgerWindow | None, key: str | None, at: Instant) -> bool:
    """Return whether a key was charged after an instant, within the delta window."""
    if spent is None or key is None or key not in spent.by_key:
        return False
    last = spent.by_key[key].last_charge
    return last is not None and last > at


def _start_of(watch: Watch) -> Instant | None:
    first = first_lease(watch.leases)
    if first is not None and first.acquired_at is not None:
        return first.acquired_at
    return watch.task.submitted_at
