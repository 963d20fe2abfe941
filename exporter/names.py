"""Every name the product owns, written once: metrics, labels, and closed sets of label values.

Exporter, rules, dashboards, pages and tests all take their names from here.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final


class StoreName(StrEnum):
    """The four logical stores."""

    GATEWAY = "gateway"
    LEASES = "leases"
    LEDGER = "ledger"
    QUEUE = "queue"


ARM_STORES: Final = (StoreName.GATEWAY, StoreName.LEASES, StoreName.LEDGER)
"""The stores that the two arms need: without one of them the detector is blind."""


class Role(StrEnum):
    """What a pool is for."""

    PAID = "paid"
    OVERFLOW = "overflow"


class Cause(StrEnum):
    """Why nobody waits for a task any more."""

    CLIENT_CANCEL = "client_cancel"
    DEADLINE = "deadline"
    SIBLING_COMPLETED = "sibling_completed"
    STARTED_AFTER_STOP = "started_after_stop"
    AFTER_FINISH = "after_finish"


class Basis(StrEnum):
    """How orphan tokens are known: charged row by row, or spread over a straddling final row."""

    CHARGED = "charged"
    PRORATED = "prorated"


class KeyKind(StrEnum):
    """What a ledger key that is no known task is instead."""

    WORKER = "worker"
    EMPTY = "empty"
    UNKNOWN = "unknown"


class Join(StrEnum):
    """Whether something has its counterpart in another store, by task id."""

    WITH = "with"
    WITHOUT = "without"
    NO_ID = "no_id"
    """It carries no id that could be looked up."""


class GraceSource(StrEnum):
    """Where the grace in force comes from."""

    PROPOSAL = "proposal"
    MEASURED = "measured"


class Action(StrEnum):
    """The verdict: what the on-call should do."""

    SHED = "shed"
    BLIND = "blind"
    HOLD = "hold"
    SCALE = "scale"


class Condition(StrEnum):
    """Why overflow admission fails closed."""

    CANCEL_SLOWER_THAN_SLACK = "cancel_slower_than_slack"
    NO_CANCEL_CHANNEL = "no_cancel_channel"
    RETRY_ID_MISSING = "retry_id_missing"
    LEDGER_KEYED_BY_HOST = "ledger_keyed_by_host"
    HEARTBEAT_TOO_SLOW = "heartbeat_too_slow"
    SECOND_DECODER = "second_decoder"
    ORPHAN_TOKENS = "orphan_tokens"
    BLIND = "blind"


class RejectReason(StrEnum):
    """Why a row of a store was not used."""

    ADJUSTMENT = "adjustment"
    REGRESSION = "regression"
    UNKNOWN_TOKENS = "unknown_tokens"
    UNKNOWN_START = "unknown_start"
    INVALID_TOKENS = "invalid_tokens"
    INVALID_NUMBER = "invalid_number"
    INVALID_INSTANT = "invalid_instant"
    INVALID_RECORD = "invalid_record"
    MISSING_INSTANT = "missing_instant"
    DUPLICATE_TASK_ID = "duplicate_task_id"
    DUPLICATE_ENTRY_ID = "duplicate_entry_id"


OTHER_POOL: Final = "other"
"""The pool label of a task whose pool is not configured."""

POOL: Final = "pool"
CAUSE: Final = "cause"
BASIS: Final = "basis"
STORE: Final = "store"
REASON: Final = "reason"
KEY: Final = "key"
LEDGER: Final = "ledger"
TASK: Final = "task"
SOURCE: Final = "source"
CONDITION: Final = "condition"
VERSION: Final = "version"
LE: Final = "le"
"""The upper edge of a histogram's bucket: Prometheus' own label."""


class Kind(StrEnum):
    """The Prometheus type of a family."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One metric family: its sample name (a counter's ends in ``_total``), kind, labels, help."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str

    def __str__(self) -> str:
        """Return the name, so that a family can stand inside a PromQL f-string."""
        return self.name

    @property
    def bucket(self) -> "Family":
        """The samples of a histogram's buckets."""
        return replace(self, name=f"{self.name}_bucket", labels=(*self.labels, LE))

    @property
    def sum(self) -> "Family":
        """The samples of what a histogram's observations add up to."""
        return replace(self, name=f"{self.name}_sum")

    @property
    def count(self) -> "Family":
        """The samples of how many observations a histogram has."""
        return replace(self, name=f"{self.name}_count")


_families: dict[str, Family] = {}


def _family(name: str, kind: Kind, labels: tuple[str, ...], help_text: str) -> Family:
    family = Family(name=name, kind=kind, labels=labels, help=help_text)
    _families[name] = family
    return family


def _gauge(name: str, help_text: str, *labels: str) -> Family:
    return _family(name, Kind.GAUGE, labels, help_text)


def _counter(name: str, help_text: str, *labels: str) -> Family:
    return _family(name, Kind.COUNTER, labels, help_text)


def _histogram(name: str, help_text: str, *labels: str) -> Family:
    return _family(name, Kind.HISTOGRAM, labels, help_text)


TOKEN_DELTA: Final = _gauge(
    "orphan_token_delta", "Orphan charges in the delta window; must stay at zero.", POOL
)
TOKENS_TOTAL: Final = _counter(
    "orphan_tokens_total",
    "Tokens charged to tasks that nobody waited for, past the cutoff.",
    POOL,
    CAUSE,
    BASIS,
)
STRADDLING_TOKENS_TOTAL: Final = _counter(
    "orphan_straddling_tokens_total",
    "Upper bound behind prorated orphan tokens: whole rows that straddle a cutoff.",
    POOL,
)
LEASES: Final = _gauge(
    "orphan_leases", "Live leases of abandoned tasks, past the cutoff.", POOL, CAUSE
)
LEASES_CONFIRMED: Final = _gauge(
    "orphan_leases_confirmed", "Orphan leases with a heartbeat after the cutoff.", POOL
)
SECOND_DECODER_LEASES: Final = _gauge(
    "orphan_second_decoder_leases",
    "Orphan leases of tasks of which another lease ended after the stop: one worker heard the "
    "cancel, this one did not.",
    POOL,
)
LEASE_OLDEST_SECONDS: Final = _gauge(
    "orphan_lease_oldest_seconds", "Longest time past the cutoff among orphan leases.", POOL
)
ABANDONED_TASKS: Final = _gauge(
    "orphan_abandoned_tasks", "Abandoned tasks whose stop lies in the horizon.", POOL, CAUSE
)
CANCEL_PROPAGATION_SECONDS: Final = _histogram(
    "orphan_cancel_propagation_seconds",
    "Time from a client's cancel to the last sign of work, of tasks that have stopped.",
    POOL,
)
CANCEL_PROPAGATION_OPEN: Final = _gauge(
    "orphan_cancel_propagation_open", "Cancelled tasks that still hold an unreleased lease.", POOL
)
GRACE_SECONDS: Final = _gauge(
    "orphan_grace_seconds", "Cancel grace in force, a proposal or measured.", POOL, SOURCE
)
GRACE_VALID_UNTIL: Final = _gauge(
    "orphan_grace_valid_until_timestamp_seconds",
    "Until when the measured grace in force holds; absent for a pool whose grace is a proposal.",
    POOL,
)
LIVE_LEASES: Final = _gauge("orphan_live_leases", "Leases with a fresh heartbeat.", POOL)
EXPIRED_LEASES: Final = _gauge(
    "orphan_expired_leases", "Unreleased leases without a fresh heartbeat: worker gone.", POOL
)
LEAKED_LEASES: Final = _gauge(
    "orphan_leaked_leases", "Live leases of tasks that finished and were not abandoned.", POOL
)
LEASE_CAP: Final = _gauge("orphan_lease_cap", "Configured cap on live leases.", POOL)
LEASE_AGE_SECONDS_MAX: Final = _gauge(
    "orphan_lease_age_seconds_max", "Longest time since a heartbeat, among live leases.", POOL
)
HEARTBEAT_PERIOD_SECONDS: Final = _gauge(
    "orphan_heartbeat_period_seconds", "Declared or largest seen heartbeat period.", POOL
)
DEADLINE_SLACK_SECONDS_MIN: Final = _gauge(
    "orphan_deadline_slack_seconds_min", "Least time to a deadline, among live leases.", POOL
)
DEADLINE_BUDGET_SECONDS: Final = _gauge(
    "orphan_deadline_budget_seconds",
    "Time that an overflow pool's tasks are given: 5th percentile of those submitted in the spend "
    "window; absent under five of them.",
    POOL,
)
SHED_DUE_LEASES: Final = _gauge(
    "orphan_shed_due_leases", "Live leases with lease age plus grace above deadline slack.", POOL
)
DUPLICATE_IN_FLIGHT: Final = _gauge(
    "orphan_duplicate_in_flight", "Live leases beyond the first, for one request.", POOL
)
RETRIES_WITHOUT_RETRY_ID: Final = _gauge(
    "orphan_retries_without_retry_id", "Recent retries whose retry id joins no first try.", POOL
)
UNMATCHED_TOKENS: Final = _gauge(
    "orphan_unmatched_tokens", "Tokens charged in the spend window to a key that is no task.", KEY
)
JOIN_ABANDONED_TASKS: Final = _gauge(
    "orphan_join_abandoned_tasks",
    "Abandoned tasks whose stop lies in the horizon, by whether the ledger has a usable row of "
    "theirs; one that never decoded, or whose row is yet to land, rightly has none.",
    LEDGER,
)
JOIN_LEDGER_ROWS: Final = _gauge(
    "orphan_join_ledger_rows",
    "Usable ledger rows of the spend window, by whether their key is a known task; without is "
    "unknown where a request has no gateway row while it runs.",
    TASK,
)
JOIN_LEASES: Final = _gauge(
    "orphan_join_leases",
    "Unreleased leases, by whether their task id is a known task; without is unknown where a "
    "request has no gateway row while it runs.",
    TASK,
)
UNCANCELLABLE_ON_OVERFLOW: Final = _gauge(
    "orphan_uncancellable_on_overflow", "Attached tasks in an overflow pool, not cancellable."
)
WORKERS_IN_BOTH_POOLS: Final = _gauge(
    "orphan_workers_in_both_pools", "Workers with live leases for both paid and overflow pools."
)
LEASES_OUTSIDE_POOL: Final = _gauge(
    "orphan_leases_outside_pool", "Live leases whose pool has another role than the task's.", POOL
)
QUEUE_DEPTH: Final = _gauge("orphan_queue_depth", "Requests waiting, newest queue sample.")
QUEUE_AGE_SECONDS: Final = _gauge(
    "orphan_queue_age_seconds", "Age of the oldest waiting request, newest queue sample."
)
QUEUE_IN_FLIGHT: Final = _gauge(
    "orphan_queue_in_flight", "Requests in flight, newest queue sample."
)
QUEUE_ADMISSION_CAP: Final = _gauge(
    "orphan_queue_admission_cap", "Admission cap, newest queue sample or configured."
)
SPEND_TOKENS_PER_SECOND: Final = _gauge(
    "orphan_spend_tokens_per_second", "All charges in the spend window, per second."
)
SPEND_BASELINE_TOKENS_PER_SECOND: Final = _gauge(
    "orphan_spend_baseline_tokens_per_second", "All charges in the baseline window, per second."
)
ATTACHED_TASKS: Final = _gauge(
    "orphan_attached_tasks", "Mean number of tasks somebody waits for, in the spend window."
)
ATTACHED_BASELINE_TASKS: Final = _gauge(
    "orphan_attached_baseline_tasks",
    "Mean number of tasks somebody waits for, in the baseline window.",
)
IN_FLIGHT_GAP: Final = _gauge(
    "orphan_in_flight_gap", "What queue and engine hold beyond what somebody waits for."
)
QUEUE_CALM: Final = _gauge("orphan_queue_calm", "1 if depth is calm under the admission cap.")
SPEND_RISING: Final = _gauge(
    "orphan_spend_rising", "1 if spend rises with nobody to explain it, or stays as clients leave."
)
SPLIT_SIGNAL: Final = _gauge(
    "orphan_split_signal", "1 if the queue is calm while spend rises after clients left."
)
FAIL_CLOSED: Final = _gauge(
    "orphan_fail_closed", "1 if overflow admission fails closed on this condition.", POOL, CONDITION
)
OVERFLOW_ADMISSION_ALLOWED: Final = _gauge(
    "orphan_overflow_admission_allowed", "1 if no fail-closed condition holds.", POOL
)
STORE_UP: Final = _gauge("orphan_store_up", "1 if the store could be read.", STORE)
STORE_LAST_SUCCESS: Final = _gauge(
    "orphan_store_last_success_timestamp_seconds", "When the store was last read.", STORE
)
STORE_CLOCK_SKEW: Final = _gauge(
    "orphan_store_clock_skew_seconds", "The store's clock less ours.", STORE
)
ROWS_REJECTED_TOTAL: Final = _counter(
    "orphan_rows_rejected_total", "Rows of a store that could not be used.", STORE, REASON
)
REFRESH_DURATION_SECONDS: Final = _histogram(
    "orphan_refresh_duration_seconds", "Time one refresh took."
)
CONFIG_RELOAD_SUCCESSFUL: Final = _gauge(
    "orphanwatch_config_last_reload_successful",
    "1 if the config file was taken when it was last loaded, 0 if the one before runs on.",
)
CONFIG_RELOAD_SUCCEEDED_AT: Final = _gauge(
    "orphanwatch_config_last_reload_success_timestamp_seconds",
    "When a config was last taken, at the start or by a reload.",
)
BUILD_INFO: Final = _gauge("orphanwatch_build_info", "The running version.", VERSION)

FAMILIES: Final[tuple[Family, ...]] = tuple(_families.values())
"""Every family, in the order of the page."""

OWN_LABELS: Final = frozenset(label for family in FAMILIES for label in family.labels) | {LE}
"""Every label that our samples have by themselves, whoever scrapes them."""

PROPAGATION_BUCKETS: Final = (
    0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0,
    5.0, 7.5, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0,
)  # fmt: skip
"""Upper edges of the propagation histogram, in seconds."""

REFRESH_BUCKETS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper edges of the refresh duration histogram, in seconds."""

STORE_REASONS: Final[dict[StoreName, tuple[RejectReason, ...]]] = {
    StoreName.GATEWAY: (
        RejectReason.DUPLICATE_TASK_ID,
        RejectReason.INVALID_INSTANT,
        RejectReason.INVALID_NUMBER,
        RejectReason.INVALID_RECORD,
    ),
    StoreName.LEASES: (
        RejectReason.INVALID_INSTANT,
        RejectReason.INVALID_NUMBER,
        RejectReason.INVALID_RECORD,
    ),
    StoreName.LEDGER: (
        RejectReason.ADJUSTMENT,
        RejectReason.REGRESSION,
        RejectReason.UNKNOWN_TOKENS,
        RejectReason.UNKNOWN_START,
        RejectReason.INVALID_TOKENS,
        RejectReason.INVALID_INSTANT,
        RejectReason.INVALID_NUMBER,
        RejectReason.INVALID_RECORD,
        RejectReason.MISSING_INSTANT,
        RejectReason.DUPLICATE_ENTRY_ID,
    ),
    StoreName.QUEUE: (
        RejectReason.INVALID_INSTANT,
        RejectReason.INVALID_NUMBER,
        RejectReason.INVALID_RECORD,
    ),
}
"""Which reasons a store can give: its zero-initialised label sets."""
