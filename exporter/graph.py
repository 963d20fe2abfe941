"""What drawn graphs share: ticks at round numbers, flags with their labels, and polylines."""

import math
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

MOST_TICKS: Final = 4
_STEPS: Final = (1, 2, 5, 10)

Point = tuple[float, float]


class Tick(NamedTuple):
    """A mark of an axis."""

    at: float
    text: str


class Flag(NamedTuple):
    """A vertical line with its label."""

    kind: str
    x: float
    y: float
    text: str
    is_left: bool
    """Whether the label stands to the left of its line."""


def polyline(points: Iterable[Point]) -> str:
    """Return points in the units of the graph as SVG has them; "" for none."""
    return " ".join(f"{x:g},{y:g}" for x, y in points)


def round_step(span: float, most: int = MOST_TICKS) -> float:
    """Return a round distance between the ticks of an axis."""
    power = 10.0 ** math.floor(math.log10(span / most))
    return next(step * power for step in _STEPS if span / (step * power) <= most + 1e-9)


def multiples(first: float, last: float, step: float) -> Iterator[float]:
    """Return the multiples of a step from one number to another."""
    low, high = math.ceil(first / step), math.floor(last / step)
    return (number * step for number in range(low, high + 1))
