"""OrphanRetryWithoutRetryId: retries that nothing joins to their first try."""

from typing import Final

from orphanwatch.alerts import timing
from orphanwatch.alerts.alert import Alert, Bearing, Case, Check, Rule, Severity
from orphanwatch.alerts.gauge_cases import NEVER_BELOW_ZERO, NO_COUNTER
from orphanwatch.alerts.traces import LEAD, flat, lead
from orphanwatch.alerts.zero_gauge import ZeroGauge
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import format_duration

NAME: Final = "OrphanRetryWithoutRetryId"

_GAUGE: Final = ZeroGauge(alert=NAME, family=names.RETRIES_WITHOUT_RETRY_ID, hold=timing.fault_hold)


def rules(config: Config) -> tuple[Rule, ...]:
    """Return the one rule: a single such retry is enough, it shows for a whole delta window."""
    description = (
        "Retries in pool {{ $labels.pool }} whose retry id is empty or joins no first "
        f"try: {{{{ $value | humanize }}}} in {format_duration(config.delta_window)}. "
        "Their duplicates can't be counted, and a first try that goes on looks like a "
        "request of its own. Keep overflow closed to these clients; do not scale for "
        "what they send twice."
    )
    return (_GAUGE.rule(config, description),)


def _single(config: Config) -> Case:
    shown = timing.scrapes(config, config.delta_window)
    fires = timing.scrapes(config, timing.fault_hold(config)) + 1
    return Case(
        name="a single retry without id, seen for one delta window, fires",
        series=_GAUGE.series(lead(0) + flat(1, shown) + flat(0, fires + 8)),
        checks=(Check(alert=NAME, scrape=LEAD + fires, firing=_GAUGE.firing(1)),),
    )


def cases(config: Config) -> tuple[Case, ...]:
    """Return the stories that prove the rule."""
    return (*_GAUGE.cases(config), _single(config))


ALERT: Final = Alert(
    name=NAME,
    severity=Severity.WARNING,
    bearing=Bearing.FAULT,
    summary="Retries carry no retry id that joins a first try.",
    rules=rules,
    cases=cases,
    excused=NO_COUNTER | NEVER_BELOW_ZERO,
)
