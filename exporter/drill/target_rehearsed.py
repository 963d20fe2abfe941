"""A drill on a real gateway that came to its end: what clients told, and what stores showed."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.drill.target_client import Told
from orphanwatch.exporter.drill.target_requests import Ask, TargetPlan
from orphanwatch.exporter.drill.target_watch import Seen, TargetLook
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.model import Propagation
from orphanwatch.exporter.names import StoreName


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """Everything that a verdict rests on."""

    plan: TargetPlan
    told: Mapping[Ask, Told]
    looks: Sequence[TargetLook]

    def seen(self, ask: Ask) -> Iterator[tuple[TargetLook, Seen]]:
        """Yield each look that shows an attempt."""
        return ((look, look.seen[ask]) for look in self.looks if ask in look.seen)


def orphan_tokens(rehearsed: Rehearsed, ask: Ask) -> float | None:
    """Return the tokens charged past the cutoff that the drill knows, or the exporter saw.

    None where neither could ever tell.
    """
    known = [
        tokens
        for _, seen in rehearsed.seen(ask)
        for tokens in (_past(seen), seen.exporter_tokens)
        if tokens is not None
    ]
    return max(known, default=None)


def _past(seen: Seen) -> float | None:
    return None if seen.charges is None else seen.charges.charged + seen.charges.prorated


def propagation_of(rehearsed: Rehearsed, ask: Ask) -> Propagation | None:
    """Return how long an attempt's cancel took by the exporter, as it was at the last look.

    None where that was open, or unknown.
    """
    shown = [seen.propagation for _, seen in rehearsed.seen(ask)]
    return shown[-1] if shown else None


def found_in(rehearsed: Rehearsed, ask: Ask) -> frozenset[StoreName]:
    """Return the stores that showed an attempt at any time."""
    found: set[StoreName] = set()
    for _, seen in rehearsed.seen(ask):
        if seen.task is not None:
            found.add(StoreName.GATEWAY)
        if seen.leases:
            found.add(StoreName.LEASES)
        if seen.charges is not None:
            found.add(StoreName.LEDGER)
    return frozenset(found)


def is_settled(seen: Seen, at: Instant, config: Config, plan: TargetPlan) -> bool:
    """Return whether nothing of an attempt that was left moves any more, in any store."""
    ledger = config.stores.ledger
    if seen.cutoff is None or at <= seen.cutoff or seen.live or not seen.leases:
        return False
    if not is_arrived(seen) or ledger is None or seen.charges is None:
        return False
    if ledger.shape == "final":
        return True  # its one row comes at the end
    last = max(seen.charges.last_charge or seen.cutoff, seen.cutoff)
    return at - last >= plan.target.settle + config.lag


def is_arrived(seen: Seen) -> bool:
    """Return whether the gateway's store has taken in that the client left."""
    return seen.task is not None and seen.task.cancelled_at is not None
