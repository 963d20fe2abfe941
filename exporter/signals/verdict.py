"""The verdict: scale, shed, hold, or restore sight first (contract, section 6)."""

from collections.abc import Mapping
from typing import Final

from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import SECOND, Instant, format_duration
from orphanwatch.exporter.model import NOT_CONFIGURED, StoreHealth, Verdict
from orphanwatch.exporter.names import ARM_STORES, Action, Condition, Join, StoreName
from orphanwatch.exporter.signals.admission import Conditions
from orphanwatch.exporter.signals.samples import Gauges


def verdict(
    at: Instant,
    config: Config,
    *,
    stores: Mapping[StoreName, StoreHealth],
    is_unkeyed: bool,
    gauges: Gauges,
    found: Conditions,
    evidence: Instant | None,
) -> Verdict:
    """Return the first row of the table that holds, and everything that speaks for it."""
    unseen = (*_unseen(stores), *((UNKEYED,) if is_unkeyed else ()))
    if orphans := orphan_reasons(gauges):
        # What can't be seen is said too: the orphan may be larger than it looks.
        return Verdict(action=Action.SHED, reasons=(*orphans, *unseen))
    if unseen:
        return Verdict(action=Action.BLIND, reasons=unseen)
    if holding := _hold_reasons(at, config, found, evidence):
        return Verdict(action=Action.HOLD, reasons=holding)
    return Verdict(
        action=Action.SCALE,
        reasons=(
            "no orphan tokens, no orphan lease and no duplicate in flight",
            "every store that the two arms need was read",
            *doubts_of(gauges),
        ),
    )


def doubts_of(gauges: Gauges) -> tuple[str, ...]:
    """Return what makes a calm doubtful: ids that join nothing look like perfect health."""
    rows = {sample.labels[0]: sample.value for sample in gauges.get(names.JOIN_ABANDONED_TASKS, ())}
    apart, joined = rows.get(str(Join.WITHOUT), 0.0), rows.get(str(Join.WITH), 0.0)
    nameless = rows.get(str(Join.NO_ID), 0.0)
    doubts = []
    if apart > 0 and joined == 0:
        doubts.append(
            f"but none of {apart:g} abandoned tasks has a ledger row: where ids don't join, "
            "nothing can be seen; see orphanwatch check"
        )
    if nameless > 0:
        doubts.append(
            f"but {nameless:g} abandoned tasks have no id, and join nothing; see orphanwatch check"
        )
    return tuple(doubts)


def orphan_reasons(gauges: Gauges) -> tuple[str, ...]:
    """Return what speaks for shedding, in sentences; none where nothing does."""
    reasons = []
    for pool, tokens in _totals(gauges, names.TOKEN_DELTA).items():
        reasons.append(
            f"{names.TOKEN_DELTA} is {tokens:g} in pool {pool}: "
            "tokens are charged to tasks that nobody waits for"
        )
    for pool, count in _totals(gauges, names.LEASES).items():
        reasons.append(
            f"{count:g} orphan lease{'s' if count > 1 else ''} in pool {pool}: "
            "workers hold tasks that nobody waits for"
        )
    for pool, count in _totals(gauges, names.DUPLICATE_IN_FLIGHT).items():
        reasons.append(f"{count:g} duplicate in flight in pool {pool}: one request, two decoders")
    return tuple(reasons)


def _totals(gauges: Gauges, family: names.Family) -> dict[str, float]:
    totals: dict[str, float] = {}
    for sample in gauges.get(family, ()):
        totals[sample.labels[0]] = totals.get(sample.labels[0], 0.0) + sample.value
    return {pool: total for pool, total in totals.items() if total > 0}


def _unseen(stores: Mapping[StoreName, StoreHealth]) -> tuple[str, ...]:
    return tuple(
        f"store {store} {_problem(stores[store])}" for store in ARM_STORES if not stores[store].up
    )


UNKEYED: Final = (
    f"store {StoreName.LEDGER} states no charges by task: it adds up whole engines, so orphan "
    "tokens can't be seen; read a ledger that names the task of each charge"
)
"""Why a detector is blind that knows what is spent, and not on whom."""


def _problem(health: StoreHealth) -> str:
    return (
        health.problem if health.problem == NOT_CONFIGURED else f"can't be read: {health.problem}"
    )


def _hold_reasons(
    at: Instant, config: Config, found: Conditions, evidence: Instant | None
) -> tuple[str, ...]:
    reasons = []
    if evidence is not None and evidence > at - config.reopen_hold:
        reasons.append(
            f"the last sign of an orphan is {format_duration(_whole(at - evidence))} old, "
            f"within the hold of {format_duration(config.reopen_hold)}"
        )
    for pool, by_condition in found.items():
        reasons += [
            f"overflow pool {pool} fails closed: {CONDITION_WORDS[condition]}"
            for condition, finding in by_condition.items()
            if finding.holds
        ]
    return tuple(reasons)


def _whole(length: int) -> int:
    """Return a length of time in whole seconds, the way people say it."""
    return round(length / SECOND) * SECOND


CONDITION_WORDS: dict[Condition, str] = {
    Condition.CANCEL_SLOWER_THAN_SLACK: "a cancel takes longer than the deadline leaves",
    Condition.NO_CANCEL_CHANNEL: "no cancel reaches its workers",
    Condition.RETRY_ID_MISSING: "retries come without a stable retry id",
    Condition.LEDGER_KEYED_BY_HOST: "the ledger charges tokens to workers, not to tasks",
    Condition.HEARTBEAT_TOO_SLOW: "heartbeats are too far apart for the deadlines",
    Condition.SECOND_DECODER: "a request is decoded twice",
    Condition.ORPHAN_TOKENS: "orphan tokens are charged",
    Condition.BLIND: "a store that is needed can't be read",
}
"""What each fail-closed condition means, in words that follow "fails closed:"."""
