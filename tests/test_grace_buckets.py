"""What the buckets of a histogram say: how much they rose, and the samples in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from orphanwatch.exporter.grace.buckets import (
    Increase,
    increase_of,
    rise_of,
    samples_of,
    sum_of,
)
from orphanwatch.exporter.instants import Micros

INF = float("inf")


@pytest.mark.parametrize(
    ("points", "base", "rise"),
    [
        pytest.param([5.0], 0.0, 5, id="born: its first value counts"),
        pytest.param([5.0, 9.0], 3.0, 6, id="from its base on"),
        pytest.param([5.0, 2.0, 4.0], 3.0, 6, id="after a reset from nothing"),
        pytest.param([5.0, 2.0, 9.0], 3.0, 11, id="also where it rose beyond what it was"),
        pytest.param([2.0], 3.0, 2, id="a reset right after the base"),
        pytest.param([], 3.0, 0, id="no value is no rise"),
    ],
)
def test_how_much_a_counter_rose(points: list[float], base: float, rise: float) -> None:
    """Nothing is guessed beyond its values."""
    assert rise_of([{1.0: point} for point in points], {1.0: base}).get(1.0, 0) == rise


@given(steps=some.lists(some.integers(0, 9), min_size=1), resets=some.sets(some.integers(1, 20)))
def test_no_count_is_lost_or_made_up(steps: list[int], resets: set[int]) -> None:
    """Whenever a counter starts at 0 again and is seen before it has passed what it was."""
    value, points, counted = 0, [], 0
    for number, step in enumerate(steps):
        if number in resets and value > 0:
            value = 0
            points.append(0.0)
        value += step
        counted += step
        points.append(float(value))
    assert rise_of([{1.0: point} for point in points], {}).get(1.0, 0) == counted


def test_where_one_bucket_fell_all_began_anew() -> None:
    """Of the 110 after the restart 50 were slow, though 110 is more than the 100 before it."""
    before, after = {0.5: 90.0, INF: 100.0}, {0.5: 60.0, INF: 110.0}
    assert increase_of([before, after], before).counts == (60, 50)


def test_without_the_bucket_of_all_nobody_knows_the_slowest() -> None:
    """What a relabelling dropped is not zero."""
    assert increase_of([{0.5: 3.0, INF: 5.0}], {}).is_whole
    assert not increase_of([{0.5: 3.0}], {}).is_whole
    assert not increase_of([], {}).is_whole


def test_histograms_of_different_edges_add_up() -> None:
    """Each sample stays at an edge of its own histogram, which it did not pass."""
    old = increase_of([{0.5: 3.0, 1.0: 4.0, INF: 5.0}], {})
    new = increase_of([{0.5: 1.0, 2.0: 8.0, INF: 8.0}], {})
    edges = (Micros(500_000), Micros(1_000_000), Micros(2_000_000))
    assert sum_of([old, new]) == Increase(edges, (4, 1, 7, 1))


def test_samples_stand_at_the_upper_edges() -> None:
    """Those beyond all edges, and the open ones, stay under way to the end."""
    cumulative = {0.5: 3.0, 1.0: 5.0, INF: 6.0}
    increase = increase_of([cumulative], {0.5: 1.0, 1.0: 1.0, INF: 1.0})
    assert increase == Increase((Micros(500_000), Micros(1_000_000)), (2, 2, 1))
    samples = samples_of(increase, 2)
    assert list(samples.settled) == [500_000, 500_000, 1_000_000, 1_000_000]
    assert list(samples.open) == [1_000_000] * 3


@pytest.mark.parametrize(
    ("counts", "open_ones", "settled", "under_way"),
    [
        pytest.param((99, 1), 0, [99], 1, id="few are taken as they are"),
        pytest.param((990_000_000, 10_000_000), 0, [990_000], 10_000, id="many by their share"),
        pytest.param((1_999_999, 0), 1, [999_999], 1, id="rounded to the slower side"),
        pytest.param((1, 1_999_999), 0, [0], 1_000_000, id="never faster than they were"),
    ],
)
def test_a_million_stand_for_more(
    counts: tuple[int, ...], open_ones: int, settled: list[int], under_way: int
) -> None:
    """A week of a large service is told within memory and seconds."""
    samples = samples_of(Increase((Micros(500_000),), counts), open_ones)
    assert ([len(samples.settled)], len(samples.open)) == (settled, under_way)
