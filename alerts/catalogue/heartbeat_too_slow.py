"""OrphanHeartbeatTooSlow: a lease can die of old age before its deadline lets anybody shed it."""

from typing import Final

from orphanwatch.alerts import timing
from orphanwatch.alerts.alert import Alert, Bearing, Case, Rule, Severity
from orphanwatch.alerts.gauge_cases import NEVER_BELOW_ZERO, NO_COUNTER
from orphanwatch.alerts.traces import flat, lead
from orphanwatch.alerts.zero_gauge import ZeroGauge
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.signals.admission import HEARTBEAT_SLACK

NAME: Final = "OrphanHeartbeatTooSlow"

# The fail-closed condition, as the exporter and the gate see it.
_GAUGE: Final = ZeroGauge(
    alert=NAME,
    family=names.FAIL_CLOSED,
    hold=timing.fault_hold,
    only={names.CONDITION: str(names.Condition.HEARTBEAT_TOO_SLOW)},
)


def rules(config: Config) -> tuple[Rule, ...]:
    """Return the one rule."""
    description = (
        "Workers of pool {{ $labels.pool }} beat too slowly for the deadlines of its "
        f"tasks: the heartbeat period is above {HEARTBEAT_SLACK:g} times a third of the time that "
        "they are given. "
        "A cancel and the end of a worker are seen too late. "
        "Keep overflow closed and shorten the heartbeat; do not scale."
    )
    return (_GAUGE.rule(config, description),)


def _other_condition(config: Config) -> Case:
    length = 3 * timing.scrapes(config, timing.fault_hold(config))
    other = {names.CONDITION: str(names.Condition.SECOND_DECODER)}
    return Case(
        name="another fail-closed condition is not this one's business",
        series=_GAUGE.series(flat(0, length)) + _GAUGE.series(flat(1, length), **other),
        never=(NAME,),
    )


def _one_reading(config: Config) -> Case:
    shown = timing.scrapes(config, timing.settling(config)) - 1
    return Case(
        name="one late heartbeat that a single reading shows is silent",
        series=_GAUGE.series(lead(0) + flat(1, shown) + flat(0, 12)),
        never=(NAME,),
    )


def cases(config: Config) -> tuple[Case, ...]:
    """Return the stories that prove the rule."""
    return (*_GAUGE.cases(config), _other_condition(config), _one_reading(config))


ALERT: Final = Alert(
    name=NAME,
    severity=Severity.WARNING,
    bearing=Bearing.FAULT,
    summary="Overflow heartbeats are too slow for the deadlines.",
    rules=rules,
    cases=cases,
    excused=NO_COUNTER | NEVER_BELOW_ZERO,
)
