"""Whether the stores speak of the same things: duplicates, retries, ledger keys, pools."""

from collections.abc import Iterable, Sequence

from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.model import Sample, Task
from orphanwatch.exporter.names import KeyKind, Role
from orphanwatch.exporter.reading_gateway import is_recent
from orphanwatch.exporter.readings import Readings
from orphanwatch.exporter.signals.attached import is_attached
from orphanwatch.exporter.signals.joins import join_gauges
from orphanwatch.exporter.signals.leases import HeldLease
from orphanwatch.exporter.signals.samples import Gauges, by_pool, counted, plain
from orphanwatch.exporter.stores.questions import Windows


def identity_gauges(
    readings: Readings, config: Config, held: Sequence[HeldLease], windows: Windows
) -> Gauges:
    """Return the families that say whether work and its ids can be trusted."""
    gauges = join_gauges(readings, config, windows)
    gateway = readings.gateway
    unmatched = unmatched_tokens(readings, config)
    if unmatched:
        gauges[names.UNMATCHED_TOKENS] = unmatched
    if gateway is None:
        return gauges
    if gateway.states_submissions:
        gauges[names.RETRIES_WITHOUT_RETRY_ID] = _lost_retries(readings, config, windows)
    if gateway.attached is not None:
        gauges[names.UNCANCELLABLE_ON_OVERFLOW] = plain(
            sum(
                1
                for task in gateway.counted
                if not task.cancellable
                and is_attached(readings, task)
                and config.role(readings.pools.get(task.task_id or "", task.pool or ""))
                is Role.OVERFLOW
            )
        )
    if readings.leases is not None:
        extra = counted(lease.pool for lease in duplicates(readings, config, held))
        gauges[names.DUPLICATE_IN_FLIGHT] = by_pool(config, extra)
    return gauges


def _lost_retries(readings: Readings, config: Config, windows: Windows) -> tuple[Sample, ...]:
    gateway = readings.gateway
    lost = counted(
        readings.pools.get(task.task_id or "", config.label(task.pool))
        for task in (gateway.counted if gateway is not None else ())
        if _is_retry_without_id(readings, task, windows)
    )
    return by_pool(config, lost)


def _is_retry_without_id(readings: Readings, task: Task, windows: Windows) -> bool:
    if task.attempt <= 1 or not is_recent(task, windows):
        return False
    if task.retry_id is None or readings.gateway is None:
        return True
    return readings.gateway.least_attempts.get(task.retry_id, task.attempt) >= task.attempt


def duplicates(readings: Readings, config: Config, held: Iterable[HeldLease]) -> list[HeldLease]:
    """Return each live lease beyond the request's first that has been there longer than a grace."""
    requests: dict[tuple[str, str], list[HeldLease]] = {}
    for lease in held:
        task_id = lease.lease.task_id
        if not lease.is_live or task_id is None:
            continue
        retry_id = lease.task.retry_id if lease.task is not None else None
        key = ("retry", retry_id) if retry_id is not None else ("task", task_id)
        requests.setdefault(key, []).append(lease)
    return [
        lease for leases in requests.values() for lease in beyond_first(leases, config, readings.at)
    ]


def beyond_first(leases: Iterable[HeldLease], config: Config, at: Instant) -> list[HeldLease]:
    """Return the live leases of one request but its first that have been there for over a grace.

    One that does not say since when counts: nobody can tell that it is young.
    """
    extra = []
    for lease in sorted(leases, key=_order)[1:]:
        acquired = lease.lease.acquired_at
        if acquired is None or at - acquired > config.grace_of(lease.pool):
            extra.append(lease)
    return extra


def _order(held: HeldLease) -> tuple[bool, int, str, str]:
    lease = held.lease
    acquired = lease.acquired_at
    return (acquired is None, acquired or 0, lease.task_id or "", lease.worker_id or "")


def unmatched_tokens(readings: Readings, config: Config) -> tuple[Sample, ...]:
    """Return the spend under keys that are no task: the kinds that can be told."""
    if readings.ledger is None:
        return ()
    sums = dict.fromkeys(KeyKind, 0.0)
    known = readings.gateway.tasks if readings.gateway is not None else {}
    workers = readings.leases.workers if readings.leases is not None else frozenset()
    for key, spend in readings.ledger.window.by_key.items():
        if key is None:
            sums[KeyKind.EMPTY] += spend.spend
        elif key not in known:
            sums[KeyKind.WORKER if key in workers else KeyKind.UNKNOWN] += spend.spend
    told = [KeyKind.EMPTY]
    if readings.gateway is not None and readings.leases is not None:
        told.append(KeyKind.WORKER)
        # A log that has no row while a request runs can't say that a key is no task.
        if config.stores.gateway is not None and config.stores.gateway.rows == "live":
            told.append(KeyKind.UNKNOWN)
    return tuple(Sample((str(kind),), sums[kind]) for kind in KeyKind if kind in told)
