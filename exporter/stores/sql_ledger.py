"""The ledger in SQL: tokens charged, summed where they are.

All three shapes are brought to one form, a relation of increments; only a ``final`` row that
straddles a cutoff is read as a row, since its share is computed and not summed.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from sqlalchemy import (
    ColumnElement,
    FromClause,
    String,
    and_,
    case,
    cast,
    func,
    literal,
    null,
    or_,
    select,
)

from orphanwatch.exporter.config import LedgerStore
from orphanwatch.exporter.instants import SECOND, Instant, micros
from orphanwatch.exporter.model import Charges, Cutoff, KeySpend, LedgerWindow
from orphanwatch.exporter.names import RejectReason, StoreName
from orphanwatch.exporter.stores.cells import NO_ID, InstantColumn, clean_ids, clean_number
from orphanwatch.exporter.stores.final_rows import FinalRow, sum_final_rows
from orphanwatch.exporter.stores.questions import Windows
from orphanwatch.exporter.stores.sql import SqlReader, portions

MOST_TOKENS: Final = 1e15
"""No request is charged more: a larger number is none of tokens."""


@dataclass(frozen=True, slots=True)
class _Increments:
    """Accepted rows as increments."""

    source: FromClause
    task_id: ColumnElement[Any]
    tokens: ColumnElement[Any]
    charged: InstantColumn


@dataclass(frozen=True, slots=True)
class _Handed:
    """The watched tasks with their cutoffs, as something that ledger rows can be joined to."""

    cutoffs: FromClause
    names: ColumnElement[bool]
    """Whether a row's id is among theirs: what an index serves."""
    ledger: FromClause
    """The ledger's rows beside the cutoff of their task, where the ids are the same text."""


class SqlLedger(SqlReader):
    """A table, view or SELECT with one row a charge."""

    name: ClassVar = StoreName.LEDGER
    looked_up: ClassVar = ("task_id", "charged_at")

    def __init__(self, config: LedgerStore) -> None:
        super().__init__(config)
        self._shape = config.shape

    def window(self, windows: Windows) -> LedgerWindow:
        """Return all charges of the newest windows, summed by key."""
        rows = self._increments_in(windows.delta_start, windows)
        spend = rows.charged.within(windows.spend_start, windows.spend_end)
        statement = (
            select(
                rows.task_id,
                func.coalesce(func.sum(case((spend, rows.tokens), else_=0)), 0),
                func.max(rows.charged.epoch_seconds()),
                func.sum(case((spend, 1), else_=0)),
            )
            .select_from(rows.source)
            .where(rows.charged.within(windows.delta_start, windows.at))
            .group_by(rows.task_id)
        )
        by_key, spend_rows = _by_key(self.rows(statement))
        self._note_rejected_in(windows)
        return LedgerWindow(
            by_key=by_key,
            baseline_tokens=self._baseline_tokens(windows),
            spend_rows=spend_rows,
        )

    def charges(
        self, cutoffs: Collection[Cutoff], windows: Windows, counting_since: Instant | None
    ) -> Mapping[str, Charges]:
        """Return each task's charges past its cutoff; a task without any row is absent."""
        found: dict[str, Charges] = {}
        for portion in portions(list(cutoffs)):
            handed = self._hand(portion)
            if self._shape == "final":
                found.update(self._final_charges(handed, windows, counting_since))
            else:
                found.update(self._summed_charges(handed, windows, counting_since))
            self._note_rejected_of(handed, windows)
        return found

    def _hand(self, cutoffs: Sequence[Cutoff]) -> _Handed:
        task_id = self.relation["task_id"]
        rows = self.dialect.rows_of(cutoffs, ("task_id", "cutoff", "started"))
        return _Handed(
            cutoffs=rows,
            names=self.is_among("task_id", [cutoff.task_id for cutoff in cutoffs]),
            ledger=self.relation.source.join(rows, cast(task_id, String) == rows.c.task_id),
        )

    def _baseline_tokens(self, windows: Windows) -> float:
        rows = self._increments_in(windows.baseline_start, windows)
        statement = (
            select(func.coalesce(func.sum(rows.tokens), 0))
            .select_from(rows.source)
            .where(rows.charged.within(windows.baseline_start, windows.spend_start))
        )
        return float(self.rows(statement)[0][0])

    def _summed_charges(
        self, handed: _Handed, windows: Windows, counting_since: Instant | None
    ) -> dict[str, Charges]:
        rows = self._increments_of(handed, windows)
        cutoff = rows.source.c.cutoff
        is_orphan = rows.charged.after_micros(cutoff)
        is_recent = rows.charged.after(windows.delta_start)
        is_before = rows.charged.by(counting_since) if counting_since is not None else null()
        stamp = rows.charged.epoch_seconds()

        def total(*conditions: Any) -> ColumnElement[Any]:
            return func.coalesce(func.sum(case((and_(*conditions), rows.tokens), else_=0)), 0)

        statement = (
            select(
                rows.task_id,
                total(is_orphan),
                total(is_orphan, is_recent),
                total(is_orphan, is_before) if counting_since is not None else literal(0),
                func.max(stamp),
                func.max(case((and_(is_orphan, rows.tokens > 0), stamp))),
            )
            .select_from(rows.source)
            .group_by(rows.task_id)
        )
        return {
            str(task_id): Charges(
                charged=float(orphan),
                delta_charged=float(delta),
                charged_before=float(before),
                last_charge=Instant(micros(last)),
                last_orphan_charge=None if newest is None else Instant(micros(newest)),
            )
            for task_id, orphan, delta, before, last, newest in self.rows(statement)
        }

    def _final_charges(
        self, handed: _Handed, windows: Windows, counting_since: Instant | None
    ) -> dict[str, Charges]:
        relation = self.relation
        charged, started = relation.instants["charged_at"], relation.instants.get("started_at")
        source = self._rows_of(handed, windows)
        statement = select(
            source.c.task_id,
            source.c.tokens,
            source.c.charged_at,
            source.c.prompt_tokens if relation.has("prompt_tokens") else null(),
            source.c.started_at if started is not None else null(),
            source.c.cutoff,
            source.c.started,
        )
        read_charge = charged.reader()
        read_start = started.reader() if started is not None else read_charge
        rows: dict[str, list[FinalRow]] = {}
        for task_id, tokens, end, spent, begin, cutoff, fallback in self.rows(statement):
            key = repr((task_id, end, tokens, begin))
            try:
                charged_at, started_at = read_charge(end), read_start(begin)
            except (ValueError, TypeError, OverflowError):
                self.reject(RejectReason.INVALID_INSTANT, key)
                continue
            try:
                prompt_tokens = clean_number(spent) or 0.0
            except (ValueError, TypeError, OverflowError):
                self.reject(RejectReason.INVALID_TOKENS, key)
                continue
            if charged_at is None:
                continue
            start = started_at if started_at is not None else fallback
            row = FinalRow(charged_at, start, float(tokens), prompt_tokens)
            if row.has_unknown_start(Instant(cutoff)):
                self.reject(RejectReason.UNKNOWN_START, key)
            rows.setdefault(str(task_id), []).append(row._replace(cutoff=Instant(cutoff)))
        return {
            task_id: sum_final_rows(listed, windows, counting_since)
            for task_id, listed in rows.items()
        }

    # The rows of a selection, as increments

    def _increments_in(self, start: Instant, windows: Windows) -> _Increments:
        """Return increments such that all of those charged in (start, at] are among them."""
        task_id = self.relation["task_id"]
        charged = self.relation.instants["charged_at"]
        in_window = charged.within(start, windows.at)
        if self._shape != "cumulative":
            return self._as_increments(self._accepted(in_window))
        # A running total needs the rows before the window of each task that has one in it.
        active = select(task_id).where(in_window)
        every = and_(or_(task_id.in_(active), task_id.is_(None)), charged.by(windows.at))
        return self._as_increments(self._accepted(every))

    def _increments_of(self, handed: _Handed, windows: Windows) -> _Increments:
        return self._as_increments(self._rows_of(handed, windows))

    def _rows_of(self, handed: _Handed, windows: Windows) -> FromClause:
        return self._accepted(self.relation.instants["charged_at"].by(windows.at), handed)

    def _accepted(
        self, selection: ColumnElement[bool], handed: _Handed | None = None
    ) -> FromClause:
        """Return the selected rows whose tokens are a number of zero or more, each entry once."""
        relation = self.relation
        columns: dict[str, ColumnElement[Any]] = dict(relation.columns)
        source: FromClause = relation.source
        if handed is not None:
            # The id as it was handed in, and the two that came with it.
            columns |= {name: handed.cutoffs.c[name] for name in ("task_id", "cutoff", "started")}
            source, selection = handed.ledger, and_(handed.names, selection)
        rows = (
            select(*(cell.label(name) for name, cell in columns.items()))
            .select_from(source)
            .where(selection, *self._is_counted())
        )
        if not self._may_repeat_entries():
            return rows.subquery("accepted")
        numbered = rows.add_columns(self._entry_number()).subquery("numbered")
        return (
            select(numbered)
            .where(or_(numbered.c.entry_number == 1, _is_no_id(numbered.c.entry_id)))
            .subquery("accepted")
        )

    def _as_increments(self, rows: FromClause) -> _Increments:
        charged = self.relation.instants["charged_at"].moved_to(rows.c.charged_at)
        if self._shape != "cumulative":
            # As doubles: a sum of integers raises where it overflows.
            return _Increments(rows, rows.c.task_id, rows.c.tokens * 1.0, charged)
        reached = func.coalesce(self._reached_before(rows, charged), 0)
        step = case((rows.c.tokens > reached, rows.c.tokens - reached), else_=0)
        carried = [rows.c.cutoff] if "cutoff" in rows.c else []
        steps = select(rows.c.task_id, rows.c.charged_at, step.label("step"), *carried).subquery(
            "steps"
        )
        return _Increments(
            steps, steps.c.task_id, steps.c.step * 1.0, charged.moved_to(steps.c.charged_at)
        )

    def _reached_before(self, rows: FromClause, charged: InstantColumn) -> ColumnElement[Any]:
        """Return the running maximum of the task's total before a row."""
        return func.max(rows.c.tokens).over(
            partition_by=rows.c.task_id,
            order_by=(charged.epoch_seconds(), rows.c.tokens),
            rows=(None, -1),
        )

    def _is_counted(self) -> list[ColumnElement[bool]]:
        tokens = self.relation["tokens"]
        is_number = self.dialect.is_number(tokens)
        return [tokens.between(0, MOST_TOKENS), *([] if is_number is None else [is_number])]

    def _is_stamped(self) -> list[ColumnElement[bool]]:
        unreadable = self.relation.instants["charged_at"].is_unreadable()
        return [] if unreadable is None else [~unreadable]

    def _may_repeat_entries(self) -> bool:
        return self.relation.has("entry_id") and "entry_id" not in self.relation.unique

    def _entry_number(self) -> ColumnElement[Any]:
        relation = self.relation
        return (
            func.row_number()
            .over(
                partition_by=(relation["task_id"], relation["entry_id"]),
                order_by=relation.instants["charged_at"].epoch_seconds(),
            )
            .label("entry_number")
        )

    # Rows that could not be used

    def _note_rejected_in(self, windows: Windows) -> None:
        charged = self.relation.instants["charged_at"]
        is_later = case((charged.after(windows.at), 1), else_=0) == 1
        in_reach = and_(charged.reaches(windows.baseline_start), ~is_later)
        # Two questions: joined by "or", no index would serve either and the ledger be read whole.
        for selection in (in_reach, charged.column.is_(None)):
            self._note_rejected(self._rejects(selection, self.relation.source))
        if self._shape == "cumulative":
            self._note_regressions(self._increments_in_rows(windows))
        if self._may_repeat_entries():
            self._note_repeats(in_reach, self.relation.source)

    def _note_rejected_of(self, handed: _Handed, windows: Windows) -> None:
        relation = self.relation
        by_now = and_(handed.names, relation.instants["charged_at"].by(windows.at))
        self._note_rejected(self._rejects(by_now, handed.ledger))
        if self._shape == "cumulative":
            self._note_regressions(self._rows_of(handed, windows))
        if self._may_repeat_entries():
            self._note_repeats(by_now, handed.ledger)

    def _rejects(self, selection: ColumnElement[bool], source: FromClause) -> Any:
        relation = self.relation
        tokens, charged = relation["tokens"], relation.instants["charged_at"]
        unreadable = charged.is_unreadable()
        is_number = self.dialect.is_number(tokens)
        reasons = [
            (charged.column.is_(None), RejectReason.MISSING_INSTANT),
            *([] if unreadable is None else [(unreadable, RejectReason.INVALID_INSTANT)]),
            (tokens.is_(None), RejectReason.UNKNOWN_TOKENS),
            *([] if is_number is None else [(~is_number, RejectReason.INVALID_TOKENS)]),
            (or_(tokens > MOST_TOKENS, tokens < -MOST_TOKENS), RejectReason.INVALID_TOKENS),
            (tokens < 0, RejectReason.ADJUSTMENT),
        ]
        reason = case(*((condition, literal(str(why))) for condition, why in reasons))
        entry = relation["entry_id"] if relation.has("entry_id") else null()
        key = (relation["task_id"], charged.column, tokens, entry)
        return (
            select(reason, func.count(), *key)
            .select_from(source)
            .where(selection, or_(*(condition for condition, _ in reasons)))
            .group_by(reason, *key)
        )

    def _note_rejected(self, statement: Any) -> None:
        for reason, count, *key in self.rows(statement):
            self.reject(RejectReason(reason), repr(tuple(key)), count)

    def _increments_in_rows(self, windows: Windows) -> FromClause:
        task_id = self.relation["task_id"]
        charged = self.relation.instants["charged_at"]
        active = select(task_id).where(charged.within(windows.baseline_start, windows.at))
        return self._accepted(and_(task_id.in_(active), charged.by(windows.at)))

    def _note_regressions(self, rows: FromClause) -> None:
        charged = self.relation.instants["charged_at"].moved_to(rows.c.charged_at)
        reached = self._reached_before(rows, charged)
        seen = select(
            rows.c.task_id, rows.c.charged_at, rows.c.tokens, reached.label("reached")
        ).subquery("seen")
        step_back = select(seen.c.task_id, seen.c.charged_at, seen.c.tokens).where(
            seen.c.tokens < seen.c.reached
        )
        for key in self.rows(step_back):
            self.reject(RejectReason.REGRESSION, repr(tuple(key)))

    def _note_repeats(self, selection: ColumnElement[bool], source: FromClause) -> None:
        relation = self.relation
        key = (relation["task_id"], relation["entry_id"])
        statement = (
            select(func.count() - 1, *key)
            .select_from(source)
            .where(
                selection,
                *self._is_counted(),
                *self._is_stamped(),
                ~_is_no_id(relation["entry_id"]),
            )
            .group_by(*key)
            .having(func.count() > 1)
        )
        for count, *ids in self.rows(statement):
            self.reject(RejectReason.DUPLICATE_ENTRY_ID, repr(tuple(ids)), count)


def _by_key(rows: Sequence[Any]) -> tuple[dict[str | None, KeySpend], int]:
    """Return sums by key, with the keys that are no id as one, and the number of spend rows."""
    by_key: dict[str | None, KeySpend] = {}
    spend_rows = 0
    keys = clean_ids(row[0] for row in rows)
    for key, (_, tokens, newest, count) in zip(keys, rows, strict=True):
        last = Instant(round(newest * SECOND))
        before = by_key.get(key)
        by_key[key] = (
            KeySpend(float(tokens), last)
            if before is None
            else KeySpend(before.spend + tokens, max(last, before.last_charge or last))
        )
        spend_rows += count
    return by_key, spend_rows


def _is_no_id(column: ColumnElement[Any]) -> ColumnElement[bool]:
    return or_(column.is_(None), func.lower(func.trim(cast(column, String))).in_(sorted(NO_ID)))
