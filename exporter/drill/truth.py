"""The drill's own numbers, from its record alone: what the exporter must agree with."""

from dataclasses import dataclass

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.drill.record import Record
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.stack.requests import Request
from orphanwatch.exporter.stores.questions import Windows


@dataclass(frozen=True, slots=True)
class Truth:
    """What really was at an instant."""

    token_delta: float
    """Orphan tokens in the delta window, all pools, under the right key."""
    orphan_leases: int
    duplicates: int


def truth_at(record: Record, config: Config, at: Instant) -> Truth:
    """Return the numbers as of an instant, by the contract's words, from the record."""
    windows = Windows.ending(at, config)
    orphan = sum(
        charge.tokens
        for task_id, charge in record.charges
        if charge.key == task_id
        and windows.delta_start < charge.at <= at
        and is_past_cutoff(record, config, task_id, charge.at)
    )
    leases = sum(
        1
        for lease in record.leases
        if _is_held(lease.acquired_at, lease.released_at, at)
        and is_past_cutoff(record, config, lease.task_id, at)
    )
    return Truth(float(orphan), leases, _duplicates(record, config, at))


def orphan_tokens(record: Record, config: Config, task_id: str, until: Instant) -> float:
    """Return a task's orphan tokens so far, those that the ledger was told under its own id."""
    return float(
        sum(
            charge.tokens
            for of, charge in record.charges
            if of == task_id == charge.key
            and charge.at <= until
            and is_past_cutoff(record, config, task_id, charge.at)
        )
    )


def is_past_cutoff(record: Record, config: Config, task_id: str, at: Instant) -> bool:
    """Return whether an instant lies strictly after a task's cutoff; False where it has none."""
    cutoff = cutoff_of(record, config, record.requests[task_id])
    return cutoff is not None and at > cutoff


def cutoff_of(record: Record, config: Config, request: Request) -> Instant | None:
    """Return a task's cutoff, None while nothing has stopped it."""
    cancelled = record.cancelled_at.get(request.task_id)
    if cancelled is None:
        return None
    grace = config.grace_of(config.label(request.pool))
    return Instant(cancelled + grace + config.clock_skew_allowance)


def _duplicates(record: Record, config: Config, at: Instant) -> int:
    """Count each live lease beyond its request's first that is older than a grace."""
    by_request: dict[str, list[tuple[Instant, str]]] = {}
    for lease in record.leases:
        if _is_held(lease.acquired_at, lease.released_at, at):
            request = record.requests[lease.task_id]
            key = request.retry_id or request.task_id
            by_request.setdefault(key, []).append((lease.acquired_at, request.pool))
    return sum(
        1
        for leases in by_request.values()
        for acquired, pool in sorted(leases)[1:]
        if at - acquired > config.grace_of(config.label(pool))
    )


def _is_held(acquired: Instant, released: Instant | None, at: Instant) -> bool:
    return acquired <= at and (released is None or released > at)
