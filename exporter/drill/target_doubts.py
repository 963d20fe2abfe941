"""What keeps the zero of a drill on a real gateway from being a proof, each in a sentence."""

from collections.abc import Iterator
from typing import Final

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.drill.target_client import Told
from orphanwatch.exporter.drill.target_clocks import clock_doubts
from orphanwatch.exporter.drill.target_rehearsed import (
    Rehearsed,
    found_in,
    is_arrived,
    is_settled,
)
from orphanwatch.exporter.drill.target_requests import Ask, TargetPlan
from orphanwatch.exporter.instants import Micros, format_duration, seconds
from orphanwatch.exporter.names import ARM_STORES, StoreName

_ROOM: Final = 2
"""Graces that an answer must have had left to go on for: as in a drill's own stack."""

_NO_JOIN: Final = (
    "nothing can be told of them; let every store write one id (docs/identity.md), and see what "
    "orphanwatch check says"
)


def doubts_of(rehearsed: Rehearsed, config: Config, bound: Micros) -> Iterator[str]:
    """Yield why nothing is proved; nothing where a zero is a proof."""
    *leavers, retry = rehearsed.plan.asks
    yield from _blind(rehearsed)
    yield from _not_found(rehearsed)
    yield from clock_doubts(rehearsed, config)
    for ask in leavers:
        yield from _weak(rehearsed.plan, config, ask, rehearsed.told[ask])
        yield from _unproved(rehearsed, config, ask, bound)
    yield from _retry_doubts(rehearsed, retry)


def _blind(rehearsed: Rehearsed) -> Iterator[str]:
    said = {problem: None for look in rehearsed.looks for problem in look.blind}
    yield from said


def _not_found(rehearsed: Rehearsed) -> Iterator[str]:
    if not any(look.seen for look in rehearsed.looks):
        return
    for name in ARM_STORES:
        if not _in_any(rehearsed, name):
            count = len(rehearsed.plan.asks)
            yield f"store {name}: none of the {count} requests is in it: {_NO_JOIN}"


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


def _unproved(rehearsed: Rehearsed, config: Config, ask: Ask, bound: Micros) -> Iterator[str]:
    """Yield why nothing is proved by what the stores show of one attempt that was left."""
    shown, name = list(rehearsed.seen(ask)), ask.task_id
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


def _retry_doubts(rehearsed: Rehearsed, retry: Ask) -> Iterator[str]:
    told = rehearsed.told.get(retry)
    if told is None:
        yield f"{retry.task_id}: the retry was never sent"
        return
    if told.problem:
        yield f"{retry.task_id}: the retry: {told.problem}"
    elif told.ended_at is None:
        yield f"{retry.task_id}: the retry had not ended; raise --bound"
    found = found_in(rehearsed, retry)
    for name in (StoreName.GATEWAY, StoreName.LEDGER):
        if name not in found and _in_any(rehearsed, name):
            yield (
                f"{retry.task_id}: store {name} shows nothing of the retry, so nobody knows what "
                "became of it, and of its ids; raise --bound, or see docs/identity.md"
            )
