"""Wall time without a zone as SQL reads it: the zone's offsets around an instant, as plain numbers.

A server's own zone tables differ from ours in what they make of an hour that was twice, and may be
missing altogether. Read as the border reads: the first of two passes counts.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, case, literal

from orphanwatch.exporter.instants import SECOND, Instant

_DAY: Final = 86400 * SECOND
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# Offsets are known for so long before and after the instant of a reading; beyond, the outermost
# holds on: an hour more or less in the order of stamps that are years old.
_REACH_DAYS: Final = 800

EARLIEST: Final = Instant(-62_135_596_800 * SECOND)
LATEST: Final = Instant(253_402_300_800 * SECOND - 1)
"""The years 1 to 9999: what a stamp can say in every form."""


class Change(NamedTuple):
    """A change of a zone's offset; lengths in microseconds."""

    wall: int
    """Wall time from which the next offset holds, counted like an instant."""
    before: int
    """The offset until then."""


class WallClock(NamedTuple):
    """The offsets of a zone around an instant."""

    changes: tuple[Change, ...]
    last: int
    """The offset after the last change."""

    @property
    def is_steady(self) -> bool:
        """Return whether one offset holds throughout."""
        return not self.changes

    def earliest(self, at: Instant) -> Instant:
        """Return wall time such that everything after ``at`` is after it."""
        return _within_calendar(at + min(self.last, *(c.before for c in self.changes), self.last))

    def latest(self, at: Instant) -> Instant:
        """Return wall time such that everything up to ``at`` is not after it."""
        return _within_calendar(at + max(self.last, *(c.before for c in self.changes), self.last))

    def offset(self, is_before: Callable[[int], ColumnElement[bool]]) -> ColumnElement[Any]:
        """Return the offset of a cell, given how SQL tells that it lies before a wall time."""
        if self.is_steady:
            return literal(self.last)
        return case(
            *((is_before(change.wall), literal(change.before)) for change in self.changes),
            else_=literal(self.last),
        )


def wall_clock_of(zone: tzinfo, at: Instant) -> WallClock:
    """Return the offsets of a zone around an instant."""
    return _wall_clock_on(zone, _within_calendar(at) // _DAY)


@lru_cache(maxsize=64)
def _wall_clock_on(zone: tzinfo, day: int) -> WallClock:
    changes = []
    first = max(day - _REACH_DAYS, EARLIEST // _DAY + 2)
    last = min(day + _REACH_DAYS, LATEST // _DAY - 2)
    before = _offset(zone, first * _DAY)
    for number in range(first, last + 1):
        after = _offset(zone, number * _DAY)
        if after != before:
            moment = _moment_of_change(zone, (number - 1) * _DAY, number * _DAY)
            changes.append(Change(moment + max(before, after), before))
            before = after
    return WallClock(tuple(changes), before)


def _moment_of_change(zone: tzinfo, start: int, end: int) -> int:
    """Return the second from which the offset is that of ``end``."""
    before = _offset(zone, start)
    while end - start > SECOND:
        middle = (start + end) // 2 // SECOND * SECOND
        if _offset(zone, middle) == before:
            start = middle
        else:
            end = middle
    return end


def _offset(zone: tzinfo, at: int) -> int:
    offset = (_EPOCH + timedelta(microseconds=at)).astimezone(zone).utcoffset()
    return round((offset or timedelta()).total_seconds() * SECOND)


def _within_calendar(at: int) -> Instant:
    return Instant(min(max(at, EARLIEST), LATEST))


def datetime_of(at: Instant) -> datetime:
    """Return an instant as a native stamp in UTC; what is beyond the calendar is at its end."""
    return _EPOCH + timedelta(microseconds=_within_calendar(at))
