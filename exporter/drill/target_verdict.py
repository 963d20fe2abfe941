"""What a drill on a real gateway proved: from what clients told and stores showed to a verdict."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.drill.report import Outcome
from orphanwatch.exporter.drill.target_doubts import doubts_of
from orphanwatch.exporter.drill.target_rehearsed import Rehearsed, orphan_tokens
from orphanwatch.exporter.drill.target_requests import Ask
from orphanwatch.exporter.drill.target_watch import Seen, TargetLook
from orphanwatch.exporter.instants import Instant, Micros, seconds
from orphanwatch.exporter.model import Lease
from orphanwatch.exporter.signals.identity import beyond_first
from orphanwatch.exporter.signals.leases import HeldLease
from orphanwatch.exporter.stops import age_of, pool_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What was found, and what keeps it from being a proof; each in a sentence."""

    verdict: Outcome | None
    """None is "can't tell"."""
    promoted: bool
    findings: tuple[str, ...]
    doubts: tuple[str, ...]
    notes: tuple[str, ...]


def judge(rehearsed: Rehearsed, config: Config, bound: Micros) -> Judgement:
    """Return the verdict of a drill whose cancels were to arrive."""
    asks = rehearsed.plan.asks
    leavers = [ask for ask in asks if ask.leaves]
    orphan = [said for ask in leavers for said in _orphan_work(rehearsed, ask)]
    others = [*_lost_retry(rehearsed, asks[-1]), *_duplicates(rehearsed, config)]
    doubts = tuple(doubts_of(rehearsed, config, bound))
    verdict = Outcome.CANCEL_MISSED if orphan else None if doubts else Outcome.SHED
    return Judgement(
        verdict=verdict,
        promoted=verdict is Outcome.SHED and not others,
        findings=(*orphan, *others),
        doubts=doubts,
        notes=tuple(_notes(rehearsed, asks[-1])),
    )


def _orphan_work(rehearsed: Rehearsed, ask: Ask) -> Iterator[str]:
    tokens = orphan_tokens(rehearsed, ask) or 0  # nothing that is known
    held = next((said for look, seen in rehearsed.seen(ask) if (said := _held(look, seen))), "")
    if tokens > 0:
        yield f"{ask.task_id}: {tokens:g} tokens were charged a grace or more after its client left"
    if held:
        yield f"{ask.task_id}: {held}"
    if tokens or held:
        yield from _unseen_by_exporter(rehearsed, ask)


def _unseen_by_exporter(rehearsed: Rehearsed, ask: Ask) -> Iterator[str]:
    """Yield why orphan_token_delta does not show what was found, or not in time."""
    shown = [seen for _, seen in rehearsed.seen(ask)]
    left_at, row = rehearsed.told[ask].left_at, shown[-1].task if shown else None
    if row is None or left_at is None:
        return
    blind = f"{ask.task_id}: orphan_token_delta can't see this"
    if row.cancelled_at is None:
        yield f"{blind}: the gateway's store shows no cancel, as if its client waited"
    elif shown[-1].cutoff is not None and row.cancelled_at > shown[-1].cutoff:
        late = seconds(row.cancelled_at - left_at)
        yield f"{blind}: the gateway took {late:.1f} s to notice that its client had left"


def _held(look: TargetLook, seen: Seen) -> str:
    """Return what proves that a worker was still at it after the cutoff; empty is no proof."""
    cutoff = seen.cutoff
    if cutoff is None:
        return ""
    for lease in seen.leases:
        late = _last_sign(lease, look)
        if late is not None and late > cutoff:
            return (
                f"{lease.worker_id or 'a worker'} still held it {seconds(late - cutoff):.1f} s "
                "later than that, or longer"
            )
    return ""


def _last_sign(lease: Lease, look: TargetLook) -> Instant | None:
    if lease.released_at is not None:
        return min(lease.released_at, look.at)
    # Without heartbeats a lease lives until it is released.
    return lease.heartbeat_at if look.beats else look.at


def _lost_retry(rehearsed: Rehearsed, retry: Ask) -> Iterator[str]:
    rows = [seen.task for _, seen in rehearsed.seen(retry) if seen.task is not None]
    if rows and rows[-1].attempt > 1 and rows[-1].retry_id != retry.retry_id:
        yield (
            f"{retry.task_id}: the retry came without the retry id that it was sent with in "
            f"{rehearsed.plan.target.retry_header}"
        )


def _duplicates(rehearsed: Rehearsed, config: Config) -> Iterator[str]:
    """Yield where one request was decoded more than once at a time, for longer than a grace."""
    first, retry = rehearsed.plan.asks[0], rehearsed.plan.asks[-1]
    requests = [(first, retry), *((ask,) for ask in rehearsed.plan.asks[1:-1])]
    most = max(
        (
            len(beyond_first(_live(look, asks, config), config, look.at))
            for look in rehearsed.looks
            for asks in requests
        ),
        default=0,
    )
    if most:
        yield f"one request was decoded by {most + 1} workers at a time, longer than for a grace"


def _live(look: TargetLook, asks: Iterable[Ask], config: Config) -> Iterator[HeldLease]:
    """Yield the live leases of one request, whatever its store knows of retry ids."""
    for seen in (look.seen[ask] for ask in asks if ask in look.seen):
        pool = pool_of(seen.task, seen.leases, config)
        for lease in seen.live:
            age = age_of(lease, look.at)
            yield HeldLease(lease, seen.task, None, pool, age, is_live=True)


def _notes(rehearsed: Rehearsed, retry: Ask) -> Iterator[str]:
    rows = [seen.task for _, seen in rehearsed.seen(retry) if seen.task is not None]
    if rows and rows[-1].attempt == 1 and rows[-1].retry_id != retry.retry_id:
        yield (
            "the gateway's store shows neither retry id nor attempt: a retry looks like a new "
            "request, and the retry hop is not proved"
        )
