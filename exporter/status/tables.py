"""What stands in the page's tables: stores, pools, conditions, grace, orphans."""

from collections.abc import Iterable
from typing import Final

from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.gate import Gate
from orphanwatch.exporter.instants import Instant, format_bound, format_instant, micros
from orphanwatch.exporter.model import Evaluation, Orphan, StoreHealth
from orphanwatch.exporter.names import Condition, GraceSource, StoreName
from orphanwatch.exporter.signals.verdict import CONDITION_WORDS
from orphanwatch.exporter.status.cells import (
    BLANK,
    Cell,
    Row,
    age,
    clock,
    count,
    length,
    number,
    samples_of,
    truth,
    value_of,
)

SHOWN_ORPHANS: Final = 20
_NOT_OVERFLOW: Final = Cell("not overflow")


def stores(evaluation: Evaluation | None, now: Instant) -> Iterable[Row]:
    """Yield each store: whether it can be read, when it last was, and what is wrong."""
    for store in StoreName:
        health = evaluation.stores.get(store) if evaluation else None
        yield Row(store.value, (BLANK, BLANK, Cell("")) if health is None else _health(health, now))


def _health(health: StoreHealth, now: Instant) -> tuple[Cell, ...]:
    up = Cell("up") if health.up else Cell("can't be read", "bad")
    last = health.last_success
    return (
        up,
        Cell("never", "unknown") if last is None else Cell(f"{age(now, last)} ago"),
        Cell(health.problem),
    )


def pools(evaluation: Evaluation, config: Config, gate: Gate | None) -> Iterable[Row]:
    """Yield each pool: its orphans, its leases, and whether the gate lets overflow in."""
    for pool in config.pool_names:
        yield Row(
            pool,
            (
                count(value_of(evaluation, names.TOKEN_DELTA, pool), bad_above=0),
                count(value_of(evaluation, names.LEASES, pool), bad_above=0),
                count(value_of(evaluation, names.DUPLICATE_IN_FLIGHT, pool), bad_above=0),
                _live_leases(evaluation, pool),
                _admission(gate, pool) if pool in config.overflow_pools else _NOT_OVERFLOW,
            ),
        )


def _live_leases(evaluation: Evaluation, pool: str) -> Cell:
    live = value_of(evaluation, names.LIVE_LEASES, pool)
    cap = value_of(evaluation, names.LEASE_CAP, pool)
    if live is None or cap is None:
        return count(live)
    return Cell(f"{number(live)} of {number(cap)}", "warn" if live >= cap else "")


def _admission(gate: Gate | None, pool: str) -> Cell:
    """Return what ``/gate`` says of the pool: within the hold it is closed, and the page says so.

    That no condition closes it is not enough: who reads "open" here admits.
    """
    found = gate.pools.get(pool) if gate is not None else None
    if found is None:
        return BLANK
    if found.is_open:
        return Cell("open")
    is_held = all(finding.holds is False for finding in found.conditions.values())
    if is_held and found.opens_at is not None:
        return Cell(f"closed, at least until {clock(found.opens_at)}", "warn")
    return Cell("closed", "warn")


def conditions(evaluation: Evaluation, config: Config) -> Iterable[Row]:
    """Yield each fail-closed condition with what holds for each overflow pool."""
    found = {sample.labels: sample.value for sample in evaluation.gauges.get(names.FAIL_CLOSED, ())}
    for condition in Condition:
        yield Row(
            CONDITION_WORDS[condition],
            tuple(
                truth(found.get((pool, str(condition))), bad="warn")
                for pool in config.overflow_pools
            ),
        )


def graces(evaluation: Evaluation, config: Config) -> Iterable[Row]:
    """Yield each pool's grace in force, and what it rests on."""
    for pool in config.pool_names:
        samples = samples_of(evaluation, names.GRACE_SECONDS, pool)
        if not samples:
            yield Row(pool, (BLANK, BLANK, BLANK))
            continue
        value, source = samples[0].value, samples[0].labels[1]
        yield Row(
            pool,
            (
                # As the runbook's threshold line has it: one number, written in one way.
                Cell(format_bound(micros(value)), "tight"),
                Cell(source, "" if source == GraceSource.MEASURED else "warn"),
                _validity(evaluation, pool, source, config),
            ),
        )


def _validity(evaluation: Evaluation, pool: str, source: str, config: Config) -> Cell:
    until = value_of(evaluation, names.GRACE_VALID_UNTIL, pool)
    if source == GraceSource.MEASURED and until is not None:
        return Cell(f"holds until {format_instant(Instant(micros(until)))}")
    if config.as_of(evaluation.at).measurement_problem:
        return Cell("the measured grace is not used: see what can't be known", "warn")
    return Cell("not measured: a number that somebody chose")


def evidence(evaluation: Evaluation) -> Iterable[Row]:
    """Yield the numbers behind the two charts."""
    rows = (
        ("queue depth", count(value_of(evaluation, names.QUEUE_DEPTH))),
        ("admission cap", count(value_of(evaluation, names.QUEUE_ADMISSION_CAP))),
        ("queue is calm", truth(value_of(evaluation, names.QUEUE_CALM))),
        ("spend, tokens/s", count(value_of(evaluation, names.SPEND_TOKENS_PER_SECOND))),
        (
            "its baseline, tokens/s",
            count(value_of(evaluation, names.SPEND_BASELINE_TOKENS_PER_SECOND)),
        ),
        ("spend is rising", truth(value_of(evaluation, names.SPEND_RISING), bad="warn")),
        ("attached tasks", count(value_of(evaluation, names.ATTACHED_TASKS))),
        ("in-flight gap", count(value_of(evaluation, names.IN_FLIGHT_GAP))),
        ("split signal", truth(value_of(evaluation, names.SPLIT_SIGNAL), bad="bad")),
    )
    return (Row(name, (cell,)) for name, cell in rows)


def orphans(evaluation: Evaluation) -> Iterable[Row]:
    """Yield the worst orphans, as many as are shown."""
    return (_orphan(orphan) for orphan in evaluation.orphans[:SHOWN_ORPHANS])


def _orphan(orphan: Orphan) -> Row:
    live = {True: Cell("live", "bad"), False: Cell("gone"), None: BLANK}[orphan.lease_live]
    return Row(
        orphan.task_id or "no id",
        (
            Cell(orphan.retry_id, "id") if orphan.retry_id else Cell("no id", "unknown"),
            Cell(orphan.worker_id, "id") if orphan.worker_id else BLANK,
            Cell(orphan.pool),
            Cell(orphan.cause.value.replace("_", " ")),
            Cell(length(orphan.seconds_past_cutoff)),
            count(orphan.orphan_tokens),
            live,
        ),
    )
