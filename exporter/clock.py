"""The clock, as everything that needs one is handed it."""

import time
from collections.abc import Callable

from orphanwatch.exporter.instants import Instant

Clock = Callable[[], Instant]
"""Tells the present instant."""


def wall_clock() -> Instant:
    """Return the host's present instant."""
    return Instant(time.time_ns() // 1000)
