"""Plays a drill and looks at it through the exporter's own evaluation."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.drill.record import Record
from orphanwatch.exporter.drill.scenario import STEP, Scenario
from orphanwatch.exporter.drill.truth import Truth, orphan_tokens, truth_at
from orphanwatch.exporter.instants import Instant, Micros, micros, seconds
from orphanwatch.exporter.model import Evaluation
from orphanwatch.exporter.names import Family
from orphanwatch.exporter.refresh import Refresher
from orphanwatch.exporter.stack.books import Books
from orphanwatch.exporter.state import CounterBook

LOOK_EVERY = micros(1)

Pace = Callable[[Micros], None]
"""Waits until so much of the drill's own time has passed."""


@dataclass(frozen=True, slots=True)
class Look:
    """What the exporter saw at an instant of the drill, and what really was."""

    offset: Micros
    seen: Evaluation
    truth: Truth


@dataclass(frozen=True, slots=True)
class Played:
    """A drill that was played to its end."""

    scenario: Scenario
    start: Instant
    record: Record
    looks: Sequence[Look]
    disagreements: tuple[str, ...]
    """Each in a sentence; empty where the exporter saw what was."""


def play(
    scenario: Scenario,
    config: Config,
    books: Books,
    start: Instant,
    pace: Pace,
    *,
    look_every: Micros = LOOK_EVERY,
) -> Played:
    """Play a drill from ``start`` to its end; raises the error of a store that can't be written.

    The exporter looks every ``look_every``, just before the cancel, and at the end, with a memory
    of its own that starts with the drill.
    """
    record = Record(books)
    stack = scenario.stack(record, start)
    now = start
    book = CounterBook.open(None, config, start)
    refresher = Refresher(config, lambda: now, book)
    looks: list[Look] = []
    wanted = _look_offsets(scenario, look_every)
    try:
        for offset in _offsets(scenario):
            pace(offset)
            now = Instant(start + offset)
            stack.advance(now)
            if offset in wanted:
                looks.append(Look(offset, refresher.refresh(), truth_at(record, config, now)))
    finally:
        refresher.stop()
        book.close()
    return Played(scenario, start, record, looks, tuple(_disagreements(record, config, looks)))


def _offsets(scenario: Scenario) -> Iterator[Micros]:
    return (Micros(step) for step in range(0, scenario.knobs.length + 1, STEP))


def _look_offsets(scenario: Scenario, look_every: Micros) -> frozenset[int]:
    knobs = scenario.knobs
    whole = range(look_every, knobs.length + 1, look_every)
    last = knobs.length - knobs.length % STEP
    return frozenset({*whole, knobs.cancel_at - STEP, last})


def _disagreements(record: Record, config: Config, looks: Sequence[Look]) -> Iterator[str]:
    """Yield where the exporter's numbers are not the drill's own.

    Pool-wide numbers can only be compared while no orphan of anybody else is there.
    """
    for look in looks:
        others = any(o.task_id not in record.requests for o in look.seen.orphans)
        pairs = (
            (names.TOKEN_DELTA, look.truth.token_delta),
            (names.LEASES, float(look.truth.orphan_leases)),
            (names.DUPLICATE_IN_FLIGHT, float(look.truth.duplicates)),
        )
        for family, truth in () if others else pairs:
            seen = total(look.seen, family)
            if seen is not None and abs(seen - truth) > _tolerance(config):
                yield (
                    f"{family} at {seconds(look.offset):g} s: "
                    f"the exporter says {seen:g}, the drill {truth:g}"
                )
    if looks:
        yield from _token_disagreements(record, config, looks[-1])


def _token_disagreements(record: Record, config: Config, last: Look) -> Iterator[str]:
    if last.seen.tallies is None:
        return
    seen = {tally.task_id: tally.charged + tally.prorated for tally in last.seen.tallies}
    for task_id in record.requests:
        truth = orphan_tokens(record, config, task_id, last.seen.at)
        if abs(seen.get(task_id, 0.0) - truth) > _tolerance(config):
            yield (
                f"orphan tokens of {task_id}: "
                f"the exporter says {seen.get(task_id, 0.0):g}, the drill {truth:g}"
            )


def _tolerance(config: Config) -> float:
    """Return by how much a number may differ: a ``final`` row is spread, not counted."""
    ledger = config.stores.ledger
    return 1.0 if ledger is not None and ledger.shape == "final" else 1e-6


def total(evaluation: Evaluation, family: Family) -> float | None:
    """Return the sum over all pools of a gauge; None where it is unknown."""
    samples = evaluation.gauges.get(family)
    return None if samples is None else sum(sample.value for sample in samples)
