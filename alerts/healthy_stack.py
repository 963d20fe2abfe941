"""What an exporter shows of a stack in which nothing is wrong, as far as the rules look at it."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from orphanwatch.alerts.traces import Trace, climb
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import SECOND
from orphanwatch.exporter.names import Family, StoreName

Key = tuple[Family, tuple[tuple[str, str], ...]]
"""A series: its family and its labels."""

Value = float | Callable[[int], Trace]
"""A number that stays, or what makes a trace of a given length."""

_POOLS: Final = ("overflow", "paid")
_BY_POOL: Final[dict[Family, float]] = {
    names.TOKEN_DELTA: 0,
    names.LEASES_CONFIRMED: 0,
    names.LEASE_OLDEST_SECONDS: 0,
    names.LIVE_LEASES: 2,
    names.EXPIRED_LEASES: 0,
    names.SHED_DUE_LEASES: 0,
    names.DUPLICATE_IN_FLIGHT: 0,
    names.RETRIES_WITHOUT_RETRY_ID: 0,
    names.LEASES_OUTSIDE_POOL: 0,
    names.OVERFLOW_ADMISSION_ALLOWED: 1,
}
_WHOLE: Final[dict[Family, float]] = {
    names.SPLIT_SIGNAL: 0,
    names.SPEND_TOKENS_PER_SECOND: 120,
    names.ATTACHED_TASKS: 6,
    names.UNCANCELLABLE_ON_OVERFLOW: 0,
    names.WORKERS_IN_BOTH_POOLS: 0,
}
_EVERY_CANCEL_WITHIN: Final = 0.5


def healthy(config: Config) -> dict[Key, Value]:
    """Return the value of every series that a rule reads; the time of a read is left out."""
    return dict(_series(config))


def _series(config: Config) -> Iterator[tuple[Key, Value]]:
    for pool in _POOLS:
        yield from _pool(config, (names.POOL, pool))
    for family, value in _WHOLE.items():
        yield (family, ()), value
    for kind in names.KeyKind:
        yield (names.UNMATCHED_TOKENS, ((names.KEY, str(kind)),)), 0
    for store in StoreName:
        up = float(store in config.stores.configured())
        yield (names.STORE_UP, ((names.STORE, str(store)),)), up


def _pool(config: Config, pool: tuple[str, str]) -> Iterator[tuple[Key, Value]]:
    for family, value in _BY_POOL.items():
        yield (family, (pool,)), value
    for basis in names.Basis:
        cause = (names.CAUSE, str(names.Cause.CLIENT_CANCEL))
        yield (names.TOKENS_TOTAL, (pool, cause, (names.BASIS, str(basis)))), 5000
    for condition in names.Condition:
        yield (names.FAIL_CLOSED, (pool, (names.CONDITION, str(condition)))), 0
    grace = config.grace_of(pool[1]) / SECOND
    source = (names.SOURCE, str(config.grace_source(pool[1])))
    yield (names.GRACE_SECONDS, (pool, source)), grace
    yield from _propagation(pool)


def _propagation(pool: tuple[str, str]) -> Iterator[tuple[Key, Value]]:
    """Yield a cancel at each scrape, every one of them quick."""
    whole = names.CANCEL_PROPAGATION_SECONDS
    cancels = partial(climb, 1000, 1)
    for edge in names.PROPAGATION_BUCKETS:
        within: Value = cancels if edge >= _EVERY_CANCEL_WITHIN else 0
        yield (whole.bucket, (pool, (names.LE, repr(edge)))), within
    yield (whole.bucket, (pool, (names.LE, "+Inf"))), cancels
    yield (whole.count, (pool,)), cancels
