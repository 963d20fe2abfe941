"""One evaluation: a pure function of readings and configuration.

``serve``, ``snapshot``, the tests and the drill all run this one.
"""

from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import SECOND, format_duration, seconds
from orphanwatch.exporter.model import Evaluation, Sample
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.readings import Readings
from orphanwatch.exporter.signals.admission import admission_gauges, budget_gauges, conditions
from orphanwatch.exporter.signals.evidence import last_evidence, orphan_list
from orphanwatch.exporter.signals.identity import identity_gauges
from orphanwatch.exporter.signals.leases import held_leases, lease_gauges, orphan_leases
from orphanwatch.exporter.signals.propagation import (
    open_watches,
    propagation_gauges,
    propagations,
)
from orphanwatch.exporter.signals.samples import Gauges, where_any
from orphanwatch.exporter.signals.split import SAMPLE_LIFE, fresh_sample, split_gauges
from orphanwatch.exporter.signals.tokens import tallies, token_gauges
from orphanwatch.exporter.signals.verdict import verdict
from orphanwatch.exporter.stores.questions import Windows


def evaluate(readings: Readings, config: Config) -> Evaluation:
    """Return everything that is known at the readings' instant."""
    config = config.as_of(readings.at)
    windows = Windows.ending(readings.at, config)
    held = held_leases(readings, config)
    alive = orphan_leases(readings, held) if readings.leases is not None else []
    gauges: Gauges = {
        **token_gauges(readings, config),
        **lease_gauges(readings, config, held, alive),
        **propagation_gauges(readings, config),
        **identity_gauges(readings, config, held, windows),
        **split_gauges(readings, config, windows),
        **_grace_gauges(config),
        **_store_gauges(readings),
    }
    gauges |= budget_gauges(readings, config)
    found = conditions(readings, config, gauges)
    gauges |= admission_gauges(found)
    evidence = last_evidence(readings, config, alive)
    return Evaluation(
        at=readings.at,
        gauges={family: gauges[family] for family in names.FAMILIES if family in gauges},
        verdict=verdict(
            readings.at,
            config,
            stores=readings.stores,
            is_unkeyed=readings.is_unkeyed,
            gauges=gauges,
            found=found,
            evidence=evidence,
        ),
        orphans=orphan_list(readings, held, alive),
        stores=readings.stores,
        tallies=tallies(readings),
        propagations=propagations(readings),
        open_tasks=tuple(
            watch.task.task_id for watch in open_watches(readings) if watch.task.task_id is not None
        ),
        rejected=tuple(readings.rejected),
        last_evidence=evidence,
        conditions=found,
        notes=_notes(readings, config),
    )


def _grace_gauges(config: Config) -> Gauges:
    gauges: Gauges = {
        names.GRACE_SECONDS: tuple(
            Sample((pool, str(config.grace_source(pool))), seconds(config.grace_of(pool)))
            for pool in config.pool_names
        )
    }
    if config.measurement is not None:
        gauges[names.GRACE_VALID_UNTIL] = where_any(
            dict.fromkeys(config.measurement.pools, seconds(config.measurement.valid_until))
        )
    return gauges


def _store_gauges(readings: Readings) -> Gauges:
    stores = readings.stores
    return {
        names.STORE_UP: tuple(Sample((str(name),), float(stores[name].up)) for name in StoreName),
        names.STORE_LAST_SUCCESS: tuple(
            Sample((str(name),), seconds(success))
            for name in StoreName
            if (success := stores[name].last_success) is not None
        ),
        names.STORE_CLOCK_SKEW: tuple(
            Sample((str(name),), skew)
            for name in StoreName
            if (skew := stores[name].clock_skew_seconds) is not None
        ),
    }


def _notes(readings: Readings, config: Config) -> tuple[str, ...]:
    """Return what can't be known in this configuration, and what of it is not in force."""
    missing = {
        StoreName.GATEWAY: "stops, orphans, attached tasks and retries are unknown",
        StoreName.LEASES: "the lease arm is blind: orphan leases and propagation are unknown",
        StoreName.LEDGER: "the token arm is blind: orphan tokens and spend are unknown",
        StoreName.QUEUE: "depth, calm and the split signal are unknown",
    }
    notes = [
        f"store {name} is not configured: {words}"
        for name, words in missing.items()
        if name not in config.stores.configured()
    ]
    if readings.is_unkeyed:
        notes.append(
            "the ledger does not say whom it charged: orphan tokens, unmatched tokens and "
            "propagation are unknown, and the token arm is blind"
        )
    if config.measurement_problem:
        notes.append(f"the grace is a proposal: {config.measurement_problem}")
    gateway = config.stores.gateway
    if gateway is not None and gateway.rows == "at_end":
        notes.append(
            "the gateway has no row while a request runs: attached tasks, in-flight gap, split "
            "signal, unknown ledger keys, rows and leases without a task, and uncancellable work "
            "are unknown"
        )
    if (stale := _queue_note(readings)) is not None:
        notes.append(stale)
    return tuple(notes)


def _queue_note(readings: Readings) -> str | None:
    """Return why a queue store that can be read tells nothing."""
    if not readings.stores[StoreName.QUEUE].up or fresh_sample(readings) is not None:
        return None
    sample = readings.queue
    lost = "depth, calm and the split signal are unknown"
    if sample is None or sample.sampled_at is None:
        return f"the queue store holds no sample with a time: {lost}"
    age = readings.at - sample.sampled_at
    return (
        f"the newest queue sample is {format_duration(age - age % SECOND)} old, and counts for "
        f"{format_duration(SAMPLE_LIFE)}: {lost}"
    )
