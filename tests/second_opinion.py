"""A second opinion on sections 4 and 6: every number again, naively, from rows in plain lists.

``evaluate`` returns the JSON document of ``snapshot`` as far as the contract fixes it. Families
that are unknown are absent. ``doubtful`` names what sits on a knife's edge of inexact arithmetic.
"""

import math
from typing import Any

from second_opinion_facts import Row
from second_opinion_ledger import LedgerNumbers

from orphanwatch.exporter import names
from orphanwatch.exporter.names import Action, Condition, KeyKind


def evaluate(stack: dict[str, list[Row] | None], settings: Row, at: float) -> dict[str, Any]:
    """Return the document of one instant; a store that is None can't be read."""
    return SecondOpinion(stack, settings, at).document()


class SecondOpinion(LedgerNumbers):
    """The whole opinion of one instant."""

    def document(self) -> dict[str, Any]:
        """Return everything."""
        self.emit_settings()
        if self.sees_tasks:
            self.emit_tasks()
        if self.sees_leases:
            self.emit_leases()
        if self.sees_leases and self.sees_tasks:
            self.emit_leases_of_tasks()
            self.emit_propagation()
        self.emit_queue()
        self.emit_ledger()
        self.emit_joins()
        self.emit_split()
        self.emit_fail_closed()
        others = [task for task in self.all_tasks if task not in self.tasks]
        for task in others:
            self.judge(task)
        if any(self.has_traces(task) for task in others):
            self.doubtful.add("verdict")  # nobody has to look at these, anybody may
        return {
            "at": self.at,
            "verdict": {"action": str(self.action())},
            "metrics": self.metrics,
            "orphans": self.orphans(),
            "doubtful": sorted(self.doubtful),
        }

    def budget(self, pool: str) -> float | None:
        """Return the deadline budget of an overflow pool; None under five tasks."""
        lengths = sorted(
            task["deadline_at"] - task["submitted_at"]
            for task in self.tasks
            if task["label"] == pool
            and task["deadline_at"] is not None
            and task["submitted_at"] is not None
            and self.in_spend_window(task["submitted_at"])
        )
        if len(lengths) < 5:
            return None
        return float(lengths[math.ceil(0.05 * len(lengths)) - 1])

    def cancel_slower_than_slack(self, pool: str) -> bool | None:
        """Judge the condition; None where it can't be known."""
        if not self.sees_tasks:
            return None
        budget = self.budget(pool)
        if budget is None:
            return False
        if not self.settings["has_queue"]:
            return self.grace(pool) > budget  # no queue, no wait in it
        if self.queue["age_seconds"] is None:
            return True if self.grace(pool) > budget else None
        return self.grace(pool) > round(budget - float(self.queue["age_seconds"]), 6)

    def no_cancel_channel(self, pool: str) -> bool | None:
        """Judge the condition; None where it can't be known."""
        if not self.settings["pools"][pool].get("cancel_channel", True):
            return True
        if not (self.sees_tasks and self.sees_leases):
            return None
        held = [
            self.held_at_stop(task)
            for task in self.tasks
            if task["abandoned"]
            and task["label"] == pool
            and task["stop"] > self.at - self.horizon
            and self.held_at_stop(task)
        ]
        released = [
            lease for leases in held for lease in leases if lease["released_at"] is not None
        ]
        return len(held) >= 5 and not released

    def heartbeat_too_slow(self, pool: str) -> bool | None:
        """Judge the condition; None where it can't be known."""
        if not (self.sees_tasks and self.sees_leases):
            return None
        budget, period = self.budget(pool), self.value(names.HEARTBEAT_PERIOD_SECONDS, pool=pool)
        if budget is None or period is None:
            return False
        if math.isclose(period, 1.1 * budget / 3, rel_tol=1e-9):
            self.doubtful |= {str(names.FAIL_CLOSED), str(names.OVERFLOW_ADMISSION_ALLOWED)}
            self.doubtful.add("verdict")
        return period > 1.1 * budget / 3

    def above_zero(self, name: object, **labels: str) -> bool | None:
        """Judge a condition that is a metric above zero; None where the metric is unknown."""
        value = self.value(name, **labels)
        return None if value is None else value > 0

    def emit_fail_closed(self) -> None:
        """Emit the conditions of every overflow pool, and whether it admits."""
        worker = str(KeyKind.WORKER)
        for pool in self.overflow:
            budget = self.budget(pool) if self.sees_tasks else None
            if budget is not None:
                self.emit(names.DEADLINE_BUDGET_SECONDS, budget, pool=pool)
            conditions: dict[Condition, bool | None] = {
                Condition.CANCEL_SLOWER_THAN_SLACK: self.cancel_slower_than_slack(pool),
                Condition.NO_CANCEL_CHANNEL: self.no_cancel_channel(pool),
                Condition.RETRY_ID_MISSING: self.above_zero(
                    names.RETRIES_WITHOUT_RETRY_ID, pool=pool
                ),
                Condition.LEDGER_KEYED_BY_HOST: self.above_zero(names.UNMATCHED_TOKENS, key=worker),
                Condition.HEARTBEAT_TOO_SLOW: self.heartbeat_too_slow(pool),
                Condition.SECOND_DECODER: self.above_zero(names.DUPLICATE_IN_FLIGHT, pool=pool),
                Condition.ORPHAN_TOKENS: self.above_zero(names.TOKEN_DELTA, pool=pool),
                Condition.BLIND: self.is_blind(),
            }
            for condition, holds in conditions.items():
                if holds is not None:
                    self.emit(names.FAIL_CLOSED, holds, pool=pool, condition=str(condition))
            # Closed unless every condition is known not to hold: in doubt, it fails closed.
            allowed = all(holds is False for holds in conditions.values())
            self.emit(names.OVERFLOW_ADMISSION_ALLOWED, allowed, pool=pool)

    def is_blind(self) -> bool:
        """Say whether a store that the two arms need can't be read."""
        return not (self.sees_tasks and self.sees_leases and self.sees_ledger)

    def action(self) -> Action:
        """Return the verdict: the first row of section 6 that holds."""
        if any(
            self.any_above_zero(name)
            for name in (names.TOKEN_DELTA, names.LEASES, names.DUPLICATE_IN_FLIGHT)
        ):
            return Action.SHED
        if self.is_blind():
            return Action.BLIND
        if self.was_orphan_lately() or self.any_above_zero(names.FAIL_CLOSED):
            return Action.HOLD
        return Action.SCALE

    def was_orphan_lately(self) -> bool:
        """Say whether an orphan charge, or the end of an orphan lease, is too recent."""
        return any(self.has_traces(task) for task in self.tasks)

    def has_traces(self, task: Row) -> bool:
        """Say whether a task was charged, or held a lease, past its cutoff until a while ago."""
        since = self.at - self.settings["reopen_hold"]
        for part in task["parts"]:
            # What is only reported ("prorated: report") keeps nothing closed.
            some = part["tokens"] > 0 or part["straddling"] > 0
            if some and part["at"] > since and self.is_shown(part):
                return True
        return task["abandoned"] and any(
            since < lease["ended_at"] <= self.at and lease["ended_at"] > task["cutoff"]
            for lease in self.leases_of(task["task_id"])
        )

    def orphans(self) -> list[Row]:
        """Return every watched task with orphan tokens or an orphan lease, in no order."""
        found: list[Row] = []
        for task in self.tasks:
            tokens = sum(part["tokens"] for part in task["parts"])
            leased = bool(task["live"]) and self.is_orphan_lease(task)
            if not task["watched"] or not (tokens > 0 or leased):
                continue
            stop = task["finished_at"] if task["stop"] is None else task["stop"]
            found.append(
                {
                    "task_id": task["task_id"],
                    "retry_id": task["retry_id"],
                    "pool": task["label"],
                    "cause": str(task["cause"]),
                    "abandoned_at": stop,
                    "cutoff_at": task["cutoff"],
                    "orphan_tokens": tokens if self.sees_ledger else None,
                    "lease_live": bool(task["live"]) if self.sees_leases else None,
                    "seconds_past_cutoff": self.at - task["cutoff"],
                }
            )
        return found
