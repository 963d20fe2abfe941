"""Cells of a row: from what a driver hands over to ids, numbers, truth and instants."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from enum import Enum
from string import ascii_letters, digits
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, func, literal, or_

from orphanwatch.exporter.instants import (
    LARGEST_INSTANT,
    SECOND,
    Instant,
    checked_instant,
    instant_of_datetime,
    microseconds_per_unit,
    parse_instant,
)
from orphanwatch.exporter.stores.dialect import DAY, Dialect

NO_ID: Final = frozenset({"", "none", "null"})
"""What stands for "no id", in lower case and without blanks around."""

FALSE_TEXTS: Final = frozenset({"0", "0.0", "false", "f", "no", "n", "off"})


def clean_id(value: object) -> str | None:
    """Return an id as text, None for what is no id. Ids match exactly, blanks included.

    What no store could be asked for is none: a text with a null character, bytes, a fraction.
    """
    if type(value) is str:
        return None if value.strip().lower() in NO_ID or "\0" in value else value
    if value is None or isinstance(value, bytes | bytearray | memoryview | float):
        return None
    return clean_id(str(value))


# A text that starts with one of these is an id: neither blank nor any of ``NO_ID``.
_STARTS_OF_IDS: Final = frozenset((ascii_letters + digits).replace("n", "").replace("N", ""))


def clean_ids(cells: Iterable[object]) -> list[str | None]:
    """Return what ``clean_id`` makes of each cell, at the pace of a whole column."""
    return [
        cell
        if type(cell) is str and cell[:1] in _STARTS_OF_IDS and "\0" not in cell
        else clean_id(cell)
        for cell in cells
    ]


def clean_truth(value: object) -> bool:
    """Return a flag whose absence means true."""
    return value is None or str(value).strip().lower() not in FALSE_TEXTS


def clean_ok(value: object) -> bool:
    """Return whether an outcome is ok; a store that does not say means ok."""
    return value is None or str(value).strip().lower() in {"", "ok"}


def clean_number(value: object) -> float | None:
    """Return a number, None where there is none; raises ``ValueError`` where it is no number."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        try:
            return float(value)  # type: ignore[arg-type]  # Decimal and its like say so themselves
        except TypeError as error:
            raise ValueError(f"a {type(value).__name__} is no number") from error
    number = float(value)
    if number - number != 0:
        raise ValueError("not a finite number")
    return number


class FormKind(Enum):
    """How a column writes its instants."""

    EPOCH = "epoch"
    TEXT = "text"
    NATIVE = "native"


@dataclass(frozen=True, slots=True)
class Form:
    """The one form of a column: epoch numbers of a unit, text, or the driver's own stamps."""

    kind: FormKind = FormKind.EPOCH
    micros_per_unit: float = float(SECOND)
    sorts_by_day: bool = False
    """Text that starts with YYYY-MM-DD: its order follows the days."""


def form_of(values: list[object]) -> Form | None:
    """Return the form that most of the values have, None where there is nothing to tell by."""
    # A zero is no epoch's size: it stands for "not yet" in more than one schema.
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool) and v]
    texts = [v for v in values if isinstance(v, str)]
    stamps = sum(isinstance(v, datetime) for v in values)
    if not numbers and not texts and not stamps:
        return None
    if stamps > max(len(numbers), len(texts)):
        return Form(FormKind.NATIVE)
    if len(texts) > len(numbers):
        dashed = all(v[4:5] == "-" and v[7:8] == "-" and v[:4].isdigit() for v in texts)
        return Form(FormKind.TEXT, sorts_by_day=dashed)
    units = [microseconds_per_unit(number) for number in numbers]
    return Form(FormKind.EPOCH, micros_per_unit=max(set(units), key=units.count))


@dataclass(frozen=True, slots=True)
class InstantColumn:
    """A column of instants, comparable in SQL to ours and readable at the border."""

    column: ColumnElement[Any]
    form: Form
    dialect: Dialect
    zone: tzinfo = UTC

    def after(self, at: Instant) -> ColumnElement[bool]:
        """Return whether the cell's instant, to the microsecond, is strictly after ``at``."""
        condition = self._after(at)
        is_number = self._is_number()
        return condition if is_number is None else and_(condition, is_number)

    def reaches(self, at: Instant) -> ColumnElement[bool]:
        """Return whether the cell is after ``at`` or can't be read: a condition an index serves."""
        if self.form.kind is FormKind.TEXT:
            stamp = self.dialect.instant_of_text(self.column)
            unread = and_(self.column.is_not(None), or_(stamp.is_(None), stamp > at))
            return and_(self._from_day_before(at), unread) if self.form.sorts_by_day else unread
        # A cell that is no number sorts after all numbers where the two can meet in one column.
        return self._after(at)

    def by(self, at: Instant) -> ColumnElement[bool]:
        """Return whether the cell's instant is at or before ``at``."""
        if self.form.kind is FormKind.TEXT:
            read: ColumnElement[bool] = self.dialect.instant_of_text(self.column) <= at
            return read
        by: ColumnElement[bool] = self.column <= self._bound(at)
        return by

    def after_micros(self, micros: ColumnElement[Any]) -> ColumnElement[bool]:
        """Return whether the cell is strictly after an instant that SQL computed."""
        after: ColumnElement[bool]
        if self.form.kind is FormKind.TEXT:
            after = self.dialect.instant_of_text(self.column) > micros
        else:
            after = self.column > (micros + 0.5) / self.form.micros_per_unit
        return after

    def moved_to(self, column: ColumnElement[Any]) -> "InstantColumn":
        """Return the same kind of column, as another relation passes it on."""
        return InstantColumn(column, self.form, self.dialect, self.zone)

    def within(self, start: Instant, end: Instant) -> ColumnElement[bool]:
        """Return whether the cell's instant lies in (start, end]."""
        # A cell that is no number is not at or before ``end`` either: one bound tells.
        return and_(self._after(start), self.by(end))

    def is_unreadable(self) -> ColumnElement[bool] | None:
        """Return whether there is a cell that states no instant; None where that can't be."""
        if self.form.kind is FormKind.TEXT:
            return and_(
                self.column.is_not(None), self.dialect.instant_of_text(self.column).is_(None)
            )
        is_number = self._is_number()
        return None if is_number is None else and_(self.column.is_not(None), ~is_number)

    def epoch_micros(self) -> ColumnElement[Any]:
        """Return the cell in whole microseconds, as the border reads it: exact within SQL too."""
        if self.form.kind is FormKind.TEXT:
            return self.dialect.instant_of_text(self.column)
        return func.round(self.column * self.form.micros_per_unit)

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
            if type(value) is datetime:
                return instant_of_datetime(value, zone)
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
        is_number = self.dialect.is_number(self.column)
        largest = LARGEST_INSTANT / self.form.micros_per_unit
        is_finite = self.column.between(-largest, largest)
        return is_finite if is_number is None else and_(is_number, is_finite)

    def _after(self, at: Instant) -> ColumnElement[bool]:
        if self.form.kind is not FormKind.TEXT:
            after: ColumnElement[bool] = self.column > self._bound(at)
            return after
        exact: ColumnElement[bool] = self.dialect.instant_of_text(self.column) > at
        return and_(self._from_day_before(at), exact) if self.form.sorts_by_day else exact

    def _bound(self, at: Instant) -> Any:
        if self.form.kind is FormKind.NATIVE:
            return literal(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at))
        # Half a microsecond on: a cell that reads as ``at`` at the border is not after it here.
        return (at + 0.5) / self.form.micros_per_unit

    def _from_day_before(self, at: Instant) -> ColumnElement[bool]:
        # An index serves this; the zone in the text may shift a stamp by up to 14 hours.
        day = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=max(0, at - DAY))
        since: ColumnElement[bool] = self.column >= day.date().isoformat()
        # What starts with a blank or a zero, and a number among texts, sorts before all days.
        return or_(since, self.column < "1")
