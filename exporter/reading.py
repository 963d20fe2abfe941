"""One reading of the stores: who is asked what, in which order, and what comes of it.

A store that fails on the way is unreadable for the whole reading; the others go on. What is
asked grows with abandoned tasks, live leases and the tasks of the newest window.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from orphanwatch.exporter.channel import Channel, Channels
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import Instant, Micros
from orphanwatch.exporter.model import (
    Budget,
    Charges,
    Cutoff,
    Lease,
    LedgerWindow,
    Rejected,
    Stop,
    StoreHealth,
    Task,
)
from orphanwatch.exporter.names import Cause, RejectReason, StoreName
from orphanwatch.exporter.readings import (
    GatewayFacts,
    LeaseFacts,
    LedgerFacts,
    Readings,
    Watch,
)
from orphanwatch.exporter.state_memory import LeaseSight, Memory, complete_leases
from orphanwatch.exporter.stops import (
    completions_of,
    cutoff_of,
    finish_of,
    first_lease,
    is_live,
    newest_submissions,
    pool_of,
    stop_of,
)
from orphanwatch.exporter.stores.questions import Windows

_NO_MEMORY = Memory()


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read, and what the next reading has to remember of the leases."""

    readings: Readings
    sight: LeaseSight | None
    """None where the leases could not be read."""


def read_stores(
    channels: Channels,
    config: Config,
    at: Instant,
    *,
    memory: Memory = _NO_MEMORY,
    counting_since: Instant | None = None,
    last_success: Mapping[StoreName, Instant] | None = None,
    silences: Mapping[str, Micros] | None = None,
) -> Reading:
    """Return what the stores state as of an instant; never raises for a store's sake."""
    for channel in channels.all():
        channel.begin()
    try:
        reader = _Reader(channels, config, Windows.ending(at, config), memory, counting_since)
        reading = reader.read(dict(last_success or {}))
    finally:
        for channel in channels.all():
            channel.end()
    return replace(reading, readings=replace(reading.readings, silences=dict(silences or {})))


class _Reader:
    """The steps of one reading."""

    def __init__(
        self,
        channels: Channels,
        config: Config,
        windows: Windows,
        memory: Memory,
        counting_since: Instant | None,
    ) -> None:
        self._channels = channels
        self._config = config
        self._windows = windows
        self._memory = memory
        self._counting_since = counting_since
        self._rejected: list[Rejected] = []
        self._whole: Sequence[Lease] = ()

    def read(self, last_success: dict[StoreName, Instant]) -> Reading:
        """Ask everything."""
        windows, channels = self._windows, self._channels
        held = channels.leases.ask(lambda leases: leases.unreleased(windows)) or ()
        spent = channels.ledger.ask(lambda ledger: ledger.window(windows))
        named = {lease.task_id for lease in held if lease.task_id is not None}
        gateway = self._read_gateway(named, spent)
        by_task = self._read_leases(gateway, held, spent)
        pools = self._pools(gateway, by_task)
        beats = bool(channels.leases.ask(lambda leases: leases.states_heartbeats))
        watched, older = self._watched(gateway, by_task, pools, spent, beats=beats)
        charges = self._read_charges((*watched, *older), by_task)
        workers = self._read_workers(gateway, spent)
        sample = channels.queue.ask(lambda queue: queue.newest(windows))
        unreleased, ended, sight = self._complete(held, watched)
        rejected = self._collect_rejected()
        is_up = {channel.name: channel.is_up for channel in channels.all()}
        readings = Readings(
            at=windows.at,
            stores={
                channel.name: self._health(channel, last_success) for channel in channels.all()
            },
            gateway=gateway if is_up[StoreName.GATEWAY] else None,
            leases=LeaseFacts(
                unreleased=unreleased, by_task=by_task, ended=ended, workers=workers, beats=beats
            )
            if is_up[StoreName.LEASES]
            else None,
            ledger=LedgerFacts(window=spent, charges=charges)
            if is_up[StoreName.LEDGER] and spent is not None
            else None,
            queue=sample,
            watched=watched if is_up[StoreName.GATEWAY] else (),
            older=older if is_up[StoreName.GATEWAY] else (),
            pools=pools,
            rejected=rejected,
            last_evidence=self._memory.last_evidence,
        )
        return Reading(readings, sight if is_up[StoreName.LEASES] else None)

    # The gateway

    def _read_gateway(
        self, named: Collection[str], spent: LedgerWindow | None
    ) -> GatewayFacts | None:
        windows, channel = self._windows, self._channels.gateway
        flagged = channel.ask(lambda gateway: gateway.flagged_tasks(windows))
        if flagged is None:
            return None
        summed = channel.ask(lambda gateway: gateway.attached(windows))
        states = bool(channel.ask(lambda gateway: gateway.states_submissions))
        store = self._config.stores.gateway
        knows = states and store is not None and store.rows == "live"
        overflow = self._config.overflow_pools
        budgets = channel.ask(lambda gateway: gateway.budgets(windows, overflow)) or ()
        ids = set(named) | set(self._memory.open_tasks)
        ids.update(key for key in (spent.by_key if spent else ()) if key is not None)
        # A row of a later submission is none yet, and must not hide the one that holds.
        here = self._submitted(flagged)
        ids.difference_update(task.task_id for task in here if task.task_id is not None)
        looked_up = channel.ask(lambda gateway: gateway.tasks(ids)) or ()
        tasks, counted = self._hold(flagged, looked_up)
        stops = self._stops(tasks, {id(task) for task in counted})
        by_id = {task.task_id: task for task in tasks if task.task_id is not None}
        return GatewayFacts(
            tasks=by_id,
            counted=counted,
            stops=stops,
            states_submissions=states,
            attached=summed if knows else None,
            budgets=[budget for budget in budgets if _holds(budget, by_id)],
            least_attempts=self._least_attempts(flagged),
        )

    def _hold(
        self, flagged: Sequence[Task], looked_up: Sequence[Task]
    ) -> tuple[list[Task], list[Task]]:
        """Return the tasks that exist by now, and those of them that no store has summed."""
        held, rest = newest_submissions(self._submitted((*flagged, *looked_up)))
        self._rejected += [
            Rejected(StoreName.GATEWAY, RejectReason.DUPLICATE_TASK_ID, repr(tuple(task)))
            for task in rest
        ]
        in_flagged = {id(task) for task in flagged}
        counted = [task for task in held if id(task) in in_flagged or not self._is_in_scope(task)]
        return held, counted

    def _is_in_scope(self, task: Task) -> bool:
        start = self._windows.scope_start
        for stamp in (task.submitted_at, task.cancelled_at, task.deadline_at, task.finished_at):
            if stamp is not None and stamp > start:
                return True
        return False

    def _stops(self, tasks: Sequence[Task], counted: Collection[int]) -> dict[int, Stop]:
        at, channel, windows = self._windows.at, self._channels.gateway, self._windows
        # A task that the store has summed had no newer stop; an older one shows in its stamps.
        doubtful = [
            task
            for task in tasks
            if id(task) in counted
            or (task.cancelled_at is not None and task.cancelled_at <= at)
            or (task.deadline_at is not None and task.deadline_at <= at)
        ]
        retry_ids = {task.retry_id for task in doubtful if task.retry_id is not None}
        done = channel.ask(lambda gateway: gateway.completed_ids(retry_ids, windows)) or ()
        unseen = set(done).difference(task.task_id or "" for task in tasks)
        siblings = channel.ask(lambda gateway: gateway.tasks(unseen)) if unseen else ()
        newest, _ = newest_submissions(self._submitted(siblings or ()))
        completions = completions_of(
            (task for task in (*tasks, *newest) if task.retry_id in retry_ids), at
        )
        stores = self._config.stores
        hard = stores.gateway is not None and stores.gateway.deadline == "hard"
        stops = {}
        for task in doubtful:
            stop = stop_of(task, completions, deadline_stops=hard, at=at)
            if stop is not None:
                stops[id(task)] = stop
        return stops

    def _least_attempts(self, flagged: Sequence[Task]) -> Mapping[str, int]:
        """Return the smallest attempt of each request that was retried in the newest window."""
        channel, windows = self._channels.gateway, self._windows
        retry_ids = {
            task.retry_id
            for task in flagged
            if task.attempt > 1 and task.retry_id is not None and is_recent(task, windows)
        }
        if not retry_ids:
            return {}
        peers = channel.ask(lambda gateway: gateway.tasks_of_requests(retry_ids)) or ()
        ids = {peer.task_id for peer in peers if peer.task_id is not None}
        named = channel.ask(lambda gateway: gateway.tasks(ids)) or ()
        nameless = [peer for peer in peers if peer.task_id is None]
        held, _ = newest_submissions(self._submitted((*named, *nameless)))
        least: dict[str, int] = {}
        for task in held:
            if task.retry_id is not None:
                least[task.retry_id] = min(task.attempt, least.get(task.retry_id, task.attempt))
        return least

    def _submitted(self, tasks: Iterable[Task]) -> list[Task]:
        at = self._windows.at
        return [task for task in tasks if task.submitted_at is None or task.submitted_at <= at]

    # Leases and pools

    def _read_leases(
        self, gateway: GatewayFacts | None, held: Sequence[Lease], spent: LedgerWindow | None
    ) -> dict[str, list[Lease]]:
        """Return leases by task: all of those that need all, the unreleased ones of others."""
        by_task: dict[str, list[Lease]] = {}
        for lease in held:
            if lease.task_id is not None:
                by_task.setdefault(lease.task_id, []).append(lease)
        wanted = self._wanted_whole(gateway, by_task, spent)
        windows = self._windows
        whole = self._channels.leases.ask(lambda leases: leases.of_tasks(wanted, windows))
        if whole is None:
            return {}
        self._whole = whole
        for task_id in wanted:
            by_task.pop(task_id, None)
        for lease in whole:
            if lease.task_id is not None:
                by_task.setdefault(lease.task_id, []).append(lease)
        gone = complete_leases(
            self._memory,
            held,
            whole,
            frozenset(wanted),
            windows.at,
        )
        for lease in gone:
            if lease.task_id is not None:
                by_task.setdefault(lease.task_id, []).append(lease)
        return by_task

    def _wanted_whole(
        self,
        gateway: GatewayFacts | None,
        by_task: Mapping[str, Sequence[Lease]],
        spent: LedgerWindow | None,
    ) -> set[str]:
        """Return the tasks whose every lease counts: abandoned ones, and those of no own pool."""
        tasks = gateway.tasks if gateway is not None else {}
        stops = gateway.stops if gateway is not None else {}
        wanted = {task_id for task_id in by_task if task_id not in tasks}
        for task_id, task in tasks.items():
            is_abandoned = id(task) in stops and task.cancellable
            went_on = self._went_on(task, spent)
            if is_abandoned or went_on or (task.pool is None and self._pool_matters(task, by_task)):
                wanted.add(task_id)
        if gateway is not None:
            wanted.update(
                budget.task_id
                for budget in gateway.budgets
                if budget.pool is None and budget.task_id is not None
            )
        return wanted

    def _pool_matters(self, task: Task, by_task: Mapping[str, Sequence[Lease]]) -> bool:
        return task.task_id in by_task or not task.cancellable or is_recent(task, self._windows)

    def _went_on(self, task: Task, spent: LedgerWindow | None) -> bool:
        """Return whether a task was charged after it had finished."""
        finished = finish_of(task, self._windows.at)
        return finished is not None and _charged_after(spent, task.task_id, finished)

    def _pools(
        self, gateway: GatewayFacts | None, by_task: Mapping[str, Sequence[Lease]]
    ) -> dict[str, str]:
        tasks = gateway.tasks if gateway is not None else {}
        label, config = self._config.label, self._config
        pools = {
            task_id: label(task.pool)
            if task.pool is not None
            else pool_of(task, by_task.get(task_id, ()), config)
            for task_id, task in tasks.items()
        }
        for task_id, leases in by_task.items():
            if task_id not in pools:
                pools[task_id] = pool_of(None, leases, config)
        return pools

    def _complete(
        self, held: Sequence[Lease], watched: Sequence[Watch]
    ) -> tuple[list[Lease], list[Lease], LeaseSight]:
        ids = frozenset(watch.task.task_id for watch in watched if watch.task.task_id is not None)
        unreleased = [lease for lease in held if lease.released_at is None]
        ended = [lease for lease in held if lease.released_at is not None]
        sight = LeaseSight(listed=unreleased, of_watched=self._whole, watched_ids=ids)
        return unreleased, ended, sight

    # Watched tasks and their charges

    def _watched(
        self,
        gateway: GatewayFacts | None,
        by_task: Mapping[str, Sequence[Lease]],
        pools: Mapping[str, str],
        spent: LedgerWindow | None,
        *,
        beats: bool,
    ) -> tuple[list[Watch], list[Watch]]:
        """Return the watched tasks, and the older ones of which only a trace may be left."""
        if gateway is None:
            return [], []
        watched: list[Watch] = []
        older: list[Watch] = []
        nameless = [task for task in gateway.counted if task.task_id is None]
        for task in (*gateway.tasks.values(), *nameless):
            stop = gateway.stops.get(id(task))
            if stop is None and task.finished_at is None:
                continue
            pool = pools.get(task.task_id or "", self._config.label(task.pool))
            stop = stop or self._finish_as_stop(task, pool, spent)
            if stop is None or not task.cancellable:
                continue
            watch = Watch(
                task=task,
                stop=stop,
                cutoff=cutoff_of(stop.at, pool, self._config),
                pool=pool,
                leases=tuple(by_task.get(task.task_id or "", ())),
            )
            is_watched = self._is_watched(watch, spent, beats=beats)
            (watched if is_watched else older).append(watch)
        return watched, older

    def _finish_as_stop(self, task: Task, pool: str, spent: LedgerWindow | None) -> Stop | None:
        finished = finish_of(task, self._windows.at)
        if finished is None or task.task_id is None:
            return None
        if not _charged_after(spent, task.task_id, cutoff_of(finished, pool, self._config)):
            return None
        return Stop(finished, Cause.AFTER_FINISH)

    def _is_watched(self, watch: Watch, spent: LedgerWindow | None, *, beats: bool) -> bool:
        """Return whether the task counts: an orphan that lives does not age out."""
        if not watch.is_abandoned or watch.stop.at > self._windows.horizon_start:
            return True
        if watch.task.task_id in self._memory.open_tasks:
            return True
        if _charged_after(spent, watch.task.task_id, self._windows.delta_start):
            return True
        at, config = self._windows.at, self._config
        return any(is_live(lease, config, beats=beats, at=at) for lease in watch.leases)

    def _read_charges(
        self, watched: Sequence[Watch], by_task: Mapping[str, Sequence[Lease]]
    ) -> Mapping[str, Charges]:
        cutoffs = [
            Cutoff(watch.task.task_id, watch.cutoff, _start_of(watch, by_task))
            for watch in watched
            if watch.task.task_id is not None
        ]
        windows, since = self._windows, self._counting_since
        answer = self._channels.ledger.ask(lambda ledger: ledger.charges(cutoffs, windows, since))
        return answer or {}

    def _read_workers(
        self, gateway: GatewayFacts | None, spent: LedgerWindow | None
    ) -> frozenset[str]:
        if gateway is None or spent is None:
            return frozenset()
        keys = {
            key
            for key, spend in spent.by_key.items()
            if key is not None and spend.spend > 0 and key not in gateway.tasks
        }
        if not keys:
            return frozenset()
        windows = self._windows
        return (
            self._channels.leases.ask(lambda leases: leases.workers(keys, windows)) or frozenset()
        )

    # What is said about the stores

    def _health(self, channel: Channel[Any], last_success: dict[StoreName, Instant]) -> StoreHealth:
        if channel.is_up:
            last_success[channel.name] = self._windows.at
        return StoreHealth(
            up=channel.is_up,
            problem=channel.problem,
            last_success=last_success.get(channel.name),
            clock_skew_seconds=channel.clock_skew_seconds if channel.is_up else None,
        )

    def _collect_rejected(self) -> tuple[Rejected, ...]:
        said: list[Rejected] = list(self._rejected)
        asked: Iterable[Callable[[], tuple[Rejected, ...] | None]] = (
            lambda: self._channels.gateway.ask(lambda store: store.rejected()),
            lambda: self._channels.leases.ask(lambda store: store.rejected()),
            lambda: self._channels.ledger.ask(lambda store: store.rejected()),
            lambda: self._channels.queue.ask(lambda store: store.rejected()),
        )
        for ask in asked:
            said += ask() or ()
        return tuple(said)


def is_recent(task: Task, windows: Windows) -> bool:
    """Return whether the task was submitted in the window in which retries are judged."""
    submitted = task.submitted_at
    return submitted is not None and windows.retry_start < submitted <= windows.at


def _holds(budget: Budget, tasks: Mapping[str, Task]) -> bool:
    """Return whether a budget is of the submission that holds, where its task has several."""
    task = tasks.get(budget.task_id) if budget.task_id is not None else None
    return task is None or task.submitted_at == budget.submitted_at


def _charged_after(spent: LedgerWindow | None, key: str | None, at: Instant) -> bool:
    if spent is None or key is None or key not in spent.by_key:
        return False
    last = spent.by_key[key].last_charge
    return last is not None and last > at


def _start_of(watch: Watch, by_task: Mapping[str, Sequence[Lease]]) -> Instant | None:
    first = first_lease(by_task.get(watch.task.task_id or "", ()))
    if first is not None and first.acquired_at is not None:
        return first.acquired_at
    return watch.task.submitted_at
