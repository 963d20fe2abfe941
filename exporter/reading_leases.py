"""The leases' part of a reading: which tasks need all of theirs, and which leases vanished."""

from collections.abc import Mapping, Sequence

from orphanwatch.exporter.channel import Channel
from orphanwatch.exporter.model import Lease, LedgerWindow, Task
from orphanwatch.exporter.reading_gateway import is_recent
from orphanwatch.exporter.readings import GatewayFacts
from orphanwatch.exporter.state_memory import LeaseSight, Memory, complete_leases
from orphanwatch.exporter.stops import finish_of
from orphanwatch.exporter.stores.questions import Leases, Windows
from orphanwatch.exporter.watching import charged_after


class LeaseReader:
    """Asks for leases: first the unreleased ones, then all of the tasks that need all."""

    def __init__(self, channel: Channel[Leases], windows: Windows, memory: Memory) -> None:
        self._channel = channel
        self._windows = windows
        self._memory = memory
        self._whole: Sequence[Lease] = ()
        self.held: Sequence[Lease] = channel.ask(lambda leases: leases.unreleased(windows)) or ()
        self.beats = bool(channel.ask(lambda leases: leases.states_heartbeats))

    @property
    def named(self) -> set[str]:
        """The tasks that hold a lease."""
        return {lease.task_id for lease in self.held if lease.task_id is not None}

    @property
    def unreleased(self) -> list[Lease]:
        """The leases not released by now."""
        return [lease for lease in self.held if lease.released_at is None]

    def sight(self, watched_ids: frozenset[str]) -> LeaseSight:
        """Return what the next reading has to remember."""
        return LeaseSight(listed=self.unreleased, of_watched=self._whole, watched_ids=watched_ids)

    def by_task(
        self, gateway: GatewayFacts | None, spent: LedgerWindow | None
    ) -> dict[str, list[Lease]]:
        """Return leases by task: all of those that need all, the unreleased ones of others."""
        by_task: dict[str, list[Lease]] = {}
        for lease in self.held:
            if lease.task_id is not None:
                by_task.setdefault(lease.task_id, []).append(lease)
        wanted = self._wanted_whole(gateway, by_task, spent)
        windows = self._windows
        whole = self._channel.ask(lambda leases: leases.of_tasks(wanted, windows))
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
            self.held,
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
        return finished is not None and charged_after(spent, task.task_id, finished)
