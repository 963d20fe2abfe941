"""The refresh: read, evaluate, book, publish, in the background and over again."""

import gc
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import structlog

from orphanwatch.exporter import names
from orphanwatch.exporter.board import Published
from orphanwatch.exporter.channel import Channels
from orphanwatch.exporter.clock import Clock
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.errors import StateError
from orphanwatch.exporter.evaluation import evaluate
from orphanwatch.exporter.instants import Instant, Micros, micros, seconds
from orphanwatch.exporter.model import Evaluation
from orphanwatch.exporter.names import Action, Family, StoreName
from orphanwatch.exporter.reading import read_stores
from orphanwatch.exporter.snapshot import is_known
from orphanwatch.exporter.state import CounterBook, Counters
from orphanwatch.exporter.version import VERSION

# A refresh that takes longer than its interval must not leave the web threads without a turn.
_LEAST_PAUSE_SECONDS: Final = 0.05

# What is asked of a store that hangs may be thrown away: nothing of it has been booked.
_PATIENCE_SECONDS: Final = 1.0


@contextmanager
def uncollected() -> Iterator[None]:
    """Let the garbage collector rest meanwhile.

    A refresh makes some hundred thousand values, none of them in a cycle, which the collector
    would walk through again and again: that took a quarter of the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Silences:
    """The longest silence between heartbeats seen within a horizon, by pool."""

    def __init__(self, horizon: Micros) -> None:
        self._horizon = horizon
        self._seen: dict[str, deque[tuple[Instant, Micros]]] = {}

    def note(self, at: Instant, ages: Mapping[str, Micros]) -> None:
        """Take in the largest lease ages of one evaluation."""
        for pool, age in ages.items():
            seen = self._seen.setdefault(pool, deque())
            # An older and shorter silence can never be the longest again.
            while seen and seen[-1][1] <= age:
                seen.pop()
            seen.append((at, age))
        for seen in self._seen.values():
            while seen and seen[0][0] <= at - self._horizon:
                seen.popleft()

    def longest(self) -> dict[str, Micros]:
        """Return the longest silence of each pool that has one."""
        return {pool: seen[0][1] for pool, seen in self._seen.items() if seen}


@dataclass(frozen=True, slots=True, eq=False)
class _Shown:
    """What is published, as it is now and as it will be once it is too old."""

    current: Published
    outdated: Published
    expires_at: Instant


class Noticeboard:
    """What was last published, for the web app: answers at once, never with what is stale."""

    def __init__(self, config: Config, clock: Clock, counters: Counters) -> None:
        self._config = config
        self._clock = clock
        empty = _page(None, counters)
        self._shown = _Shown(empty, empty, Instant(0))

    def current(self) -> Published:
        """Return what may be served now."""
        shown = self._shown
        return shown.current if self._clock() <= shown.expires_at else shown.outdated

    def publish(self, evaluation: Evaluation, counters: Counters) -> None:
        """Show an evaluation until the next, or until it is stale."""
        self._shown = _Shown(
            _page(evaluation, counters),
            _page(None, Counters(counters={}, histograms={}, exemplars={}), evaluation.at),
            Instant(evaluation.at + self._config.stale_after),
        )


def _page(
    evaluation: Evaluation | None, counters: Counters, last: Instant | None = None
) -> Published:
    """Return a page; counters that rest on a store that could not be read are left out."""

    def is_shown(family: Family) -> bool:
        return evaluation is None or is_known(family, evaluation)

    return Published(
        version=VERSION,
        evaluation=evaluation,
        counters={f: values for f, values in counters.counters.items() if is_shown(f)},
        histograms={f: values for f, values in counters.histograms.items() if is_shown(f)},
        exemplars=counters.exemplars,
        last_evaluated_at=evaluation.at if evaluation is not None else last,
    )


class Refresher:
    """Refreshes a noticeboard from the stores, once or in a thread of its own."""

    def __init__(self, config: Config, clock: Clock, book: CounterBook) -> None:
        self._config = config
        self._clock = clock
        self._book = book
        self._channels = Channels(config, clock)
        self._last_success: dict[StoreName, Instant] = {}
        self._silences = Silences(config.horizon)
        self._problems: dict[StoreName, str] = {}
        self._action: Action | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.board = Noticeboard(config, clock, book.counters)

    def refresh(self) -> Evaluation:
        """Read, evaluate, book and publish once; return the evaluation."""
        with uncollected():
            return self._refresh()

    def _refresh(self) -> Evaluation:
        log = structlog.get_logger()
        began = time.perf_counter()
        reading = read_stores(
            self._channels,
            self._config,
            self._clock(),
            memory=self._book.memory,
            counting_since=self._book.counting_since,
            last_success=self._last_success,
            silences=self._silences.longest(),
        )
        evaluation = evaluate(reading.readings, self._config)
        if self._stopping.is_set():
            return evaluation  # whoever stopped us may have closed the book
        self._note(evaluation)
        try:
            counters = self._book.apply(
                evaluation,
                self._config,
                refresh_seconds=time.perf_counter() - began,
                leases=reading.sight,
            )
        except StateError as error:
            # The gauges are as true as ever; the counters stand still until the file takes them.
            log.error("state not written", problem=str(error))  # noqa: TRY400  (said in full)
            counters = self._book.counters
        self.board.publish(evaluation, counters)
        return evaluation

    def start(self) -> None:
        """Refresh from now on, every refresh interval."""
        self._thread = threading.Thread(target=self._run, name="refresh", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Return once no refresh books any more; one that waits for a store is left behind."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_PATIENCE_SECONDS)
        self._channels.stop()

    def _run(self) -> None:
        interval = seconds(self._config.refresh_interval)
        while not self._stopping.is_set():
            began = time.monotonic()
            try:
                self.refresh()
            except Exception:  # noqa: BLE001  (logged whole; the next refresh may do better)
                # What was published goes stale by itself and then says so.
                structlog.get_logger().exception("refresh failed")
            rest = interval - (time.monotonic() - began)
            self._stopping.wait(max(_LEAST_PAUSE_SECONDS, rest))

    def _note(self, evaluation: Evaluation) -> None:
        for name, health in evaluation.stores.items():
            if health.last_success is not None:
                self._last_success[name] = health.last_success
        self._log_changes(evaluation)
        ages = evaluation.gauges.get(names.LEASE_AGE_SECONDS_MAX, ())
        self._silences.note(
            evaluation.at, {sample.labels[0]: micros(sample.value) for sample in ages}
        )

    def _log_changes(self, evaluation: Evaluation) -> None:
        """Log what has changed since the last refresh, once, and nothing while nothing does."""
        log = structlog.get_logger()
        for name in self._config.stores.configured():
            health, before = evaluation.stores[name], self._problems.get(name)
            if not health.up and health.problem != before:
                log.warning("store unreadable", store=str(name), problem=health.problem)
            elif health.up and before:
                log.info("store readable again", store=str(name))
            self._problems[name] = health.problem
        action = evaluation.verdict.action
        if action is not self._action:
            log.info(
                "verdict changed",
                verdict=str(action),
                before=str(self._action or "none"),
                reason=evaluation.verdict.reasons[0],
            )
            self._action = action
