"""The gateway's part of a reading: which tasks are looked at one by one, and when they stopped."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from orphanwatch.exporter.channel import Channel
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.model import Budget, LedgerWindow, Rejected, Stop, Task
from orphanwatch.exporter.names import RejectReason, StoreName
from orphanwatch.exporter.readings import GatewayFacts
from orphanwatch.exporter.stops import completions_of, newest_submissions, stop_of
from orphanwatch.exporter.stores.questions import Gateway, Windows


class GatewayReader:
    """Asks the gateway; ``rejected`` holds the rows of tasks that another submission replaces."""

    def __init__(self, channel: Channel[Gateway], config: Config, windows: Windows) -> None:
        self._channel = channel
        self._config = config
        self._windows = windows
        self.rejected: list[Rejected] = []

    def read(self, named: Collection[str], spent: LedgerWindow | None) -> GatewayFacts | None:
        """Return what the gateway says of the tasks that it flags, and of all that are named.

        None where it can't be read. ``named`` are the ids that leases and memory name.
        """
        windows, channel = self._windows, self._channel
        flagged = channel.ask(lambda gateway: gateway.flagged_tasks(windows))
        if flagged is None:
            return None
        summed = channel.ask(lambda gateway: gateway.attached(windows))
        states = bool(channel.ask(lambda gateway: gateway.states_submissions))
        store = self._config.stores.gateway
        knows = states and store is not None and store.rows == "live"
        overflow = self._config.overflow_pools
        budgets = channel.ask(lambda gateway: gateway.budgets(windows, overflow)) or ()
        ids = set(named)
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
        self.rejected += [
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
        at, channel, windows = self._windows.at, self._channel, self._windows
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
        channel, windows = self._channel, self._windows
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


def is_recent(task: Task, windows: Windows) -> bool:
    """Return whether the task was submitted in the window in which retries are judged."""
    submitted = task.submitted_at
    return submitted is not None and windows.retry_start < submitted <= windows.at


def _holds(budget: Budget, tasks: Mapping[str, Task]) -> bool:
    """Return whether a budget is of the submission that holds, where its task has several."""
    task = tasks.get(budget.task_id) if budget.task_id is not None else None
    return task is None or task.submitted_at == budget.submitted_at
