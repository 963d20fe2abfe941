"""A real incident that a real Prometheus scrapes: the demo's stack, and every fault beside it."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from servers import fetch, free_port, running_exporter, running_prometheus, wait_until

from orphanwatch.alerts.artifacts import RULES, build
from orphanwatch.exporter.clock import wall_clock
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.demo.player import Player
from orphanwatch.exporter.demo.stack import OVERFLOW, PAID, demo_stack
from orphanwatch.exporter.demo.story import CALM, LOST, Story
from orphanwatch.exporter.demo.tables import open_database
from orphanwatch.exporter.instants import Instant, micros, seconds
from orphanwatch.exporter.measurement import MeasuredFrom, Measurement, PoolMeasurement
from orphanwatch.exporter.measurement_file import measurement_text
from orphanwatch.exporter.names import Role

EARLIER_SECONDS: Final = 18.0
"""How much of the story's calm has been played when Prometheus starts."""

_STEP_SECONDS: Final = 0.2
_TICK_SECONDS: Final = 0.5
_NO_ALERTMANAGER: Final = 9


@dataclass(frozen=True)
class Incident:
    """What was recorded, and where to ask for it; times are epoch seconds."""

    config: Config
    prometheus: str
    exporter: str
    start: float


def incident_config(exporter_port: int) -> dict[str, Any]:
    """Return a config whose windows are so short that the whole incident fits into a minute."""
    database = "sqlite:///stack.db"
    return {
        "pools": {PAID: {"role": "paid", "lease_cap": 2}, OVERFLOW: {"role": "overflow"}},
        "stores": {
            "gateway": {"type": "sql", "url": database, "relation": "tasks"},
            "leases": {"type": "sql", "url": database, "relation": "leases", "lease_ttl": "10s"},
            "ledger": {"type": "sql", "url": database, "shape": "increments"},
            "queue": {"type": "sql", "url": database},
        },
        "grace": {"file": "grace.yml"},
        "scrape_interval": "1s",
        "refresh_interval": "1s",
        "delta_window": "12s",
        "baseline_window": "30s",
        "reopen_hold": "20s",
        "state_file": "state.db",
        "links": {"runbook_base_url": f"http://127.0.0.1:{exporter_port}/runbook"},
    }


def overflow_grace(config: Config, at: Instant) -> Measurement:
    """Return a measured grace of 0.75 s for the overflow pool; the paid pool's stays a proposal."""
    return Measurement(
        service=config.service,
        quantile=config.grace_quantile,
        margin=config.grace_margin,
        window=config.grace_window,
        method="product-limit",
        version="0.1.0",
        measured_at=Instant(at - micros(3600)),
        valid_until=Instant(at + micros(20 * 86400)),
        pools={
            OVERFLOW: PoolMeasurement(
                role=Role.OVERFLOW,
                in_force=micros(0.75),
                estimate=micros(0.4),
                upper=micros(0.5),
                settled=412,
                open=0,
                source=MeasuredFrom.STORES,
            )
        },
    )


_TASKS: Final = ("twice", "uncancellable", "lent", "borrowed", "strayed", "silent")
_LEFT: Final = ("twice", "lent", "strayed", "silent")
_LEASES: Final = (
    ("twice", "first", OVERFLOW),
    ("twice", "second", OVERFLOW),
    ("uncancellable", "stubborn", OVERFLOW),
    ("lent", "shared", OVERFLOW),
    ("borrowed", "shared", PAID),
    ("strayed", "stray", PAID),
    ("late", "slow", OVERFLOW),
    ("half-heard", "deaf", OVERFLOW),
    ("half-heard", "obedient", OVERFLOW),
    ("done", "untidy", OVERFLOW),
)
_CHARGES: Final = (
    ("overflow-worker-1", 3),
    ("", 2),
    ("no-such-task", 4),
    ("late", 8),
    ("half-heard", 8),
    ("twice", 8),
    ("late", None),
)


class Faults:
    """What the demo's stack never does: rows of every fault that a panel shows."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._began: float | None = None
        self._ticks = 0

    def go_on(self) -> None:
        """Begin, or do what is done again and again: beat, charge to nobody, lose a retry id."""
        at = time.time()
        with closing(sqlite3.connect(self._database, timeout=10)) as connection, connection:
            if self._began is None:
                self._began = at
                self._begin(connection, at)
            self._tick(connection, at)

    def end(self) -> None:
        """Let go of everything; nothing happens where nothing began."""
        at = time.time()
        ours = "task_id NOT LIKE 'paid-%' AND task_id NOT LIKE 'overflow-%'"
        with closing(sqlite3.connect(self._database, timeout=10)) as connection, connection:
            connection.execute(
                f"UPDATE leases SET released_at = ? WHERE released_at IS NULL AND {ours}",  # noqa: S608  (a text of ours)
                (at,),
            )
            connection.execute(
                f"UPDATE tasks SET finished_at = ? WHERE finished_at IS NULL AND {ours}",  # noqa: S608  (a text of ours)
                (at,),
            )

    def _begin(self, connection: sqlite3.Connection, at: float) -> None:
        for task_id in _TASKS:
            # Whoever is not waited for is no attached task, so that the gap can be seen.
            left_at = at + 1 if task_id in _LEFT else None
            is_cancellable = task_id != "uncancellable"
            _task(connection, task_id, at, cancellable=is_cancellable, cancelled_at=left_at)
        _task(connection, "late", at, deadline_at=at + 5)
        _task(connection, "half-heard", at, cancelled_at=at + 1)
        _task(connection, "done", at, finished_at=at - 1, outcome="ok")
        for task_id, worker_id, pool in _LEASES:
            _lease(connection, task_id, worker_id, pool, at)
        _lease(connection, "silent", "crashed", OVERFLOW, at - 60)

    def _tick(self, connection: sqlite3.Connection, at: float) -> None:
        self._ticks += 1
        if self._began is not None and at > self._began + 2:
            connection.execute(
                "UPDATE leases SET released_at = ?"
                " WHERE worker_id = 'obedient' AND released_at IS NULL",
                (at,),
            )
        connection.execute(
            "UPDATE leases SET heartbeat_at = ? WHERE released_at IS NULL AND worker_id IN"
            " ('first', 'second', 'stubborn', 'shared', 'stray', 'slow', 'deaf', 'untidy')",
            (at,),
        )
        for key, tokens in _CHARGES:
            _add(connection, "ledger", task_id=key, tokens=tokens, charged_at=at)
        if self._ticks % 6 == 0:
            _task(connection, f"retry-{self._ticks}", at, attempt=2, retry_id="", finished_at=at)


def _task(connection: sqlite3.Connection, task_id: str, at: float, **values: Any) -> None:
    filled = {
        "task_id": task_id,
        "retry_id": f"request-{task_id}",
        "attempt": 1,
        "pool": OVERFLOW,
        "submitted_at": at - 2,
        "deadline_at": at + 120,
        "cancellable": True,
    }
    _add(connection, "tasks", **{**filled, **values})


def _lease(
    connection: sqlite3.Connection, task_id: str, worker_id: str, pool: str, at: float
) -> None:
    held = {"task_id": task_id, "worker_id": worker_id, "pool": pool}
    _add(connection, "leases", **held, acquired_at=at, heartbeat_at=at)


def _add(connection: sqlite3.Connection, table: str, **values: Any) -> None:
    columns, marks = ", ".join(values), ", ".join("?" for _ in values)
    statement = f"INSERT INTO {table} ({columns}) VALUES ({marks})"  # noqa: S608  (names of ours)
    connection.execute(statement, tuple(values.values()))


@contextmanager
def recorded_incident(
    folder: Path, length: float, earlier: float = EARLIER_SECONDS
) -> Iterator[Incident]:
    """Run stack, exporter and Prometheus for ``length`` seconds; yield with all still running.

    The first seconds are calm. Then the overflow pool loses its cancels, and the faults begin;
    both end again if there is time. ``earlier`` seconds of the calm have gone by at the start.
    """
    config_file = _written_config(folder)
    config = load_config(config_file)
    rules = folder / RULES
    rules.write_text(build(config)[RULES])
    database = folder / "stack.db"
    engine = open_database(database)
    port = int(config.links.runbook_base_url.rpartition(":")[2].partition("/")[0])
    try:
        with (
            running_exporter(config_file, port) as exporter,
            running_prometheus(folder, rules, exporter, _NO_ALERTMANAGER) as prometheus,
        ):
            # However long the programs took to start, the calm is seen first.
            wait_until("the first scrape", lambda: "orphan_store_up" in _scraped(prometheus), 30)
            start = time.time()
            began = Instant(wall_clock() - micros(earlier))
            with _played(Story(demo_stack(engine, began), began)):
                _play_faults(Faults(database), seconds(began), start + length)
                yield Incident(config, prometheus, exporter, start)
    finally:
        engine.dispose()


def _scraped(prometheus: str) -> str:
    return fetch(f"{prometheus}/api/v1/label/__name__/values")[1]


@contextmanager
def _played(story: Story) -> Iterator[None]:
    """Play what has been of the story at once, and the rest along with the clock."""
    story.advance(wall_clock())
    player = Player(story, clock=wall_clock, pause_seconds=_STEP_SECONDS, tell=lambda _: None)
    player.start()
    try:
        yield
        assert player.failure is None
    finally:
        player.stop()


def _play_faults(faults: Faults, began: float, until: float) -> None:
    """Return at ``until``; the faults go on for as long as the story's cancels are lost."""
    lost, mended = began + seconds(CALM), began + seconds(Instant(CALM + LOST))
    is_ended = False
    while time.time() < until:
        if lost <= time.time() < mended:
            faults.go_on()
        elif time.time() >= mended and not is_ended:
            faults.end()
            is_ended = True
        time.sleep(_TICK_SECONDS)


def _written_config(folder: Path) -> Path:
    """Write a config with a measured grace; returns the file."""
    document = incident_config(free_port())
    plain = folder / "plain.yml"
    plain.write_text(yaml.safe_dump({k: v for k, v in document.items() if k != "grace"}))
    grace = overflow_grace(load_config(plain), wall_clock())
    (folder / "grace.yml").write_text(measurement_text(grace))
    file = folder / "orphanwatch.yml"
    file.write_text(yaml.safe_dump(document))
    return file
