"""The demo's clock: it starts now and runs at its own speed."""

import time

from orphanwatch.exporter.clock import Clock, wall_clock
from orphanwatch.exporter.instants import Instant


def running_clock(speed: float) -> Clock:
    """Return a clock that shows the present instant now, and moves ``speed`` times as fast."""
    if speed == 1:
        return wall_clock
    start, began = wall_clock(), time.monotonic_ns()
    return lambda: Instant(start + round((time.monotonic_ns() - began) / 1000 * speed))
