"""OrphanHeartbeatTooSlow: a lease can die of old age before its deadline lets anybody shed it."""

from typing import Final

from orphanwatch.alerts import timing
from orphanwatch.alerts.alert import Alert, Bearing, Case, Firing, Rule, Severity
from orphanwatch.alerts.gauge_cases import NEVER_BELOW_ZERO, NO_COUNTER, Gauge, gauge_cases
from orphanwatch.alerts.promql import across_replicas, equals, select, within
from orphanwatch.alerts.traces import Series, Trace, flat, lead
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config

NAME: Final = "OrphanHeartbeatTooSlow"

_LABELS: Final = {
    names.POOL: "overflow",
    names.CONDITION: str(names.Condition.HEARTBEAT_TOO_SLOW),
}


def rules(config: Config) -> tuple[Rule, ...]:
    """Return the one rule: the fail-closed condition, as the exporter and the gate see it."""
    hold = timing.fault_hold(config)
    condition = equals(names.CONDITION, names.Condition.HEARTBEAT_TOO_SLOW)
    shown = within(select(config, names.FAIL_CLOSED, condition), timing.lookback(config))
    return (
        Rule(
            expr=f"{across_replicas(config, f'max_over_time({shown})')} > 0",
            hold=hold,
            severity=Severity.WARNING,
            description=(
                "Workers of pool {{ $labels.pool }} beat too slowly for the deadlines of its "
                "tasks: the heartbeat period is above a third of the time that they are given. "
                "A cancel and the end of a worker are seen too late. "
                "Keep overflow closed and shorten the heartbeat; do not scale."
            ),
            time_to_page=timing.time_to_page(config, hold),
        ),
    )


def _series(holds: Trace) -> tuple[Series, ...]:
    return (Series(names.FAIL_CLOSED, holds, _LABELS),)


def _firing(value: float) -> tuple[Firing, ...]:
    return (Firing(severity=Severity.WARNING, labels=_LABELS, value=value),)


def _other_condition(config: Config) -> Case:
    length = 3 * timing.scrapes(config, timing.fault_hold(config))
    other = _LABELS | {names.CONDITION: str(names.Condition.SECOND_DECODER)}
    return Case(
        name="another fail-closed condition is not this one's business",
        series=(*_series(flat(0, length)), Series(names.FAIL_CLOSED, flat(1, length), other)),
        never=(NAME,),
    )


def _one_reading(config: Config) -> Case:
    shown = timing.scrapes(config, timing.settling(config)) - 1
    return Case(
        name="one late heartbeat that a single reading shows is silent",
        series=_series(lead(0) + flat(1, shown) + flat(0, 12)),
        never=(NAME,),
    )


def cases(config: Config) -> tuple[Case, ...]:
    """Return the stories that prove the rule."""
    gauge = Gauge(
        alert=NAME,
        hold=timing.fault_hold(config),
        series=_series,
        firing=_firing,
        at=0,
        above=1,
    )
    return (*gauge_cases(config, gauge), _other_condition(config), _one_reading(config))


ALERT: Final = Alert(
    name=NAME,
    severity=Severity.WARNING,
    bearing=Bearing.FAULT,
    summary="Overflow heartbeats are too slow for the deadlines.",
    rules=rules,
    cases=cases,
    excused=NO_COUNTER | NEVER_BELOW_ZERO,
)
