"""OrphanDuplicateDecoders: two workers decode for one request."""

from typing import Final

from orphanwatch.alerts import timing
from orphanwatch.alerts.alert import Alert, Bearing, Case, Rule, Severity
from orphanwatch.alerts.gauge_cases import NEVER_BELOW_ZERO, NO_COUNTER
from orphanwatch.alerts.traces import flat, lead
from orphanwatch.alerts.zero_gauge import ZeroGauge
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config

NAME: Final = "OrphanDuplicateDecoders"

# A few graces, since a cancelled first try may still be stopping.
_GAUGE: Final = ZeroGauge(alert=NAME, family=names.DUPLICATE_IN_FLIGHT, hold=timing.leases_hold)


def rules(config: Config) -> tuple[Rule, ...]:
    """Return the one rule."""
    description = (
        "Leases beyond the first for one and the same request in pool "
        "{{ $labels.pool }}: {{ $value | humanize }}. The same answer is decoded more "
        "than once. Stop the extra decoders and close overflow; do not scale, and do "
        "not retry."
    )
    slowest = max(config.grace_of(pool) for pool in config.pool_names)
    return (_GAUGE.rule(config, description, before=slowest),)


def _handover(config: Config) -> Case:
    shown = timing.scrapes(config, timing.few_graces(config)) - 1
    rest = timing.scrapes(config, timing.leases_hold(config)) + 6
    return Case(
        name="a retry whose first try stops within a few graces is silent",
        series=_GAUGE.series(lead(0) + flat(1, shown) + flat(0, rest)),
        never=(NAME,),
    )


def cases(config: Config) -> tuple[Case, ...]:
    """Return the stories that prove the rule."""
    return (*_GAUGE.cases(config), _handover(config))


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
