"""Where the ticks of a drawn axis stand: at round numbers, a few of them."""

import math
from collections.abc import Iterator
from typing import Final

MOST_TICKS: Final = 4
_STEPS: Final = (1, 2, 5, 10)


def round_step(span: float, most: int = MOST_TICKS) -> float:
    """Return a round distance between the ticks of an axis."""
    power = 10.0 ** math.floor(math.log10(span / most))
    return next(step * power for step in _STEPS if span / (step * power) <= most + 1e-9)


def multiples(first: float, last: float, step: float) -> Iterator[float]:
    """Return the multiples of a step from one number to another."""
    low, high = math.ceil(first / step), math.floor(last / step)
    return (number * step for number in range(low, high + 1))
