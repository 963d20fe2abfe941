"""What a drill on a real gateway proved: from what clients told and stores showed to a verdict."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.drill.report import Outcome
from orphanwatch.exporter.drill.target_client import Told
from orphanwatch.exporter.drill.target_requests import Ask, TargetPlan
from orphanwatch.exporter.drill.target_watch import Seen, TargetLook
from orphanwatch.exporter.instants import Instant, Micros, format_duration, seconds
from orphanwatch.exporter.model import Lease
from orphanwatch.exporter.names import ARM_STORES, StoreName

_ROOM: Final = 2
"""Graces that an answer must have had left to go on for: as in a drill's own stack."""

_NO_JOIN: Final = (
    "nothing can be told of them; let every store write one id (docs/identity.md), and see what "
    "orphanwatch check says"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed:
    """A drill on a real gateway that came to its end."""

    plan: TargetPlan
    told: Mapping[Ask, Told]
    looks: Sequence[TargetLook]

    def seen(self, ask: Ask) -> Iterator[tuple[TargetLook, Seen]]:
        """Yield each look that shows an attempt."""
        return ((look, look.seen[ask]) for look in self.looks if ask in look.seen)


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
    doubts = [
        *_blind(rehearsed),
        *_not_found(rehearsed),
        *(said for ask in leavers for said in _doubts(rehearsed, config, ask, bound)),
        *_retry_doubts(rehearsed, asks[-1]),
    ]
    verdict = Outcome.CANCEL_MISSED if orphan else None if doubts else Outcome.SHED
    return Judgement(
        verdict=verdict,
        promoted=verdict is Outcome.SHED and not others,
        findings=(*orphan, *others),
        doubts=tuple(doubts),
        notes=tuple(_notes(rehearsed, asks[-1])),
    )


def orphan_tokens(rehearsed: Rehearsed, ask: Ask) -> float:
    """Return the tokens charged past the cutoff that the drill knows, or the exporter saw."""
    return max(
        (max(_past(seen), seen.exporter_tokens) for _, seen in rehearsed.seen(ask)),
        default=0.0,
    )


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


def _past(seen: Seen) -> float:
    return 0.0 if seen.charges is None else seen.charges.charged + seen.charges.prorated


def _orphan_work(rehearsed: Rehearsed, ask: Ask) -> Iterator[str]:
    tokens = orphan_tokens(rehearsed, ask)
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
    most = 0
    for look in rehearsed.looks:
        for asks in ((first, retry), *((ask,) for ask in rehearsed.plan.asks[1:-1])):
            live = [lease for ask in asks if ask in look.seen for lease in look.seen[ask].live]
            live.sort(key=lambda lease: lease.acquired_at or 0)
            extra = [
                lease
                for lease in live[1:]
                if lease.acquired_at is not None
                and look.at - lease.acquired_at > config.grace_of(config.label(lease.pool))
            ]
            most = max(most, len(extra))
    if most:
        yield f"one request was decoded by {most + 1} workers at a time, longer than for a grace"


def _blind(rehearsed: Rehearsed) -> Iterator[str]:
    said = {problem: None for look in rehearsed.looks for problem in look.blind}
    yield from said


def _not_found(rehearsed: Rehearsed) -> Iterator[str]:
    if not any(look.seen for look in rehearsed.looks):
        return
    asks = rehearsed.plan.asks
    found = [found_in(rehearsed, ask) for ask in asks]
    for name in ARM_STORES:
        count = sum(name in stores for stores in found)
        if count == 0:
            yield f"store {name}: none of the {len(asks)} requests is in it: {_NO_JOIN}"


def _doubts(rehearsed: Rehearsed, config: Config, ask: Ask, bound: Micros) -> Iterator[str]:
    """Yield why nothing is proved by one attempt that was left."""
    told, name = rehearsed.told[ask], ask.task_id
    yield from _weak(rehearsed.plan, config, ask, told)
    shown = list(rehearsed.seen(ask))
    if not shown:
        return
    look, last = shown[-1]
    found = found_in(rehearsed, ask)
    if StoreName.GATEWAY in found and not is_arrived(last):
        yield (
            f"{name}: the gateway's store shows no cancel: the exporter takes its client for one "
            "that waits, and would not see an orphan"
        )
    if StoreName.LEDGER not in found and _in_any(rehearsed, StoreName.LEDGER):
        yield (
            f"{name}: the ledger has not charged it within {format_duration(bound)}, though it "
            "streamed: what is not charged can't be seen to go on"
        )
    if StoreName.LEASES not in found and _in_any(rehearsed, StoreName.LEASES):
        yield f"{name}: no lease of it was seen, so nobody knows when its worker let go"
    if last.live:
        yield f"{name}: its lease is still not released, and its worker silent; raise --bound"
    elif found.issuperset(ARM_STORES) and not is_settled(last, look.at, config, rehearsed.plan):
        yield f"{name}: its tokens had not frozen for long enough; raise --bound"


def _in_any(rehearsed: Rehearsed, name: StoreName) -> bool:
    return any(name in found_in(rehearsed, ask) for ask in rehearsed.plan.asks)


def _weak(plan: TargetPlan, config: Config, ask: Ask, told: Told) -> Iterator[str]:
    """Yield where the work would have ended by itself, cancel or no cancel."""
    if told.first_at is None or told.left_at is None:
        yield (
            f"{ask.task_id}: no token had come when its client left: maybe nobody was at work on "
            "it; drill when the queue is short, or raise cancel_at in a --drill.file"
        )
        return
    rate = told.events / max(1e-3, seconds(told.left_at - told.first_at))
    rest = (plan.knobs.answer_tokens - told.events) / rate
    room = _ROOM * seconds(config.grace) + seconds(config.clock_skew_allowance)
    if rest < room:
        yield (
            f"{ask.task_id}: at {rate:.0f} tokens a second its answer would have ended by itself "
            f"{rest:.1f} s later: raise answer_tokens in a --drill.file, and most_tokens"
        )


def _retry_doubts(rehearsed: Rehearsed, retry: Ask) -> Iterator[str]:
    told = rehearsed.told.get(retry)
    if told is None:
        yield f"{retry.task_id}: the retry was never sent"
    elif told.problem:
        yield f"{retry.task_id}: the retry: {told.problem}"
    elif told.ended_at is None:
        yield f"{retry.task_id}: the retry had not ended; raise --bound"


def _notes(rehearsed: Rehearsed, retry: Ask) -> Iterator[str]:
    rows = [seen.task for _, seen in rehearsed.seen(retry) if seen.task is not None]
    if rows and rows[-1].attempt == 1 and rows[-1].retry_id != retry.retry_id:
        yield (
            "the gateway's store shows neither retry id nor attempt: a retry looks like a new "
            "request, and the retry hop is not proved"
        )
