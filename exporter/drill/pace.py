"""A drill's own clock: as fast as asked for, never ahead of the wall clock, now at its end."""

import time
from collections.abc import Callable
from typing import Final

from orphanwatch.exporter.clock import wall_clock
from orphanwatch.exporter.drill.run import Pace
from orphanwatch.exporter.instants import Instant, Micros, seconds

Progress = Callable[[Micros], None]
"""Told how much of the drill's time has passed."""

_LONGEST_NAP: Final = 0.1
"""Seconds until an interrupt is heard."""


def real_pace(
    length: Micros, speed: float, progress: Progress, check: Callable[[], None]
) -> tuple[Instant, Pace]:
    """Return when a drill starts on its own clock, and what waits for its next step.

    Its end falls on the wall clock's: a drill that runs faster starts in the past, so that no
    row of it is ever ahead of the time at which it was written. ``check`` raises what is to end
    the drill early.
    """
    takes = length / speed
    start = Instant(round(wall_clock() + takes - length))
    began = time.monotonic()

    def wait(offset: Micros) -> None:
        progress(offset)
        check()
        while (rest := began + seconds(offset) / speed - time.monotonic()) > 0:
            time.sleep(min(rest, _LONGEST_NAP))
            check()

    return start, wait
