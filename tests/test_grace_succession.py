"""Exporters that followed one another add up; replicas of each other don't."""

import pytest

from orphanwatch.exporter.grace.buckets import Scrape
from orphanwatch.exporter.grace.succession import Life, increase_of_lives
from orphanwatch.exporter.instants import Instant

MINUTE = 60_000_000
INF = float("inf")


def life(first: int, last: int, *counts: tuple[float, float], base: Scrape | None = None) -> Life:
    """Return who was there from one minute to another, with buckets of 0.5 s and of all."""
    return Life(
        first=Instant(first * MINUTE),
        last=Instant(last * MINUTE),
        scrapes=[{0.5: fast, INF: every} for fast, every in counts],
        base=base or {},
    )


OLD = life(0, 600, (0, 0), (90, 100))


@pytest.mark.parametrize(
    ("lives", "counts"),
    [
        pytest.param([OLD], (90, 10), id="one alone"),
        pytest.param(
            [OLD, life(0, 600, (0, 0), (80, 95))], (90, 10),
            id="of two replicas the larger counts, whole",
        ),
        pytest.param(
            [OLD, life(602, 900, (0, 0), (10, 60))], (100, 60),
            id="a successor that began at nothing adds all that it counted",
        ),
        pytest.param(
            [OLD, life(598, 900, (0, 0), (10, 60))], (100, 60),
            id="also where it started just before the other one was gone",
        ),
        pytest.param(
            [OLD, life(590, 900, (0, 0), (10, 60))], (90, 10),
            id="who overlaps for long is a replica",
        ),
        pytest.param(
            [life(0, 3, (0, 0), (90, 100)), life(1, 4, (0, 0), (80, 90))], (90, 10),
            id="two that are both young are replicas",
        ),
        pytest.param(
            [OLD, life(602, 900, (90, 100), (95, 130))], (95, 35),
            id="one that goes on from the other's numbers adds what it counted beyond them",
        ),
        pytest.param(
            [
                life(0, 600, (590, 600), base={0.5: 500.0, INF: 500.0}),
                life(602, 900, (590, 600), (595, 630)),
            ],
            (95, 35),
            id="and nothing of what the other had counted before the window",
        ),
        pytest.param(
            [
                OLD, life(0, 600, (0, 0), (85, 99)),
                life(601, 900, (0, 0), (10, 60)), life(602, 900, (0, 0), (11, 59)),
            ],
            (100, 60),
            id="of two replicas that were both replaced, the larger of each",
        ),
        pytest.param(
            [OLD, life(700, 900, (0, 0), (1, 2)), life(1000, 1200, (0, 0), (3, 5))], (94, 13),
            id="three in a row",
        ),
    ],
)  # fmt: skip
def test_who_counts(lives: list[Life], counts: tuple[int, int]) -> None:
    """Within 0.5 s, and beyond it."""
    assert increase_of_lives(lives).counts == counts
    assert increase_of_lives(reversed(lives)).counts == counts
