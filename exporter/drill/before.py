"""What must be there before a drill begins; everything is refused before anything is written."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.config_stores import LedgerSettings
from orphanwatch.exporter.drill.books import Book, StoreBooks, stores_of
from orphanwatch.exporter.drill.books_sql import SqlBook
from orphanwatch.exporter.drill.faults import HOPS, Fault, Hop
from orphanwatch.exporter.drill.knobs import PAID_TASKS
from orphanwatch.exporter.drill.scenario import Scenario
from orphanwatch.exporter.errors import DrillError, StoreError
from orphanwatch.exporter.instants import Instant, format_duration
from orphanwatch.exporter.names import ARM_STORES, Role, StoreName
from orphanwatch.exporter.signals.admission import LEAST_BUDGETS
from orphanwatch.exporter.stack.books import Charge, QueueState
from orphanwatch.exporter.stack.requests import Request

_NAMED: Final = (
    (StoreName.GATEWAY, "cancelled_at", Hop.CANCEL_CHANNEL),
    (StoreName.GATEWAY, "retry_id", Hop.RETRY),
    (StoreName.GATEWAY, "attempt", Hop.RETRY),
    (StoreName.LEASES, "heartbeat_at", Hop.HEARTBEAT),
)
"""What the config has to name so that a hop can be seen, whichever is broken."""

_NAMED_FOR: Final[Mapping[Fault, tuple[tuple[StoreName, str], ...]]] = {
    Fault.MISKEYED_LEDGER: ((StoreName.LEASES, "worker_id"),),
    Fault.SECOND_DECODER: ((StoreName.LEASES, "worker_id"),),
    # A heartbeat is slow by what is given between the two.
    Fault.SLOW_HEARTBEAT: ((StoreName.GATEWAY, "submitted_at"), (StoreName.GATEWAY, "deadline_at")),
}
"""What it has to name besides, for a fault to show as its own hop."""


def pools_of(config: Config) -> tuple[str, str]:
    """Return the pools that are drilled, paid and overflow; raises ``DrillError``."""
    found = []
    for role in (Role.PAID, Role.OVERFLOW):
        names = [name for name in sorted(config.pools) if config.pools[name].role is role]
        if not names:
            raise DrillError(
                f"pools: none has role {role}, and a drill needs one of each; add for example "
                f"{role}: {{role: {role}}}"
            )
        found.append(names[0])
    return found[0], found[1]


def make_sure(
    scenario: Scenario, config: Config, books: Mapping[StoreName, Book], at: Instant
) -> LedgerSettings:
    """Return the ledger's settings, if the drill can be run on these stores.

    Raises ``StoreError`` and ``DrillError``, with the remedy, and has then written nothing.
    """
    ledger = config.stores.ledger
    if ledger is None:  # the books would not have opened
        raise StoreError(StoreName.LEDGER, "is not configured, and a drill needs it; add it")
    _refuse_unnamed_hops(scenario.fault, books)
    _refuse_few_deadlines(scenario)
    _refuse_changed_ids(scenario, config)
    _refuse_short_leases(scenario, config, books)
    _try_out(scenario, books, ledger, at)
    return ledger


def _refuse_unnamed_hops(fault: Fault | None, books: Mapping[StoreName, Book]) -> None:
    needed = list(_NAMED)
    if fault is not None:
        needed += [(*place, HOPS[fault]) for place in _NAMED_FOR.get(fault, ())]
    for store, column, hop in needed:
        if not books[store].states(column):
            raise StoreError(
                store,
                f"has no {column}, without which hop {hop} can't be seen; map the column under "
                "columns:, or add one",
            )
    if not any(books[name].states("pool") for name in (StoreName.GATEWAY, StoreName.LEASES)):
        raise StoreError(
            StoreName.GATEWAY,
            "has no pool, nor have the leases, so that paid and overflow can't be told apart; map "
            "the column under columns:, or add one",
        )
    apart = getattr(books[StoreName.LEASES], "tells_workers_apart", True)
    if fault is Fault.SECOND_DECODER and not apart:
        raise StoreError(
            StoreName.LEASES,
            f"holds one lease a task, so that hop {HOPS[fault]} can't be seen: a second decoder "
            "overwrites the first; put {worker_id} into key: or member:",
        )


def _refuse_few_deadlines(scenario: Scenario) -> None:
    """Refuse to judge heartbeats by fewer deadlines than the exporter does."""
    fewest, tasks = PAID_TASKS + LEAST_BUDGETS, scenario.knobs.tasks
    if scenario.fault is Fault.SLOW_HEARTBEAT and tasks < fewest:
        raise DrillError(
            f"{tasks} tasks are too few to see hop {HOPS[scenario.fault]} by: the exporter judges "
            f"heartbeats by {LEAST_BUDGETS} deadlines of a pool; set knob tasks to {fewest} or more"
        )


def _refuse_changed_ids(scenario: Scenario, config: Config) -> None:
    """Refuse rules that touch a drill's ids: what they leave would not join, or not be ours."""
    for name, store in stores_of(config).items():
        if store is None or name not in ARM_STORES:
            continue
        for text in _some_ids(scenario):
            if store.id_rule.apply(text) != text:
                raise StoreError(
                    name,
                    f"strip_prefix, strip_suffix or uuid would change a drill's ids, such as "
                    f"{text}; write a pattern that means your own ids alone, or run the drill on a "
                    "copy of the config without it",
                )


def _some_ids(scenario: Scenario) -> Iterator[str]:
    for request in scenario.requests(Instant(0)):
        yield request.task_id
        yield f"{scenario.prefix}{request.pool}-worker-1"


def _refuse_short_leases(
    scenario: Scenario, config: Config, books: Mapping[StoreName, Book]
) -> None:
    leases, knobs = config.stores.leases, scenario.knobs
    is_slow = scenario.fault is Fault.SLOW_HEARTBEAT
    period = knobs.slowest_heartbeat if is_slow else knobs.heartbeat
    if leases is None or not books[StoreName.LEASES].states("heartbeat_at"):
        return
    if leases.lease_ttl <= period:
        knob = "slow_heartbeat" if is_slow else "heartbeat"
        raise StoreError(
            StoreName.LEASES,
            f"lease_ttl {format_duration(leases.lease_ttl)} ends a lease before its next "
            f"heartbeat, which a drill sends every {format_duration(period)}; set knob {knob} in "
            "a --drill.file, or run the drill on a copy of the config with a longer one",
        )


def _try_out(
    scenario: Scenario, books: Mapping[StoreName, Book], ledger: LedgerSettings, at: Instant
) -> None:
    """Write one of everything, take it out again, and let none of it come to be."""
    stores = StoreBooks(books, ledger, None)
    request, worker = scenario.requests(at)[0], f"{scenario.prefix}worker"
    keys = [request.task_id]
    if scenario.fault is Fault.MISKEYED_LEDGER:
        keys.append(worker)
    try:
        _write_one_of_each(stores, request, worker, keys, at)
        for name in (StoreName.LEDGER, StoreName.LEASES, StoreName.GATEWAY):
            _take_out(name, books[name], scenario.prefix)
        stores.rehearse()
    except StoreError:
        for book in books.values():
            book.give_up()
        raise


def _take_out(name: StoreName, book: Book, prefix: str) -> None:
    is_there = name is not StoreName.LEASES or book.states("released_at")
    if isinstance(book, SqlBook) and is_there and not book.remove(prefix):
        raise StoreError(
            name,
            "takes a drill's rows and does not show them again, so that they could not be taken "
            "away; see triggers, rules and row security of its table",
        )


def _write_one_of_each(
    stores: StoreBooks, request: Request, worker: str, keys: Sequence[str], at: Instant
) -> None:
    stores.submitted(request)
    stores.acquired(request.task_id, worker, request.pool, at)
    stores.beat(request.task_id, worker, at)
    for key in keys:
        stores.charged(
            Charge(
                key=key,
                worker_id=worker,
                tokens=1,
                prompt_tokens=1,
                total=1,
                started_at=at,
                at=at,
            )
        )
    stores.sampled(QueueState(0, 0.0, 0, 1), at)
    stores.cancelled(request.task_id, at)
    stores.finished(request.task_id, at)
    stores.released(request.task_id, worker, at)
