"""Made-up cancels in a stack of tables, and made-up measurements."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from stack_file import ZERO, Row, StackFile, charge, lease, task

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import SECOND, Instant, Micros, instant_of_epoch, micros
from orphanwatch.exporter.measurement import (
    VALIDITY,
    MeasuredFrom,
    Measurement,
    MeasurementFile,
    PoolMeasurement,
)
from orphanwatch.exporter.measurement_file import sealed
from orphanwatch.exporter.names import Role
from orphanwatch.exporter.state_schema import open_beside

AT: Final = instant_of_epoch(ZERO)
"""When everything is looked at: the stories' common zero."""


def cancelled(
    name: str, ago: float, took: float | None, *, pool: str = "overflow", charged: float = 0.1
) -> dict[str, Row]:
    """Return the rows of a task that was cancelled so long ago; None is still under way."""
    stop = -ago
    released = None if took is None else stop + took
    last = stop + charged if took is None else stop + took - charged
    return {
        "tasks": task(name, pool=pool, submitted_at=stop - 5, cancelled_at=stop),
        "leases": lease(
            name,
            f"w-{name}",
            pool=pool,
            acquired_at=stop - 4,
            heartbeat_at=-1,
            released_at=released,
        ),
        "ledger": charge(name, 10, last),
    }


def add(stack: StackFile, *stories: dict[str, Row]) -> None:
    """Add the rows of tasks to a stack."""
    for table in ("tasks", "leases", "ledger"):
        stack.add(table, *(story[table] for story in stories))


def many(count: int, *, pool: str = "overflow", name: str = "t") -> list[dict[str, Row]]:
    """Return tasks that took 250 ms to 499 ms to stop, over and over."""
    return [
        cancelled(f"{name}{number}", 10 + 3 * number, (250 + number % 250) / 1000, pool=pool)
        for number in range(count)
    ]


def keep(stack: StackFile, rows: Sequence[tuple[str, float, str, float, str]]) -> None:
    """Write samples into the state file: task, how long ago it stopped, pool, seconds, source."""
    state = stack.config.state_file
    assert state is not None
    with open_beside(Path(state)) as connection:
        connection.executemany(
            "INSERT INTO propagations VALUES (?, ?, ?, ?, ?, ?, 0, ?)",
            [
                (name, stop, pool, took, stop + micros(took), AT, source)
                for name, ago, pool, took, source in rows
                for stop in [AT - micros(ago)]
            ],
        )


def measurement(**changes: Any) -> Measurement:
    """Return a measurement of the overflow pool at the common zero: 1.2 s."""
    made = Measurement(
        service="llm-inference",
        quantile=0.99,
        margin=1.5,
        window=Micros(7 * 86400 * SECOND),
        method="made up",
        version="0.1.0",
        engines={"vllm": "0.11.0"},
        measured_at=AT,
        valid_until=Instant(AT + VALIDITY),
        pools={"overflow": pool_measurement()},
    )
    return sealed(replace(made, **changes))


def pool_measurement(**changes: Any) -> PoolMeasurement:
    """Return what was measured of the overflow pool."""
    made = PoolMeasurement(
        role=Role.OVERFLOW,
        in_force=micros(1.2),
        estimate=micros(0.7),
        upper=micros(0.8),
        settled=900,
        open=2,
        source=MeasuredFrom.STORES,
    )
    return replace(made, **changes)


def measured(config: Config, **changes: Any) -> Config:
    """Return a config with a made-up measurement."""
    found = MeasurementFile(
        path="grace.yml", remedy="orphanwatch grace", measurement=measurement(**changes)
    )
    return config.with_measurement(found)
