"""A store whose question never comes back: blind while that lasts, and good again after it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from plain_stack import plain
from sqlalchemy import NullPool, create_engine, make_url, text
from stack_file import ZERO, StackFile
from swallowing_proxy import SwallowingProxy, swallowing_proxy

from orphanwatch.exporter.channel import Channel, Channels
from orphanwatch.exporter.config import parse_config
from orphanwatch.exporter.errors import StoreBusyError, StoreError
from orphanwatch.exporter.instants import Instant, instant_of_epoch, micros
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.reading import read_stores
from orphanwatch.exporter.readings import Readings
from orphanwatch.exporter.stores.lane import Lane
from orphanwatch.exporter.stores.questions import Inspection, Queue, Windows

TIMEOUT = 0.2
BUSY = "the previous query has not come back yet"


class Counter:
    """Counts how many of one connection's statements a PostgreSQL is at, all the time."""

    def __init__(self, url: str) -> None:
        self.most = 0
        self._engine = create_engine(url, poolclass=NullPool)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._count, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the counting."""
        self._over.set()
        self._thread.join()

    def sees_one(self, url: str) -> None:
        """Let it meet a statement that lasts: those of a reading are over before it may look."""
        engine = create_engine(
            url, poolclass=NullPool, connect_args={"application_name": "orphanwatch"}
        )
        with engine.connect() as connection:
            connection.execute(text("SELECT pg_sleep(0.5)"))
        assert self.most == 1

    def _count(self) -> None:
        statement = text(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE application_name = 'orphanwatch' AND state = 'active'"
        )
        with self._engine.connect() as connection:
            while not self._over.wait(0.002):
                self.most = max(self.most, connection.execute(statement).scalar_one())
                connection.rollback()


class Behind:
    """A stack whose ledger is asked through a proxy; nothing else is in that database."""

    def __init__(self, stack: StackFile, proxy: SwallowingProxy, channels: Channels) -> None:
        self.proxy = proxy
        self._config = stack.config
        self._channels = channels

    def read(self) -> Readings:
        """Return one reading."""
        return read_stores(self._channels, self._config, instant_of_epoch(ZERO + 30)).readings

    def problem(self) -> str:
        """Return what one reading says of the ledger."""
        return self.read().stores[StoreName.LEDGER].problem


@contextmanager
def behind_a_proxy(folder: Path, url: str) -> Iterator[Behind]:
    """Yield the plain stack in a server's database, its ledger behind a proxy."""
    port = make_url(url).port
    assert port is not None
    with swallowing_proxy(port) as proxy:
        stack = plain(folder, url=url)
        through = make_url(url).set(port=proxy.port).render_as_string(hide_password=False)
        ledger = {"url": through, "timeout": "300ms"}
        stack.configure(stores={"ledger": ledger, "leases": None, "queue": None, "gateway": None})
        channels = Channels(stack.config)
        try:
            yield Behind(stack, proxy, channels)
        finally:
            channels.stop()


@pytest.mark.servers
@pytest.mark.parametrize(
    "new_ones",
    [
        pytest.param(False, id="new connections pass all the time"),
        pytest.param(True, id="new connections are swallowed too"),
    ],
)
@pytest.mark.parametrize("server", ["postgresql", "mariadb"])
def test_a_connection_that_is_swallowed_is_left(
    *, server: str, new_ones: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Without a restart: the second reading after new connections pass is good."""
    url = request.getfixturevalue(f"{server}_url")
    counter = Counter(url) if server == "postgresql" else None
    if counter is not None:
        counter.sees_one(url)
    with behind_a_proxy(tmp_path, url) as behind:
        sound = behind.read()
        assert sound.stores[StoreName.LEDGER].problem == ""
        assert sound.spent is not None
        for _ in range(2):
            behind.proxy.swallows_new = new_ones
            behind.proxy.swallow()
            assert "no answer within 300ms" in behind.problem()
            for _ in range(4 if new_ones else 0):
                assert behind.problem()
            behind.proxy.swallows_new = False
            if new_ones:
                behind.problem()
            again = behind.read()
            assert again.stores[StoreName.LEDGER].problem == ""
            assert again.spent == sound.spent
    if counter is not None:
        counter.stop()
        assert counter.most == 1


@pytest.mark.servers
def test_a_connection_that_is_swallowed_at_its_end_costs_no_reading(
    postgresql_url: str, tmp_path: Path
) -> None:
    """All was answered by then."""
    with behind_a_proxy(tmp_path, postgresql_url) as behind:
        channels = behind._channels
        config = parse_config({"stores": {"gateway": {"type": "sql", "url": "sqlite://"}}})
        channels.begin(Windows.ending(instant_of_epoch(ZERO + 30), config))
        behind.proxy.swallow()
        channels.end()
        assert behind.problem() == ""


class Deaf:
    """A queue whose driver does not come back until it is told to, cut or not."""

    name = StoreName.QUEUE

    def __init__(self, wakes: threading.Event, *, cut: bool = True) -> None:
        self.cuts = 0
        self._wakes = wakes
        self._cut = cut

    def cut(self) -> bool:
        """Count that it was tried."""
        self.cuts += 1
        return self._cut

    def open(self, windows: Windows) -> None:  # noqa: ARG002  (it never looks)
        """Hang."""
        self._wakes.wait(60)

    def close(self) -> None:
        """Nothing is held."""

    def clock_skew_seconds(self) -> float | None:
        """Return None."""
        return None

    def rejected(self) -> tuple[()]:
        """Return nothing."""
        return ()

    def inspect(self) -> Inspection:
        """Return nothing."""
        return Inspection(unstated=(), advised=())

    def newest(self, windows: Windows) -> None:
        """Return nothing."""


def windows() -> Windows:
    """Return some windows."""
    config = parse_config({"stores": {"gateway": {"type": "sql", "url": "sqlite://"}}})
    return Windows.ending(Instant(0), config)


def threads() -> int:
    """Return how many threads serve a queue's lane."""
    return sum(thread.name == "store-queue" for thread in threading.enumerate())


def channel_of(first: Deaf, make: Callable[[], Queue]) -> Channel[Queue]:
    """Return a channel to a queue that hangs."""
    return Channel(StoreName.QUEUE, first, Lane(StoreName.QUEUE, micros(TIMEOUT)), make)


def test_a_driver_that_never_comes_back_is_left_behind() -> None:
    """At the second try, with its thread; what is made anew is asked from there on."""
    wakes = threading.Event()
    first, second = Deaf(wakes), Deaf(wakes)
    made: list[Queue] = []
    channel = channel_of(first, lambda: made.append(second) or second)  # type: ignore[func-returns-value]  # as meant
    before = threads()
    problems = []
    for _ in range(5):
        channel.begin(windows())
        problems.append(channel.problem.partition(";")[0])
    late = "no answer within 200ms"
    assert problems == [late, BUSY, late, BUSY, BUSY]
    assert (first.cuts, len(made)) == (2, 1)
    assert threads() - before == 2  # one is left behind, and no second one while it is there
    wakes.set()
    wait_for(lambda: threads() - before == 1)
    channel.begin(windows())
    assert channel.problem == ""
    channel.stop()
    wait_for(lambda: threads() == before)


def test_a_question_that_can_not_be_cut_is_waited_for() -> None:
    """It may still be in flight, and there is never a second one beside it."""
    wakes = threading.Event()
    store = Deaf(wakes, cut=False)

    def make() -> Queue:
        pytest.fail("a second one was made")

    channel = channel_of(store, make)
    problems = []
    for _ in range(4):
        channel.begin(windows())
        problems.append(channel.problem.partition(";")[0])
    assert problems == ["no answer within 200ms", BUSY, BUSY, BUSY]
    wakes.set()
    channel.begin(windows())
    assert channel.problem == ""
    channel.stop()


def test_one_question_at_a_time() -> None:
    """While one is out, the lane refuses."""
    wakes = threading.Event()
    lane = Lane(StoreName.QUEUE, micros(TIMEOUT))
    with pytest.raises(StoreError, match="no answer within 200ms"):
        lane.ask(lambda: wakes.wait(60))
    assert lane.is_busy()
    with pytest.raises(StoreBusyError):
        lane.ask(lambda: 1)
    wakes.set()
    wait_for(lambda: not lane.is_busy())
    assert lane.ask(lambda: 1) == 1
    lane.stop()


def wait_for(happened: Callable[[], bool]) -> None:
    """Return once something has happened."""
    until = time.monotonic() + 10
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.01)
