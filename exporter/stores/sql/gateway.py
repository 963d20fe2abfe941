"""The gateway in SQL: requests, their cancels, deadlines and ends."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Final

from sqlalchemy import (
    ColumnElement,
    and_,
    case,
    false,
    func,
    literal,
    not_,
    null,
    or_,
    select,
    true,
    union_all,
)

from orphanwatch.exporter.columns import COLUMNS
from orphanwatch.exporter.config_stores import SqlGatewayStore
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.model import Attached, Budget, Task
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.cells import (
    clean_id,
    clean_number,
    clean_ok,
    clean_truth,
)
from orphanwatch.exporter.stores.questions import Windows
from orphanwatch.exporter.stores.sql.ledger_rows import is_no_id
from orphanwatch.exporter.stores.sql.reader import SqlReader, may_end_after
from orphanwatch.exporter.stores.sql.relation import Relation
from orphanwatch.exporter.stores.sql.task_rows import TaskRows, is_true

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

    def __init__(self, config: SqlGatewayStore) -> None:
        super().__init__(config)
        self._is_hard = config.deadline == "hard"
        self._longest = config.longest_request
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
        self._flagged = is_true(self._rows.need_look(windows, contested, doubled))
        statement = select(*scope.selected(_NAMES)).select_from(scope.source).where(self._flagged)
        return self._tasks_of(self.rows(statement))

    def attached(self, windows: Windows) -> Attached:
        """Return sums over the tasks that ``flagged_tasks`` has just left out."""
        if not self.states_submissions:
            return Attached(0.0, 0.0, 0.0)
        instants = self._scope.instants
        submitted = instants["submitted_at"]
        finished = instants.get("finished_at")
        is_waiting = self._rows.are_unfinished(windows.at)
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
                self._rows.are_unfinished(windows.baseline_start),
                submitted.by(windows.at),
                not_(self._flagged),
                not_(is_true(self._rows.stopped_long_ago(windows))),
            )
        )
        now, spend, baseline = self.rows(statement)[0]
        return Attached(
            float(now),
            float(spend) / (windows.spend_end - windows.spend_start),
            float(baseline) / (windows.spend_start - windows.baseline_start),
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
            lambda within: select(task_id).where(within, is_done, self._in(self.relation).are_ok()),
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
        pool = relation["pool"] if relation.has("pool") else null()
        of_pools = or_(pool.in_(sorted(pools)), is_no_id(pool)) if relation.has("pool") else true()
        statement = select(relation["task_id"], pool, submitted.cell(), deadline.cell()).where(
            submitted.within(windows.spend_start, windows.spend_end),
            ~deadline.is_missing(),
            of_pools,
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

    def newest_ids(self, windows: Windows, most: int) -> Sequence[str]:
        """Return the ids of at most so many looked-at tasks, those submitted last."""
        scope = self._looked_at(windows, ("task_id", "submitted_at"))
        submitted = scope.instants.get("submitted_at")
        newest = select(scope["task_id"]).select_from(scope.source).limit(most)
        if submitted is not None:
            newest = newest.order_by(func.coalesce(submitted.epoch_micros(), 0).desc())
        return [key for row in self.rows(newest) if (key := clean_id(row[0])) is not None]

    def _select(self) -> Any:
        return select(*self.relation.selected(_NAMES)).select_from(self.relation.source)

    @property
    def _rows(self) -> TaskRows:
        """The tasks that are looked at."""
        return self._in(self._scope)

    def _in(self, relation: Relation) -> TaskRows:
        return TaskRows(relation, self.is_among, deadlines_bind=self._is_hard)

    def _tasks_of(self, rows: Any) -> Sequence[Task]:
        return self.facts(rows, _NAMES, _READERS, _BLANK)

    def _looked_at(self, windows: Windows, names: Sequence[str] = _NAMES) -> Relation:
        """Return the tasks to which something happened, or that are due, after the scope's start.

        A part for each stamp, so that an index serves each: one condition that joins them by "or"
        would read all tasks there ever were.
        """
        relation = self.relation
        cells = [relation[name].label(name) for name in names if relation.has(name)]
        is_recent = may_end_after(relation, "submitted_at", windows.scope_start, self._longest)
        found: list[ColumnElement[bool]] = []
        parts = []
        for name in ("submitted_at", "cancelled_at", "deadline_at", "finished_at"):
            if relation.has(name):
                happened = relation.instants[name].reaches(windows.scope_start)
                elsewhere = (not_(is_true(it)) for it in found)
                parts.append(select(*cells).where(happened, is_recent, *elsewhere))
                found.append(happened)
        scope = union_all(*(parts or [select(*cells).where(false())])).subquery("rel")
        return relation.moved_to(scope, {column.name: column for column in scope.c})

    def _contested_requests(self, windows: Windows) -> Sequence[str]:
        """Return the requests of which one task completed while another had not finished."""
        relation = self.relation
        if not (relation.has("retry_id") and relation.has("finished_at")):
            return ()
        retry_id, finished = relation["retry_id"], relation.instants["finished_at"]
        is_done = finished.by(windows.at)
        end = case((is_done, finished.epoch_micros()), else_=windows.at + 1)
        completion = case((and_(is_done, self._in(relation).are_ok()), finished.epoch_micros()))
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


def _clipped(stamp: Any, start: Instant, stop: Instant) -> ColumnElement[Any]:
    """Return microseconds moved into a window; one that has not come is at its end."""
    return case((stamp <= start, start), (stamp < stop, stamp), else_=stop)
