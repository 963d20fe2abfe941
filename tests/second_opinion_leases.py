"""The second opinion's numbers of gateway and leases."""

import math

from second_opinion_facts import Row
from second_opinion_look import Look

from orphanwatch.exporter import names
from orphanwatch.exporter.names import Cause, Role, StoreName


class LeaseNumbers(Look):
    """What gateway and leases say."""

    def emit_settings(self) -> None:
        """Emit what needs no store."""
        for pool in self.pools:
            self.emit(names.GRACE_SECONDS, self.grace(pool), pool=pool, source="proposal")
            cap = self.settings["pools"].get(pool, {}).get("lease_cap")
            if cap is not None:
                self.emit(names.LEASE_CAP, cap, pool=pool)
        for store in StoreName:
            self.emit(names.STORE_UP, self.up[store], store=str(store))

    def emit_tasks(self) -> None:
        """Emit what the gateway alone tells."""
        for pool in self.pools:
            for cause in Cause:
                abandoned = [
                    task
                    for task in self.tasks
                    if task["abandoned"]
                    and task["label"] == pool
                    and task["cause"] is cause
                    and self.at - self.horizon < task["stop"] <= self.at
                ]
                self.emit(names.ABANDONED_TASKS, len(abandoned), pool=pool, cause=str(cause))
        if self.settings.get("maps_submission", True):
            self.emit_count_by_pool(
                names.RETRIES_WITHOUT_RETRY_ID,
                [task["label"] for task in self.tasks if self.is_retry_without_id(task)],
            )
        if not self.sees_attached:
            return
        end = self.at - self.lag
        start = end - self.window
        self.emit(names.ATTACHED_TASKS, self.attached_mean(start, end))
        self.emit(names.ATTACHED_BASELINE_TASKS, self.attached_mean(start - self.baseline, start))
        stuck = [
            task
            for task in self.tasks
            if self.is_attached_now(task)
            and not task["cancellable"]
            and task["label"] in self.overflow
        ]
        self.emit(names.UNCANCELLABLE_ON_OVERFLOW, len(stuck))

    def attached_mean(self, start: float, end: float) -> float:
        """Return the mean number of attached tasks between two instants."""
        total = 0.0
        for task in self.tasks:
            if task["submitted_at"] is None:
                continue
            ends = [end]
            ends += [task["finished_at"]] if task["finished_at"] is not None else []
            ends += [task["stop"]] if task["stop"] is not None else []
            total += max(0.0, min(ends) - max(start, task["submitted_at"]))
        return total / (end - start)

    def is_retry_without_id(self, task: Row) -> bool:
        """Say whether a recent retry can't be joined to its first try."""
        submitted = task["submitted_at"]
        if submitted is None or submitted <= self.at - self.window or task["attempt"] <= 1:
            return False
        return task["retry_id"] is None or not any(
            other["retry_id"] == task["retry_id"] and other["attempt"] < task["attempt"]
            for other in self.all_tasks
        )

    def emit_leases(self) -> None:
        """Emit what the lease store tells, labelled by the task's pool as far as it is known."""
        live = [lease for lease in self.leases if lease["live"]]
        labels = [self.label_of_lease(lease) for lease in live]
        self.emit_count_by_pool(names.LIVE_LEASES, labels)
        self.emit_count_by_pool(
            names.EXPIRED_LEASES,
            [self.label_of_lease(lease) for lease in self.leases if lease["expired"]],
        )
        ages = [(self.label_of_lease(lease), lease["age"]) for lease in live]
        self.emit_extreme_by_pool(names.LEASE_AGE_SECONDS_MAX, ages, largest=True)
        declared = self.settings["heartbeat"]
        if declared is not None:
            ages += [(pool, declared) for pool in self.pools]
        self.emit_extreme_by_pool(names.HEARTBEAT_PERIOD_SECONDS, ages, largest=True)
        both = 0
        for worker in {lease["worker_id"] for lease in live if lease["worker_id"] is not None}:
            roles = {self.role(lease["pool"]) for lease in live if lease["worker_id"] == worker}
            both += Role.PAID in roles and Role.OVERFLOW in roles
        self.emit(names.WORKERS_IN_BOTH_POOLS, both)

    def emit_leases_of_tasks(self) -> None:
        """Emit what leases and gateway tell together."""
        pairs = [(task, lease) for task in self.tasks for lease in task["live"]]
        orphan = [(task, lease) for task, lease in pairs if self.is_orphan_lease(task)]
        for pool in self.pools:
            for cause in Cause:
                count = [1 for t, _ in orphan if t["label"] == pool and t["cause"] is cause]
                self.emit(names.LEASES, len(count), pool=pool, cause=str(cause))
            past = [self.at - task["cutoff"] for task, _ in orphan if task["label"] == pool]
            self.emit(names.LEASE_OLDEST_SECONDS, max(past, default=0.0), pool=pool)
        self.emit_count_by_pool(
            names.LEASES_CONFIRMED,
            [
                task["label"]
                for task, lease in orphan
                if lease["heartbeat_at"] is not None and lease["heartbeat_at"] > task["cutoff"]
            ],
        )
        self.emit_count_by_pool(
            names.SECOND_DECODER_LEASES,
            [
                task["label"]
                for task, _ in orphan
                if any(
                    other["released_at"] is not None
                    and task["stop"] < other["released_at"] <= self.at
                    for other in self.leases_of(task["task_id"])
                )
            ],
        )
        self.emit_count_by_pool(
            names.LEAKED_LEASES,
            [t["label"] for t, _ in pairs if t["finished_at"] is not None and t["stop"] is None],
        )
        slacks = [
            (task["label"], task["deadline_at"] - self.at)
            for task, _ in pairs
            if task["deadline_at"] is not None
        ]
        self.emit_extreme_by_pool(names.DEADLINE_SLACK_SECONDS_MIN, slacks, largest=False)
        self.emit_count_by_pool(
            names.SHED_DUE_LEASES,
            [task["label"] for task, lease in pairs if self.is_shed_due(task, lease)],
        )
        self.emit_count_by_pool(names.DUPLICATE_IN_FLIGHT, self.duplicates())
        self.emit_count_by_pool(names.LEASES_OUTSIDE_POOL, self.leases_outside())

    def is_shed_due(self, task: Row, lease: Row) -> bool:
        """Say whether the lease can't be trusted to beat its task's deadline."""
        if task["finished_at"] is not None or not task["cancellable"]:
            return False
        if task["deadline_at"] is None:
            return False
        slack = task["deadline_at"] - self.at
        return bool(lease["age"] + self.grace(task["label"]) > slack)

    def duplicates(self) -> list[str]:
        """Return the pool of every live lease beyond its request's first."""
        requests: dict[tuple[str, str], list[Row]] = {}
        for lease in self.leases:
            if not lease["live"] or lease["task_id"] is None:
                continue
            task = self.task_of(lease)
            if task is not None and task["retry_id"] is not None:
                request = ("retry", task["retry_id"])
            else:
                request = ("task", lease["task_id"])
            requests.setdefault(request, []).append(lease)
        extra: list[str] = []
        for leases in requests.values():
            ordered = sorted(
                leases,
                key=lambda lease: (
                    lease["acquired_at"] is not None,
                    lease["acquired_at"] or 0.0,
                    lease["task_id"],
                    lease["worker_id"] or "",
                ),
            )
            for lease in ordered[1:]:
                label = self.label_of_lease(lease)
                acquired = lease["acquired_at"]
                if acquired is None or self.at - acquired > self.grace(label):
                    extra.append(label)
        return extra

    def leases_outside(self) -> list[str]:
        """Return the task's pool of every live lease that serves the other role."""
        outside: list[str] = []
        for lease in self.leases:
            if not lease["live"] or lease["task_id"] is None:
                continue
            task = self.task_of(lease)
            own = None if task is None else task["pool"]
            pool = self.pool_of(own, lease["task_id"])
            roles = {self.role(pool), self.role(lease["pool"])}
            if None not in roles and len(roles) == 2:
                outside.append(self.label(pool))
        return outside

    def held_at_stop(self, task: Row) -> list[Row]:
        """Return the leases that the task held when nobody waited for it any more."""
        return [
            lease
            for lease in self.leases_of(task["task_id"])
            if (lease["acquired_at"] is None or lease["acquired_at"] <= task["stop"])
            and (lease["released_at"] is None or lease["released_at"] > task["stop"])
        ]

    def emit_propagation(self) -> None:
        """Emit how long client cancels took to reach the worker."""
        open_labels: list[str] = []
        settled: list[tuple[str, float]] = []
        for task in self.tasks:
            if not task["abandoned"] or task["cause"] is not Cause.CLIENT_CANCEL:
                continue
            if not self.held_at_stop(task):
                continue
            leases = self.leases_of(task["task_id"])
            if any(lease["released_at"] is None for lease in leases):
                open_labels.append(task["label"])
            elif task["watched"]:
                signs = [lease["released_at"] for lease in leases]
                signs += [row["charged_at"] for row in self.charges_of(task["task_id"])]
                settled.append((task["label"], max(0.0, max(signs) - task["stop"])))
        self.emit_count_by_pool(names.CANCEL_PROPAGATION_OPEN, open_labels)
        if not self.sees_ledger:
            return
        family = names.CANCEL_PROPAGATION_SECONDS
        for pool in self.pools:
            mine = [seconds for label, seconds in settled if label == pool]
            for edge in (*names.PROPAGATION_BUCKETS, math.inf):
                under = [seconds for seconds in mine if seconds <= edge]
                self.emit(f"{family}_bucket", len(under), pool=pool, le=str(edge))
            self.emit(f"{family}_sum", sum(mine), pool=pool)
            self.emit(f"{family}_count", len(mine), pool=pool)
