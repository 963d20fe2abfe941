"""One drill from its books to its report, and what is taken away after it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from orphanwatch.exporter.clock import wall_clock
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.drill.before import make_sure, pools_of
from orphanwatch.exporter.drill.books import Book, StoreBooks, open_books
from orphanwatch.exporter.drill.clean import take_away
from orphanwatch.exporter.drill.faults import Fault, Mode
from orphanwatch.exporter.drill.journal import PREFIX, Journal, prefix_of
from orphanwatch.exporter.drill.knobs import Knobs
from orphanwatch.exporter.drill.looks import hop_of
from orphanwatch.exporter.drill.report import DrillReport, report_of
from orphanwatch.exporter.drill.run import LOOK_EVERY, Pace, length_of, play
from orphanwatch.exporter.drill.run_id import new_run
from orphanwatch.exporter.drill.scenario import Scenario
from orphanwatch.exporter.errors import DrillError, OrphanwatchError
from orphanwatch.exporter.instants import Instant, Micros, format_duration
from orphanwatch.exporter.names import StoreName

__all__ = ["PREFIX", "Plan", "expected_mode", "make_ready", "run_drill"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be drilled."""

    knobs: Knobs
    mode: Mode
    fault: Fault | None
    seed: int = 0
    look_every: Micros = LOOK_EVERY


def expected_mode(fault: Fault | None) -> Mode:
    """Return whether a fault lets work run on past its cancel; None is the baseline."""
    sheds = {None, Fault.LOST_RETRY_ID, Fault.MISKEYED_LEDGER}
    return Mode.SHED if fault in sheds else Mode.ORPHAN


def make_ready(plan: Plan, config: Config) -> None:
    """Make sure that a drill can be run, as ``run_drill`` does before it writes anything.

    Raises ``StoreError`` and ``DrillError`` where it can't.
    """
    books = open_books(config)
    try:
        make_sure(_scenario(plan, config, new_run()), config, books, wall_clock())
    finally:
        for book in books.values():
            book.close()


def run_drill(
    plan: Plan, config: Config, folder: Path, pace_from: Callable[[Micros], tuple[Instant, Pace]]
) -> DrillReport:
    """Play one drill against the configured stores, and take its rows away again.

    ``folder`` receives the journal while rows of the drill's own are there; ``pace_from`` is
    handed how long the drill lasts. Raises ``StoreError`` and ``DrillError`` where the drill can't
    be run, before anything was written, and where a store breaks on the way; ``DrillError`` says
    what could not be taken away.
    """
    run = new_run()
    scenario = _scenario(plan, config, run)
    books = open_books(config)
    try:
        ledger = make_sure(scenario, config, books, wall_clock())
        journal = Journal.begin(folder, run)
        try:
            start, pace = pace_from(length_of(scenario.knobs, config))
            stores = StoreBooks(books, ledger, journal)
            played = play(scenario, config, stores, start, pace, look_every=plan.look_every)
        except BaseException as error:
            _clean_up(books, journal, scenario.prefix, error)
            raise
        _clean_up(books, journal, scenario.prefix, None)
    finally:
        for book in books.values():
            book.close()
    report = report_of(played, plan.mode, hop_of(look.seen for look in played.looks), config)
    return report.model_copy(update={"fault": plan.fault})


def _scenario(plan: Plan, config: Config, run: str) -> Scenario:
    paid, overflow = pools_of(config)
    broken = plan.fault
    if broken is None and plan.mode is Mode.ORPHAN:
        broken = Fault.DROP_CANCEL  # the plain miss: the cancel gets lost on its way
    return Scenario(
        knobs=_with_grace_of(config, overflow, plan.knobs),
        fault=broken,
        paid_pool=paid,
        overflow_pool=overflow,
        prefix=prefix_of(run),
        seed=plan.seed,
    )


def _with_grace_of(config: Config, pool: str, knobs: Knobs) -> Knobs:
    """Return the knobs with the pool's grace in force: the exporter tells orphans by that."""
    grace = config.grace_of(pool)
    if grace == knobs.grace_seconds:
        return knobs
    if "grace_seconds" in knobs.model_fields_set:
        raise DrillError(
            f"the drill file's grace_seconds is {format_duration(knobs.grace_seconds)}, and pool "
            f"{pool} has {format_duration(grace)} in the config: leave it out of the drill file"
        )
    try:
        return knobs.with_grace(grace)
    except ValueError:
        raise DrillError(
            f"pool {pool} has a grace of {format_duration(grace)}, which leaves no room between "
            "cancel_at and deadline; raise deadline in a --drill.file"
        ) from None


def _clean_up(
    books: Mapping[StoreName, Book], journal: Journal, prefix: str, trouble: BaseException | None
) -> None:
    """Take a drill's rows away; raises ``DrillError`` for those that could not be."""
    taken = take_away(books, journal.noted(), prefix)
    if not taken.problems:
        journal.forget()
        return
    journal.close()
    began = (
        f"{trouble}; then" if isinstance(trouble, OrphanwatchError) else "the drill is over, but"
    )
    raise DrillError(
        f"{began} not all rows of the drill could be taken away: {'; '.join(taken.problems)}; "
        "once that is mended, run orphanwatch drill clean"
    ) from trouble
