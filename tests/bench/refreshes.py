"""Refreshes against hand-written SQL, in turns and in one process, and whether the two agree."""

import re
import sqlite3
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from math import isclose
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from hand_written import Answers, ask_by_hand
from sqlalchemy import Engine, event

from orphanwatch.exporter import names
from orphanwatch.exporter.channel import Channels
from orphanwatch.exporter.config import Config, parse_config
from orphanwatch.exporter.evaluation import evaluate
from orphanwatch.exporter.instants import instant_of_epoch
from orphanwatch.exporter.model import Evaluation
from orphanwatch.exporter.names import Family, KeyKind
from orphanwatch.exporter.reading import read_stores
from orphanwatch.exporter.readings import Readings
from orphanwatch.exporter.refresh import uncollected
from orphanwatch.exporter.signals.attached import attached_tasks
from orphanwatch.exporter.stores.questions import Windows

_POOLS: Final = {"paid": {"role": "paid", "lease_cap": 400}, "overflow": {"role": "overflow"}}
_STORES: Final = {"gateway": "tasks", "leases": "leases", "ledger": "ledger", "queue": "queue"}

Answer = TypeVar("Answer")
Statement = tuple[str, tuple[Any, ...]]


def config_document(file: Path, **settings: object) -> dict[str, Any]:
    """Return a config of the embedded default on one file, as a user writes it."""
    return {
        "pools": _POOLS,
        "stores": {
            store: {
                "type": "sql",
                "url": f"sqlite:///{file}",
                "relation": relation,
                # A slow machine is to be measured, not to be cut off.
                "timeout": "7s",
                **({"shape": "increments"} if store == "ledger" else {}),
            }
            for store, relation in _STORES.items()
        },
        **settings,
    }


def config_on(file: Path) -> Config:
    """Return the loaded config of the embedded default on one file."""
    return parse_config(config_document(file))


@dataclass(frozen=True, kw_only=True)
class Timing(Generic[Answer]):
    """The medians of several runs of one thing."""

    seconds: float
    """Wall time."""
    cpu_seconds: float
    """Of the process, all threads: what a busy machine does not change."""
    answer: Answer


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One data set, asked by the product and by hand in turns."""

    refresh: Timing[tuple[Readings, Evaluation]]
    by_hand: Timing[Answers]
    disagreements: tuple[str, ...]
    """In sentences; empty where every number is the same."""
    statements: tuple[Statement, ...]
    """What the product asked in one refresh."""


def compare(file: Path, at: float, rounds: int) -> Comparison:
    """Return both medians over a number of rounds, after one round to warm up."""
    config, instant = config_on(file), instant_of_epoch(at)
    channels = Channels(config)

    def refresh() -> tuple[Readings, Evaluation]:
        readings = read_stores(channels, config, instant).readings
        return readings, evaluate(readings, config)

    try:
        with _recorded() as statements:
            readings, evaluation = refresh()
        numbers = ask_by_hand(file, at).numbers(at)
        refreshes, asked = in_turns(refresh, lambda: ask_by_hand(file, at), rounds)
    finally:
        channels.stop()
    return Comparison(
        refresh=refreshes,
        by_hand=asked,
        disagreements=tuple(
            _disagreements(numbers_of(readings, evaluation, config), numbers, evaluation)
        ),
        statements=tuple(statements),
    )


def time_refreshes(config: Config, at: float, rounds: int) -> Timing[dict[str, float]]:
    """Return the median of several refreshes, after one to warm up, and what they say."""
    instant, channels = instant_of_epoch(at), Channels(config)

    def refresh() -> dict[str, float]:
        readings = read_stores(channels, config, instant).readings
        return numbers_of(readings, evaluate(readings, config), config)

    try:
        refresh()
        timing, _ = in_turns(refresh, lambda: None, rounds)
    finally:
        channels.stop()
    return timing


def in_turns(
    first: Callable[[], Any], second: Callable[[], Any], rounds: int
) -> tuple[Timing[Any], Timing[Any]]:
    """Return the timings of two things done in turns, so that both meet the same machine."""
    runs: tuple[list[tuple[float, float]], list[tuple[float, float]]] = ([], [])
    answers = [None, None]
    for _ in range(rounds):
        for place, action in enumerate((first, second)):
            answers[place] = None  # the last one's rows are not to be freed while we measure
            with uncollected():  # as serve does; by hand it is none the slower for it
                wall, cpu = time.perf_counter(), time.process_time()
                answers[place] = action()
                runs[place].append((time.perf_counter() - wall, time.process_time() - cpu))
    first_timing, second_timing = (
        Timing(
            seconds=statistics.median(wall for wall, _ in taken),
            cpu_seconds=statistics.median(cpu for _, cpu in taken),
            answer=answer,
        )
        for taken, answer in zip(runs, answers, strict=True)
    )
    return first_timing, second_timing


def numbers_of(readings: Readings, evaluation: Evaluation, config: Config) -> dict[str, float]:
    """Return the product's numbers under the names that ``Answers.numbers`` gives them."""

    def total(family: Family, *labels: str) -> float:
        samples = evaluation.gauges.get(family, ())
        return sum(sample.value for sample in samples if set(labels) <= set(sample.labels))

    if readings.gateway is None or readings.leases is None or readings.ledger is None:
        return {}
    attached = attached_tasks(readings, Windows.ending(readings.at, config))
    return {
        "abandoned tasks": total(names.ABANDONED_TASKS),
        "orphan tokens": sum(tally.charged for tally in evaluation.tallies or ()),
        "orphan token delta": total(names.TOKEN_DELTA),
        "live leases": total(names.LIVE_LEASES),
        "orphan leases": total(names.LEASES),
        "leases of the stopped": sum(len(watch.leases) for watch in readings.watched),
        "spend tokens": readings.ledger.window.spend_tokens or 0.0,
        "baseline tokens": readings.ledger.window.baseline_tokens or 0.0,
        "tokens charged to workers": total(names.UNMATCHED_TOKENS, str(KeyKind.WORKER)),
        "attached tasks": attached.now if attached else 0,
        "attached, spend window": attached.spend_mean if attached else 0,
        "attached, baseline window": attached.baseline_mean if attached else 0,
        "deadline budgets": len(readings.gateway.budgets),
        "rejected rows": sum(row.count for row in evaluation.rejected),
        "queue depth": total(names.QUEUE_DEPTH),
    }


def _disagreements(
    product: Mapping[str, float], by_hand: Mapping[str, float], evaluation: Evaluation
) -> Iterator[str]:
    for store, health in evaluation.stores.items():
        if not health.up:
            yield f"store {store} could not be read: {health.problem}"
    for name, value in by_hand.items():
        own = product.get(name)
        if own is None or not isclose(own, value, rel_tol=1e-6):
            yield f"{name}: {own} by the product, {value} by hand"


@contextmanager
def _recorded() -> Iterator[list[Statement]]:
    """Record what is asked through SQLAlchemy meanwhile."""
    statements: list[Statement] = []

    def note(*said: Any) -> None:
        statements.append((said[2], tuple(said[3])))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def plans_of(file: Path, statements: tuple[Statement, ...]) -> Iterator[tuple[str, list[str]]]:
    """Yield each statement that looks for something, with the plan that SQLite makes for it."""
    with closing(sqlite3.connect(file)) as connection:
        connection.create_function("orphanwatch_instant", 1, lambda value: value)
        for statement, parameters in statements:
            if " LIMIT ?" in statement or not statement.startswith(("SELECT", "WITH")):
                continue  # a handful of rows, to tell columns and forms
            rows = connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters).fetchall()
            table = re.search(r"(?:FROM|JOIN) (\w+) AS rel", statement)
            if rows:
                named = table[1] if table else "rel"
                yield statement, [re.sub(r"\brel\b", named, row[3]) for row in rows]
