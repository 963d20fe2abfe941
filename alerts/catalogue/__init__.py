"""All alerts, one module each, in the order of their weight."""

from typing import Final

from orphanwatch.alerts.alert import Alert
from orphanwatch.alerts.catalogue import (
    detector_blind,
    leases_alive,
    split_signal,
    tokens_accruing,
)

ALERTS: Final[tuple[Alert, ...]] = (
    tokens_accruing.ALERT,
    leases_alive.ALERT,
    split_signal.ALERT,
    detector_blind.ALERT,
)
