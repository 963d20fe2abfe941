"""How long a client's cancel takes to reach the worker: settled samples, and open ones."""

from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import Instant, seconds
from orphanwatch.exporter.model import Propagation
from orphanwatch.exporter.names import Cause
from orphanwatch.exporter.readings import Readings, Watch
from orphanwatch.exporter.signals.samples import Gauges, by_pool, counted
from orphanwatch.exporter.signals.tokens import charges_of


def held_at_stop(watch: Watch) -> bool:
    """Return whether a lease of the task was held when its stop came.

    One of which nobody knows when it began counts as held: an open one must not be dropped.
    """
    return any(
        (lease.acquired_at is None or lease.acquired_at <= watch.stop.at)
        and (lease.released_at is None or lease.released_at > watch.stop.at)
        for lease in watch.leases
    )


def _is_measured(watch: Watch) -> bool:
    return watch.cause is Cause.CLIENT_CANCEL and held_at_stop(watch)


def _is_open(watch: Watch) -> bool:
    return any(lease.released_at is None for lease in watch.leases)


def open_watches(readings: Readings) -> list[Watch]:
    """Return the cancelled tasks of which a lease is unreleased, live or expired, however old."""
    looked_at = (*readings.watched, *readings.older)
    return [watch for watch in looked_at if _is_measured(watch) and _is_open(watch)]


def propagations(readings: Readings) -> tuple[Propagation, ...] | None:
    """Return the settled samples; None where a store that they rest on can't be read."""
    if readings.gateway is None or readings.leases is None or readings.ledger is None:
        return None
    found = []
    for watch in readings.watched:
        if not _is_measured(watch) or _is_open(watch) or watch.task.task_id is None:
            continue
        sign = _last_sign(readings, watch)
        length = max(0, sign - watch.stop.at)
        found.append(
            Propagation(watch.task.task_id, watch.pool, watch.stop.at, sign, seconds(length))
        )
    return tuple(found)


def _last_sign(readings: Readings, watch: Watch) -> Instant:
    signs = [lease.released_at for lease in watch.leases if lease.released_at is not None]
    charges = charges_of(readings, watch)
    if charges is not None and charges.last_charge is not None:
        signs.append(charges.last_charge)
    return max(signs, default=watch.stop.at)


def propagation_gauges(readings: Readings, config: Config) -> Gauges:
    """Return the open ones by pool."""
    if readings.gateway is None or readings.leases is None:
        return {}
    open_ones = counted(watch.pool for watch in open_watches(readings))
    return {names.CANCEL_PROPAGATION_OPEN: by_pool(config, open_ones)}
