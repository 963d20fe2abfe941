"""The second opinion's look at one instant: every task judged by the contract's words.

What the numbers are made of: stops, causes, cutoffs, orphan parts, windows, pools.
"""

from collections.abc import Iterable

import second_opinion_facts as facts
from second_opinion_facts import Row

from orphanwatch.exporter import names
from orphanwatch.exporter.names import Cause, Role, StoreName

STORE_LISTS = {
    StoreName.GATEWAY: "tasks",
    StoreName.LEASES: "leases",
    StoreName.LEDGER: "ledger",
    StoreName.QUEUE: "queue",
}


class Look:
    """One instant, seen row by row, and the samples said about it so far."""

    def __init__(self, stack: dict[str, list[Row] | None], settings: Row, at: float) -> None:
        self.settings, self.at = settings, at
        self.window, self.lag = settings["delta_window"], settings["lag"]
        self.baseline, self.horizon = settings["baseline_window"], settings["horizon"]
        self.up = {store: stack.get(name) is not None for store, name in STORE_LISTS.items()}
        self.sees_tasks = self.up[StoreName.GATEWAY]
        self.sees_leases = self.up[StoreName.LEASES]
        self.sees_ledger = self.up[StoreName.LEDGER]
        self.live_rows = self.sees_tasks and settings["rows"] == "live"
        self.sees_attached = self.live_rows and settings["maps_submission"]
        self.all_tasks = facts.read_tasks(stack.get("tasks") or [], at)
        self.leases = facts.read_leases(stack.get("leases") or [], settings, at)
        self.workers = facts.read_workers(stack.get("leases") or [], at)
        self.charges = facts.read_charges(stack.get("ledger") or [], at)
        self.queue = facts.read_queue(stack.get("queue") or [], settings, at)
        self.named = {
            facts.id_or_none(row.get("task_id"))
            for row in stack.get("ledger") or []
            if row.get("charged_at") is not None and self.in_delta_window(row["charged_at"])
        }
        self.pools = [*settings["pools"], names.OTHER_POOL]
        self.overflow = [
            name for name, pool in settings["pools"].items() if pool["role"] == Role.OVERFLOW
        ]
        self.metrics: dict[str, list[Row]] = {}
        self.doubtful: set[str] = set()
        self.tasks = [task for task in self.all_tasks if self.is_looked_at(task)]
        for task in self.tasks:
            self.judge(task)

    def in_delta_window(self, instant: float) -> bool:
        """Say whether an instant lies in (T - W - L, T]."""
        return bool(self.at - self.window - self.lag < instant <= self.at)

    def in_spend_window(self, instant: float) -> bool:
        """Say whether an instant lies in (T - L - W, T - L]."""
        return bool(self.at - self.lag - self.window < instant <= self.at - self.lag)

    def in_baseline_window(self, instant: float) -> bool:
        """Say whether an instant lies in the baseline window, the B before the spend window."""
        end = self.at - self.lag - self.window
        return bool(end - self.baseline < instant <= end)

    def leases_of(self, task_id: str | None) -> list[Row]:
        """Return the leases of a task; no id, no leases."""
        return [
            lease for lease in self.leases if task_id is not None and lease["task_id"] == task_id
        ]

    def charges_of(self, task_id: str | None) -> list[Row]:
        """Return the charges of a task; no id, no charges."""
        return [
            charge for charge in self.charges if task_id is not None and charge["key"] == task_id
        ]

    def is_looked_at(self, task: Row) -> bool:
        """Apply section 3's rule of which tasks count at all."""
        since = self.at - self.window - self.lag - self.baseline - self.horizon
        # An end that is still to come at T is after that instant, too.
        if any(instant is not None and instant > since for instant in task["events"]):
            return True
        if any(lease["released_at"] is None for lease in self.leases_of(task["task_id"])):
            return True
        return task["task_id"] is not None and task["task_id"] in self.named

    def pool_of(self, own: str | None, task_id: str | None) -> str | None:
        """Return a task's pool: its own, else its first lease's."""
        if own is not None:
            return own
        first = facts.first_lease(task_id, self.leases)
        return None if first is None else first["pool"]

    def label(self, pool: str | None) -> str:
        """Return the pool label."""
        return pool if pool in self.settings["pools"] else names.OTHER_POOL  # type: ignore[return-value]  # a key of pools is no None

    def grace(self, label: str) -> float:
        """Return the grace of a pool label."""
        own = self.settings["pools"].get(label, {}).get("grace")
        return float(self.settings["grace"] if own is None else own)

    def role(self, pool: str | None) -> str | None:
        """Return the role of a pool; None where it is not configured."""
        configured = self.settings["pools"].get(pool)
        return None if configured is None else configured["role"]

    def judge(self, task: Row) -> None:
        """Write the verdict on one task into it: stop, cause, cutoff, orphan parts, watched."""
        skew = self.settings["clock_skew_allowance"]
        task["label"] = self.label(self.pool_of(task["pool"], task["task_id"]))
        first = facts.first_lease(task["task_id"], self.leases)
        acquired = None if first is None else first["acquired_at"]
        start = acquired if acquired is not None else task["submitted_at"]
        charges = self.charges_of(task["task_id"])
        recent = [row for row in charges if self.in_delta_window(row["charged_at"])]
        task["live"] = [lease for lease in self.leases_of(task["task_id"]) if lease["live"]]
        task.update(stop=None, cause=None, cutoff=None, abandoned=False, watched=False, parts=[])
        stop = facts.find_stop(task, self.all_tasks, self.settings, self.at)
        if stop is not None:
            task["stop"], task["cause"] = stop
            if acquired is not None and acquired > task["stop"]:
                task["cause"] = Cause.STARTED_AFTER_STOP
            task["cutoff"] = task["stop"] + self.grace(task["label"]) + skew
            task["abandoned"] = task["cancellable"]
            young = task["stop"] > self.at - self.horizon
            task["watched"] = young or bool(task["live"]) or bool(recent)
        elif task["finished_at"] is not None and task["cancellable"]:
            cutoff = task["finished_at"] + self.grace(task["label"]) + skew
            if any(row["charged_at"] > cutoff for row in recent):
                task["cause"], task["cutoff"] = Cause.AFTER_FINISH, cutoff
                task["watched"] = True
        if task["abandoned"] or task["cause"] is Cause.AFTER_FINISH:
            task["parts"] = facts.orphan_parts(
                charges, self.settings["shape"], task["cutoff"], start
            )

    def is_orphan_lease(self, task: Row) -> bool:
        """Say whether live leases of this task are orphan leases now."""
        return bool(task["abandoned"] and self.at > task["cutoff"])

    def is_attached_now(self, task: Row) -> bool:
        """Say whether somebody waits for the task at T."""
        submitted, finished = task["submitted_at"], task["finished_at"]
        return submitted is not None and finished is None and task["stop"] is None

    def task_of(self, lease: Row) -> Row | None:
        """Return the known task of a lease."""
        for task in self.tasks:
            if task["task_id"] is not None and task["task_id"] == lease["task_id"]:
                return task
        return None

    def label_of_lease(self, lease: Row) -> str:
        """Return the pool label of a lease: its task's."""
        task = self.task_of(lease)
        if task is not None:
            return str(task["label"])
        if lease["task_id"] is None:
            return self.label(lease["pool"])
        return self.label(self.pool_of(None, lease["task_id"]))

    def emit(self, name: object, value: float, **labels: str) -> None:
        """Add one sample."""
        self.metrics.setdefault(str(name), []).append({"labels": labels, "value": float(value)})

    def value(self, name: object, **labels: str) -> float | None:
        """Return a sample that has been emitted; None where it is unknown."""
        for sample in self.metrics.get(str(name), []):
            if sample["labels"] == labels:
                return float(sample["value"])
        return None

    def any_above_zero(self, name: object) -> bool:
        """Say whether any sample of a family is above zero."""
        return any(sample["value"] > 0 for sample in self.metrics.get(str(name), []))

    def emit_count_by_pool(self, name: object, labels: Iterable[str]) -> None:
        """Emit how often each pool occurs, zero for those that do not."""
        found = list(labels)
        for pool in self.pools:
            self.emit(name, found.count(pool), pool=pool)

    def emit_extreme_by_pool(
        self, name: object, pairs: list[tuple[str, float]], *, largest: bool
    ) -> None:
        """Emit the largest or least value of each pool that has one."""
        for pool in self.pools:
            mine = [value for label, value in pairs if label == pool]
            if mine:
                self.emit(name, max(mine) if largest else min(mine), pool=pool)
