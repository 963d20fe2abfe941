"""Columns of instants on servers, where a column's type says what its cells can be.

SQL reads the cells and hands over whole microseconds: what the questions compare and what the
border reads is one reading.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Self

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    Numeric,
    and_,
    case,
    cast,
    func,
    literal,
    null,
    or_,
)

from orphanwatch.exporter.instants import LARGEST_INSTANT, SECOND, Instant, checked_instant
from orphanwatch.exporter.stores.sql.text_layouts import TextLayout

_DAY: Final = 86400 * SECOND
_LARGEST_INTEGER: Final = 2**63 - 1

# Selected for a cell that can't be read: beyond all times, so that the border refuses it.
_UNREADABLE: Final = LARGEST_INSTANT + 1


@dataclass(frozen=True, slots=True)
class MicrosColumn(ABC):
    """A column of instants that SQL reads."""

    column: ColumnElement[Any]

    def moved_to(self, column: ColumnElement[Any]) -> Self:
        """Return the same kind of column, as another relation passes it on."""
        return replace(self, column=column)

    @abstractmethod
    def after(self, at: Instant) -> ColumnElement[bool]:
        """Return whether the cell's instant, to the microsecond, is strictly after ``at``."""

    @abstractmethod
    def reaches(self, at: Instant) -> ColumnElement[bool]:
        """Return whether the cell is after ``at`` or can't be read: a condition an index serves."""

    @abstractmethod
    def by(self, at: Instant) -> ColumnElement[bool]:
        """Return whether the cell's instant is at or before ``at``."""

    @abstractmethod
    def is_missing(self) -> ColumnElement[bool]:
        """Return whether the cell states nothing."""

    @abstractmethod
    def epoch_micros(self) -> ColumnElement[Any]:
        """Return the cell in whole microseconds, null where it can't be read."""

    def within(self, start: Instant, end: Instant) -> ColumnElement[bool]:
        """Return whether the cell's instant lies in (start, end]."""
        return and_(self.after(start), self.by(end))

    def after_micros(self, micros: ColumnElement[Any]) -> ColumnElement[bool]:
        """Return whether the cell is strictly after an instant that SQL computed."""
        after: ColumnElement[bool] = self.epoch_micros() > micros
        return after

    def is_unreadable(self) -> ColumnElement[bool] | None:
        """Return whether there is a cell that states no instant."""
        return and_(self.column.is_not(None), ~self.is_missing(), self.epoch_micros().is_(None))

    def cell(self) -> ColumnElement[Any]:
        """Return whole microseconds, and what is beyond all times for what can't be read."""
        stated = func.coalesce(self.epoch_micros(), literal(_UNREADABLE))
        return case((self._states_nothing(), null()), else_=stated)

    def reader(self) -> Callable[[Any], Instant | None]:
        """Return the function that reads the selected cells; it raises on what is no instant."""
        return _read

    def read_all(self, cells: Iterable[Any]) -> list[Instant | None]:
        """Return what ``reader`` makes of each cell."""
        return [None if cell is None else checked_instant(cell) for cell in cells]

    def _states_nothing(self) -> ColumnElement[bool]:
        return self.is_missing()


def _read(cell: Any) -> Instant | None:
    return None if cell is None else checked_instant(cell)


def _is_null(column: ColumnElement[Any]) -> ColumnElement[bool]:
    return column.is_(None)


@dataclass(frozen=True, slots=True)
class Scale:
    """How the cells of an ordered column stand to instants."""

    first: ColumnElement[Any]
    """Cells before this and after ``last`` are no instants."""
    last: ColumnElement[Any]
    micros: Callable[[ColumnElement[Any]], ColumnElement[Any]]
    """Of a cell between the two."""
    low: Callable[[Instant], ColumnElement[Any]]
    """Whatever is after an instant is greater than this cell."""
    high: Callable[[Instant], ColumnElement[Any]]
    """Whatever is not after an instant is not greater than this cell."""
    is_exact: bool = True
    """Whether the two are one and the same."""
    is_missing: Callable[[ColumnElement[Any]], ColumnElement[bool]] = _is_null
    has_lower: bool = False
    """Whether cells before all instants are to be found, as an order by size puts them last."""


@dataclass(frozen=True, slots=True)
class OrderedInstants(MicrosColumn):
    """Native stamps or epoch numbers: compared as they are stored, so that an index serves."""

    scale: Scale

    def after(self, at: Instant) -> ColumnElement[bool]:
        """Return whether the cell is greater than ``at``, and an instant at all."""
        bounds = (self.column > self.scale.low(at), self.column <= self.scale.last)
        return and_(*bounds, *self._exactly(lambda micros: micros > at))

    def reaches(self, at: Instant) -> ColumnElement[bool]:
        """Return whether the cell is greater than ``at``, instant or not, or below them all."""
        greater: ColumnElement[bool] = self.column > self.scale.low(at)
        return or_(greater, self.column < self.scale.first) if self.scale.has_lower else greater

    def by(self, at: Instant) -> ColumnElement[bool]:
        """Return whether the cell is at or below ``at``, and an instant at all."""
        bounds = (self.column <= self.scale.high(at), self.column >= self.scale.first)
        return and_(*bounds, *self._exactly(lambda micros: micros <= at))

    def within(self, start: Instant, end: Instant) -> ColumnElement[bool]:
        """Return whether the cell lies between the two."""
        bounds = (self.column > self.scale.low(start), self.column <= self.scale.high(end))
        exactly = self._exactly(lambda micros: and_(micros > start, micros <= end))
        return and_(*bounds, *exactly)

    def is_missing(self) -> ColumnElement[bool]:
        """Return whether there is no cell."""
        return self.scale.is_missing(self.column)

    def epoch_micros(self) -> ColumnElement[Any]:
        """Return the cell in whole microseconds, null where it is no instant."""
        is_instant = self.column.between(self.scale.first, self.scale.last)
        return case((is_instant, self.scale.micros(self.column)))

    def _exactly(
        self, holds: Callable[[ColumnElement[Any]], ColumnElement[bool]]
    ) -> tuple[ColumnElement[bool], ...]:
        return () if self.scale.is_exact else (holds(self.epoch_micros()),)


@dataclass(frozen=True, slots=True)
class TextInstants(MicrosColumn):
    """Stamps written as text."""

    text_of: Callable[[ColumnElement[Any]], ColumnElement[Any]]
    instant_of_text: Callable[[ColumnElement[Any]], ColumnElement[Any]]
    sorts_by_day: bool
    """Text that starts with YYYY-MM-DD: its order follows the days."""
    layout: TextLayout | None
    """What the texts have in common beyond that."""

    def after(self, at: Instant) -> ColumnElement[bool]:
        """Return whether the text's instant is after ``at``."""
        return and_(*self._may_be_after(at), self.epoch_micros() > at)

    def reaches(self, at: Instant) -> ColumnElement[bool]:
        """Return whether the text's instant is after ``at``, or it states none."""
        micros = self.epoch_micros()
        unread = and_(self.column.is_not(None), or_(micros.is_(None), micros > at))
        return and_(*self._may_be_after(at), unread)

    def by(self, at: Instant) -> ColumnElement[bool]:
        """Return whether the text's instant is at or before ``at``."""
        by: ColumnElement[bool] = self.epoch_micros() <= at
        return by

    def is_missing(self) -> ColumnElement[bool]:
        """Return whether there is no cell."""
        return self.column.is_(None)

    def epoch_micros(self) -> ColumnElement[Any]:
        """Return what the text states in whole microseconds, null where that is no instant."""
        return self.instant_of_text(self.text_of(self.column))

    def _states_nothing(self) -> ColumnElement[bool]:
        return or_(self.column.is_(None), func.trim(self.text_of(self.column)) == "")

    def _may_be_after(self, at: Instant) -> tuple[ColumnElement[bool], ...]:
        """Return what rules out stamps that are too old without reading them."""
        if not self.sorts_by_day:
            return ()
        is_recent = self._is_from_day_before(at)
        # An index finds the days of the first; of those, the second leaves the last hours.
        finer = () if self.layout is None else (self.layout.may_be_after(self.column, at),)
        return (is_recent, *finer)

    def _is_from_day_before(self, at: Instant) -> ColumnElement[bool]:
        # An index serves this; the zone in the text may shift a stamp by up to 14 hours.
        day = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=max(0, at - _DAY))
        since: ColumnElement[bool] = self.column >= day.date().isoformat()
        # What starts with a blank or a zero sorts before all days.
        return or_(since, self.column < "1")


def scale_of_epochs(column: ColumnElement[Any], micros_per_unit: float) -> Scale:
    """Return the scale of a column of epoch numbers: integers, decimals or doubles."""
    if isinstance(column.type, Integer):
        return _scale_of_integers(micros_per_unit)
    if isinstance(column.type, Numeric) and column.type.asdecimal:
        unit = Decimal(str(micros_per_unit))

        def bound(at: Instant) -> ColumnElement[Any]:
            # Half a microsecond on: what rounds to ``at`` is not after it.
            return literal((Decimal(at) + Decimal("0.5")) / unit, Numeric())

        most = literal(Decimal(LARGEST_INSTANT) / unit, Numeric())
        least = literal(-Decimal(LARGEST_INSTANT) / unit, Numeric())
        return Scale(
            least,
            most,
            lambda cell: cast(func.round(cell * unit), BigInteger),
            bound,
            bound,
            has_lower=True,
        )

    def double(at: Instant) -> ColumnElement[Any]:
        return literal((at + 0.5) / micros_per_unit, column.type)

    largest = LARGEST_INSTANT / micros_per_unit
    return Scale(
        literal(-largest, column.type),
        literal(largest, column.type),
        lambda cell: cast(func.round(cell * literal(micros_per_unit, column.type)), BigInteger),
        double,
        double,
        has_lower=True,
    )


def _scale_of_integers(micros_per_unit: float) -> Scale:
    """Return a scale whose bounds are integers too: an index of integers serves no others."""
    unit = round(micros_per_unit)

    def bound(at: Instant) -> ColumnElement[Any]:
        return _integer(at // unit if unit else at * 1000 + 499)

    def micros(cell: ColumnElement[Any]) -> ColumnElement[Any]:
        whole = cast(cell, BigInteger)
        return whole * unit if unit else cast(func.round(whole / Decimal(1000)), BigInteger)

    largest = LARGEST_INSTANT // unit if unit else LARGEST_INSTANT * 1000
    return Scale(_integer(-largest), _integer(largest), micros, bound, bound)


def _integer(number: int) -> ColumnElement[Any]:
    return literal(max(-_LARGEST_INTEGER, min(_LARGEST_INTEGER, number)), BigInteger())
