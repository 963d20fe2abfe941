"""All alerts, one module each, in the order of their weight."""

from typing import Final

from orphanwatch.alerts.alert import Alert
from orphanwatch.alerts.catalogue import (
    cancel_slower_than_grace,
    detector_blind,
    duplicate_decoders,
    grace_unmeasured,
    heartbeat_too_slow,
    leases_alive,
    ledger_miskeyed,
    overflow_closed,
    pools_mixed,
    retry_without_retry_id,
    shed_overdue,
    split_signal,
    tokens_accruing,
    waste_budget_burn,
)

ALERTS: Final[tuple[Alert, ...]] = (
    tokens_accruing.ALERT,
    leases_alive.ALERT,
    split_signal.ALERT,
    detector_blind.ALERT,
    duplicate_decoders.ALERT,
    shed_overdue.ALERT,
    retry_without_retry_id.ALERT,
    ledger_miskeyed.ALERT,
    heartbeat_too_slow.ALERT,
    pools_mixed.ALERT,
    cancel_slower_than_grace.ALERT,
    grace_unmeasured.ALERT,
    overflow_closed.ALERT,
    waste_budget_burn.ALERT,
)
