"""The second opinion's numbers of ledger and queue."""

import math
from typing import Any

import second_opinion_facts as facts
from second_opinion_facts import Row
from second_opinion_leases import LeaseNumbers

from orphanwatch.exporter import names
from orphanwatch.exporter.names import Basis, Cause, KeyKind


class LedgerNumbers(LeaseNumbers):
    """What ledger and queue say, alone and joined with the gateway."""

    def emit_queue(self) -> None:
        """Emit the newest queue sample, as far as it says something."""
        for family, column in (
            (names.QUEUE_DEPTH, "depth"),
            (names.QUEUE_AGE_SECONDS, "age_seconds"),
            (names.QUEUE_IN_FLIGHT, "in_flight"),
            (names.QUEUE_ADMISSION_CAP, "admission_cap"),
        ):
            if self.queue[column] is not None:
                self.emit(family, self.queue[column])
        depth, cap = self.queue["depth"], self.queue["admission_cap"]
        if depth is not None and cap is not None:
            self.emit(names.QUEUE_CALM, depth <= self.settings["calm_depth_ratio"] * cap)
        in_flight = self.queue["in_flight"]
        if depth is not None and in_flight is not None and self.sees_attached:
            attached = len([task for task in self.tasks if self.is_attached_now(task)])
            self.emit(names.IN_FLIGHT_GAP, max(0.0, in_flight + depth - attached))

    def emit_ledger(self) -> None:
        """Emit what the ledger tells, alone and joined with the gateway."""
        if not self.sees_ledger:
            return
        added = facts.split_charges(self.charges, self.settings["shape"])
        spend = [row for row in added if self.in_spend_window(row["charged_at"])]
        base = [row for row in added if self.in_baseline_window(row["charged_at"])]
        total, total_base = sum(r["tokens"] for r in spend), sum(r["tokens"] for r in base)
        self.emit(names.SPEND_TOKENS_PER_SECOND, total / self.window)
        self.emit(names.SPEND_BASELINE_TOKENS_PER_SECOND, total_base / self.baseline)
        self.emit_unmatched(spend)
        self.emit_rising(total / self.window, total_base / self.baseline, len(spend))
        if not self.sees_tasks:
            return
        for pool in self.pools:
            mine = [task for task in self.tasks if task["label"] == pool and task["watched"]]
            delta = sum(part["tokens"] for task in mine for part in self.delta_parts(task))
            self.emit(names.TOKEN_DELTA, delta, pool=pool)
            whole = sum(part["straddling"] for task in mine for part in task["parts"])
            self.emit(names.STRADDLING_TOKENS_TOTAL, whole, pool=pool)
            for cause in Cause:
                for basis in Basis:
                    tokens = sum(
                        part["tokens"]
                        for task in mine
                        for part in task["parts"]
                        if task["cause"] is cause and part["basis"] is basis
                    )
                    labels = {"pool": pool, "cause": str(cause), "basis": str(basis)}
                    self.emit(names.TOKENS_TOTAL, tokens, **labels)

    def delta_parts(self, task: Row) -> list[Row]:
        """Return the orphan parts that the delta window shows."""
        return [
            part
            for part in task["parts"]
            if self.in_delta_window(part["at"]) and self.is_shown(part)
        ]

    def is_shown(self, part: Row) -> bool:
        """Say whether an orphan part may page, or is only reported."""
        return not (part["basis"] is Basis.PRORATED and self.settings["prorated"] == "report")

    def emit_unmatched(self, spend: list[Row]) -> None:
        """Emit the tokens of keys that are no task, as far as the other stores can tell."""
        task_ids = {task["task_id"] for task in self.all_tasks}
        sums = dict.fromkeys(KeyKind, 0.0)
        for row in spend:
            if row["key"] is None:
                sums[KeyKind.EMPTY] += row["tokens"]
            elif row["key"] in task_ids:
                continue
            elif row["key"] in self.workers:
                sums[KeyKind.WORKER] += row["tokens"]
            else:
                sums[KeyKind.UNKNOWN] += row["tokens"]
        self.emit(names.UNMATCHED_TOKENS, sums[KeyKind.EMPTY], key=str(KeyKind.EMPTY))
        if self.sees_tasks and self.sees_leases:
            self.emit(names.UNMATCHED_TOKENS, sums[KeyKind.WORKER], key=str(KeyKind.WORKER))
            if self.live_rows:
                self.emit(names.UNMATCHED_TOKENS, sums[KeyKind.UNKNOWN], key=str(KeyKind.UNKNOWN))

    def emit_joins(self) -> None:
        """Emit what finds its counterpart in another store, row by row."""
        ids = {task["task_id"] for task in self.all_tasks if task["task_id"] is not None}
        if self.sees_ledger:
            if self.sees_tasks:
                self.emit_abandoned_joins()
            rows = [row["key"] for row in self.charges if self.in_spend_window(row["charged_at"])]
            self.emit_joined(names.JOIN_LEDGER_ROWS, rows, ids)
        if self.sees_leases:
            held = [lease["task_id"] for lease in self.leases if lease["released_at"] is None]
            self.emit_joined(names.JOIN_LEASES, held, ids)

    def emit_joined(self, name: object, found: list[Any], ids: set[str]) -> None:
        """Emit how many of the ids are a task's, how many are not, and how many are none."""
        self.emit(name, len([one for one in found if one is None]), task="no_id")
        if not self.sees_tasks:
            return
        self.emit(name, len([one for one in found if one in ids]), task="with")
        if self.live_rows:
            strangers = [one for one in found if one is not None and one not in ids]
            self.emit(name, len(strangers), task="without")

    def emit_abandoned_joins(self) -> None:
        """Emit how many of the abandoned tasks of the horizon were charged at all."""
        counts = {"with": 0, "without": 0, "no_id": 0}
        for task in self.tasks:
            if not task["abandoned"] or not self.at - self.horizon < task["stop"] <= self.at:
                continue
            if task["task_id"] is None:
                counts["no_id"] += 1
            elif self.charges_of(task["task_id"]):
                counts["with"] += 1
            else:
                counts["without"] += 1
        for joined, count in counts.items():
            self.emit(names.JOIN_ABANDONED_TASKS, count, ledger=joined)

    def emit_rising(self, spend: float, base: float, rows: int) -> None:
        """Emit whether spend climbs with nobody to explain it."""
        attached = self.value(names.ATTACHED_TASKS)
        attached_base = self.value(names.ATTACHED_BASELINE_TASKS)
        if attached is None or attached_base is None:
            return
        if self.settings["shape"] == "final" and rows < 30:
            return
        if base == 0:
            self.emit(names.SPEND_RISING, spend > 0 and attached == 0)
            return
        if attached_base > 0:
            ratio = attached / attached_base
        else:
            ratio = 1.0 if attached == 0 else math.inf
        climb = self.settings["rise_ratio"] * base * max(1.0, ratio)
        stay = self.settings["flat_ratio"] * base * ratio
        if math.isclose(spend, climb, rel_tol=1e-9) or math.isclose(spend, stay, rel_tol=1e-9):
            self.doubtful |= {str(names.SPEND_RISING), str(names.SPLIT_SIGNAL)}
        self.emit(names.SPEND_RISING, spend > 0 and (spend >= climb or spend >= stay))

    def emit_split(self) -> None:
        """Emit the picture of 02:17; unknown if any part of it is."""
        calm, rising = self.value(names.QUEUE_CALM), self.value(names.SPEND_RISING)
        if calm is None or rising is None or not self.live_rows:
            return
        since = self.at - self.lag - self.window - self.baseline
        left = any(task["stop"] is not None and task["stop"] > since for task in self.tasks)
        self.emit(names.SPLIT_SIGNAL, calm == 1 and rising == 1 and left)
