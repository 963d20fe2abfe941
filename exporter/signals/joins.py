"""Join quality: how much of what one store says finds its counterpart in another, by task id.

Ids that do not match are the commonest failure, and look like perfect health everywhere else.
"""

from collections import Counter

from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.model import Sample
from orphanwatch.exporter.names import Join
from orphanwatch.exporter.readings import GatewayFacts, Readings
from orphanwatch.exporter.signals.samples import Gauges
from orphanwatch.exporter.stores.questions import Windows


def join_gauges(readings: Readings, config: Config, windows: Windows) -> Gauges:
    """Return how many tasks, rows and leases join; what can't be told is absent."""
    gauges: Gauges = {}
    told = _told(readings, config)
    if readings.ledger is not None:
        if readings.gateway is not None:
            gauges[names.JOIN_ABANDONED_TASKS] = _samples(
                abandoned_tasks(readings, windows), tuple(Join)
            )
        gauges[names.JOIN_LEDGER_ROWS] = _samples(_ledger_rows(readings), told)
    if readings.leases is not None:
        gauges[names.JOIN_LEASES] = _samples(_leases(readings), told)
    return gauges


def abandoned_tasks(readings: Readings, windows: Windows) -> Counter[Join]:
    """Return the abandoned tasks of the horizon, by whether the ledger has a row of theirs."""
    charges = readings.ledger.charges if readings.ledger is not None else {}
    found: Counter[Join] = Counter()
    for watch in readings.watched:
        if watch.is_abandoned and watch.stop.at > windows.horizon_start:
            task_id = watch.task.task_id
            if task_id is None:
                found[Join.NO_ID] += 1
            else:
                found[Join.WITH if task_id in charges else Join.WITHOUT] += 1
    return found


def _ledger_rows(readings: Readings) -> Counter[Join]:
    found: Counter[Join] = Counter()
    by_key = readings.ledger.window.by_key if readings.ledger is not None else {}
    for key, spend in by_key.items():
        found[_join_of(key, readings.gateway)] += spend.rows
    return found


def _leases(readings: Readings) -> Counter[Join]:
    unreleased = readings.leases.unreleased if readings.leases is not None else ()
    return Counter(_join_of(lease.task_id, readings.gateway) for lease in unreleased)


def _join_of(key: str | None, gateway: GatewayFacts | None) -> Join:
    if key is None:
        return Join.NO_ID
    return Join.WITH if gateway is not None and key in gateway.tasks else Join.WITHOUT


def _told(readings: Readings, config: Config) -> tuple[Join, ...]:
    """Return what can be said of an id: a gateway may be blind, or have no row yet."""
    if readings.gateway is None:
        return (Join.NO_ID,)
    store = config.stores.gateway
    if store is not None and store.rows == "at_end":
        return (Join.WITH, Join.NO_ID)
    return tuple(Join)


def _samples(found: Counter[Join], told: tuple[Join, ...]) -> tuple[Sample, ...]:
    return tuple(Sample((str(join),), float(found[join])) for join in told)
