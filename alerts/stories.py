"""Whole stacks in health and in small trouble: no alert of the catalogue may fire for them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from orphanwatch.alerts import timing
from orphanwatch.alerts.alert import Alert, Bearing, Case
from orphanwatch.alerts.healthy_stack import Key, healthy
from orphanwatch.alerts.traces import LEAD, MISSED, Series, Trace, climb, flat, lead
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import SECOND

_OVERFLOW: Final = (names.POOL, "overflow")
_RESTART: Final = 2

Changes = Mapping[Key, Trace]


def stories(config: Config, alerts: Iterable[Alert]) -> tuple[Case, ...]:
    """Return the stories in which everything stays silent.

    Notices are left out: an unmeasured grace is worth a note, however healthy the stack is.
    """
    silent = tuple(alert.name for alert in alerts if alert.bearing is not Bearing.NOTICE)
    told: tuple[tuple[str, Changes], ...] = (
        ("a calm stack", {}),
        ("a straggler that stops after its cutoff", _straggler(config)),
        ("a worker that crashed with its client's request", _crash(config)),
        ("load that ramps up with its clients", _ramp(config)),
        ("a ledger with one row at the end, at low traffic", _low_traffic(config)),
    )
    return (
        *(
            Case(name=name, series=tuple(_stack(config, changes)), never=silent)
            for name, changes in told
        ),
        Case(
            name="an exporter that restarts and has lost its counters",
            series=tuple(_restarted(config)),
            never=silent,
        ),
    )


def _length(config: Config) -> int:
    longest = timing.tokens_hold(config) + timing.lease_ttl(config) + timing.leases_hold(config)
    return LEAD + timing.scrapes(config, longest) + 8


def _stack(config: Config, changes: Changes) -> Iterator[Series]:
    """Yield what a healthy exporter shows, with some series changed."""
    length = _length(config)
    values: dict[Key, Trace] = {
        key: _as_long(value, length) for key, value in healthy(config).items()
    }
    for (family, labels), trace in (values | dict(changes)).items():
        yield Series(family, trace, dict(labels))
    for store in config.stores.configured():
        reads = climb(0, config.scrape_interval / SECOND, length)
        yield Series(names.STORE_LAST_SUCCESS, reads, {names.STORE: str(store)})


def _as_long(value: float | Callable[[int], Trace], length: int) -> Trace:
    return value(length) if callable(value) else flat(value, length)


def _straggler(config: Config) -> Changes:
    shown = timing.scrapes(config, timing.charge_window(config))
    return {
        (names.TOKEN_DELTA, (_OVERFLOW,)): _then(config, 0, flat(400, shown)),
        (names.TOKENS_TOTAL, (_OVERFLOW, *_CHARGED)): (
            lead(5000) + flat(5400, _length(config) - LEAD)
        ),
        (names.LEASES_CONFIRMED, (_OVERFLOW,)): _then(config, 0, flat(1, 1)),
        (names.LEASE_OLDEST_SECONDS, (_OVERFLOW,)): _then(config, 0, flat(1, 1)),
        (names.DUPLICATE_IN_FLIGHT, (_OVERFLOW,)): _then(config, 0, flat(1, 1)),
        (names.SPLIT_SIGNAL, ()): _then(config, 0, flat(1, 1)),
        (names.FAIL_CLOSED, (_OVERFLOW, (names.CONDITION, "orphan_tokens"))): (
            _then(config, 0, flat(1, shown))
        ),
    }


_CHARGED: Final = (
    (names.CAUSE, str(names.Cause.CLIENT_CANCEL)),
    (names.BASIS, str(names.Basis.CHARGED)),
)
_PRORATED: Final = (_CHARGED[0], (names.BASIS, str(names.Basis.PRORATED)))


def _crash(config: Config) -> Changes:
    """Return a lease that nobody beats for: past its cutoff until it expires, then expired."""
    shown = timing.lease_ttl(config) // config.scrape_interval + 1
    age = climb(0, config.scrape_interval / SECOND, shown)
    expired = flat(1, _length(config) - LEAD - shown)
    return {
        (names.LEASE_OLDEST_SECONDS, (_OVERFLOW,)): _then(config, 0, age),
        (names.EXPIRED_LEASES, (_OVERFLOW,)): lead(0) + flat(0, shown) + expired,
    }


def _ramp(config: Config) -> Changes:
    """Return ten times the load: spend and leases climb, and somebody waits for all of it.

    Of many leases a few are always due, less than the part that is overdue.
    """
    length = _length(config)
    live = climb(10, 10, length)
    few = config.thresholds.shed_overdue_ratio / 2
    return {
        (names.SPEND_TOKENS_PER_SECOND, ()): climb(120, 30, length),
        (names.ATTACHED_TASKS, ()): climb(6, 2, length),
        (names.LIVE_LEASES, (_OVERFLOW,)): live,
        (names.SHED_DUE_LEASES, (_OVERFLOW,)): tuple(int(few * (held or 0)) for held in live),
    }


def _low_traffic(config: Config) -> Changes:
    """Return spend in lumps, rising spend unknown for want of rows, and one prorated straggler."""
    length = _length(config)
    window = timing.scrapes(config, timing.charge_window(config))
    lumps = ((flat(0, window) + flat(13, window)) * length)[:length]
    few = flat(3, length)
    gap = (MISSED,) * length
    return {
        (names.SPEND_TOKENS_PER_SECOND, ()): lumps,
        (names.SPLIT_SIGNAL, ()): gap,
        (names.TOKEN_DELTA, (_OVERFLOW,)): _then(config, 0, flat(53, window)),
        (names.TOKENS_TOTAL, (_OVERFLOW, *_PRORATED)): lead(900) + flat(953, length - LEAD),
        (names.LIVE_LEASES, (_OVERFLOW,)): few,
    }


def _restarted(config: Config) -> Iterator[Series]:
    """Yield the calm stack, gone for two scrapes, its counters from zero afterwards."""
    half = _length(config) // 2
    for series in _stack(config, {}):
        after = series.trace[half + _RESTART :]
        if series.family.kind is not names.Kind.GAUGE:
            first = after[0] or 0
            after = tuple(value - first if value is not MISSED else MISSED for value in after)
        trace = series.trace[:half] + (MISSED,) * _RESTART + after
        yield Series(series.family, trace, series.labels)


def _then(config: Config, calm: float, trace: Trace) -> Trace:
    """Return a quiet beginning, something, and quiet again."""
    return lead(calm) + trace + flat(calm, _length(config) - LEAD - len(trace))
