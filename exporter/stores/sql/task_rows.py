"""Rows of a gateway in SQL: which of them have to be looked at one by one, and why."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, case, false, func, not_, or_, true

from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.stores.cells import FALSE_TEXTS
from orphanwatch.exporter.stores.questions import Windows
from orphanwatch.exporter.stores.sql.ledger_rows import is_no_id
from orphanwatch.exporter.stores.sql.relation import Relation

Among = Callable[[Relation, str, Collection[str]], ColumnElement[bool]]
"""Whether a row's id is one of the keys."""


@dataclass(frozen=True, slots=True)
class TaskRows:
    """The tasks of a relation."""

    relation: Relation
    is_among: Among
    deadlines_bind: bool

    def need_look(
        self, windows: Windows, contested: Collection[str], doubled: Collection[str]
    ) -> ColumnElement[bool]:
        """Return whether a task may have stopped, or is to be looked at for another reason."""
        relation = self.relation
        instants = relation.instants
        reasons: list[ColumnElement[bool]] = []
        if relation.has("cancelled_at"):
            reasons.append(instants["cancelled_at"].within(windows.scope_start, windows.at))
        if self.deadlines_bind and relation.has("deadline_at"):
            reasons.append(
                and_(
                    instants["deadline_at"].within(windows.scope_start, windows.at),
                    self._is_not_finished_by_deadline(windows),
                )
            )
        reasons += self._retry_reasons(windows, contested)
        reasons += [
            unreadable
            for stamp in instants.values()
            if (unreadable := stamp.is_unreadable()) is not None
        ]
        if relation.has("cancellable"):
            # What costs least per row and rules out most comes first, here and below.
            reasons.append(and_(self.are_unfinished(windows.at), self._is_uncancellable()))
        if doubled:
            reasons.append(self.is_among(self.relation, "task_id", doubled))
        return or_(false(), *reasons)

    def _retry_reasons(
        self, windows: Windows, contested: Collection[str]
    ) -> list[ColumnElement[bool]]:
        relation = self.relation
        reasons: list[ColumnElement[bool]] = []
        if contested:
            reasons.append(self.is_among(self.relation, "retry_id", contested))
        if relation.has("attempt") and relation.has("submitted_at"):
            recent = relation.instants["submitted_at"].within(windows.retry_start, windows.at)
            reasons.append(and_(relation["attempt"] > 1, recent))
        if relation.has("retry_id") and relation.has("submitted_at"):
            # Its sibling may have completed before the scope: found by id, as it is rare.
            is_old = relation.instants["submitted_at"].by(windows.scope_start)
            reasons.append(and_(is_old, not_(is_no_id(self.relation["retry_id"]))))
        return reasons

    def stopped_long_ago(self, windows: Windows) -> ColumnElement[bool]:
        """Return whether a task stopped before the scope: its stop is none of the newer ones."""
        instants = self.relation.instants
        stops: list[ColumnElement[bool]] = []
        if "cancelled_at" in instants:
            cancelled = instants["cancelled_at"]
            binds = cancelled.epoch_micros() >= instants["submitted_at"].epoch_micros()
            stops.append(and_(cancelled.by(windows.scope_start), binds))
        if self.deadlines_bind and "deadline_at" in instants:
            stops.append(instants["deadline_at"].by(windows.scope_start))
        return or_(false(), *stops)

    def are_unfinished(self, at: Instant) -> ColumnElement[bool]:
        """Return whether a task had not finished by ``at``."""
        finished = self.relation.instants.get("finished_at")
        return true() if finished is None else or_(finished.is_missing(), finished.after(at))

    def _is_not_finished_by_deadline(self, windows: Windows) -> ColumnElement[bool]:
        finished = self.relation.instants.get("finished_at")
        if finished is None:
            return true()
        late = finished.epoch_micros() > self.relation.instants["deadline_at"].epoch_micros()
        return or_(self.are_unfinished(windows.at), late)

    def are_ok(self) -> ColumnElement[bool]:
        """Return whether a task's outcome is ok; one that does not say is."""
        if not self.relation.has("outcome"):
            return true()
        outcome = func.lower(func.trim(self.relation["outcome"]))
        return or_(self.relation["outcome"].is_(None), outcome.in_(("", "ok")))

    def _is_uncancellable(self) -> ColumnElement[bool]:
        flag = func.lower(func.trim(self.relation["cancellable"]))
        return flag.in_(sorted(FALSE_TEXTS))


def is_true(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return a condition in which unknown counts as false, so that its negation is exact."""
    return case((condition, 1), else_=0) == 1
