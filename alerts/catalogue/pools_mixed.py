"""OrphanPoolsMixed: work of one pool reaches into the other, so neither's numbers hold."""

from typing import Final, NamedTuple

from orphanwatch.alerts import timing
from orphanwatch.alerts.alert import Alert, Bearing, Case, Check, Firing, Rule, Severity
from orphanwatch.alerts.context_timing import mixed_hold
from orphanwatch.alerts.gauge_cases import NEVER_BELOW_ZERO, NO_COUNTER, Gauge, gauge_cases
from orphanwatch.alerts.promql import highest_seen
from orphanwatch.alerts.traces import LEAD, Series, Trace, flat, lead
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.names import Family

NAME: Final = "OrphanPoolsMixed"

FAULT: Final = "fault"
"""The label that says which of the three it is."""

_DO: Final = "Take it apart, and do not scale overflow meanwhile: its work is not free."


class Mix(NamedTuple):
    """One way of being mixed, and how the alert words it."""

    fault: str
    family: Family
    words: str


MIXES: Final = (
    Mix(
        "worker_in_both_pools",
        names.WORKERS_IN_BOTH_POOLS,
        "{{ $value | humanize }} workers hold live leases for a paid and for an overflow pool: "
        "batch work takes slots of work that is paid for.",
    ),
    Mix(
        "lease_outside_pool",
        names.LEASES_OUTSIDE_POOL,
        "{{ $value | humanize }} live leases for tasks of pool {{ $labels.pool }} are held in a "
        "pool of the other role: the router or the queue hands work to the wrong workers.",
    ),
    Mix(
        "uncancellable_on_overflow",
        names.UNCANCELLABLE_ON_OVERFLOW,
        "{{ $value | humanize }} tasks that can't be cancelled run in an overflow pool: "
        "shedding will not free their slots.",
    ),
)


def rules(config: Config) -> tuple[Rule, ...]:
    """Return one rule for each way of being mixed: longer than a moved worker shows."""
    hold = mixed_hold(config)
    return tuple(
        Rule(
            expr=f"{highest_seen(config, mix.family)} > 0",
            hold=hold,
            severity=Severity.WARNING,
            description=f"{mix.words} {_DO}",
            time_to_page=timing.time_to_page(config, hold),
            labels={FAULT: mix.fault},
        )
        for mix in MIXES
    )


def _labels(mix: Mix) -> dict[str, str]:
    return {names.POOL: "overflow"} if names.POOL in mix.family.labels else {}


def _firing(mix: Mix, value: float) -> Firing:
    return Firing(labels={FAULT: mix.fault, **_labels(mix)}, value=value, severity=Severity.WARNING)


def _stories(trace: Trace, *mixes: Mix) -> tuple[Series, ...]:
    """Return the given ways of being mixed with this trace, and the others in health."""
    return tuple(
        Series(mix.family, trace if mix in mixes else flat(0, len(trace)), _labels(mix))
        for mix in MIXES
    )


def _length(config: Config) -> int:
    return timing.scrapes(config, mixed_hold(config)) + 4


def _alone(config: Config, mix: Mix) -> Case:
    length = _length(config)
    ends = LEAD + length
    return Case(
        name=f"{mix.fault} alone fires as itself, and clears",
        series=_stories(lead(0) + flat(1, length) + flat(0, 8), mix),
        checks=(
            Check(alert=NAME, scrape=ends - 6),
            Check(alert=NAME, scrape=ends - 1, firing=(_firing(mix, 1),)),
            Check(alert=NAME, scrape=ends + 7),
        ),
    )


def _moved(config: Config) -> Case:
    shown = timing.scrapes(config, timing.lease_ttl(config))
    return Case(
        name="a worker that moves, and leaves a lease till its time to live is over, is silent",
        series=_stories(lead(0) + flat(1, shown) + flat(0, _length(config)), *MIXES),
        never=(NAME,),
    )


def _all(config: Config) -> Gauge:
    """Return the three at once, for what they have in common."""
    return Gauge(
        alert=NAME,
        hold=mixed_hold(config),
        series=lambda trace: _stories(trace, *MIXES),
        firing=lambda value: tuple(_firing(mix, value) for mix in MIXES),
        at=0,
        above=2,
    )


def cases(config: Config) -> tuple[Case, ...]:
    """Return the stories that prove the rules."""
    return (
        *(_alone(config, mix) for mix in MIXES),
        *gauge_cases(config, _all(config)),
        _moved(config),
    )


ALERT: Final = Alert(
    name=NAME,
    severity=Severity.WARNING,
    bearing=Bearing.FAULT,
    summary="Paid and overflow work are mixed.",
    rules=rules,
    cases=cases,
    excused=NO_COUNTER | NEVER_BELOW_ZERO,
)
