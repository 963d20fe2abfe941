"""A drill on a real gateway: asks, leaves, asks once more, and watches the stores.

Nothing is written into any store; what is sent is what any client may send.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from orphanwatch.exporter.clock import Clock
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.drill.target_crowd import Crowd
from orphanwatch.exporter.drill.target_rehearsed import Rehearsed, found_in, is_settled
from orphanwatch.exporter.drill.target_requests import TargetPlan
from orphanwatch.exporter.drill.target_watch import TargetLook, TargetWatch
from orphanwatch.exporter.errors import DrillError
from orphanwatch.exporter.instants import Micros
from orphanwatch.exporter.names import ARM_STORES, StoreName

_LOOK_EVERY: Final = 1.0

Say = Callable[[str], None]
"""Told, in a line, what is going on."""


def rehearse(plan: TargetPlan, config: Config, bound: Micros, clock: Clock, say: Say) -> Rehearsed:
    """Run one drill to its end: until all has frozen, or ``bound`` after the clients have left.

    Raises ``DrillError`` where the stores can't be read before anything is sent, and where the
    gateway does not answer as it would have to. No connection is open any more in either case.
    """
    with _watching(config, clock) as watch:
        looks = [watch.look(())]
        if looks[0].blind:
            raise DrillError(
                f"nothing was sent, since nothing would be seen: {'; '.join(looks[0].blind)}; a "
                f"drill needs all of {', '.join(ARM_STORES)}"
            )
        crowd = Crowd(plan, bound, clock)
        try:
            say(f"{plan.target.clients} clients ask {plan.place}")
            crowd.start()
            _watch_on(plan, config, crowd, watch, looks)
            say("watched until the bound" if crowd.is_over else "nothing moves any more")
        finally:
            crowd.leave()
        return Rehearsed(plan=plan, told=crowd.told, looks=looks)


def _watch_on(
    plan: TargetPlan,
    config: Config,
    crowd: Crowd,
    watch: TargetWatch,
    looks: list[TargetLook],
) -> None:
    while True:
        began = time.monotonic()
        is_last = crowd.is_over  # what is seen after that still counts, once
        is_through = crowd.is_through
        looks.append(watch.look(crowd.sent))
        crowd.refuse_problems()
        rehearsed = Rehearsed(plan=plan, told=crowd.told, looks=looks)
        if is_last or (is_through and _is_still(rehearsed, config)):
            return
        time.sleep(max(0.0, began + _LOOK_EVERY - time.monotonic()))


def _is_still(rehearsed: Rehearsed, config: Config) -> bool:
    """Return whether nothing moves any more, and the retry has reached the stores too."""
    look, plan = rehearsed.looks[-1], rehearsed.plan
    *leavers, retry = plan.asks
    return found_in(rehearsed, retry) >= {StoreName.GATEWAY, StoreName.LEDGER} and all(
        ask in look.seen and is_settled(look.seen[ask], look.at, config, plan) for ask in leavers
    )


@contextmanager
def _watching(config: Config, clock: Clock) -> Iterator[TargetWatch]:
    watch = TargetWatch(config, clock)
    try:
        yield watch
    finally:
        watch.stop()
