"""The demo's stack: who its clients and workers are."""

from collections.abc import Sequence
from itertools import repeat
from typing import Final

from sqlalchemy import Engine

from orphanwatch.exporter.demo.books import TableBooks
from orphanwatch.exporter.demo.traffic import Clients, Habit
from orphanwatch.exporter.instants import Instant, Micros, micros
from orphanwatch.exporter.stack.stack import Stack
from orphanwatch.exporter.stack.workers import Crew

PAID: Final = "paid"
OVERFLOW: Final = "overflow"

CREWS: Final = (
    Crew(pool=PAID, size=2, heartbeat=micros(2), tokens_per_second=40),
    Crew(pool=OVERFLOW, size=10, heartbeat=micros(4), tokens_per_second=40),
)

# Most overflow clients leave early. Once their cancels get lost, the pool still has workers to
# spare, so that the queue stays calm while the spend climbs: the picture that misleads.
CLIENTS: Final = (
    Clients(
        pool=PAID,
        every=micros(3),
        deadline=micros(12),
        patience=micros(2),
        pause=micros(2),
        tokens=240,
        habits=(Habit.STAYS, Habit.STAYS, Habit.STAYS, Habit.LEAVES),
    ),
    Clients(
        pool=OVERFLOW,
        every=micros(2),
        deadline=micros(30),
        patience=micros(3.5),
        pause=micros(2),
        tokens=400,
        habits=(Habit.LEAVES, Habit.STAYS, Habit.LEAVES, Habit.LEAVES, Habit.RETRIES),
    ),
)

STEP: Final = micros(0.2)
"""How finely the stack moves: fine enough that a delivered cancel stays far below the grace."""

_CANCEL_DELAY: Final = micros(0.2)
_ADMISSION_CAP: Final = 32
_KEEP: Final = micros(900)


def demo_stack(
    engine: Engine,
    start: Instant,
    *,
    clients: Sequence[Clients] = CLIENTS,
    crews: Sequence[Crew] = CREWS,
    keep: Micros = _KEEP,
) -> Stack:
    """Return the stack on a database that holds the four tables."""
    return Stack(
        TableBooks(engine, start, keep),
        Instant(start + STEP),
        (stream.requests(start) for stream in clients),
        crews,
        admission_cap=_ADMISSION_CAP,
        cancel_delays=repeat(_CANCEL_DELAY),
        step=STEP,
    )
