"""Whole stacks in health and in small trouble: no alert of the catalogue may page for them."""

from collections.abc import Iterable

from orphanwatch.alerts import timing
from orphanwatch.alerts.alert import Alert, Case
from orphanwatch.alerts.traces import LEAD, Series, Trace, climb, flat, lead
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import SECOND
from orphanwatch.exporter.names import Family, StoreName

_Key = tuple[Family, str]

_OVERFLOW = "overflow"


def stories(config: Config, alerts: Iterable[Alert]) -> tuple[Case, ...]:
    """Return the stories in which everything stays silent."""
    silent = tuple(alert.name for alert in alerts)
    return (
        Case(name="a calm stack", series=_stack(config, {}), never=silent),
        Case(
            name="a straggler that stops after its cutoff",
            series=_stack(config, _straggler(config)),
            never=silent,
        ),
        Case(
            name="a worker that crashed with its client's request",
            series=_stack(config, _crash(config)),
            never=silent,
        ),
    )


def _length(config: Config) -> int:
    longest = timing.tokens_hold(config) + timing.lease_ttl(config) + timing.leases_hold(config)
    return LEAD + timing.scrapes(config, longest) + 8


def _straggler(config: Config) -> dict[_Key, Trace]:
    shown = timing.scrapes(config, timing.charge_window(config))
    return {
        (names.TOKEN_DELTA, _OVERFLOW): _then_zero(config, flat(400, shown)),
        (names.TOKENS_TOTAL, _OVERFLOW): lead(5000) + flat(5400, _length(config) - LEAD),
        (names.LEASES_CONFIRMED, _OVERFLOW): _then_zero(config, flat(1, 1)),
        (names.LEASE_OLDEST_SECONDS, _OVERFLOW): _then_zero(config, flat(1, 1)),
        (names.SPLIT_SIGNAL, ""): _then_zero(config, flat(1, 1)),
    }


def _crash(config: Config) -> dict[_Key, Trace]:
    shown = timing.lease_ttl(config) // config.scrape_interval + 1
    age = climb(0, config.scrape_interval / SECOND, shown)
    return {(names.LEASE_OLDEST_SECONDS, _OVERFLOW): _then_zero(config, age)}


def _then_zero(config: Config, trace: Trace) -> Trace:
    return lead(0) + trace + flat(0, _length(config) - LEAD - len(trace))


def _stack(config: Config, changed: dict[_Key, Trace]) -> tuple[Series, ...]:
    """Return what a healthy exporter shows, with some series changed."""
    length = _length(config)
    zero = flat(0, length)
    calm: dict[_Key, Trace] = {
        (names.TOKEN_DELTA, "paid"): zero,
        (names.TOKEN_DELTA, _OVERFLOW): zero,
        (names.TOKENS_TOTAL, _OVERFLOW): flat(5000, length),
        (names.LEASES_CONFIRMED, _OVERFLOW): zero,
        (names.LEASE_OLDEST_SECONDS, _OVERFLOW): zero,
        (names.SPLIT_SIGNAL, ""): zero,
        (names.SPEND_TOKENS_PER_SECOND, ""): flat(120, length),
    }
    return (
        *(Series(key[0], trace, _labels(*key)) for key, trace in (calm | changed).items()),
        *_sight(config, length),
    )


def _labels(family: Family, pool: str) -> dict[str, str]:
    if family is names.TOKENS_TOTAL:
        return {
            names.POOL: pool,
            names.CAUSE: str(names.Cause.CLIENT_CANCEL),
            names.BASIS: str(names.Basis.CHARGED),
        }
    return {names.POOL: pool} if pool else {}


def _sight(config: Config, length: int) -> Iterable[Series]:
    for store in StoreName:
        up = float(store in config.stores.configured())
        labels = {names.STORE: str(store)}
        yield Series(names.STORE_UP, flat(up, length), labels)
        if up:
            reads = climb(0, config.scrape_interval / SECOND, length)
            yield Series(names.STORE_LAST_SUCCESS, reads, labels)
