"""The lease arm: live, expired, leaked and orphan leases, and what follows from their age."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import SECOND, Instant, Micros, seconds
from orphanwatch.exporter.model import Lease, Stop, Task
from orphanwatch.exporter.names import Cause, Role
from orphanwatch.exporter.readings import Readings, Watch
from orphanwatch.exporter.signals.samples import (
    Gauges,
    by_pool,
    by_pool_and,
    counted,
    least,
    most,
    plain,
    where_any,
)
from orphanwatch.exporter.stops import age_of, finish_of, is_live


class HeldLease(NamedTuple):
    """An unreleased lease as of now, with its task where the gateway knows it."""

    lease: Lease
    task: Task | None
    stop: Stop | None
    pool: str
    age: Micros
    """Since the last heartbeat, or since acquisition before the first; never negative."""
    is_live: bool

    def is_leaked(self, at: Instant) -> bool:
        """Return whether its task finished, and has no stop."""
        return self.task is not None and self.stop is None and finish_of(self.task, at) is not None


def held_leases(readings: Readings, config: Config) -> list[HeldLease]:
    """Return every unreleased lease, live or expired; none where leases can't be read."""
    facts, gateway, at = readings.leases, readings.gateway, readings.at
    if facts is None:
        return []
    tasks = gateway.tasks if gateway is not None else {}
    stops = gateway.stops if gateway is not None else {}
    held = []
    for lease in facts.unreleased:
        task = tasks.get(lease.task_id) if lease.task_id is not None else None
        pool = readings.pools.get(lease.task_id) if lease.task_id is not None else None
        held.append(
            HeldLease(
                lease,
                task,
                stops.get(id(task)) if task is not None else None,
                pool if pool is not None else config.label(lease.pool),
                age_of(lease, at),
                is_live(lease, config, beats=facts.beats, at=at),
            )
        )
    return held


@dataclass(frozen=True, slots=True)
class OrphanLease:
    """A live lease of an abandoned task, now past the cutoff."""

    held: HeldLease
    watch: Watch
    past_cutoff: Micros

    @property
    def is_confirmed(self) -> bool:
        """Return whether its worker has shown itself after the cutoff."""
        heartbeat = self.held.lease.heartbeat_at
        return heartbeat is not None and heartbeat > self.watch.cutoff

    @property
    def is_second_decoder(self) -> bool:
        """Return whether another worker let go of the same task after its stop."""
        return any(
            lease.released_at is not None and lease.released_at > self.watch.stop.at
            for lease in self.watch.leases
        )


def orphan_leases(readings: Readings, held: Iterable[HeldLease]) -> list[OrphanLease]:
    """Return the orphan leases; none where the gateway or the leases can't be read."""
    watches = {
        watch.task.task_id: watch
        for watch in readings.watched
        if watch.is_abandoned and watch.task.task_id is not None
    }
    found = []
    for lease in held:
        watch = watches.get(lease.lease.task_id) if lease.lease.task_id is not None else None
        if watch is not None and lease.is_live and readings.at > watch.cutoff:
            found.append(OrphanLease(lease, watch, Micros(readings.at - watch.cutoff)))
    return found


def lease_gauges(
    readings: Readings,
    config: Config,
    held: Sequence[HeldLease],
    orphans: Sequence[OrphanLease],
) -> Gauges:
    """Return the families of the lease arm."""
    caps = {
        name: float(pool.lease_cap)
        for name, pool in config.pools.items()
        if pool.lease_cap is not None
    }
    gauges: Gauges = {names.LEASE_CAP: where_any(caps)}
    if readings.leases is None:
        return gauges
    live = [lease for lease in held if lease.is_live]
    longest = most((lease.pool, lease.age) for lease in live)
    ages = {pool: age / SECOND for pool, age in longest.items()}
    gone = counted(lease.pool for lease in held if not lease.is_live)
    gauges[names.LIVE_LEASES] = by_pool(config, counted(lease.pool for lease in live))
    gauges[names.EXPIRED_LEASES] = by_pool(config, gone)
    gauges[names.LEASE_AGE_SECONDS_MAX] = where_any(ages)
    gauges[names.HEARTBEAT_PERIOD_SECONDS] = where_any(heartbeat_periods(readings, config, ages))
    gauges[names.WORKERS_IN_BOTH_POOLS] = plain(workers_in_both(live, config))
    if readings.gateway is not None:
        gauges |= _deadline_gauges(readings.at, config, live)
        gauges |= _orphan_gauges(config, orphans)
    return gauges


def heartbeat_periods(
    readings: Readings, config: Config, ages: Mapping[str, float]
) -> dict[str, float]:
    """Return the heartbeat period by pool: declared, else seen; a larger lease age counts.

    A pool without either is absent. Where a store states no heartbeats, the age of a lease is how
    long its worker has given no sign at all, and counts as such.
    """
    store = config.stores.leases
    declared = store.heartbeat if store is not None else None
    periods = {}
    for pool in config.pool_names:
        seen = declared if declared is not None else readings.silences.get(pool)
        signs = [seconds(seen)] if seen is not None else []
        signs += [ages[pool]] if pool in ages else []
        if signs:
            periods[pool] = max(signs)
    return periods


def workers_in_both(live: Iterable[HeldLease], config: Config) -> int:
    """Return how many workers hold live leases of their own for both roles."""
    roles: dict[str, set[Role]] = {}
    for pool, worker_id in {(held.lease.pool, held.lease.worker_id) for held in live}:
        role = config.role(pool)
        if role is not None and worker_id is not None:
            roles.setdefault(worker_id, set()).add(role)
    return sum(len(both) > 1 for both in roles.values())


def is_shed_due(held: HeldLease, at: Instant, grace: Micros) -> bool:
    """Return whether a cancel sent now could no longer land within the deadline."""
    task = held.task
    if task is None or not task.cancellable or task.deadline_at is None:
        return False
    return finish_of(task, at) is None and held.age + grace > task.deadline_at - at


def _deadline_gauges(at: Instant, config: Config, live: Sequence[HeldLease]) -> Gauges:
    first = least(
        (held.pool, held.task.deadline_at)
        for held in live
        if held.task is not None and held.task.deadline_at is not None
    )
    slack = {pool: (deadline - at) / SECOND for pool, deadline in first.items()}
    due = counted(held.pool for held in live if is_shed_due(held, at, config.grace_of(held.pool)))
    leaked = counted(held.pool for held in live if held.is_leaked(at))
    outside: dict[str, float] = {}
    for (theirs, own), count in Counter((held.pool, held.lease.pool) for held in live).items():
        if _is_outside(theirs, own, config):
            outside[theirs] = outside.get(theirs, 0.0) + count
    return {
        names.DEADLINE_SLACK_SECONDS_MIN: where_any(slack),
        names.SHED_DUE_LEASES: by_pool(config, due),
        names.LEAKED_LEASES: by_pool(config, leaked),
        names.LEASES_OUTSIDE_POOL: by_pool(config, outside),
    }


def _is_outside(pool: str, own_pool: str | None, config: Config) -> bool:
    theirs, own = config.role(pool), config.role(own_pool)
    return theirs is not None and own is not None and theirs is not own


def _orphan_gauges(config: Config, orphans: Sequence[OrphanLease]) -> Gauges:
    alive: dict[tuple[str, str], float] = {}
    for orphan in orphans:
        key = (orphan.held.pool, str(orphan.watch.cause))
        alive[key] = alive.get(key, 0.0) + 1
    confirmed = counted(orphan.held.pool for orphan in orphans if orphan.is_confirmed)
    doubled = counted(o.held.pool for o in orphans if o.is_second_decoder)
    oldest = most((orphan.held.pool, seconds(orphan.past_cutoff)) for orphan in orphans)
    return {
        names.LEASES: by_pool_and(config, Cause, alive),
        names.LEASES_CONFIRMED: by_pool(config, confirmed),
        names.SECOND_DECODER_LEASES: by_pool(config, doubled),
        names.LEASE_OLDEST_SECONDS: by_pool(config, oldest),
    }
