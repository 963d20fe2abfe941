"""One drill from its books to its report, and what is taken away after it."""

import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.diagnosis import diagnose
from orphanwatch.exporter.drill.books import Book, StoreBooks, open_books
from orphanwatch.exporter.drill.faults import Fault, Hop, Mode
from orphanwatch.exporter.drill.journal import Journal
from orphanwatch.exporter.drill.knobs import Knobs
from orphanwatch.exporter.drill.report import DrillReport, report_of
from orphanwatch.exporter.drill.run import LOOK_EVERY, Look, Pace, play
from orphanwatch.exporter.drill.scenario import Scenario
from orphanwatch.exporter.errors import DrillError
from orphanwatch.exporter.instants import Instant, Micros
from orphanwatch.exporter.names import Role, StoreName

PREFIX: Final = "orphanwatch-drill-"
"""What every id that a drill writes begins with."""

_RUN_BYTES: Final = 4


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


def run_drill(
    plan: Plan, config: Config, folder: Path, pace_from: Callable[[Knobs], tuple[Instant, Pace]]
) -> DrillReport:
    """Play one drill against the configured stores, and take its rows away again.

    ``folder`` receives the journal while rows of the drill's own are there. Raises ``StoreError``
    where a store can't be written to, ``DrillError`` where the config has no two pools to drill.
    """
    paid, overflow = _pools(config)
    broken = plan.fault
    if broken is None and plan.mode is Mode.ORPHAN:
        broken = Fault.DROP_CANCEL  # the plain miss: the cancel gets lost on its way
    scenario = Scenario(
        knobs=plan.knobs,
        fault=broken,
        paid_pool=paid,
        overflow_pool=overflow,
        prefix=f"{PREFIX}{secrets.token_hex(_RUN_BYTES)}-",
        seed=plan.seed,
    )
    journal = Journal(folder)
    with _books(config) as books:
        ledger = config.stores.ledger
        if ledger is None:  # the books would not have opened
            raise DrillError("stores.ledger is not configured")
        start, pace = pace_from(plan.knobs)
        try:
            played = play(
                scenario,
                config,
                StoreBooks(books, ledger, journal),
                start,
                pace,
                look_every=plan.look_every,
            )
        finally:
            take_away(books, journal, scenario.prefix)
    report = report_of(played, plan.mode, hop_of(played.looks), config)
    return report.model_copy(update={"fault": plan.fault})


def hop_of(looks: Sequence[Look]) -> Hop | None:
    """Return the hop that the exporter names: the first that showed itself broken, and stayed.

    Each look is diagnosed alone, as ``diagnose`` would; the one that most looks name counts.
    """
    named = [
        diagnose(look.seen.gauges, look.seen.verdict.action, look.seen.verdict.reasons).hop
        for look in looks
    ]
    counted = Counter(hop for hop in named if hop is not None)
    return counted.most_common(1)[0][0] if counted else None


def take_away(books: Mapping[StoreName, Book], journal: Journal, prefix: str = PREFIX) -> int:
    """Delete every row whose id begins with a prefix, and the noted samples; return how many.

    Leases go first: whatever comes in between, none of a drill's own stays open.
    """
    gone = 0
    for name in (StoreName.LEASES, StoreName.LEDGER, StoreName.GATEWAY):
        gone += books[name].remove(prefix)
    if StoreName.QUEUE in books:
        gone += books[StoreName.QUEUE].remove_sampled(journal.noted())
    journal.forget()
    return gone


def clean(config: Config, folder: Path) -> int:
    """Delete all rows that any drill left behind; return how many there were."""
    with _books(config) as books:
        return take_away(books, Journal(folder))


@contextmanager
def _books(config: Config) -> Iterator[Mapping[StoreName, Book]]:
    books = open_books(config)
    try:
        yield books
    finally:
        for book in books.values():
            book.close()


def _pools(config: Config) -> tuple[str, str]:
    found = []
    for role in (Role.PAID, Role.OVERFLOW):
        names = [name for name in sorted(config.pools) if config.pools[name].role is role]
        if not names:
            raise DrillError(
                f"pools: none has role {role}, and a drill needs one of each; add it to the config"
            )
        found.append(names[0])
    return found[0], found[1]
