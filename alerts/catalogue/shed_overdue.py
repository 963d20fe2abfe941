"""OrphanShedOverdue: overflow leases that can't make their deadline, and nobody sheds them."""

from typing import Final

from orphanwatch.alerts import timing
from orphanwatch.alerts.alert import Alert, Bearing, Case, Firing, Rule, Severity
from orphanwatch.alerts.gauge_cases import NO_COUNTER, Gauge, gauge_cases, wherever
from orphanwatch.alerts.promql import across_replicas, equals, last_seen, number, part_of, percent
from orphanwatch.alerts.traces import Series, Trace, flat
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config

NAME: Final = "OrphanShedOverdue"

# Leases in the cases: so many that any usual ratio is a whole number of them.
_LIVE: Final = 1000.0


def rules(config: Config) -> tuple[Rule, ...]:
    """Return the one rule; none where no pool has role overflow, for only there work is shed."""
    if not config.overflow_pools:
        return ()
    hold = timing.shed_overdue_hold(config)
    return (
        Rule(
            expr=_expr(config),
            hold=hold,
            severity=Severity.WARNING,
            description=(
                "{{ $value | humanizePercentage }} of the live leases in overflow pool "
                "{{ $labels.pool }} are due to be shed, more than "
                f"{percent(config.thresholds.shed_overdue_ratio)}, and they stay: "
                "lease age plus grace is above their deadline slack. "
                "Shed them and close overflow; do not scale."
            ),
            time_to_page=timing.time_to_page(config, hold),
        ),
    )


def _expr(config: Config) -> str:
    overflow = equals(names.POOL, *config.overflow_pools)
    due, live = (
        last_seen(config, family, overflow) for family in (names.SHED_DUE_LEASES, names.LIVE_LEASES)
    )
    # A pool without a live lease has no ratio, rather than 0 / 0.
    ratio = across_replicas(config, f"{due}\n/\n({live} > 0)")
    return f"{ratio} > {number(config.thresholds.shed_overdue_ratio)}"


def _pool(config: Config) -> dict[str, str]:
    return {names.POOL: config.overflow_pools[0]}


def _series(config: Config, due: Trace) -> tuple[Series, ...]:
    return (
        Series(names.SHED_DUE_LEASES, due, _pool(config)),
        Series(names.LIVE_LEASES, wherever(_LIVE, due), _pool(config)),
    )


def _empty(config: Config) -> Case:
    length = 3 * timing.scrapes(config, timing.shed_overdue_hold(config))
    return Case(
        name="no live lease at all: no ratio, and silent",
        series=(
            Series(names.SHED_DUE_LEASES, flat(0, length), _pool(config)),
            Series(names.LIVE_LEASES, flat(0, length), _pool(config)),
        ),
        never=(NAME,),
    )


def _not_overflow(config: Config) -> Case:
    length = 3 * timing.scrapes(config, timing.shed_overdue_hold(config))
    other = {names.POOL: names.OTHER_POOL}
    return Case(
        name="a pool without role overflow is not shed, so it is silent",
        series=(
            *_series(config, flat(0, length)),
            Series(names.SHED_DUE_LEASES, flat(_LIVE, length), other),
            Series(names.LIVE_LEASES, flat(_LIVE, length), other),
        ),
        never=(NAME,),
    )


def cases(config: Config) -> tuple[Case, ...]:
    """Return the stories that prove the rule."""
    if not config.overflow_pools:
        return ()
    at = part_of(config.thresholds.shed_overdue_ratio, _LIVE)
    gauge = Gauge(
        alert=NAME,
        hold=timing.shed_overdue_hold(config),
        series=lambda due: _series(config, due),
        firing=lambda due: (
            Firing(severity=Severity.WARNING, labels=_pool(config), value=due / _LIVE),
        ),
        below=at - 1,
        at=at,
        above=at + 1,
    )
    return (*gauge_cases(config, gauge), _empty(config), _not_overflow(config))


ALERT: Final = Alert(
    name=NAME,
    severity=Severity.WARNING,
    bearing=Bearing.FAULT,
    summary="Overflow leases that can't make it are not shed.",
    rules=rules,
    cases=cases,
    excused=NO_COUNTER,
)
