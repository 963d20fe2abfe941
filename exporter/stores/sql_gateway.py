"""The gateway in SQL: requests, their cancels, deadlines and ends."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Final

from sqlalchemy import (
    ColumnElement,
    String,
    and_,
    case,
    cast,
    false,
    func,
    literal,
    not_,
    or_,
    select,
    true,
    union_all,
)

from orphanwatch.exporter.columns import COLUMNS
from orphanwatch.exporter.config import GatewayStore
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.model import Attached, Budget, Task
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.cells import (
    FALSE_TEXTS,
    clean_id,
    clean_number,
    clean_ok,
    clean_truth,
)
from orphanwatch.exporter.stores.ledger_rows import is_no_id
from orphanwatch.exporter.stores.questions import Windows
from orphanwatch.exporter.stores.relation import Relation
from orphanwatch.exporter.stores.sql import SqlReader

_NAMES: Final = COLUMNS[StoreName.GATEWAY]
_BLANK: Final = Task(None, None, 1, None, None, None, None, None, ok=True, cancellable=True)


def _read_attempt(value: object) -> int:
    number = clean_number(value)
    return 1 if number is None else int(number)


_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "task_id": clean_id,
    "retry_id": clean_id,
    "attempt": _read_attempt,
    "pool": clean_id,
    "outcome": clean_ok,
    "cancellable": clean_truth,
}


class SqlGateway(SqlReader):
    """A table, view or SELECT with one row a task."""

    name: ClassVar = StoreName.GATEWAY
    looked_up: ClassVar = (
        "task_id",
        "retry_id",
        "submitted_at",
        "deadline_at",
        "cancelled_at",
        "finished_at",
    )

    def __init__(self, config: GatewayStore) -> None:
        super().__init__(config)
        self._is_hard = config.deadline == "hard"
        self._flagged: ColumnElement[bool] = false()

    def open(self, windows: Windows) -> None:
        """Connect; until tasks are asked for, no scope is set."""
        super().open(windows)
        self._scope = self.relation

    @property
    def states_submissions(self) -> bool:
        """Whether the relation says when a task was submitted."""
        return self.relation.has("submitted_at")

    def flagged_tasks(self, windows: Windows) -> Sequence[Task]:
        """Return the looked-at tasks that may have stopped, or need another look."""
        self._scope = scope = self._looked_at(windows)
        contested = self._contested_requests(windows)
        doubled = self._doubled_ids(windows)
        self._flagged = _is_true(self._needs_look(windows, contested, doubled))
        statement = select(*scope.selected(_NAMES)).select_from(scope.source).where(self._flagged)
        return self._tasks_of(self.rows(statement))

    def attached(self, windows: Windows) -> Attached:
        """Return sums over the tasks that ``flagged_tasks`` has just left out."""
        if not self.states_submissions:
            return Attached(0.0, 0.0, 0.0)
        instants = self._scope.instants
        submitted = instants["submitted_at"]
        finished = instants.get("finished_at")
        is_waiting = self._is_unfinished(windows.at)
        begin = submitted.epoch_micros()
        end = literal(windows.at) if finished is None else finished.epoch_micros()

        def overlap(start: Instant, stop: Instant) -> ColumnElement[Any]:
            length = _clipped(end, start, stop) - _clipped(begin, start, stop)
            return func.coalesce(func.sum(case((end < begin, 0), else_=length)), 0)

        statement = (
            select(
                func.coalesce(func.sum(case((is_waiting, 1), else_=0)), 0),
                overlap(windows.spend_start, windows.spend_end),
                overlap(windows.baseline_start, windows.spend_start),
            )
            .select_from(self._scope.source)
            .where(
                self._is_unfinished(windows.baseline_start),
                submitted.by(windows.at),
                not_(self._flagged),
                not_(_is_true(self._stopped_long_ago(windows))),
            )
        )
        now, spend, baseline = self.rows(statement)[0]
        return Attached(
            float(now),
            spend / (windows.spend_end - windows.spend_start),
            baseline / (windows.spend_start - windows.baseline_start),
        )

    def tasks(self, task_ids: Collection[str]) -> Sequence[Task]:
        """Return the tasks of these ids, however old."""
        rows = self.rows_for(task_ids, "task_id", lambda within: self._select().where(within))
        return [task for task in self._tasks_of(rows) if task.task_id in task_ids]

    def completed_ids(self, retry_ids: Collection[str], windows: Windows) -> Sequence[str]:
        """Return the ids of tasks of these requests that finished with outcome ok by now."""
        if not self.relation.has("retry_id") or not self.relation.has("finished_at"):
            return ()
        task_id = self.relation["task_id"]
        is_done = self.relation.instants["finished_at"].by(windows.at)
        rows = self.rows_for(
            retry_ids,
            "retry_id",
            lambda within: select(task_id).where(within, is_done, self._is_ok(self.relation)),
        )
        return [key for row in rows if (key := clean_id(row[0])) is not None]

    def tasks_of_requests(self, retry_ids: Collection[str]) -> Sequence[Task]:
        """Return the tasks of these requests, however old."""
        rows = self.rows_for(retry_ids, "retry_id", lambda within: self._select().where(within))
        return [task for task in self._tasks_of(rows) if task.retry_id in retry_ids]

    def budgets(self, windows: Windows, pools: Collection[str]) -> Sequence[Budget]:
        """Return the budgets of tasks submitted in the spend window, of these pools or of none."""
        relation = self.relation
        if not (relation.has("submitted_at") and relation.has("deadline_at")):
            return ()
        submitted = relation.instants["submitted_at"]
        deadline = relation.instants["deadline_at"]
        pool = relation["pool"] if relation.has("pool") else literal(None)
        statement = select(relation["task_id"], pool, submitted.column, deadline.column).where(
            submitted.within(windows.spend_start, windows.spend_end),
            deadline.column.is_not(None),
            or_(pool.in_(sorted(pools)), is_no_id(pool)),
        )
        budgets = []
        for task_id, named, start, end in self.rows(statement):
            try:
                begins, ends = submitted.reader()(start), deadline.reader()(end)
            except (ValueError, TypeError, OverflowError):
                continue  # the flagged rows hold it too, and count it
            if begins is not None and ends is not None:
                budgets.append(Budget(clean_id(task_id), clean_id(named), begins, ends - begins))
        return budgets

    def _select(self) -> Any:
        return select(*self.relation.selected(_NAMES)).select_from(self.relation.source)

    def _tasks_of(self, rows: Any) -> Sequence[Task]:
        return self.facts(rows, _NAMES, _READERS, _BLANK)

    def _looked_at(self, windows: Windows, names: Sequence[str] = _NAMES) -> Relation:
        """Return the tasks to which something happened, or that are due, after the scope's start.

        A part for each stamp, so that an index serves each: one condition that joins them by "or"
        would read all tasks there ever were.
        """
        relation = self.relation
        cells = [relation[name].label(name) for name in names if relation.has(name)]
        found: list[ColumnElement[bool]] = []
        parts = []
        for name in ("submitted_at", "cancelled_at", "deadline_at", "finished_at"):
            if relation.has(name):
                happened = relation.instants[name].reaches(windows.scope_start)
                parts.append(select(*cells).where(happened, *(not_(_is_true(it)) for it in found)))
                found.append(happened)
        scope = union_all(*(parts or [select(*cells).where(false())])).subquery("rel")
        return relation.moved_to(scope, {column.name: column for column in scope.c})

    def _needs_look(
        self, windows: Windows, contested: Collection[str], doubled: Collection[str]
    ) -> ColumnElement[bool]:
        relation = self._scope
        instants = relation.instants
        reasons: list[ColumnElement[bool]] = []
        if relation.has("cancelled_at"):
            reasons.append(instants["cancelled_at"].within(windows.scope_start, windows.at))
        if self._is_hard and relation.has("deadline_at"):
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
            reasons.append(and_(self._is_unfinished(windows.at), self._is_uncancellable()))
        if doubled:
            reasons.append(self.is_among(self._scope, "task_id", doubled))
        return or_(false(), *reasons)

    def _retry_reasons(
        self, windows: Windows, contested: Collection[str]
    ) -> list[ColumnElement[bool]]:
        relation = self._scope
        reasons: list[ColumnElement[bool]] = []
        if contested:
            reasons.append(self.is_among(self._scope, "retry_id", contested))
        if relation.has("attempt") and relation.has("submitted_at"):
            recent = relation.instants["submitted_at"].within(windows.retry_start, windows.at)
            reasons.append(and_(relation["attempt"] > 1, recent))
        if relation.has("retry_id") and relation.has("submitted_at"):
            # Its sibling may have completed before the scope: found by id, as it is rare.
            is_old = relation.instants["submitted_at"].by(windows.scope_start)
            reasons.append(and_(is_old, not_(is_no_id(self._scope["retry_id"]))))
        return reasons

    def _contested_requests(self, windows: Windows) -> Sequence[str]:
        """Return the requests of which one task completed while another had not finished."""
        relation = self.relation
        if not (relation.has("retry_id") and relation.has("finished_at")):
            return ()
        retry_id, finished = relation["retry_id"], relation.instants["finished_at"]
        is_done = finished.by(windows.at)
        end = case((is_done, finished.epoch_micros()), else_=windows.at + 1)
        completion = case((and_(is_done, self._is_ok(relation)), finished.epoch_micros()))
        is_contested = and_(
            func.max(end) >= func.min(completion),
            or_(func.max(end) > func.min(completion), func.count(completion) > 1),
        )
        # Few requests have several tasks: only of those more than the id is looked at.
        rows = self.rows_for(
            self._repeated("retry_id", windows),
            "retry_id",
            lambda within: select(retry_id).where(within).group_by(retry_id).having(is_contested),
        )
        return [key for row in rows if (key := clean_id(row[0])) is not None]

    def _doubled_ids(self, windows: Windows) -> Sequence[str]:
        """Return the ids that stand in more than one row, unless a constraint forbids it."""
        return () if "task_id" in self.relation.unique else self._repeated("task_id", windows)

    def _repeated(self, name: str, windows: Windows) -> Sequence[str]:
        """Return the ids of a column that several of the looked-at tasks have."""
        scope = self._looked_at(windows, (name,))
        column = scope[name]
        several = select(column).select_from(scope.source).group_by(column).having(func.count() > 1)
        return [key for row in self.rows(several) if (key := clean_id(row[0])) is not None]

    def _stopped_long_ago(self, windows: Windows) -> ColumnElement[bool]:
        """Return whether a task stopped before the scope: its stop is none of the newer ones."""
        instants = self._scope.instants
        stops: list[ColumnElement[bool]] = []
        if "cancelled_at" in instants:
            cancelled = instants["cancelled_at"]
            binds = cancelled.epoch_micros() >= instants["submitted_at"].epoch_micros()
            stops.append(and_(cancelled.by(windows.scope_start), binds))
        if self._is_hard and "deadline_at" in instants:
            stops.append(instants["deadline_at"].by(windows.scope_start))
        return or_(false(), *stops)

    def _is_unfinished(self, at: Instant) -> ColumnElement[bool]:
        finished = self._scope.instants.get("finished_at")
        return true() if finished is None else or_(finished.column.is_(None), finished.after(at))

    def _is_not_finished_by_deadline(self, windows: Windows) -> ColumnElement[bool]:
        finished = self._scope.instants.get("finished_at")
        if finished is None:
            return true()
        late = finished.epoch_micros() > self._scope.instants["deadline_at"].epoch_micros()
        return or_(self._is_unfinished(windows.at), late)

    def _is_ok(self, relation: Relation) -> ColumnElement[bool]:
        if not relation.has("outcome"):
            return true()
        outcome = func.lower(func.trim(cast(relation["outcome"], String)))
        return or_(relation["outcome"].is_(None), outcome.in_(("", "ok")))

    def _is_uncancellable(self) -> ColumnElement[bool]:
        flag = func.lower(func.trim(cast(self._scope["cancellable"], String)))
        return flag.in_(sorted(FALSE_TEXTS))


def _is_true(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return a condition in which unknown counts as false, so that its negation is exact."""
    return case((condition, 1), else_=0) == 1


def _clipped(stamp: Any, start: Instant, stop: Instant) -> ColumnElement[Any]:
    """Return microseconds moved into a window; one that has not come is at its end."""
    return case((stamp <= start, start), (stamp < stop, stamp), else_=stop)
