"""Rows of a ledger in SQL: which of them count, as increments, and which can't be used.

All three shapes are brought to one form, a relation of increments.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Select,
    case,
    func,
    literal,
    null,
    or_,
    select,
)

from orphanwatch.exporter.names import RejectReason
from orphanwatch.exporter.stores.cells import NO_ID
from orphanwatch.exporter.stores.sql.dialect import Dialect, InstantColumn
from orphanwatch.exporter.stores.sql.relation import Relation

MOST_TOKENS: Final = 1e15
"""No request is charged more: a larger number is none of tokens."""


@dataclass(frozen=True, slots=True)
class Increments:
    """Accepted rows as increments."""

    source: FromClause
    task_id: ColumnElement[Any]
    tokens: ColumnElement[Any]
    charged: InstantColumn


@dataclass(frozen=True, slots=True)
class LedgerRows:
    """The rows of a relation of charges, and columns that are carried along with each."""

    relation: Relation
    dialect: Dialect
    shape: str
    carried: Mapping[str, ColumnElement[Any]] = field(default_factory=dict)

    @property
    def charged(self) -> InstantColumn:
        """When a row was charged."""
        return self.relation.instants["charged_at"]

    @property
    def may_repeat_entries(self) -> bool:
        """Return whether one entry may stand in several rows: nothing in the store forbids it."""
        return self.relation.has("entry_id") and "entry_id" not in self.relation.unique

    def accepted(self, selection: ColumnElement[bool]) -> FromClause:
        """Return the selected rows whose tokens are a number of zero or more, each entry once."""
        columns = {**self.relation.columns, **self.carried}
        rows = (
            select(*(cell.label(name) for name, cell in columns.items()))
            .select_from(self.relation.source)
            .where(selection, *self._is_counted())
        )
        if not self.may_repeat_entries:
            return rows.subquery("accepted")
        numbered = rows.add_columns(self._entry_number()).subquery("numbered")
        return (
            select(numbered)
            .where(or_(numbered.c.entry_number == 1, is_no_id(numbered.c.entry_id)))
            .subquery("accepted")
        )

    def increments(self, selection: ColumnElement[bool]) -> Increments:
        """Return the selected accepted rows as increments; of running totals, their steps up."""
        rows = self.accepted(selection)
        charged = self.charged.moved_to(rows.c.charged_at)
        if self.shape != "cumulative":
            # As doubles: a sum of integers raises where it overflows.
            return Increments(rows, rows.c.task_id, rows.c.tokens * 1.0, charged)
        reached = func.coalesce(_reached_before(rows, charged), 0)
        step = case((rows.c.tokens > reached, rows.c.tokens - reached), else_=0)
        carried = [rows.c[name] for name in self.carried]
        steps = select(rows.c.task_id, rows.c.charged_at, step.label("step"), *carried).subquery(
            "steps"
        )
        return Increments(
            steps, steps.c.task_id, steps.c.step * 1.0, charged.moved_to(steps.c.charged_at)
        )

    def rejects(self, selection: ColumnElement[bool]) -> Select[Any]:
        """Return reason, number and key of the selected rows that can't be used."""
        relation = self.relation
        tokens, unreadable = relation["tokens"], self.charged.is_unreadable()
        is_number = self.dialect.is_number(tokens)
        reasons = [
            (self.charged.is_missing(), RejectReason.MISSING_INSTANT),
            *([] if unreadable is None else [(unreadable, RejectReason.INVALID_INSTANT)]),
            (tokens.is_(None), RejectReason.UNKNOWN_TOKENS),
            *([] if is_number is None else [(~is_number, RejectReason.INVALID_TOKENS)]),
            (or_(tokens > MOST_TOKENS, tokens < -MOST_TOKENS), RejectReason.INVALID_TOKENS),
            (tokens < 0, RejectReason.ADJUSTMENT),
        ]
        reason = case(*((condition, literal(str(why))) for condition, why in reasons))
        # Labelled, so that a server sees the same expressions again in the grouping.
        named = (relation["task_id"], self.charged.cell(), tokens)
        entry = (relation["entry_id"],) if relation.has("entry_id") else ()
        key = (*named, *entry)
        return (
            select(reason, func.count(), *named, *(entry or (null(),)))
            .select_from(relation.source)
            .where(selection, or_(*(condition for condition, _ in reasons)))
            .group_by(reason, *key)
        )

    def steps_back(self, selection: ColumnElement[bool]) -> Select[Any]:
        """Return the keys of running totals that fall below what their task had reached."""
        rows = self.accepted(selection)
        reached = _reached_before(rows, self.charged.moved_to(rows.c.charged_at))
        seen = select(
            rows.c.task_id, rows.c.charged_at, rows.c.tokens, reached.label("reached")
        ).subquery("seen")
        return select(seen.c.task_id, seen.c.charged_at, seen.c.tokens).where(
            seen.c.tokens < seen.c.reached
        )

    def repeats(self, selection: ColumnElement[bool]) -> Select[Any]:
        """Return number and key of the rows that say an entry again."""
        key = (self.relation["task_id"], self.relation["entry_id"])
        return (
            select(func.count() - 1, *key)
            .select_from(self.relation.source)
            .where(selection, *self._is_counted(), ~is_no_id(self.relation["entry_id"]))
            .group_by(*key)
            .having(func.count() > 1)
        )

    def _is_counted(self) -> list[ColumnElement[bool]]:
        tokens = self.relation["tokens"]
        is_number = self.dialect.is_number(tokens)
        return [tokens.between(0, MOST_TOKENS), *([] if is_number is None else [is_number])]

    def _entry_number(self) -> ColumnElement[Any]:
        key = (self.relation["task_id"], self.relation["entry_id"])
        number = func.row_number().over(partition_by=key, order_by=self.charged.epoch_micros())
        return number.label("entry_number")


def _reached_before(rows: FromClause, charged: InstantColumn) -> ColumnElement[Any]:
    """Return the running maximum of the task's total before a row."""
    return func.max(rows.c.tokens).over(
        partition_by=rows.c.task_id,
        order_by=(charged.epoch_micros(), rows.c.tokens),
        rows=(None, -1),
    )


def is_no_id(column: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return whether a cell is no id."""
    return or_(column.is_(None), func.lower(func.trim(column)).in_(sorted(NO_ID)))
