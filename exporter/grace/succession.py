"""Exporters that followed one another, and replicas of each other, told apart by when they lived.

A pod that is replaced goes on under another name. What both counted belongs together; what two
replicas counted at one time does not, since they saw the same cancels.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from orphanwatch.exporter.grace.buckets import Increase, Scrape, increase_of, sum_of
from orphanwatch.exporter.instants import Instant, Micros

_HANDOVER: Final = Micros(300_000_000)
"""How long a successor may overlap with its predecessor at most: the new one starts first."""
_SMALL_PART: Final = 4
"""And it is a small part of either life: two that have just started are replicas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What one exporter counted of one pool, and when it was there. Never without a scrape."""

    first: Instant
    last: Instant
    scrapes: Sequence[Scrape]
    """As many as it takes to know the rise: all of them where it was reset."""
    base: Scrape
    """What it had counted before the window; empty where it was born within."""

    def follows(self, before: "Life") -> bool:
        """Return whether it took the place of another one."""
        if before.first > self.first or before.last > self.last:
            return False
        shorter = min(self.last - self.first, before.last - before.first)
        return before.last - self.first <= min(_HANDOVER, shorter // _SMALL_PART)

    def goes_on_from(self, before: "Life") -> bool:
        """Return whether it began with what another one ended with: its state file moved along."""
        begins, ended = self.scrapes[0], before.scrapes[-1]
        return any(ended.values()) and all(
            begins.get(edge, 0.0) >= count for edge, count in ended.items()
        )


class _Line(NamedTuple):
    """An exporter with those before it, as far as they count together."""

    total: int
    increases: tuple[Increase, ...]


def increase_of_lives(lives: Iterable[Life]) -> Increase:
    """Return what was counted by the line of successors that counted most, all of them together.

    A successor that goes on from its predecessor's numbers adds what it counted beyond them, any
    other all that it counted.
    """
    ordered = sorted(lives, key=lambda life: (life.first, life.last))
    lines: list[_Line] = []
    for life in ordered:
        lines.append(_longest(life, list(zip(ordered, lines, strict=False))))
    return sum_of(max(lines, key=lambda line: line.total).increases)


def _longest(life: Life, earlier: Sequence[tuple[Life, _Line]]) -> _Line:
    before = [(each, line) for each, line in earlier if life.follows(each)]
    if not life.base and (carried := [pair for pair in before if life.goes_on_from(pair[0])]):
        found = [_extended(line, life, each.scrapes[-1]) for each, line in carried]
    else:
        nothing = _Line(0, ())
        found = [_extended(line, life, life.base) for line in (nothing, *(ln for _, ln in before))]
    return max(found, key=lambda line: line.total)


def _extended(line: _Line, life: Life, base: Scrape) -> _Line:
    increase = increase_of(life.scrapes, base)
    return _Line(line.total + increase.total, (*line.increases, increase))
