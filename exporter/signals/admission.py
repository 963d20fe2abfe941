"""Overflow admission: the conditions under which it fails closed (contract, section 6)."""

from collections.abc import Mapping
from math import ceil
from typing import Final

from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import seconds
from orphanwatch.exporter.model import Finding, Sample
from orphanwatch.exporter.names import ARM_STORES, Condition, Family, KeyKind
from orphanwatch.exporter.readings import Readings
from orphanwatch.exporter.signals.propagation import held_at_stop
from orphanwatch.exporter.signals.samples import Gauges, where_any
from orphanwatch.exporter.signals.split import fresh_sample

BUDGET_QUANTILE: Final = 0.05
LEAST_BUDGETS: Final = 5
LEAST_SILENT_CANCELS: Final = 5
HEARTBEAT_SLACK: Final = 1.1
"""How far above a third of the deadline budget a heartbeat may lie."""

Conditions = Mapping[str, Mapping[Condition, Finding]]
"""By overflow pool."""


def conditions(readings: Readings, config: Config, gauges: Gauges) -> Conditions:
    """Return what holds for each overflow pool."""
    return {pool: _conditions_of(pool, readings, config, gauges) for pool in config.overflow_pools}


def admission_gauges(found: Conditions) -> Gauges:
    """Return the conditions that are known, and whether admission is open."""
    return {
        names.FAIL_CLOSED: tuple(
            Sample((pool, str(condition)), float(finding.holds))
            for pool, by_condition in found.items()
            for condition, finding in by_condition.items()
            if finding.holds is not None
        ),
        names.OVERFLOW_ADMISSION_ALLOWED: tuple(
            Sample((pool,), float(all(found.holds is False for found in by_condition.values())))
            for pool, by_condition in found.items()
        ),
    }


def budget_gauges(readings: Readings, config: Config) -> Gauges:
    """Return the deadline budget of the overflow pools that have one to judge by."""
    if readings.gateway is None:
        return {}
    budgets = {pool: deadline_budget_seconds(readings, pool) for pool in config.overflow_pools}
    known = {pool: budget for pool, budget in budgets.items() if budget is not None}
    return {names.DEADLINE_BUDGET_SECONDS: where_any(known)}


def _conditions_of(
    pool: str, readings: Readings, config: Config, gauges: Gauges
) -> dict[Condition, Finding]:
    budget = _value(gauges, names.DEADLINE_BUDGET_SECONDS, pool)
    return {
        Condition.CANCEL_SLOWER_THAN_SLACK: _is_slower(readings, config, pool, budget),
        Condition.NO_CANCEL_CHANNEL: _has_no_channel(readings, config, pool),
        Condition.RETRY_ID_MISSING: _is_positive(gauges, names.RETRIES_WITHOUT_RETRY_ID, pool),
        Condition.LEDGER_KEYED_BY_HOST: _is_positive(
            gauges, names.UNMATCHED_TOKENS, str(KeyKind.WORKER)
        ),
        Condition.HEARTBEAT_TOO_SLOW: _beats_too_slowly(readings, gauges, pool, budget),
        Condition.SECOND_DECODER: _is_positive(gauges, names.DUPLICATE_IN_FLIGHT, pool),
        Condition.ORPHAN_TOKENS: _is_positive(gauges, names.TOKEN_DELTA, pool),
        Condition.BLIND: _is_blind(readings),
    }


def _is_blind(readings: Readings) -> Finding:
    """Return whether an arm can't see, with how many needed stores can't be used."""
    unread = sum(not readings.stores[store].up for store in ARM_STORES) + readings.is_unkeyed
    return Finding(holds=unread > 0, value=float(unread), threshold=0.0)


def deadline_budget_seconds(readings: Readings, pool: str) -> float | None:
    """Return the 5th percentile (nearest rank) of the time that the pool's tasks are given.

    None where fewer than five were submitted in the spend window: nothing to judge by.
    """
    if readings.gateway is None:
        return None
    lengths = sorted(
        budget.length
        for budget in readings.gateway.budgets
        if (budget.pool or readings.pools.get(budget.task_id or "")) == pool
    )
    if len(lengths) < LEAST_BUDGETS:
        return None
    return seconds(lengths[ceil(BUDGET_QUANTILE * len(lengths)) - 1])


def _is_slower(readings: Readings, config: Config, pool: str, budget: float | None) -> Finding:
    grace = seconds(config.grace_of(pool))
    if readings.gateway is None:
        return Finding(holds=None, value=grace)
    if budget is None:
        return Finding(holds=False, value=grace)
    age = _queue_age(readings, config)
    if age is None:
        return Finding(holds=True if grace > budget else None, value=grace, threshold=budget)
    rest = _exact(budget - age)
    return Finding(holds=grace > rest, value=grace, threshold=rest)


def _exact(length: float) -> float:
    """Return a computed length to the microsecond, which is all that is ever measured.

    1.4 s less 0.4 s is 1 s then, and not a trace below it, which a grace of 1 s would exceed.
    """
    return round(length, 6)


def _queue_age(readings: Readings, config: Config) -> float | None:
    """Return how long the queue makes a task wait; None where a configured queue doesn't say."""
    if config.stores.queue is None:
        return 0.0
    sample = fresh_sample(readings)
    if sample is None:
        return None
    if sample.age_seconds is None and sample.depth == 0:
        return 0.0  # nothing waits, so nothing has waited
    return sample.age_seconds


def _has_no_channel(readings: Readings, config: Config, pool: str) -> Finding:
    if not config.pools[pool].cancel_channel:
        return Finding(holds=True)
    if readings.gateway is None or readings.leases is None:
        return Finding(holds=None)
    horizon_start = readings.at - config.horizon
    cancelled = [
        watch
        for watch in readings.watched
        if watch.is_abandoned
        and watch.pool == pool
        and watch.stop.at > horizon_start
        and held_at_stop(watch)
    ]
    released = any(
        lease.released_at is not None
        for watch in cancelled
        for lease in watch.leases
        if (lease.acquired_at is None or lease.acquired_at <= watch.stop.at)
        and (lease.released_at is None or lease.released_at > watch.stop.at)
    )
    unheard = 0 if released else len(cancelled)
    return Finding(
        holds=unheard >= LEAST_SILENT_CANCELS,
        value=float(unheard),
        threshold=float(LEAST_SILENT_CANCELS),
    )


def _beats_too_slowly(
    readings: Readings, gauges: Gauges, pool: str, budget: float | None
) -> Finding:
    if readings.gateway is None or readings.leases is None:
        return Finding(holds=None)
    period = _value(gauges, names.HEARTBEAT_PERIOD_SECONDS, pool)
    limit = None if budget is None else _exact(HEARTBEAT_SLACK * budget / 3)
    is_slow = period is not None and limit is not None and period > limit
    return Finding(holds=is_slow, value=period, threshold=limit)


def _is_positive(gauges: Gauges, family: Family, label: str) -> Finding:
    value = _value(gauges, family, label)
    return Finding(holds=None if value is None else value > 0, value=value, threshold=0.0)


def _value(gauges: Gauges, family: Family, label: str) -> float | None:
    for sample in gauges.get(family, ()):
        if sample.labels == (label,):
            return sample.value
    return None
