"""Leases as of an instant, whatever store they come from."""

from collections.abc import Iterable

from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.model import Lease


def leases_as_of(leases: Iterable[Lease], at: Instant, *, states_acquisition: bool) -> list[Lease]:
    """Return leases as of ``at``: what comes later has not happened, what never began is none."""
    known = []
    for lease in leases:
        acquired, heartbeat, released = lease[3], lease[4], lease[5]
        if acquired is not None:
            if acquired > at:
                continue
        elif states_acquisition and heartbeat is None:
            continue
        is_released_later = released is not None and released > at
        if is_released_later or (heartbeat is not None and heartbeat > at):
            now = at if heartbeat is not None and heartbeat > at else heartbeat
            known.append(Lease(*lease[:4], now, None if is_released_later else released))
        else:
            known.append(lease)
    return known
