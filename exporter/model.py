"""The facts that stores state, and what one evaluation makes of them: frozen values, no logic.

``None`` in a fact is "the store does not say"; a store that could not be read is None in
``Readings``, and what depends on it is absent from the ``Evaluation``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.names import (
    Action,
    Cause,
    Condition,
    Family,
    RejectReason,
    StoreName,
)


class Task(NamedTuple):
    """One attempt at a request. An id that is empty in the store is ``None`` and joins nothing."""

    task_id: str | None
    retry_id: str | None
    attempt: int
    pool: str | None
    submitted_at: Instant | None
    deadline_at: Instant | None
    cancelled_at: Instant | None
    finished_at: Instant | None
    ok: bool
    cancellable: bool


class Lease(NamedTuple):
    """A worker's claim on a task."""

    task_id: str | None
    worker_id: str | None
    pool: str | None
    acquired_at: Instant | None
    heartbeat_at: Instant | None
    released_at: Instant | None


class Completion(NamedTuple):
    """A task that finished with outcome ok, in time and before any cancel of its own."""

    retry_id: str
    task_id: str | None
    finished_at: Instant


class Stop(NamedTuple):
    """The moment nobody waited for a task any more, and why."""

    at: Instant
    cause: Cause


class Cutoff(NamedTuple):
    """What a ledger needs to split a task's charges."""

    task_id: str
    at: Instant
    """Charges strictly after this are orphan."""
    started_at: Instant | None
    """When the task started, for ``final`` rows that do not say: first lease, else submission."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charges:
    """What one task was charged past its cutoff, up to the instant."""

    charged: float = 0.0
    prorated: float = 0.0
    straddling: float = 0.0
    delta_charged: float = 0.0
    delta_prorated: float = 0.0
    charged_before: float = 0.0
    """The part of ``charged`` from before counting began; likewise below."""
    prorated_before: float = 0.0
    straddling_before: float = 0.0
    last_charge: Instant | None = None
    """The newest charge of the task, before or after the cutoff."""
    last_orphan_charge: Instant | None = None


class KeySpend(NamedTuple):
    """What one ledger key was charged in the newest windows."""

    spend: float
    """In the spend window."""
    last_charge: Instant | None
    """In the delta window."""
    rows: int
    """Accepted rows in the spend window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerWindow:
    """All charges of the newest windows, by key; ``None`` is every key that is no id."""

    by_key: Mapping[str | None, KeySpend]
    baseline_tokens: float | None
    """None where an unkeyed ledger can't tell, or it is not whole; likewise below."""
    spend_rows: int | None
    """Accepted rows in the spend window."""
    is_keyed: bool = True
    """False where the ledger does not say whom it charged: then nothing is known by key."""
    unkeyed_tokens: float | None = None
    """What such a ledger says was spent in the spend window."""
    is_whole: bool = True
    """False where the ledger is not watched for long enough to know all of the spend window."""

    @property
    def spend_tokens(self) -> float | None:
        """All charges in the spend window; None is unknown."""
        if not self.is_keyed:
            return self.unkeyed_tokens
        if not self.is_whole:
            return None
        return sum(spend.spend for spend in self.by_key.values())


class QueueSample(NamedTuple):
    """The newest sample of the admission queue."""

    sampled_at: Instant | None
    depth: float | None
    age_seconds: float | None
    in_flight: float | None
    admission_cap: float | None


@dataclass(frozen=True, slots=True)
class Rejected:
    """Rows that could not be used: ``key`` tells the row, so that it is counted once."""

    store: StoreName
    reason: RejectReason
    key: str
    count: int = 1


class Attached(NamedTuple):
    """How many tasks somebody waits for, among those the gateway summed itself."""

    now: float
    spend_mean: float
    baseline_mean: float


class Budget(NamedTuple):
    """The time one task was given: deadline less submission, in microseconds."""

    task_id: str | None
    pool: str | None
    submitted_at: Instant
    length: int


NOT_CONFIGURED: Final = "is not configured"
"""The problem of a store that the config does not name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreHealth:
    """Whether a store could be read for this evaluation."""

    up: bool
    problem: str = ""
    last_success: Instant | None = None
    clock_skew_seconds: float | None = None


class Sample(NamedTuple):
    """One sample of a family: the values of its labels in the family's order."""

    labels: tuple[str, ...]
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphan:
    """A watched task with orphan tokens or an orphan lease. ``None`` is unknown."""

    task_id: str | None
    retry_id: str | None
    pool: str
    worker_id: str | None
    cause: Cause
    abandoned_at: Instant
    cutoff_at: Instant
    orphan_tokens: float | None
    lease_live: bool | None
    seconds_past_cutoff: float


class Finding(NamedTuple):
    """Whether a fail-closed condition holds, and what that rests on."""

    holds: bool | None
    """None is unknown, which never opens admission."""
    value: float | None = None
    """What was seen, in the condition's unit; None is unknown, or nothing was there to see."""
    threshold: float | None = None
    """Above this it holds (``no_cancel_channel``: from this on); None is nothing to judge by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What to do, and why, in sentences."""

    action: Action
    reasons: tuple[str, ...]


class Tally(NamedTuple):
    """The orphan tokens of one watched task so far: what the counters are made of."""

    task_id: str
    retry_id: str | None
    pool: str
    cause: Cause
    charged: float
    prorated: float
    straddling: float
    charged_before: float
    prorated_before: float
    straddling_before: float


class Propagation(NamedTuple):
    """How long one client's cancel took to stop its task."""

    task_id: str
    pool: str
    stopped_at: Instant
    last_sign: Instant
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Everything that is known at one instant. A family that is absent is unknown."""

    at: Instant
    gauges: Mapping[Family, tuple[Sample, ...]]
    verdict: Verdict
    orphans: tuple[Orphan, ...]
    stores: Mapping[StoreName, StoreHealth]
    tallies: tuple[Tally, ...] | None
    """None while the ledger or the gateway can't be read."""
    propagations: tuple[Propagation, ...] | None
    """The settled ones; None while a store they rest on can't be read."""
    open_tasks: tuple[str, ...]
    """Tasks whose propagation is open: to be looked at again, however old."""
    rejected: tuple[Rejected, ...]
    last_evidence: Instant | None
    """The newest orphan charge or end of an orphan lease that is known."""
    conditions: Mapping[str, Mapping[Condition, Finding]] = field(default_factory=dict)
    """What may close overflow admission, for each overflow pool."""
    notes: tuple[str, ...] = field(default=())
    """What can't be known in this configuration, in sentences."""
