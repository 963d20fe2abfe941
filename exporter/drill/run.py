"""Plays a drill and looks at it through the exporter's own evaluation."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Self

from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.drill.books import StoreBooks
from orphanwatch.exporter.drill.kept import Kept
from orphanwatch.exporter.drill.knobs import Knobs
from orphanwatch.exporter.drill.record import Record
from orphanwatch.exporter.drill.scenario import STEP, Scenario
from orphanwatch.exporter.drill.truth import Truth, orphan_tokens, truth_at
from orphanwatch.exporter.instants import Instant, Micros, micros, seconds
from orphanwatch.exporter.model import Evaluation
from orphanwatch.exporter.names import Family
from orphanwatch.exporter.refresh import Refresher
from orphanwatch.exporter.state import CounterBook

LOOK_EVERY = micros(1)
_SPEND_TOLERANCE = 1.0

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
    """What really happened, to the microsecond."""
    looks: Sequence[Look]
    disagreements: tuple[str, ...]
    """Each in a sentence; empty where the exporter saw what was."""


def length_of(knobs: Knobs, config: Config) -> Micros:
    """Return how long a drill lasts on its own clock: its last look waits for late rows."""
    return Micros(_last_step(knobs) + config.lag)


def play(
    scenario: Scenario,
    config: Config,
    books: StoreBooks,
    start: Instant,
    pace: Pace,
    *,
    look_every: Micros = LOOK_EVERY,
) -> Played:
    """Play a drill from ``start`` to its end; raises the error of a store that can't be written.

    The exporter looks every ``look_every``, just before the cancel, at the end, and once more
    where the ledger's rows may land late; with a memory of its own that starts with the drill.
    """
    kept = Kept(books)
    record = Record(kept)
    stack = scenario.stack(record, start)
    wanted, last = _look_offsets(scenario, look_every), _last_step(scenario.knobs)
    with _Watching(config, kept, start) as watching:
        for offset in range(0, last + 1, STEP):
            pace(Micros(offset))
            stack.advance(Instant(start + offset))
            if offset == last and books.shape == "final":
                kept.drain(Instant(start + offset))  # else no orphan's row would ever land
            if offset in wanted:
                watching.look(Micros(offset))
        if config.lag:
            late = length_of(scenario.knobs, config)
            pace(late)
            books.as_of(Instant(start + late))
            watching.look(late)
    disagreements = tuple(_disagreements(kept.record, config, watching.looks))
    return Played(scenario, start, record, watching.looks, disagreements)


class _Watching:
    """The exporter, as it looks at a drill on the drill's own clock."""

    def __init__(self, config: Config, kept: Kept, start: Instant) -> None:
        self.looks: list[Look] = []
        self._config, self._kept = config, kept
        self._start = self._now = start
        self._book = CounterBook.open(None, config, start)
        self._refresher = Refresher(config, lambda: self._now, self._book)

    def look(self, offset: Micros) -> None:
        """Evaluate the stores as of an instant of the drill, and keep what really was beside it."""
        self._now = Instant(self._start + offset)
        seen = self._refresher.refresh()
        self.looks.append(Look(offset, seen, truth_at(self._kept.record, self._config, self._now)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._refresher.stop()
        self._book.close()


def _last_step(knobs: Knobs) -> Micros:
    return Micros(knobs.length - knobs.length % STEP)


def _look_offsets(scenario: Scenario, look_every: Micros) -> frozenset[int]:
    knobs = scenario.knobs
    whole = range(look_every, knobs.length + 1, look_every)
    return frozenset({*whole, knobs.cancel_at - STEP, _last_step(knobs)})


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
        yield from _silence(look, config)
    if looks:
        yield from _token_disagreements(record, config, looks[-1])


def _silence(look: Look, config: Config) -> Iterator[str]:
    """Yield that the exporter missed charges; more than the drill's own may always be there."""
    rate = total(look.seen, names.SPEND_TOKENS_PER_SECOND)
    if rate is None:
        return
    seen = rate * seconds(config.delta_window)
    if seen < look.truth.spent - _SPEND_TOLERANCE:
        yield (
            f"tokens in the ledger at {seconds(look.offset):g} s: "
            f"the exporter sees {seen:g}, the drill was charged {look.truth.spent:g}"
        )


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
