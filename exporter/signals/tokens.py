"""The token arm: what was charged past the cutoff, now and in all."""

from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.model import Charges, Tally
from orphanwatch.exporter.names import Cause
from orphanwatch.exporter.readings import Readings, Watch
from orphanwatch.exporter.signals.samples import Gauges, by_pool, by_pool_and

_NOTHING = Charges()


def charges_of(readings: Readings, watch: Watch) -> Charges | None:
    """Return a watched task's charges past its cutoff; None where the ledger can't be read."""
    if readings.ledger is None:
        return None
    if watch.task.task_id is None:
        return _NOTHING
    return readings.ledger.charges.get(watch.task.task_id, _NOTHING)


def delta_of(charges: Charges, config: Config) -> float:
    """Return a task's part of ``orphan_token_delta``."""
    ledger = config.stores.ledger
    counts_prorated = ledger is None or ledger.prorated == "page"
    return charges.delta_charged + (charges.delta_prorated if counts_prorated else 0.0)


def token_gauges(readings: Readings, config: Config) -> Gauges:
    """Return ``orphan_token_delta`` and the abandoned tasks."""
    gauges: Gauges = {}
    if readings.gateway is None:
        return gauges
    horizon_start = readings.at - config.horizon
    abandoned: dict[tuple[str, str], float] = {}
    delta: dict[str, float] = {}
    for watch in readings.watched:
        charges = charges_of(readings, watch)
        if charges is not None:
            delta[watch.pool] = delta.get(watch.pool, 0.0) + delta_of(charges, config)
        if watch.is_abandoned and watch.stop.at > horizon_start:
            key = (watch.pool, str(watch.cause))
            abandoned[key] = abandoned.get(key, 0.0) + 1
    if readings.ledger is not None:
        gauges[names.TOKEN_DELTA] = by_pool(config, delta)
    gauges[names.ABANDONED_TASKS] = by_pool_and(config, Cause, abandoned)
    return gauges


def tallies(readings: Readings) -> tuple[Tally, ...] | None:
    """Return each watched task's orphan tokens so far; None where they can't be known."""
    if readings.gateway is None or readings.ledger is None:
        return None
    found = []
    for watch in readings.watched:
        charges = charges_of(readings, watch)
        if charges is None or watch.task.task_id is None:
            continue
        found.append(
            Tally(
                watch.task.task_id,
                watch.task.retry_id,
                watch.pool,
                watch.cause,
                charges.charged,
                charges.prorated,
                charges.straddling,
                charges.charged_before,
                charges.prorated_before,
                charges.straddling_before,
            )
        )
    return tuple(found)
