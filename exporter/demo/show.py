"""Runs the whole demo in one process: the stack, the exporter on it, and what happens, told."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final, Protocol

from orphanwatch.exporter.clock import Clock
from orphanwatch.exporter.config import ACTION_WORDS, Config
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.demo.player import Player
from orphanwatch.exporter.demo.prometheus import Prometheus, free_port
from orphanwatch.exporter.demo.settings import CONFIG, DATABASE, write_config
from orphanwatch.exporter.demo.stack import STEP, demo_stack
from orphanwatch.exporter.demo.story import LOST, MENDED, Story, Turn
from orphanwatch.exporter.demo.tables import open_database
from orphanwatch.exporter.errors import OrphanwatchError
from orphanwatch.exporter.instants import (
    Instant,
    Micros,
    format_duration,
    format_instant,
    seconds,
    to_the_second,
)
from orphanwatch.exporter.model import Verdict
from orphanwatch.exporter.names import Action
from orphanwatch.exporter.web_address import Address

_LOOK_EVERY_SECONDS: Final = 0.2
_REASON: Final = " " * 18
"""A reason stands below the words of its verdict."""


class Exporter(Protocol):
    """A running exporter."""

    @property
    def address(self) -> Address:
        """Where it listens."""

    @property
    def url(self) -> str:
        """The status page."""

    def verdict(self) -> Verdict | None:
        """Return the present verdict; None before the first one."""

    def stop(self) -> None:
        """Return when nothing of it runs any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a user asked for. ``length`` None is until stopped."""

    folder: Path
    address: Address
    speed: float
    length: Micros | None
    with_prometheus: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What the demo is handed: a clock, a mouth, a sign to stop, and the exporter to start."""

    clock: Clock
    say: Callable[[str], None]
    stopping: threading.Event
    start_exporter: Callable[[Config, Address, Clock], Exporter]
    write_rules: Callable[[Config, Path], Path]
    """Writes the generated rules into a folder; returns the rule file."""


class DemoError(OrphanwatchError):
    """The demo can't start, or its stack broke down."""


def show(options: Options, around: Surroundings) -> None:
    """Run the demo until its time is up or it is told to stop, and leave nothing running.

    Raises an ``OrphanwatchError`` if a part can't start or breaks down.
    """
    folder = options.folder
    database = folder / DATABASE
    if database.exists():
        raise DemoError(f"{database} is left from an earlier demo; name another --dir")
    address = options.address
    if address.port == 0:
        address = Address(address.host, free_port())
    config = load_config(write_config(folder, str(address)))
    with ExitStack() as running:
        engine = open_database(database)
        running.callback(engine.dispose)
        start = around.clock()
        turns: SimpleQueue[Turn] = SimpleQueue()
        player = Player(
            Story(demo_stack(engine, start), start),
            clock=around.clock,
            pause_seconds=seconds(STEP) / options.speed,
            tell=turns.put,
        )
        player.start()
        running.callback(player.stop)
        exporter = around.start_exporter(config, address, around.clock)
        running.callback(exporter.stop)
        prometheus = None
        if options.with_prometheus:
            rules = around.write_rules(config, folder)
            prometheus = Prometheus.start(folder, config, str(exporter.address), rules)
            running.callback(prometheus.stop)
        for line in _welcome(folder, exporter.url, prometheus):
            around.say(line)
        _watch(player, exporter, turns, options.length, around)


def _welcome(folder: Path, url: str, prometheus: Prometheus | None) -> Iterator[str]:
    yield "A small inference stack on SQLite, and Orphanwatch on it."
    yield ""
    yield f"  Status page   {url}"
    yield f"  Metrics       {url}metrics"
    if prometheus is not None:
        yield f"  Prometheus    http://{prometheus.address}/alerts"
    yield f"  Config        {folder / CONFIG}"
    yield ""
    yield "What to look at: the action on top of the status page, and why."
    yield (
        f"Again and again the overflow pool loses its cancels for {format_duration(LOST)}, "
        f"then all is well for {format_duration(MENDED)}."
    )
    yield "Meanwhile the queue stays calm. Stop with Ctrl-C."
    yield ""


def _watch(
    player: Player,
    exporter: Exporter,
    turns: SimpleQueue[Turn],
    length: Micros | None,
    around: Surroundings,
) -> None:
    """Tell the turns of the story and each change of the verdict, until it is time to stop."""
    started = around.clock()
    shown: Action | None = None
    while not around.stopping.wait(_LOOK_EVERY_SECONDS):
        if player.failure is not None:
            raise DemoError(f"the demo's stack broke down: {player.failure}") from player.failure
        for turn in _drain(turns):
            around.say(_line(turn.at, "", turn.words))
        now, verdict = around.clock(), exporter.verdict()
        if verdict is not None and verdict.action is not shown:
            shown = verdict.action
            around.say(_line(now, shown, ACTION_WORDS[shown]))
            for reason in verdict.reasons[:1]:
                around.say(f"{_REASON}{reason}")
        if length is not None and now - started >= length:
            return


def _drain(turns: SimpleQueue[Turn]) -> Iterator[Turn]:
    while True:
        try:
            yield turns.get_nowait()
        except Empty:
            return


def _line(at: Instant, action: str, words: str) -> str:
    time_of_day = format_instant(to_the_second(at)).partition("T")[2]
    return f"{time_of_day}  {action:<5}  {words}"
