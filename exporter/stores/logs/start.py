"""Where in a log a scope begins: found by halving, so that years of history cost a few reads."""

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final

from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.stores.logs.files import Place
from orphanwatch.exporter.stores.logs.lines import LONGEST_LINE
from orphanwatch.exporter.stores.logs.reading import BLOCK, OpenLog

# So much is read at a time, to tell how old the lines there are.
_STRETCH: Final = 64 * 1024
# And so much at most: part of a line, and a whole one.
_REACH: Final = 2 * LONGEST_LINE
# A file that is no longer than this is read from its first line on.
_SHORT: Final = 4 * LONGEST_LINE


class Age(Enum):
    """How a place of a log, or its end, stands to the scope."""

    OLD = "old"
    """Everything up to there was written before the scope."""
    NEW = "new"
    UNKNOWN = "unknown"
    """No line there tells."""


class ScopeStart:
    """Tells the first line that may be from after an instant.

    Lines stand in the order in which they were written, and each was written at most so long
    after the newest instant that it states: so what stands before a line that states an older
    instant than ``since`` less that is from before ``since``. The instants themselves need no
    order, and the newest of many lines counts: one that is wrong can't lead far.
    """

    def __init__(
        self, newest_of: Callable[[bytes], Instant | None], since: Instant, delay: int
    ) -> None:
        """``newest_of`` reads a line's newest instant; ``delay`` is in microseconds."""
        self._newest_of = newest_of
        self._oldest = since - delay

    def may_hold(self, place: Place) -> bool:
        """Return whether a file was written after the scope's start, by its own time stamp."""
        return place.modified_ns // 1000 >= self._oldest

    def seek(self, log: OpenLog) -> Age:
        """Set the offset of a log to where the scope begins, and return how old its end is.

        Where no line tells, none is a record, and its very end is all that is read of it.
        """
        size = log.size
        log.offset = self._start_in(log, size) if size > _SHORT else 0
        age = self._age_at(log, max(0, size - _STRETCH))
        return age if age is not Age.UNKNOWN else self._age_at(log, max(0, size - _REACH))

    def _start_in(self, log: OpenLog, size: int) -> int:
        if self._age_at(log, 0) is Age.NEW:
            return 0
        low, high = 0, size
        while high - low > _STRETCH:
            middle = (low + high) // 2
            age = self._age_at(log, middle)
            if age is Age.UNKNOWN:
                age = self._age_around(log, low, middle, high)
            if age is Age.OLD:
                low = middle
            else:
                high = middle
        # From the start of a stretch on, so that its bad lines are counted whole after a restart.
        return _line_after(log, low - low % BLOCK)

    def _age_around(self, log: OpenLog, low: int, middle: int, high: int) -> Age:
        """Return the age of a place where no line tells, by those before and after it."""
        if any(self._age_at(log, place) is Age.OLD for place in _away(middle, high)):
            return Age.OLD
        # There are no old lines after it. Where there are none of any age before it either, it
        # is the lines without a record at the head of the log that end here.
        is_headless = all(self._age_at(log, place) is Age.UNKNOWN for place in _away(middle, low))
        return Age.OLD if is_headless else Age.NEW

    def _age_at(self, log: OpenLog, offset: int) -> Age:
        """Return the age of the first lines after an offset that tell."""
        rest, is_whole = b"", offset == 0
        for start in range(offset, offset + _REACH, _STRETCH):
            chunk = log.read_at(start, _STRETCH)
            *lines, rest = (rest + chunk).split(b"\n")
            if len(chunk) < _STRETCH:
                lines.append(rest)
            told = [self._newest_of(line) for line in lines[not is_whole :]]
            if newest := [at for at in told if at is not None]:
                return Age.OLD if max(newest) < self._oldest else Age.NEW
            if len(chunk) < _STRETCH:
                break
            is_whole = is_whole or bool(lines)
        return Age.UNKNOWN


def _away(start: int, end: int) -> Iterator[int]:
    """Yield places from one on towards another, each twice as far as the last."""
    step = LONGEST_LINE
    while step < abs(end - start):
        yield start + step if end > start else start - step
        step *= 2


def _line_after(log: OpenLog, offset: int) -> int:
    """Return where the first line begins after an offset within a line; zeros are no line."""
    chunk = log.read_at(offset, LONGEST_LINE)
    if not offset or chunk.startswith(b"\0"):
        return offset
    end = chunk.find(b"\n")
    log.is_within_long_line = end < 0
    return offset + end + 1
