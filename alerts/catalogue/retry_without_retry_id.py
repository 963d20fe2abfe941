"""OrphanRetryWithoutRetryId: retries that nothing joins to their first try."""

from typing import Final

from orphanwatch.alerts import timing
from orphanwatch.alerts.alert import Alert, Bearing, Case, Check, Firing, Rule, Severity
from orphanwatch.alerts.gauge_cases import NEVER_BELOW_ZERO, NO_COUNTER, Gauge, gauge_cases
from orphanwatch.alerts.promql import across_replicas, select, within
from orphanwatch.alerts.traces import LEAD, Series, Trace, flat, lead
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import format_duration

NAME: Final = "OrphanRetryWithoutRetryId"

_POOL: Final = {names.POOL: "overflow"}


def rules(config: Config) -> tuple[Rule, ...]:
    """Return the one rule: a single such retry is enough, it shows for a whole delta window."""
    hold = timing.fault_hold(config)
    shown = within(select(config, names.RETRIES_WITHOUT_RETRY_ID), timing.lookback(config))
    return (
        Rule(
            expr=f"{across_replicas(config, f'max_over_time({shown})')} > 0",
            hold=hold,
            severity=Severity.WARNING,
            description=(
                "Retries in pool {{ $labels.pool }} whose retry id is empty or joins no first "
                f"try: {{{{ $value | humanize }}}} in {format_duration(config.delta_window)}. "
                "Their duplicates can't be counted, and a first try that goes on looks like a "
                "request of its own. Keep overflow closed to these clients; do not scale for "
                "what they send twice."
            ),
            time_to_page=timing.time_to_page(config, hold),
        ),
    )


def _series(retries: Trace) -> tuple[Series, ...]:
    return (Series(names.RETRIES_WITHOUT_RETRY_ID, retries, _POOL),)


def _firing(value: float) -> tuple[Firing, ...]:
    return (Firing(severity=Severity.WARNING, labels=_POOL, value=value),)


def _single(config: Config) -> Case:
    shown = timing.scrapes(config, config.delta_window)
    fires = timing.scrapes(config, timing.fault_hold(config)) + 1
    return Case(
        name="a single retry without id, seen for one delta window, fires",
        series=_series(lead(0) + flat(1, shown) + flat(0, fires + 8)),
        checks=(Check(alert=NAME, scrape=LEAD + fires, firing=_firing(1)),),
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
    return (*gauge_cases(config, gauge), _single(config))


ALERT: Final = Alert(
    name=NAME,
    severity=Severity.WARNING,
    bearing=Bearing.FAULT,
    summary="Retries carry no retry id that joins a first try.",
    rules=rules,
    cases=cases,
    excused=NO_COUNTER | NEVER_BELOW_ZERO,
)
