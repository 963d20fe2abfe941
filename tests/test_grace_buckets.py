"""What the buckets of a histogram say: how much they rose, and the samples in them."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from orphanwatch.exporter.grace.buckets import Increase, increase_of, rise_of, samples_of
from orphanwatch.exporter.instants import Micros


@pytest.mark.parametrize(
    ("points", "base", "rise"),
    [
        pytest.param([5.0], None, 5, id="born: its first value counts"),
        pytest.param([5.0, 9.0], 3.0, 6, id="from its base on"),
        pytest.param([5.0, 2.0, 4.0], 3.0, 6, id="after a reset from nothing"),
        pytest.param([5.0, 2.0, 9.0], 3.0, 11, id="also where it rose beyond what it was"),
        pytest.param([2.0], 3.0, 2, id="a reset right after the base"),
        pytest.param([], 3.0, 0, id="no value is no rise"),
    ],
)
def test_how_much_a_counter_rose(points: list[float], base: float | None, rise: float) -> None:
    """Nothing is guessed beyond its values."""
    assert rise_of(points, base) == rise


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
    assert rise_of(points, None) == counted


def test_samples_stand_at_the_upper_edges() -> None:
    """Those beyond all edges, and the open ones, stay under way to the end."""
    cumulative = {0.5: [3.0], 1.0: [5.0], float("inf"): [6.0]}
    increase = increase_of(cumulative, {0.5: 1.0, 1.0: 1.0, float("inf"): 1.0})
    assert increase == Increase((Micros(500_000), Micros(1_000_000)), (2, 2, 1))
    samples = samples_of(increase, 2)
    assert list(samples.settled) == [500_000, 500_000, 1_000_000, 1_000_000]
    assert list(samples.open) == [1_000_000] * 3
