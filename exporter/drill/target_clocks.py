"""Whether the stores' stamps can be held against a client's clock, which tells when it left.

A store that is behind shows work after a cutoff as work before it: its zero proves nothing.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.drill.target_client import Told
from orphanwatch.exporter.drill.target_rehearsed import Rehearsed
from orphanwatch.exporter.drill.target_watch import Seen
from orphanwatch.exporter.instants import SECOND, Instant, Micros, seconds
from orphanwatch.exporter.names import ARM_STORES, StoreName

_SLACK: Final = Micros(SECOND)
"""Clocks are read one after the other, and some stores write whole seconds."""

_REMEDY: Final = (
    "what went on after a cutoff may stand before it; set all clocks by NTP, check the time zone "
    "that the store's stamps are read in, and see what orphanwatch check says"
)


class _Stamp(NamedTuple):
    """An instant that a store states, and the event that it can't lie before."""

    store: StoreName
    column: str
    at: Instant | None
    event_at: Instant | None
    event: str


def clock_doubts(rehearsed: Rehearsed, config: Config) -> Iterator[str]:
    """Yield each store whose clock is too far from ours, by its own word or by its stamps."""
    room = config.grace + config.clock_skew_allowance + _SLACK
    for name in ARM_STORES:
        skews = [look.skews[name] for look in rehearsed.looks if name in look.skews]
        skew = max(skews, key=abs, default=0.0)
        if abs(skew) > seconds(room):
            yield f"store {name}: its clock is {skew:+.1f} s off ours: {_REMEDY}"
    worst: dict[tuple[StoreName, str], tuple[int, str]] = {}
    for ask, told in rehearsed.told.items():
        for _, seen in rehearsed.seen(ask):
            for stamp in _stamps(seen, told):
                if stamp.at is None or stamp.event_at is None:
                    continue
                early = stamp.event_at - stamp.at
                key = (stamp.store, stamp.column)
                if early > max(room, worst.get(key, (0, ""))[0]):
                    worst[key] = (early, f"of {ask.task_id} lies {{}} before {stamp.event}")
    for (name, column), (early, said) in worst.items():
        yield f"store {name}: {column} {said.format(f'{seconds(early):.1f} s')}: {_REMEDY}"


def _stamps(seen: Seen, told: Told) -> Iterator[_Stamp]:
    sent, is_sent = told.sent_at, "it was sent"
    if seen.task is not None:
        at = seen.task.submitted_at
        yield _Stamp(StoreName.GATEWAY, "submitted_at", at, sent, is_sent)
        at = seen.task.cancelled_at
        yield _Stamp(StoreName.GATEWAY, "cancelled_at", at, told.left_at, "its client left")
    for lease in seen.leases:
        yield _Stamp(StoreName.LEASES, "acquired_at", lease.acquired_at, sent, is_sent)
        yield _Stamp(StoreName.LEASES, "released_at", lease.released_at, sent, is_sent)
    if seen.charges is not None:
        yield _Stamp(StoreName.LEDGER, "charged_at", seen.charges.last_charge, sent, is_sent)
