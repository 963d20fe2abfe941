"""The refresh: read, evaluate, book, publish, in the background and over again."""

import gc
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import structlog

from orphanwatch.exporter import names
from orphanwatch.exporter.board import ConfigReload
from orphanwatch.exporter.channel import Channels
from orphanwatch.exporter.clock import Clock
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.errors import StateError
from orphanwatch.exporter.evaluation import evaluate
from orphanwatch.exporter.gate import Closings, gate_of
from orphanwatch.exporter.instants import Instant, Micros, micros, seconds
from orphanwatch.exporter.model import Evaluation
from orphanwatch.exporter.names import ARM_STORES, Action, StoreName
from orphanwatch.exporter.noticeboard import Noticeboard
from orphanwatch.exporter.reading import read_stores
from orphanwatch.exporter.state import CounterBook, Counters

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

    def __init__(self, horizon: Micros, before: "Silences | None" = None) -> None:
        """Go on with what was seen before, where that is of the same leases."""
        self._horizon = horizon
        self._seen: dict[str, deque[tuple[Instant, Micros]]] = {}
        if before is not None:
            self._seen |= before._seen  # noqa: SLF001  (another one of its own kind)

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
class Generation:
    """One configuration, and all that a refresh by it needs."""

    config: Config
    channels: Channels
    board: Noticeboard
    """Where it publishes."""
    show: Callable[[], None]
    """Called once its board has its first evaluation."""


class Refresher:
    """Refreshes a noticeboard from the stores, once or in a thread of its own."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        book: CounterBook,
        config_reload: ConfigReload | None = None,
    ) -> None:
        self._clock = clock
        self._book = book
        self._reload = config_reload
        self._generation = self.prepare(config, self.new_board(config), _nothing)
        self._next: Generation | None = None
        self._turn = threading.Lock()
        self._last_success: dict[StoreName, Instant] = {}
        self._silences = Silences(config.horizon)
        self._closings = Closings()
        self._problems: dict[StoreName, str] = {}
        self._action: Action | None = None
        self._grace_problem = ""
        self._state_problem = ""
        self._stopping = threading.Event()
        self._woken = threading.Event()
        self._thread: threading.Thread | None = None
        self.board = self._generation.board

    def new_board(self, config: Config) -> Noticeboard:
        """Return a board for the evaluations by a config, empty yet."""
        return Noticeboard(config, self._clock, self._book.counters, self._reload)

    def prepare(self, config: Config, board: Noticeboard, show: Callable[[], None]) -> Generation:
        """Return a generation to go on with. Raises ``StoreError`` for a store that can't be made.

        No store is asked anything yet.
        """
        return Generation(config, Channels(config, self._clock), board, show)

    def adopt(self, generation: Generation) -> None:
        """Go on with another generation: from now, or once the present refresh is through.

        What was published last stays on ``board`` until the new one has its first evaluation.
        """
        with self._turn:
            passed_over, self._next = self._next, generation
        if passed_over is not None:
            passed_over.channels.stop()
        self._woken.set()

    def note_reload(self, config_reload: ConfigReload) -> None:
        """Show how the last reload went, on whatever is shown and will be."""
        with self._turn:
            self._reload = config_reload
            boards = {self.board, self._generation.board}
            if self._next is not None:
                boards.add(self._next.board)
        for board in boards:
            board.note_reload(config_reload)

    def refresh(self) -> Evaluation:
        """Read, evaluate, book and publish once; return the evaluation."""
        with uncollected():
            self._take_turn()
            return self._refresh()

    def _take_turn(self) -> None:
        """Let the next generation go on, where there is one."""
        with self._turn:
            before, after = self._generation, self._next
            if after is None:
                return
            self._generation, self._next = after, None
        kept = after.channels.take_over(before.channels)
        after.board.follow(self.board)
        self._last_success = {s: at for s, at in self._last_success.items() if s in kept}
        leases_stay = StoreName.LEASES in kept
        self._silences = Silences(after.config.horizon, self._silences if leases_stay else None)
        if not kept.issuperset(ARM_STORES):
            self._closings.forget_sight()
        structlog.get_logger().info("config in force", stores_kept=",".join(sorted(kept)))

    def _refresh(self) -> Evaluation:
        began = time.perf_counter()
        config = self._generation.config
        reading = read_stores(
            self._generation.channels,
            config,
            self._clock(),
            memory=self._book.memory,
            counting_since=self._book.counting_since,
            last_success=self._last_success,
            silences=self._silences.longest(),
        )
        evaluation = evaluate(reading.readings, config)
        if self._stopping.is_set():
            return evaluation  # whoever stopped us may have closed the book
        self._note(evaluation)
        try:
            counters = self._book.apply(
                evaluation,
                config,
                refresh_seconds=time.perf_counter() - began,
                leases=reading.sight,
            )
        except StateError as error:
            # The gauges are as true as ever; the counters stand still until the file takes them.
            self._note_state(str(error))
            counters = self._book.counters
        else:
            self._note_state("")
        self._publish(evaluation, counters)
        return evaluation

    def _publish(self, evaluation: Evaluation, counters: Counters) -> None:
        generation = self._generation
        closed = self._closings.note(evaluation, generation.config)
        gate = gate_of(evaluation, generation.config, closed)
        generation.board.publish(evaluation, counters, gate)
        if generation.board is not self.board:
            self.board = generation.board
            generation.show()

    def start(self) -> None:
        """Refresh from now on, every refresh interval."""
        self._thread = threading.Thread(target=self._run, name="refresh", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Return once no refresh books any more; one that waits for a store is left behind."""
        self._stopping.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join(_PATIENCE_SECONDS)
        self._generation.channels.stop()

    def _run(self) -> None:
        while True:
            self._woken.clear()
            if self._stopping.is_set():
                return
            began = time.monotonic()
            try:
                self.refresh()
            except Exception:  # noqa: BLE001  (logged whole; the next refresh may do better)
                # What was published goes stale by itself and then says so.
                structlog.get_logger().exception("refresh failed")
            interval = seconds(self._generation.config.refresh_interval)
            rest = interval - (time.monotonic() - began)
            self._woken.wait(max(_LEAST_PAUSE_SECONDS, rest))

    def _note(self, evaluation: Evaluation) -> None:
        for name, health in evaluation.stores.items():
            if health.last_success is not None:
                self._last_success[name] = health.last_success
        self._log_changes(evaluation)
        ages = evaluation.gauges.get(names.LEASE_AGE_SECONDS_MAX, ())
        self._silences.note(
            evaluation.at, {sample.labels[0]: micros(sample.value) for sample in ages}
        )

    def _note_state(self, problem: str) -> None:
        """Log that the state file can't be written, once, and that it can be again."""
        if problem and problem != self._state_problem:
            structlog.get_logger().error("state not written", problem=problem)
        elif self._state_problem and not problem:
            structlog.get_logger().info("state written again")
        self._state_problem = problem

    def _log_changes(self, evaluation: Evaluation) -> None:
        """Log what has changed since the last refresh, once, and nothing while nothing does."""
        log = structlog.get_logger()
        for name in self._generation.config.stores.configured():
            health, before = evaluation.stores[name], self._problems.get(name)
            if not health.up and health.problem != before:
                log.warning("store unreadable", store=str(name), problem=health.problem)
            elif health.up and before:
                log.info("store readable again", store=str(name))
            self._problems[name] = health.problem
        problem = self._generation.config.as_of(evaluation.at).measurement_problem
        if problem and problem != self._grace_problem:
            log.error("measured grace not used", problem=problem, instead="the proposal")
        self._grace_problem = problem
        action = evaluation.verdict.action
        if action is not self._action:
            log.info(
                "verdict changed",
                verdict=str(action),
                before=str(self._action or "none"),
                reason=evaluation.verdict.reasons[0],
            )
            self._action = action


def _nothing() -> None:
    """Do nothing: the first generation is shown from the start."""
