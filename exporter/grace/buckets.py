"""What the buckets of a histogram say: how much they rose, and the samples in them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from orphanwatch.exporter.grace.curve import Samples
from orphanwatch.exporter.instants import Micros, micros

Scrape = Mapping[float, float]
"""The buckets of a histogram at one instant: counters, cumulative, by their upper edges."""

_MOST: Final = 1_000_000
"""Samples that a curve is drawn from: a week of a large service has a hundred times as many."""


class Increase(NamedTuple):
    """By how much a histogram rose: ``counts`` within each bucket, the last one beyond all."""

    edges: tuple[Micros, ...]
    """The finite upper edges."""
    counts: tuple[int, ...]
    """One more than the edges."""
    is_whole: bool = True
    """False without the bucket of ``+Inf``: nobody knows how many took longer than all edges."""

    @property
    def total(self) -> int:
        """All samples."""
        return sum(self.counts)


def rise_of(scrapes: Iterable[Scrape], base: Scrape) -> dict[float, float]:
    """Return by how much each bucket rose from its base on.

    Without a base it was born within the window, where the exporter starts it at 0: its first value
    counts. So does the value after a reset. Where one bucket fell, the whole histogram began anew:
    those that have outgrown what they were by then tell it by nothing of their own.
    """
    rise: dict[float, float] = {}
    before = dict(base)
    for scrape in scrapes:
        if any(value < before.get(edge, 0.0) for edge, value in scrape.items()):
            before = {}
        for edge, value in scrape.items():
            rise[edge] = rise.get(edge, 0.0) + value - before.get(edge, 0.0)
        before |= scrape
    return rise


def increase_of(scrapes: Iterable[Scrape], base: Scrape) -> Increase:
    """Return the increase of a histogram from its scrapes, the oldest first."""
    rise = rise_of(scrapes, base)
    edges = sorted(rise)
    counts: list[int] = []
    below = 0
    for edge in edges:
        # A scrape may fall between two buckets of an update; none may take another's samples.
        reached = max(below, round(rise[edge]))
        counts.append(reached - below)
        below = reached
    is_whole = bool(edges) and math.isinf(edges[-1])
    if not is_whole:
        counts.append(0)
    finite = tuple(micros(edge) for edge in edges if math.isfinite(edge))
    return Increase(finite, tuple(counts), is_whole)


def sum_of(increases: Sequence[Increase]) -> Increase:
    """Return what several histograms rose by together, each sample at an edge of its own one."""
    within: dict[Micros, int] = {}
    for increase in increases:
        for edge, count in zip(increase.edges, increase.counts, strict=False):
            within[edge] = within.get(edge, 0) + count
    edges = tuple(sorted(within))
    beyond = sum(increase.counts[-1] for increase in increases)
    return Increase(
        edges,
        (*(within[edge] for edge in edges), beyond),
        all(increase.is_whole for increase in increases),
    )


def samples_of(increase: Increase, open_ones: int) -> Samples:
    """Return samples at the upper edges of their buckets: never faster than they were.

    Those beyond the last edge, and those that are open, are only known to be slower than all edges:
    they stay under way up to the end of the curve. Of more than a million, a million stand for all,
    by their share: rounded to the slower side, and with the wider band that fewer have.
    """
    last = increase.edges[-1] if increase.edges else Micros(0)
    everyone = increase.total + open_ones
    taken = min(everyone, _MOST)
    reached = [below * taken // everyone for below in accumulate(increase.counts[:-1])]
    within = [until - before for before, until in pairwise((0, *reached))]
    return Samples(
        tuple(_repeated(zip(increase.edges, within, strict=True))),
        (last,) * (taken - sum(within)),
    )


def _repeated(pairs: Iterable[tuple[Micros, int]]) -> Iterable[Micros]:
    for edge, count in pairs:
        yield from (edge,) * count
