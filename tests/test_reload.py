"""A config that is loaded anew: one at a time, nothing lost, and a bad one changes nothing."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from stack_file import ZERO, StackFile, charge, lease, sample, task
from structlog.testing import capture_logs

from orphanwatch.exporter import names
from orphanwatch.exporter.board import ConfigReload
from orphanwatch.exporter.channel import Channels
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.errors import ConfigError, OrphanwatchError, StateError
from orphanwatch.exporter.exposition import Format, encode
from orphanwatch.exporter.instants import SECOND, Instant, instant_of_epoch
from orphanwatch.exporter.names import Action, StoreName
from orphanwatch.exporter.refresh import Refresher
from orphanwatch.exporter.reload import Loaded, Reloader, reload_page
from orphanwatch.exporter.state import CounterBook


class Exporter:
    """A refresher on a stack, with a clock and turns of the test's own."""

    def __init__(self, stack: StackFile) -> None:
        self.stack = stack
        self.now = instant_of_epoch(ZERO)
        self.book = CounterBook.open(None, stack.config, self.now)
        self.refresher = Refresher(stack.config, lambda: self.now, self.book)
        self.shown: list[str] = []

    def refresh(self, offset: float) -> None:
        """Refresh so many seconds after zero."""
        self.now = instant_of_epoch(ZERO + offset)
        self.refresher.refresh()

    def take_config(self) -> None:
        """Adopt the config as the file has it now."""
        config = self.stack.config
        board = self.refresher.new_board(config)
        self.refresher.adopt(
            self.refresher.prepare(config, board, lambda: self.shown.append("shown"))
        )

    def counted(self) -> float:
        """Return all orphan tokens that are published."""
        return sum(self.refresher.board.current().counters[names.TOKENS_TOTAL].values())


@pytest.fixture
def stack(tmp_path: Path) -> StackFile:
    """Return a stack where a client left at 10 s, and its worker was charged for until 20 s."""
    made = StackFile(tmp_path, reopen_hold="60s")
    made.add("tasks", task("t1", cancelled_at=10, deadline_at=100))
    made.add("leases", lease("t1", heartbeat_at=18, released_at=20))
    made.add("ledger", *(charge("t1", 10, second) for second in range(1, 21)))
    made.add("queue", sample(0))
    return made


def test_counters_neither_fall_nor_count_again(stack: StackFile) -> None:
    """The book goes on, whatever else is replaced."""
    exporter = Exporter(stack)
    exporter.refresh(15)
    before = exporter.counted()
    for number in range(5):
        stack.configure(horizon=f"{number + 1}h")
        exporter.take_config()
        exporter.refresh(15 + number)
        assert exporter.counted() == 10 * (4 + number)
    exporter.refresh(25)
    assert (before, exporter.counted()) == (40, 90)


def test_the_last_evaluation_is_served_until_there_is_a_new_one(stack: StackFile) -> None:
    """Board, pages and pools are swapped as one, at the first evaluation by the new config."""
    exporter = Exporter(stack)
    exporter.refresh(12)
    before = exporter.refresher.board.current()
    stack.configure(pools={"batch": {"role": "overflow"}})
    exporter.take_config()
    assert exporter.refresher.board.current() is before
    assert exporter.shown == []
    exporter.refresh(16)
    after = exporter.refresher.board.current()
    assert after.gate is not None
    assert (list(after.gate.pools), exporter.shown) == (["batch"], ["shown"])
    assert len(after.history) == 2


def test_of_two_configs_in_one_turn_the_later_holds(stack: StackFile) -> None:
    """One that was passed over is never shown, nor asked for anything."""
    exporter = Exporter(stack)
    exporter.refresh(12)
    for pool in ("one", "two"):
        stack.configure(pools={pool: {"role": "overflow"}})
        exporter.take_config()
    exporter.refresh(13)
    gate = exporter.refresher.board.current().gate
    assert gate is not None
    assert (list(gate.pools), exporter.shown) == (["two"], ["shown"])


def test_what_closed_the_gate_before_holds_it_on(stack: StackFile) -> None:
    """A reload opens nothing: it remembers what was closed, and when."""
    stack.run_sql("DELETE FROM tasks", "DELETE FROM leases", "DELETE FROM ledger")
    stack.add("tasks", task("r", attempt=2, submitted_at=1))
    exporter = Exporter(stack)
    exporter.refresh(2)
    stack.run_sql("DELETE FROM tasks")
    stack.configure(reopen_hold="40s", grace_seconds="2s")
    exporter.take_config()
    for second in (10, 20, 30, 41):
        exporter.refresh(second)
        published = exporter.refresher.board.current()
        assert published.evaluation is not None
        assert published.evaluation.verdict.action is Action.SCALE
        assert published.gate is not None
        assert not published.gate.is_open
    exporter.refresh(42)
    gate = exporter.refresher.board.current().gate
    assert gate is not None
    assert gate.is_open


def channels(stack: StackFile, **settings: Any) -> Channels:
    """Return the channels of a config."""
    stack.configure(**settings)
    return Channels(stack.config)


LOG = {"type": "jsonl", "path": "access.log", "columns": {"task_id": "id"}}


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        pytest.param({"thresholds": {"token_delta": 5}}, set(StoreName), id="a threshold"),
        pytest.param({"grace_seconds": "3s"}, set(StoreName), id="the grace"),
        pytest.param({"refresh_interval": "7s"}, set(StoreName), id="the interval"),
        pytest.param({"horizon": "2h"}, set(), id="the horizon: what a log's mirror keeps"),
        pytest.param(
            {"stores": {"leases": {"lease_ttl": "9s"}}},
            set(StoreName) - {StoreName.LEASES},
            id="a store's own settings",
        ),
        pytest.param(
            {"stores": {"queue": None}}, set(StoreName) - {StoreName.QUEUE}, id="a store less"
        ),
        pytest.param(
            {"stores": {"ledger": {"lag": "5s"}}}, set(), id="the ledger's lag, which moves windows"
        ),
    ],
)
def test_a_store_that_is_asked_the_same_stays_open(
    stack: StackFile, settings: dict[str, Any], kept: set[StoreName]
) -> None:
    """What is remembered of it stays too; all others are opened anew."""
    before = channels(stack)
    after = channels(stack, **settings)
    assert after.take_over(before) == kept
    assert {c.name for c in after.all() if c in before.all()} == kept


class Turns:
    """A load that takes a while, and counts how many are at it."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.at_once = self.most = self.times = 0
        self.error: Exception | None = None
        self.taken: list[Loaded] = []
        self.noted: list[ConfigReload] = []
        self.seconds = 0

    def load(self) -> Loaded:
        """Return the config, or fail."""
        self.at_once += 1
        self.times += 1
        self.most = max(self.most, self.at_once)
        time.sleep(0.05)
        self.at_once -= 1
        if self.error is not None:
            raise self.error
        return Loaded(self.config, {})

    def clock(self) -> Instant:
        """Return one second more at each look."""
        self.seconds += 1
        return Instant(self.seconds * SECOND)

    def reloader(self, started_with: Config | None = None) -> Reloader:
        """Return what is tested."""
        return Reloader(
            self.load,
            self.taken.append,
            self.noted.append,
            self.clock,
            started_with=started_with or self.config,
        )


def test_reloads_are_one_at_a_time(stack: StackFile) -> None:
    """However many threads ask."""
    turns = Turns(stack.config)
    reloader = turns.reloader()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: reloader.reload(), range(4)))
    assert (turns.times, turns.most, len(turns.taken)) == (4, 1, 4)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        pytest.param(ConfigError("f.yml", ("pools: no",)), "f.yml: pools: no", id="a bad config"),
        pytest.param(
            RuntimeError("holds a secret"),
            "failed unexpectedly (RuntimeError); see the log",
            id="a bug, whose words stay inside",
        ),
    ],
)
def test_a_bad_one_changes_nothing_but_what_says_so(
    stack: StackFile, error: Exception, said: str
) -> None:
    """The time of the last good one stands."""
    turns = Turns(stack.config)
    reloader = turns.reloader()
    turns.error = error
    with capture_logs() as logs, pytest.raises(OrphanwatchError, match=said.replace("(", r"\(").replace(")", r"\)")):  # fmt: skip  # noqa: E501
        reloader.reload()
    assert turns.taken == []
    assert turns.noted == [ConfigReload(is_successful=False, succeeded_at=Instant(SECOND))]
    assert [entry["event"] for entry in logs] == ["config not reloaded, the one before runs on"]
    turns.error = None
    reloader.reload()
    assert turns.noted[-1] == ConfigReload(is_successful=True, succeeded_at=Instant(2 * SECOND))


def test_the_state_file_stays(stack: StackFile, tmp_path: Path) -> None:
    """Counters of another file would fall, or count again."""
    started_with = stack.config
    stack.configure(state_file="other.db")
    turns = Turns(stack.config)
    with pytest.raises(ConfigError, match="state_file: can't change while the exporter runs"):
        turns.reloader(started_with).reload()
    assert not (tmp_path / "other.db").exists()


def test_a_store_of_an_unknown_kind_is_refused_as_a_whole(stack: StackFile) -> None:
    """What can't even be made never comes into force."""
    exporter = Exporter(stack)
    exporter.refresh(12)
    stack.configure(stores={"queue": {"url": "oracle://db/stack"}})
    with pytest.raises(OrphanwatchError, match="'oracle' can't be read"):
        exporter.take_config()
    exporter.refresh(13)
    evaluation = exporter.refresher.board.current().evaluation
    assert evaluation is not None
    assert evaluation.stores[StoreName.QUEUE].up


def test_many_reloads_over_http_leave_threads_for_the_pages() -> None:
    """One runs, one waits, and the others are told to come again."""
    started, go_on = threading.Semaphore(0), threading.Event()

    def reload() -> None:
        started.release()
        assert go_on.wait(10)

    page = reload_page(reload)
    with ThreadPoolExecutor(2) as pool:
        busy = [pool.submit(page, {}) for _ in range(2)]
        for _ in busy:
            assert started.acquire(timeout=10)
        refused = page({})
        go_on.set()
        assert [answer.result().status for answer in busy] == [200, 200]
    assert (refused.status, refused.headers) == (503, (("Retry-After", "1"),))
    assert page({}).status == 200


def shown(exporter: Exporter) -> dict[str, float]:
    """Return the two numbers about reloads, as they are scraped."""
    page = encode(exporter.refresher.board.current(), Format.TEXT).decode()
    lines = [line for line in page.splitlines() if line.startswith("orphanwatch_config_")]
    return {line.split()[0].rsplit("reload_")[1]: float(line.split()[1]) for line in lines}


def test_what_is_shown_follows_at_once(stack: StackFile) -> None:
    """Before the next evaluation, on every board there is, and on one that is too old."""
    exporter = Exporter(stack)
    assert shown(exporter) == {}
    exporter.refresh(12)
    exporter.take_config()
    exporter.refresher.note_reload(ConfigReload(is_successful=False, succeeded_at=Instant(SECOND)))
    failed = {"successful": 0.0, "success_timestamp_seconds": 1.0}
    assert shown(exporter) == failed
    exporter.now = instant_of_epoch(ZERO + 100)
    assert shown(exporter) == failed
    exporter.refresh(101)
    assert shown(exporter) == failed


def test_a_failing_state_file_costs_no_reload(
    stack: StackFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gauges are as true as ever, and the new config is shown."""
    exporter = Exporter(stack)
    exporter.refresh(12)

    def refuse(*_: object, **__: object) -> None:
        raise StateError("full")

    monkeypatch.setattr(exporter.book, "apply", refuse)
    exporter.take_config()
    exporter.refresh(13)
    assert exporter.shown == ["shown"]
