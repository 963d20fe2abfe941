"""How a column of text writes its stamps, so that most of what is too old need not be read.

To read a stamp out of a text takes a server a hundred times as long as to compare two texts.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, and_, func, not_, or_

from orphanwatch.exporter.instants import SECOND, Instant
from orphanwatch.exporter.stores.sql.dialect_zones import WallClock, datetime_of

_STAMP: Final = re.compile(
    r"\d{4}-\d\d-\d\d(?P<between>[T ])\d\d(?::?\d\d(?::?\d\d(?:[.,]\d+)?)?)?"
    r"(?P<zone>Z|(?P<sign>[+-])(?P<hours>\d\d)(?::?(?P<minutes>\d\d))?)?",
    re.ASCII,
)
_TO_THE_HOUR: Final = len("2027-01-15T08")
_BETWEEN: Final = len("2027-01-15") + 1
"""The place of what stands between day and time, counted from one."""
_SIGNS_OF_ZONES: Final = "Zz+-"


class TextLayout(NamedTuple):
    """What the stamps of a column have in common: texts of one layout sort as their wall time."""

    between: str
    """A T or a blank, between day and time."""
    zone: str
    """What each ends with; empty where a stamp states no zone."""
    offset: int
    """Microseconds by which wall time is ahead of UTC; where that varies, the least there is."""

    def may_be_after(self, column: ColumnElement[Any], at: Instant) -> ColumnElement[bool]:
        """Return whether a cell of text may be after an instant: so is all of another layout."""
        wall = datetime_of(Instant(at + self.offset))
        hour = wall.isoformat(sep=self.between)[:_TO_THE_HOUR]
        return or_(column >= hour, not_(self._is_of(column)))

    def _is_of(self, column: ColumnElement[Any]) -> ColumnElement[bool]:
        """Return whether a cell is of this layout, or is no stamp at all."""
        between = func.substr(column, _BETWEEN, 1) == self.between
        if self.zone:
            return and_(between, func.right(column, len(self.zone)) == self.zone)
        time = func.substr(column, _BETWEEN)
        return and_(between, *(not_(time.contains(sign)) for sign in _SIGNS_OF_ZONES))


def layout_of(texts: Sequence[object], clock: WallClock) -> TextLayout | None:
    """Return the layout that all of some stamps have, None where they have none in common.

    ``clock`` is that of stamps without a zone.
    """
    found = [_STAMP.fullmatch(text) if isinstance(text, str) else None for text in texts]
    layouts = {None if stamp is None else _layout(stamp, clock) for stamp in found}
    return layouts.pop() if len(layouts) == 1 else None


def _layout(stamp: re.Match[str], clock: WallClock) -> TextLayout:
    zone = stamp["zone"] or ""
    if not zone:
        return TextLayout(stamp["between"], zone, clock.earliest(Instant(0)))
    minutes = int(stamp["hours"] or 0) * 60 + int(stamp["minutes"] or 0)
    offset = minutes * 60 * SECOND
    return TextLayout(stamp["between"], zone, -offset if stamp["sign"] == "-" else offset)
