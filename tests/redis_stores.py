"""Stores in Redis as the watch reads them, and what a test has to know of the server."""

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
import yaml
from database_servers import RedisServer
from redis import Redis
from servers import free_port, wait_until

from orphanwatch.exporter.clock import Clock, wall_clock
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import Instant, instant_of_epoch
from orphanwatch.exporter.model import Lease, QueueSample, Rejected, Task
from orphanwatch.exporter.stores.adapters import gateway_of, leases_of, queue_of
from orphanwatch.exporter.stores.questions import Windows

READER = "reader"
SECRET = "s3cret/of@reader"  # noqa: S105  (made up, and awkward in a URL)
RIGHTS = ("~*", "&*", "+@read", "+@connection", "+time", "+psubscribe", "-keys")
"""What the docs tell to grant, and KEYS taken away."""

READS = frozenset(
    re.findall(
        r"\w+",
        "SCAN ZSCAN HMGET HGET HLEN MGET GET GETRANGE PTTL EXISTS TYPE TIME LLEN LINDEX "
        "LRANGE ZRANGE ZREVRANGE ZRANGEBYSCORE ZSCORE ZCARD SMEMBERS XREVRANGE "
        "PSUBSCRIBE PING SELECT AUTH HELLO CLIENT",
    )
)
"""The commands that the watch may send."""


FORM: dict[str, Any] = {
    "type": "redis",
    "key": "lease:{task_id}",
    "columns": {"heartbeat_at": "beat"},
    "unit": "s",
}
"""Leases in hashes that say nothing but their last beat, as epoch seconds."""


class Read(NamedTuple):
    """What one reading of a store gave."""

    rows: list[Any]
    rejected: tuple[Rejected, ...]
    skew: float | None


def config_of(folder: Path, **stores: Mapping[str, Any]) -> Config:
    """Return the loaded config of these stores."""
    file = folder / "orphanwatch.yml"
    pools = {"paid": {"role": "paid"}, "overflow": {"role": "overflow"}}
    document = {"pools": pools, "stores": {name: dict(store) for name, store in stores.items()}}
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    return load_config(file)


class Store:
    """One store, read as often as a test likes."""

    def __init__(self, folder: Path, role: str, clock: Clock = wall_clock, **settings: Any) -> None:
        self.config = config_of(folder, **{role: settings})
        self.clock = clock
        stores = self.config.stores
        self.gateway = gateway_of(stores.gateway, clock) if stores.gateway else None
        self.leases = leases_of(stores.leases, clock) if stores.leases else None
        self.queue = queue_of(stores.queue, clock) if stores.queue else None

    def read(self, at: Instant | None = None, named: Sequence[str] = ()) -> Read:
        """Return the leases, the queue's sample, or tasks: those named and those flagged."""
        windows = Windows.ending(self.clock() if at is None else at, self.config)
        store = self.leases or self.gateway or self.queue
        assert store is not None
        store.open(windows)
        try:
            rows: list[Any]
            if self.leases is not None:
                rows = list(self.leases.unreleased(windows))
            elif self.gateway is not None:
                rows = list(self.gateway.tasks(named))
                seen = {task.task_id for task in rows}
                flagged = self.gateway.flagged_tasks(windows)
                rows += [task for task in flagged if task.task_id not in seen]
            else:
                assert self.queue is not None
                rows = [self.queue.newest(windows)]
            return Read(rows, store.rejected(), store.clock_skew_seconds())
        finally:
            store.close()


def leases(folder: Path, url: str, clock: Clock = wall_clock, **settings: Any) -> list[Lease]:
    """Return the leases of one reading, of which no record was bad."""
    read = Store(folder, "leases", clock, url=url, **settings).read()
    assert not read.rejected
    return sorted(read.rows, key=str)


def tasks(folder: Path, url: str, *named: str, **settings: Any) -> dict[str, Task]:
    """Return the tasks of these ids, and those that are looked at one by one."""
    read = Store(folder, "gateway", url=url, **settings).read(named=named)
    assert not read.rejected
    return {task.task_id: task for task in read.rows}


def sample(folder: Path, url: str, clock: Clock = wall_clock, **settings: Any) -> QueueSample:
    """Return a queue's sample."""
    [row] = Store(folder, "queue", clock, url=url, **settings).read().rows
    assert isinstance(row, QueueSample)
    return row


def clock_at(offset: float) -> Clock:
    """Return a clock that stands still, so many seconds after the epoch."""
    return lambda: instant_of_epoch(offset)


def problem_of(store: Store) -> str:
    """Return why a store can't be read; the reader's password is nowhere in it."""
    with pytest.raises(StoreError) as failure:
        store.read()
    error: BaseException | None = failure.value
    while error is not None:
        assert SECRET not in str(error)
        error = error.__cause__
    return failure.value.problem


def client(url: str) -> Redis:
    """Return a client to write with, which speaks text."""
    return Redis.from_url(url, decode_responses=True)


def as_reader(url: str, *rights: str) -> str:
    """Return the URL for a user who may only read, made for it."""
    with client(url) as redis:
        redis.execute_command(
            "ACL", "SETUSER", READER, "reset", "on", f">{SECRET}", *(rights or RIGHTS)
        )
    return with_user(url, READER, SECRET)


def with_user(url: str, username: str, password: str) -> str:
    """Return the URL with a user in it."""
    quoted = re.sub(r"[^\w]", lambda found: f"%{ord(found[0]):02X}", password)
    parts = urlsplit(url)
    return f"{parts.scheme}://{username}:{quoted}@{parts.hostname}:{parts.port}{parts.path}"


@contextmanager
def recorded(url: str) -> Iterator[Callable[[], set[str]]]:
    """Record what the database is asked; call what is yielded for the names of the commands."""
    database = int(urlsplit(url).path.strip("/"))
    heard: list[tuple[int, str]] = []
    with client(url) as redis, client(url) as marker, redis.monitor() as monitor:

        def listen() -> None:
            for said in monitor.listen():
                heard.append((said["db"], said["command"]))
                if said["command"].endswith("end of the record"):
                    return

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()

        def names() -> set[str]:
            marker.echo("end of the record")
            thread.join(10)
            words = [command.split()[0].upper() for number, command in heard if number == database]
            return set(words) - {"ECHO"}

        yield names


class TlsRedis(RedisServer):
    """Redis that speaks TLS only, with a certificate that was made for it."""

    name = "RedisTLS"

    def __init__(self, folder: Path, certificate: Path, key: Path) -> None:
        super().__init__(folder)
        self.certificate = certificate
        self.key = key

    def command(self) -> list[str]:
        """Return the command that serves on a TLS port alone."""
        words = super().command()
        words[words.index("--port") + 1] = "0"
        words += ["--tls-port", str(self.port), "--tls-auth-clients", "no"]
        words += ["--tls-cert-file", str(self.certificate), "--tls-key-file", str(self.key)]
        return [*words, "--tls-ca-cert-file", str(self.certificate)]

    def _url(self, database: int) -> str:
        return f"rediss://127.0.0.1:{self.port}/{database}?ssl_cert_reqs=none"


class ClusterRedis(RedisServer):
    """A node of a cluster that holds half of the slots and knows no other node."""

    name = "RedisCluster"

    def command(self) -> list[str]:
        """Return the command that serves as a node."""
        words = super().command()
        words[words.index("--databases") + 1] = "1"
        words += ["--cluster-enabled", "yes", "--cluster-port", str(free_port())]
        return [*words, "--cluster-require-full-coverage", "no"]

    def take_slots(self, last: int) -> None:
        """Serve the slots from 0 on."""
        with client(self.url) as redis:
            redis.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, last)
            wait_until(
                "the node's readiness",
                lambda: "cluster_state:ok" in str(redis.execute_command("CLUSTER", "INFO")),
                30,
            )
