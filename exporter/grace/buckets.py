"""What the buckets of a histogram say: how much they rose, and the samples in them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from orphanwatch.exporter.grace.curve import Samples
from orphanwatch.exporter.instants import Micros, micros

Points = list[float]
"""The values of one counter, the oldest first."""


class Increase(NamedTuple):
    """By how much a histogram rose: ``counts`` within each bucket, the last one beyond all."""

    edges: tuple[Micros, ...]
    """The finite upper edges."""
    counts: tuple[int, ...]
    """One more than the edges."""

    @property
    def total(self) -> int:
        """All samples."""
        return sum(self.counts)


def rise_of(points: Sequence[float], base: float | None) -> float:
    """Return by how much a counter rose from its base on.

    Without a base it was born within the window, where the exporter starts it at 0: its first value
    counts. So does the value after a reset, when a counter fell.
    """
    rise, before = 0.0, base or 0.0
    for value in points:
        rise += value - before if value >= before else value
        before = value
    return rise


def increase_of(points: Mapping[float, Points], base: Mapping[float, float]) -> Increase:
    """Return the increase of a histogram from the cumulative counters of its buckets."""
    edges = sorted(points)
    counts: list[int] = []
    below = 0
    for edge in edges:
        # A scrape may fall between two buckets of an update; none may take another's samples.
        reached = max(below, round(rise_of(points[edge], base.get(edge))))
        counts.append(reached - below)
        below = reached
    if not edges or not math.isinf(edges[-1]):
        counts.append(0)
    return Increase(tuple(micros(edge) for edge in edges if math.isfinite(edge)), tuple(counts))


def samples_of(increase: Increase, open_ones: int) -> Samples:
    """Return samples at the upper edges of their buckets: never faster than they were.

    Those beyond the last edge, and those that are open, are only known to be slower than all edges:
    they stay under way up to the end of the curve.
    """
    last = increase.edges[-1] if increase.edges else Micros(0)
    return Samples(
        tuple(_repeated(zip(increase.edges, increase.counts, strict=False))),
        (last,) * (increase.counts[-1] + open_ones),
    )


def _repeated(pairs: Iterable[tuple[Micros, int]]) -> Iterable[Micros]:
    for edge, count in pairs:
        yield from (edge,) * count
