"""What metrics say: numbers with their instant, and the rises of counters."""

from bisect import bisect_left
from collections.abc import Collection, Hashable, Mapping
from typing import Final, NamedTuple

from orphanwatch.exporter.instants import SECOND, Instant, Micros

Counter = tuple[Hashable, Hashable]
"""The family, which is a page's series of one name, and the labels."""


class Measured(NamedTuple):
    """A number, and when it was true."""

    value: float
    at: Instant


class Rises(NamedTuple):
    """How much counters rose in the windows of one reading; None is unknown."""

    spend: float | None
    baseline: float | None
    rows: float | None
    """Requests that finished in the spend window."""
    missing: tuple[str, ...] = ()
    """What is configured and was not found."""


_COUNTERS_KEPT: Final = 86400 * SECOND

NO_RISES: Final = Rises(None, None, None)


class RunningTotal:
    """All rises of some counters, added up from reading to reading.

    A counter that falls has started again at 0. So has a label set that is new in a family which
    was there at the last reading, not long ago: a program shows it from its first count on. In a
    family that is new, after a break, and where somebody else shows the counters of programs that
    he may just have found, a new one says nothing yet: what it holds may be of any age.
    """

    def __init__(self) -> None:
        self._last: dict[Counter, Measured] = {}
        self._newest: Collection[Counter] = ()
        """Those of the last reading."""
        self._points: list[Measured] = []

    def add(
        self,
        at: Instant,
        counters: Mapping[Counter, float],
        longest_step: Micros,
        *,
        are_first_hand: bool = True,
    ) -> None:
        """Take in what the counters stand at; first hand, their program itself shows them."""
        newest = self._points[-1] if self._points else Measured(0.0, at)
        is_followed = bool(self._points) and 0 <= at - newest.at <= longest_step
        if at < newest.at:
            self._points.clear()  # the clock was set back: what was before can't be placed
        is_told = is_followed and are_first_hand
        followed = {family for family, _ in self._newest} if is_told else set()
        rise = sum(
            self._rise(counter, value, begins_at_zero=counter[0] in followed)
            for counter, value in counters.items()
        )
        self._newest = counters.keys()
        self._last.update({counter: Measured(value, at) for counter, value in counters.items()})
        if self._points and at == newest.at:
            self._points.pop()
        self._points.append(Measured(newest.value + rise, at))

    def _rise(self, counter: Counter, value: float, *, begins_at_zero: bool) -> float:
        before = self._last.get(counter)
        if before is None:
            return value if begins_at_zero else 0.0
        return value - before.value if value >= before.value else value

    def rise(self, start: Instant, end: Instant, longest_step: Micros) -> float | None:
        """Return the rise in (start, end]; None where the readings don't reach over all of it."""
        at_start, at_end = self._total(start, longest_step), self._total(end, longest_step)
        return None if at_start is None or at_end is None else max(0.0, at_end - at_start)

    def _total(self, at: Instant, longest_step: Micros) -> float | None:
        """Return the total at an instant between two readings, as if it rose evenly there."""
        after = bisect_left(self._points, at, key=lambda point: point.at)
        if after == len(self._points):
            return None
        right = self._points[after]
        if right.at == at:
            return right.value
        if after == 0:
            return None
        left = self._points[after - 1]
        step = right.at - left.at
        if step > longest_step:
            return None  # which side of the instant it rose on can't be told
        return left.value + (right.value - left.value) * (at - left.at) / step

    def forget(self, before: Instant) -> None:
        """Forget what no window reaches any more."""
        first = max(0, bisect_left(self._points, before, key=lambda point: point.at) - 1)
        del self._points[:first]
        # One that is not shown for a while may come back where it was: it is not new then.
        long_ago = before - _COUNTERS_KEPT
        gone = [counter for counter, seen in self._last.items() if seen.at < long_ago]
        for counter in gone:
            del self._last[counter]
