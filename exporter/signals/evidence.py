"""The orphans one by one, and when there was last a sign of one."""

from collections.abc import Iterable, Sequence

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import Instant, seconds
from orphanwatch.exporter.model import Charges, Lease, Orphan
from orphanwatch.exporter.readings import Readings, Watch
from orphanwatch.exporter.signals.leases import HeldLease, OrphanLease
from orphanwatch.exporter.signals.tokens import charges_of


def orphan_list(
    readings: Readings, held: Iterable[HeldLease], orphans: Sequence[OrphanLease]
) -> tuple[Orphan, ...]:
    """Return every watched task with orphan tokens or an orphan lease, the worst first.

    Worst is still alive, then most orphan tokens, then longest past the cutoff. Tokens are None
    where the ledger can't be read, ``lease_live`` where the leases can't.
    """
    leases: dict[int, list[OrphanLease]] = {}
    for orphan in orphans:
        leases.setdefault(id(orphan.watch), []).append(orphan)
    alive = {lease.lease.task_id for lease in held if lease.is_live}
    found = []
    for watch in readings.watched:
        own = leases.get(id(watch), [])
        charges = charges_of(readings, watch)
        tokens = None if charges is None else charges.charged + charges.prorated
        if own or (tokens is not None and tokens > 0):
            found.append(
                Orphan(
                    task_id=watch.task.task_id,
                    retry_id=watch.task.retry_id,
                    pool=watch.pool,
                    worker_id=_worker(watch, own),
                    cause=watch.cause,
                    abandoned_at=watch.stop.at,
                    cutoff_at=watch.cutoff,
                    orphan_tokens=tokens,
                    lease_live=None if readings.leases is None else watch.task.task_id in alive,
                    seconds_past_cutoff=seconds(readings.at - watch.cutoff),
                )
            )
    found.sort(
        key=lambda orphan: (
            not orphan.lease_live,
            -(orphan.orphan_tokens or 0.0),
            -orphan.seconds_past_cutoff,
            orphan.task_id or "",
        )
    )
    return tuple(found)


def _worker(watch: Watch, own: Sequence[OrphanLease]) -> str | None:
    if own:
        return own[0].held.lease.worker_id
    newest = max(watch.leases, key=lambda lease: lease.acquired_at or 0, default=None)
    return newest.worker_id if newest is not None else None


def last_evidence(
    readings: Readings, config: Config, orphans: Sequence[OrphanLease]
) -> Instant | None:
    """Return the newest orphan charge or end of an orphan lease; now, while one is alive."""
    if orphans:
        return readings.at
    signs = [readings.last_evidence] if readings.last_evidence is not None else []
    for watch in (*readings.watched, *readings.older):
        charges = charges_of(readings, watch)
        newest = charges.last_orphan_charge if charges is not None else None
        if charges is not None and newest is not None and _pages(charges, config):
            signs.append(newest)
    for watch in (*readings.watched, *readings.older):
        if watch.is_abandoned:
            signs += _ends(watch, watch.leases, config, readings)
    return max(signs, default=None)


def _pages(charges: Charges, config: Config) -> bool:
    ledger = config.stores.ledger
    return ledger is None or ledger.prorated == "page" or charges.charged > 0


def _ends(
    watch: Watch, leases: Iterable[Lease], config: Config, readings: Readings
) -> list[Instant]:
    """Return when leases that had been orphan ended: by release, or by their worker's silence."""
    facts, store = readings.leases, config.stores.leases
    if facts is None or store is None:
        return []
    ends = []
    for lease in leases:
        end = lease.released_at
        sign = lease.heartbeat_at if lease.heartbeat_at is not None else lease.acquired_at
        if facts.beats and sign is not None:
            expiry = Instant(sign + store.lease_ttl)
            end = expiry if end is None else min(end, expiry)
        if end is not None and watch.cutoff < end <= readings.at:
            ends.append(end)
    return ends
