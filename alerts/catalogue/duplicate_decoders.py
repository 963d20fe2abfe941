"""OrphanDuplicateDecoders: two workers decode for one request."""

from typing import Final

from orphanwatch.alerts import timing
from orphanwatch.alerts.alert import Alert, Bearing, Case, Firing, Rule, Severity
from orphanwatch.alerts.gauge_cases import NEVER_BELOW_ZERO, NO_COUNTER, Gauge, gauge_cases
from orphanwatch.alerts.promql import across_replicas, select, within
from orphanwatch.alerts.traces import Series, Trace, flat, lead
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config

NAME: Final = "OrphanDuplicateDecoders"

_POOL: Final = {names.POOL: "overflow"}


def rules(config: Config) -> tuple[Rule, ...]:
    """Return the one rule: a few graces, since a cancelled first try may still be stopping."""
    hold = timing.leases_hold(config)
    shown = within(select(config, names.DUPLICATE_IN_FLIGHT), timing.lookback(config))
    return (
        Rule(
            expr=f"{across_replicas(config, f'max_over_time({shown})')} > 0",
            hold=hold,
            severity=Severity.WARNING,
            description=(
                "Leases beyond the first for one and the same request in pool "
                "{{ $labels.pool }}: {{ $value | humanize }}. The same answer is decoded more "
                "than once. Stop the extra decoders and close overflow; do not scale, and do "
                "not retry."
            ),
            time_to_page=timing.time_to_page(
                config, hold, before=max(config.grace_of(pool) for pool in config.pool_names)
            ),
        ),
    )


def _series(duplicates: Trace) -> tuple[Series, ...]:
    return (Series(names.DUPLICATE_IN_FLIGHT, duplicates, _POOL),)


def _firing(value: float) -> tuple[Firing, ...]:
    return (Firing(severity=Severity.WARNING, labels=_POOL, value=value),)


def _handover(config: Config) -> Case:
    shown = timing.scrapes(config, timing.few_graces(config)) - 1
    rest = timing.scrapes(config, timing.leases_hold(config)) + 6
    return Case(
        name="a retry whose first try stops within a few graces is silent",
        series=_series(lead(0) + flat(1, shown) + flat(0, rest)),
        never=(NAME,),
    )


def cases(config: Config) -> tuple[Case, ...]:
    """Return the stories that prove the rule."""
    gauge = Gauge(
        alert=NAME,
        hold=timing.leases_hold(config),
        series=_series,
        firing=_firing,
        at=0,
        above=1,
    )
    return (*gauge_cases(config, gauge), _handover(config))


ALERT: Final = Alert(
    name=NAME,
    severity=Severity.WARNING,
    # The verdict says "shed" for a duplicate too: capacity would only decode it once more.
    bearing=Bearing.EVIDENCE,
    summary="One request is decoded by more than one worker.",
    rules=rules,
    cases=cases,
    excused=NO_COUNTER | NEVER_BELOW_ZERO,
)
