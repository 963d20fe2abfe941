"""OrphanWasteBudgetBurn: orphan tokens eat up the waste budget faster than it may last."""

from typing import Final

from orphanwatch.alerts.alert import Alert, Bearing, Severity
from orphanwatch.alerts.burn_cases import cases
from orphanwatch.alerts.burn_rules import NAME, recordings, rules

ALERT: Final = Alert(
    name=NAME,
    severity=Severity.CRITICAL,
    bearing=Bearing.BUDGET,
    summary="Orphan tokens burn the waste budget.",
    rules=rules,
    cases=cases,
    recordings=recordings,
)
