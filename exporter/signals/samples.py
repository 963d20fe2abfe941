"""How a signal states its numbers: every label set at its value, or nothing where unknown."""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import inf

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.model import Sample
from orphanwatch.exporter.names import Family

Gauges = dict[Family, tuple[Sample, ...]]
"""Families that are known; one that is absent is unknown."""


def plain(value: float) -> tuple[Sample, ...]:
    """Return the one sample of a family without labels."""
    return (Sample((), float(value)),)


def plain_if_known(gauges: Gauges, family: Family, value: float | None) -> None:
    """Add a family without labels, unless its value is unknown."""
    if value is not None:
        gauges[family] = plain(value)


def by_pool(config: Config, values: Mapping[str, float]) -> tuple[Sample, ...]:
    """Return a sample for every pool, 0 where there is nothing."""
    return tuple(Sample((pool,), float(values.get(pool, 0.0))) for pool in config.pool_names)


def where_any(values: Mapping[str, float]) -> tuple[Sample, ...]:
    """Return a sample for the pools that have a value, none for the others."""
    return tuple(Sample((pool,), float(values[pool])) for pool in sorted(values))


def by_pool_and(
    config: Config, seconds: Iterable[str], values: Mapping[tuple[str, str], float]
) -> tuple[Sample, ...]:
    """Return a sample for every pool and second label, 0 where there is nothing."""
    return tuple(
        Sample((pool, str(second)), float(values.get((pool, str(second)), 0.0)))
        for pool in config.pool_names
        for second in seconds
    )


def counted(keys: Iterable[str]) -> Mapping[str, float]:
    """Return how often each key occurs."""
    return dict(Counter(keys))


def most(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the largest value of each key."""
    largest: dict[str, float] = {}
    for key, value in pairs:
        if value > largest.get(key, -inf):
            largest[key] = value
    return largest


def least(pairs: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the smallest value of each key."""
    return {key: -value for key, value in most((key, -value) for key, value in pairs).items()}
