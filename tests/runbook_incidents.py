"""What each alert's incident looks like in Prometheus: the families that differ from health."""

from collections.abc import Mapping
from typing import Final

from orphanwatch.exporter import names
from orphanwatch.exporter.names import Family

INCIDENTS: Final[Mapping[str, Mapping[Family, str]]] = {
    "OrphanTokensAccruing": {
        names.TOKEN_DELTA: "340",
        names.TOKENS_TOTAL: "0+40x60",
        names.LEASES_CONFIRMED: "1",
    },
    "OrphanLeasesAlive": {
        names.LEASES: "1",
        names.LEASES_CONFIRMED: "1",
        names.LEASE_OLDEST_SECONDS: "0+15x60",
    },
    "OrphanSplitSignal": {
        names.SPLIT_SIGNAL: "1",
        names.SPEND_RISING: "1",
        names.UNMATCHED_TOKENS: "900",
    },
    "OrphanDetectorBlind": {names.STORE_UP: "0", names.STORE_LAST_SUCCESS: "0"},
    "OrphanDuplicateDecoders": {
        names.DUPLICATE_IN_FLIGHT: "1",
        names.LEASES: "1",
        names.FAIL_CLOSED: "1",
    },
    "OrphanShedOverdue": {names.SHED_DUE_LEASES: "1", names.DEADLINE_SLACK_SECONDS_MIN: "0.5"},
    "OrphanRetryWithoutRetryId": {
        names.RETRIES_WITHOUT_RETRY_ID: "2",
        names.DUPLICATE_IN_FLIGHT: "1",
        names.FAIL_CLOSED: "1",
    },
    "OrphanLedgerMiskeyed": {names.UNMATCHED_TOKENS: "900", names.JOIN_LEDGER_ROWS: "9"},
    "OrphanHeartbeatTooSlow": {
        names.HEARTBEAT_PERIOD_SECONDS: "10",
        names.FAIL_CLOSED: "1",
        names.EXPIRED_LEASES: "1",
    },
    "OrphanPoolsMixed": {
        names.WORKERS_IN_BOTH_POOLS: "1",
        names.LEASES_OUTSIDE_POOL: "1",
        names.UNCANCELLABLE_ON_OVERFLOW: "1",
    },
    "OrphanCancelSlowerThanGrace": {
        names.CANCEL_PROPAGATION_SECONDS: "0+4x60",
        names.CANCEL_PROPAGATION_OPEN: "2",
        names.LEASES: "1",
    },
    "OrphanGraceUnmeasured": {
        names.GRACE_VALID_UNTIL: "0",
        names.CANCEL_PROPAGATION_SECONDS: "0+4x60",
        names.CANCEL_PROPAGATION_OPEN: "2",
    },
    "OrphanOverflowClosed": {
        names.OVERFLOW_ADMISSION_ALLOWED: "0",
        names.FAIL_CLOSED: "1",
        names.STORE_UP: "0",
    },
    "OrphanWasteBudgetBurn": {names.TOKENS_TOTAL: "0+40x60", names.TOKEN_DELTA: "340"},
}

SERVICE_HEALTH: Final[Mapping[Family, str]] = {names.LIVE_LEASES: "0"}
"""What the service page calls healthy at each of its steps: the last one waits for no lease."""

SERVICE_INCIDENT: Final[Mapping[Family, str]] = {
    names.DEADLINE_SLACK_SECONDS_MIN: "0",
    names.QUEUE_AGE_SECONDS: "14",
    names.TOKEN_DELTA: "340",
    names.LIVE_LEASES: "2",
    names.SHED_DUE_LEASES: "1",
    names.OVERFLOW_ADMISSION_ALLOWED: "0",
    names.SPLIT_SIGNAL: "1",
    names.DUPLICATE_IN_FLIGHT: "1",
    names.CANCEL_PROPAGATION_OPEN: "5",
    names.RETRIES_WITHOUT_RETRY_ID: "3",
    names.UNMATCHED_TOKENS: "900",
    names.HEARTBEAT_PERIOD_SECONDS: "9",
}
"""Everything that the service page asks about is broken."""

NOT_STAGED: Final[Mapping[str, Mapping[int, str]]] = {
    "OrphanSplitSignal": {
        0: "the queue of that incident is not calm",
        1: "its faults charge from the first second on, so spend does not rise",
    },
    "OrphanDetectorBlind": {
        0: "the exporter is there all the while",
        1: "so is every store",
        2: "and they are read all the time",
    },
    "OrphanShedOverdue": {0: "one lease of about ten is overdue, which is on the edge"},
    "OrphanGraceUnmeasured": {0: "the grace of its overflow pool was just measured"},
    "OrphanOverflowClosed": {2: "every store is readable"},
    "OrphanLedgerMiskeyed": {1: "what is charged wrongly is little beside the spend"},
}
"""Checks, by alert and counted from 0, that ``incident.py`` does not make real, and why."""

NOT_STAGED_FOR_SERVICE: Final[Mapping[str, str]] = {
    "queue_age": "nothing waits for long",
    "split_signal": "the queue is not calm",
    "cancel_slower_than_slack": "the deadlines are long beside the grace",
}
"""The same for the checks of the service page."""
