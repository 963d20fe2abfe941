"""Refreshes on leases in Redis against the bare reads of the same keys, in turns.

The bare reads are what a good author writes with redis-py: a scan, and pipelines of HMGET. They
make nothing of what they fetch; counting it is outside of what is measured.
"""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError
from refreshes import Timing, in_turns

from orphanwatch.exporter import names
from orphanwatch.exporter.channel import Channels
from orphanwatch.exporter.clock import wall_clock
from orphanwatch.exporter.config import parse_config
from orphanwatch.exporter.evaluation import evaluate
from orphanwatch.exporter.model import Evaluation
from orphanwatch.exporter.reading import read_stores

FULL_LEASES: Final = 100_000
SMALL_LEASES: Final = 2_000
RATIO_TO_BARE: Final = 1.5
"""What is aimed at: a refresh takes at most so many times as long as the bare reads."""

_FIELDS: Final = ("owner", "pool", "since", "beat")
_BATCH: Final = 1_000
_PATIENCE_SECONDS: Final = 30.0

Cells = Sequence[Sequence[Any]]


class RedisError(Exception):
    """There is no Redis to measure on."""


@dataclass(frozen=True, kw_only=True)
class RedisComparison:
    """The same leases, read by the product and by hand in turns."""

    leases: int
    refresh: Timing[Evaluation]
    by_hand: Timing[Cells]
    disagreements: tuple[str, ...]
    """In sentences; empty where both see the same leases."""


def compare_on_redis(folder: Path, leases: int, rounds: int) -> RedisComparison:
    """Return both medians over a number of rounds, on a server of its own in the folder."""
    with _running_redis(folder) as url:
        _write_leases(url, leases)
        config = parse_config(
            {
                "pools": {"paid": {"role": "paid"}, "overflow": {"role": "overflow"}},
                "stores": {
                    "leases": {
                        "type": "redis",
                        "url": url,
                        "key": "lease:{task_id}",
                        "columns": dict(
                            zip(
                                ("worker_id", "pool", "acquired_at", "heartbeat_at"),
                                _FIELDS,
                                strict=True,
                            )
                        ),
                        "unit": "s",
                        "lease_ttl": "1h",
                        # A slow machine is to be measured, not to be cut off.
                        "timeout": "20s",
                    }
                },
            }
        )
        channels = Channels(config)

        def refresh() -> Evaluation:
            return evaluate(read_stores(channels, config, wall_clock()).readings, config)

        try:
            refresh()
            refreshes, asked = in_turns(refresh, lambda: _read_by_hand(url), rounds)
        finally:
            channels.stop()
    return RedisComparison(
        leases=leases,
        refresh=refreshes,
        by_hand=asked,
        disagreements=tuple(_disagreements(refreshes.answer, asked.answer)),
    )


def _read_by_hand(url: str) -> Cells:
    cells: list[Any] = []
    with Redis.from_url(url, socket_timeout=None) as redis:
        keys = list(redis.scan_iter("lease:*", count=_BATCH))
        for start in range(0, len(keys), _BATCH):
            with redis.pipeline(transaction=False) as pipeline:
                for key in keys[start : start + _BATCH]:
                    pipeline.hmget(key, _FIELDS)
                cells += pipeline.execute()
    return cells


def _disagreements(evaluation: Evaluation, by_hand: Cells) -> Iterator[str]:
    health = evaluation.stores[names.StoreName.LEASES]
    if not health.up:
        yield f"the leases in Redis could not be read: {health.problem}"
        return
    counted: dict[str, int] = {}
    for _, pool, _, _ in by_hand:
        counted[pool.decode()] = counted.get(pool.decode(), 0) + 1
    for sample in evaluation.gauges[names.LIVE_LEASES]:
        expected = counted.get(sample.labels[0], 0)
        if sample.value != expected:
            yield f"live leases in {sample.labels[0]}: {sample.value:g}, {expected} by hand"


def _write_leases(url: str, count: int) -> None:
    now = time.time()
    with Redis.from_url(url) as redis:
        for start in range(0, count, _BATCH):
            with redis.pipeline(transaction=False) as pipeline:
                for number in range(start, min(count, start + _BATCH)):
                    pipeline.hset(f"lease:t{number}", mapping=_lease(number, now))
                pipeline.execute()


def _lease(number: int, now: float) -> Mapping[Any, Any]:
    pool = "paid" if number % 10 < 3 else "overflow"
    cells = (f"w{number % 500}", pool, now - 600 + number % 590, now - number % 10)
    return dict(zip(_FIELDS, cells, strict=True))


@contextmanager
def _running_redis(folder: Path) -> Iterator[str]:
    program = shutil.which("redis-server")
    if program is None:
        raise RedisError("redis-server is not installed; make servers installs it")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [program, "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir"]
    with subprocess.Popen([*command, str(folder)], stdout=subprocess.DEVNULL) as process:
        try:
            url = f"redis://127.0.0.1:{port}/0"
            _wait_for(url)
            yield url
        finally:
            process.terminate()
            process.wait(_PATIENCE_SECONDS)


def _wait_for(url: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            with Redis.from_url(url) as redis:
                redis.ping()
        except RedisConnectionError:
            time.sleep(0.05)
        else:
            return
    raise RedisError(f"redis-server did not start within {_PATIENCE_SECONDS:g} s")
