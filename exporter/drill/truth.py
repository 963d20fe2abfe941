"""The drill's own numbers, from its record alone: what the exporter must agree with."""

from dataclasses import dataclass

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.drill.record import Held, Record
from orphanwatch.exporter.instants import Instant, Micros
from orphanwatch.exporter.stack.books import Charge
from orphanwatch.exporter.stack.requests import Request
from orphanwatch.exporter.stores.questions import Windows


@dataclass(frozen=True, slots=True)
class Truth:
    """What really was at an instant."""

    token_delta: float
    """Orphan tokens in the delta window, all pools, under the right key."""
    orphan_leases: int
    duplicates: int
    spent: float
    """All tokens that have landed in the spend window, under whatever key."""


def truth_at(record: Record, config: Config, at: Instant) -> Truth:
    """Return the numbers as of an instant, by the contract's words, from the record."""
    windows = Windows.ending(at, config)
    leases = sum(
        1
        for lease in record.leases
        if _is_live(record, config, lease, at) and is_past_cutoff(record, config, lease.task_id, at)
    )
    spent = sum(
        charge.tokens
        for _, charge in record.charges
        if windows.spend_start < charge.at <= windows.spend_end
    )
    return Truth(
        token_delta=_token_delta(record, config, windows),
        orphan_leases=leases,
        duplicates=_duplicates(record, config, at),
        spent=float(spent),
    )


def orphan_tokens(record: Record, config: Config, task_id: str, until: Instant) -> float:
    """Return a task's orphan tokens so far, those that the ledger was told under its own id."""
    return float(
        sum(
            sum(_orphan_parts(record, config, task_id, charge))
            for of, charge in record.charges
            if of == task_id == charge.key and charge.at <= until
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


def _token_delta(record: Record, config: Config, windows: Windows) -> float:
    ledger = config.stores.ledger
    is_reported_only = ledger is not None and ledger.prorated == "report"
    delta = 0.0
    for of, charge in record.charges:
        if charge.key == of and windows.delta_start < charge.at <= windows.at:
            charged, prorated = _orphan_parts(record, config, of, charge)
            delta += charged + (0.0 if is_reported_only else prorated)
    return delta


def _orphan_parts(
    record: Record, config: Config, task_id: str, charge: Charge
) -> tuple[float, float]:
    """Return what of a charge lies past the cutoff: as charged, and as a share of one row."""
    cutoff = cutoff_of(record, config, record.requests[task_id])
    if cutoff is None or charge.at <= cutoff:
        return 0.0, 0.0
    started = _started(record, task_id, charge)
    if record.shape != "final" or started > cutoff:
        return float(charge.tokens), 0.0
    decoded = charge.tokens - (charge.prompt_tokens if record.states_prompts else 0)
    return 0.0, decoded * (charge.at - cutoff) / (charge.at - started)


def _started(record: Record, task_id: str, charge: Charge) -> Instant:
    if record.states_starts:
        return charge.started_at
    return min(lease.acquired_at for lease in record.leases_of(task_id))


def _duplicates(record: Record, config: Config, at: Instant) -> int:
    """Count each live lease beyond its request's first that is older than a grace.

    Where the store does not say since when it is held, every lease is old enough.
    """
    by_request: dict[str, list[tuple[Instant, str]]] = {}
    for lease in record.leases:
        if _is_live(record, config, lease, at):
            request = record.requests[lease.task_id]
            key = request.retry_id or request.task_id
            by_request.setdefault(key, []).append((lease.acquired_at, request.pool))
    return sum(
        1
        for leases in by_request.values()
        for acquired, pool in sorted(leases)[1:]
        if not record.states_acquisitions or at - acquired > config.grace_of(config.label(pool))
    )


def _is_live(record: Record, config: Config, lease: Held, at: Instant) -> bool:
    is_held = lease.acquired_at <= at and (lease.released_at is None or lease.released_at > at)
    leases = config.stores.leases
    if leases is None or not record.states_beats:
        return is_held
    return is_held and Micros(at - lease.beat_at) <= leases.lease_ttl
