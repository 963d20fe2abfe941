"""A drill's own clock: as fast as asked for, never ahead of the wall clock, now at its end."""

import time
from collections.abc import Callable

from orphanwatch.exporter.clock import wall_clock
from orphanwatch.exporter.drill.knobs import Knobs
from orphanwatch.exporter.drill.run import Pace
from orphanwatch.exporter.instants import Instant, Micros, seconds

Progress = Callable[[Micros], None]
"""Told how much of the drill's time has passed."""


def real_pace(knobs: Knobs, speed: float, progress: Progress) -> tuple[Instant, Pace]:
    """Return when a drill starts on its own clock, and what waits for its next step.

    Its end falls on the wall clock's: a drill that runs faster starts in the past, so that no
    row of it is ever ahead of the time at which it was written.
    """
    takes = knobs.length / speed
    start = Instant(round(wall_clock() + takes - knobs.length))
    began = time.monotonic()

    def wait(offset: Micros) -> None:
        progress(offset)
        rest = began + seconds(offset) / speed - time.monotonic()
        if rest > 0:
            time.sleep(rest)

    return start, wait
