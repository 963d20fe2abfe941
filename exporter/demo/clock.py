"""The demo's clock: it starts now and runs at its own speed."""

import time
from collections.abc import Callable
from typing import Final

from orphanwatch.exporter.instants import Instant

_NANOSECONDS: Final = 1000
"""In a microsecond."""


def running_clock(speed: float) -> Callable[[], Instant]:
    """Return a clock that shows the present instant now, and moves ``speed`` times as fast."""
    start, began = time.time_ns() // _NANOSECONDS, time.monotonic_ns()
    return lambda: Instant(start + round((time.monotonic_ns() - began) / _NANOSECONDS * speed))
