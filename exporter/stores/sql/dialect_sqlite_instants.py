"""Columns of instants in SQLite, where each cell has a type of its own."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, func, literal_column, or_

from orphanwatch.exporter.instants import (
    LARGEST_INSTANT,
    SECOND,
    Instant,
    checked_instant,
    parse_instant,
)
from orphanwatch.exporter.stores.cells import Form, FormKind

_DAY: Final = 86400 * SECOND


def is_number(column: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return whether the cell itself is a number: those sort before every text and blob."""
    return column < literal_column("''")


def _instant_of_text(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the same reading that the border uses, called from within SQL."""
    return func.orphanwatch_instant(column)


@dataclass(frozen=True, slots=True)
class SqliteInstants:
    """A column of instants whose form is that of most of its cells."""

    column: ColumnElement[Any]
    form: Form
    zone: tzinfo = UTC

    def after(self, at: Instant) -> ColumnElement[bool]:
        """Return whether the cell's instant, to the microsecond, is strictly after ``at``."""
        condition = self._after(at)
        is_number = self._is_number()
        return condition if is_number is None else and_(condition, is_number)

    def reaches(self, at: Instant) -> ColumnElement[bool]:
        """Return whether the cell is after ``at`` or can't be read: a condition an index serves."""
        if self.form.kind is FormKind.TEXT:
            stamp = _instant_of_text(self.column)
            unread = and_(self.column.is_not(None), or_(stamp.is_(None), stamp > at))
            return and_(self._from_day_before(at), unread) if self.form.sorts_by_day else unread
        # A cell that is no number sorts after all numbers where the two can meet in one column.
        return self._after(at)

    def by(self, at: Instant) -> ColumnElement[bool]:
        """Return whether the cell's instant is at or before ``at``."""
        if self.form.kind is FormKind.TEXT:
            read: ColumnElement[bool] = _instant_of_text(self.column) <= at
            return read
        by: ColumnElement[bool] = self.column <= self._bound(at)
        return by

    def after_micros(self, micros: ColumnElement[Any]) -> ColumnElement[bool]:
        """Return whether the cell is strictly after an instant that SQL computed."""
        after: ColumnElement[bool]
        if self.form.kind is FormKind.TEXT:
            after = _instant_of_text(self.column) > micros
        else:
            after = self.column > (micros + 0.5) / self.form.micros_per_unit
        return after

    def moved_to(self, column: ColumnElement[Any]) -> "SqliteInstants":
        """Return the same kind of column, as another relation passes it on."""
        return SqliteInstants(column, self.form, self.zone)

    def within(self, start: Instant, end: Instant) -> ColumnElement[bool]:
        """Return whether the cell's instant lies in (start, end]."""
        # A cell that is no number is not at or before ``end`` either: one bound tells.
        return and_(self._after(start), self.by(end))

    def is_missing(self) -> ColumnElement[bool]:
        """Return whether there is no cell."""
        return self.column.is_(None)

    def is_unreadable(self) -> ColumnElement[bool] | None:
        """Return whether there is a cell that states no instant; None where that can't be."""
        if self.form.kind is FormKind.TEXT:
            return and_(self.column.is_not(None), _instant_of_text(self.column).is_(None))
        is_number = self._is_number()
        return None if is_number is None else and_(self.column.is_not(None), ~is_number)

    def epoch_micros(self) -> ColumnElement[Any]:
        """Return the cell in whole microseconds, as the border reads it: exact within SQL too."""
        if self.form.kind is FormKind.TEXT:
            return _instant_of_text(self.column)
        return func.round(self.column * self.form.micros_per_unit)

    def cell(self) -> ColumnElement[Any]:
        """Return the column itself."""
        return self.column

    def reader(self) -> Callable[[Any], Instant | None]:
        """Return the function that reads the column's cells; it raises on what is no instant."""
        zone, unit = self.zone, self.form.micros_per_unit
        is_epoch = self.form.kind is FormKind.EPOCH and unit >= 1

        def read(value: Any) -> Instant | None:
            if value is None:
                return None
            if is_epoch and (type(value) is float or type(value) is int):
                # The column's unit, not the cell's size: one column holds one form.
                return checked_instant(round(value * unit))
            if isinstance(value, str) and not value.strip():
                return None
            return parse_instant(value, zone)

        return read

    def read_all(self, cells: Iterable[Any]) -> list[Instant | None]:
        """Return what ``reader`` makes of each cell, at the pace of a whole column."""
        read, unit = self.reader(), self.form.micros_per_unit
        if self.form.kind is not FormKind.EPOCH or unit < 1:
            return [read(cell) for cell in cells]
        largest = LARGEST_INSTANT / unit
        return [
            # As ``Instant`` is but a name for an integer here, naming it would only cost.
            round(cell * unit)  # type: ignore[misc]
            if type(cell) is float and -largest < cell < largest
            else read(cell)
            for cell in cells
        ]

    def _is_number(self) -> ColumnElement[bool] | None:
        if self.form.kind is not FormKind.EPOCH:
            return None
        largest = LARGEST_INSTANT / self.form.micros_per_unit
        return and_(is_number(self.column), self.column.between(-largest, largest))

    def _after(self, at: Instant) -> ColumnElement[bool]:
        if self.form.kind is not FormKind.TEXT:
            after: ColumnElement[bool] = self.column > self._bound(at)
            return after
        exact: ColumnElement[bool] = _instant_of_text(self.column) > at
        return and_(self._from_day_before(at), exact) if self.form.sorts_by_day else exact

    def _bound(self, at: Instant) -> float:
        # Half a microsecond on: a cell that reads as ``at`` at the border is not after it here.
        return (at + 0.5) / self.form.micros_per_unit

    def _from_day_before(self, at: Instant) -> ColumnElement[bool]:
        # An index serves this; the zone in the text may shift a stamp by up to 14 hours.
        day = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=max(0, at - _DAY))
        since: ColumnElement[bool] = self.column >= day.date().isoformat()
        # What starts with a blank or a zero, and a number among texts, sorts before all days.
        return or_(since, self.column < "1")
