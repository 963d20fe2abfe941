"""Everything that one evaluation rests on: the answers of the stores, frozen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from orphanwatch.exporter.instants import Instant, Micros
from orphanwatch.exporter.model import (
    Attached,
    Budget,
    Charges,
    Lease,
    LedgerWindow,
    QueueSample,
    Rejected,
    Stop,
    StoreHealth,
    Task,
)
from orphanwatch.exporter.names import Cause, StoreName


@dataclass(frozen=True, kw_only=True)
class Watch:
    """A task that nobody waits for: past its cutoff its work is orphan."""

    task: Task
    stop: Stop
    """Of an after-finish task: its finish."""
    cutoff: Instant
    pool: str
    leases: Sequence[Lease] = field(default=())
    """All of the task, released ones too; empty where the leases can't be read."""

    @cached_property
    def cause(self) -> Cause:
        """Why, as it is labelled: a first lease after the stop is a cause of its own."""
        if self.stop.cause is Cause.AFTER_FINISH or not self.leases:
            return self.stop.cause
        acquired = [lease.acquired_at for lease in self.leases]
        if any(instant is None or instant <= self.stop.at for instant in acquired):
            return self.stop.cause
        return Cause.STARTED_AFTER_STOP

    @property
    def is_abandoned(self) -> bool:
        """Return whether the task has a stop, and did not simply finish."""
        return self.stop.cause is not Cause.AFTER_FINISH


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayFacts:
    """What the gateway says."""

    tasks: Mapping[str, Task]
    """Every task that was looked at one by one, by id: every id that anything named is here, if
    it is a task's."""
    counted: Sequence[Task]
    """The tasks that ``attached`` leaves to be counted one by one, those without an id too."""
    stops: Mapping[int, Stop]
    """By ``id()`` of the task: every stop that has come by now."""
    states_submissions: bool
    """False where the store does not say when a task was submitted."""
    attached: Attached | None
    """The rest, summed by the store; None where submissions can't be known."""
    budgets: Sequence[Budget]
    least_attempts: Mapping[str, int]
    """By retry id, of the recent retries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFacts:
    """What the leases say."""

    unreleased: Sequence[Lease]
    by_task: Mapping[str, Sequence[Lease]]
    """All leases of the tasks that needed all of them, the unreleased ones of all others."""
    workers: frozenset[str]
    """Ledger keys that are a worker's id."""
    beats: bool
    """False where the store states no heartbeats: its leases live until release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFacts:
    """What the ledger says."""

    window: LedgerWindow
    charges: Mapping[str, Charges]
    """Of the watched and the older tasks, by id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """The answers of one reading; what is None could not be read."""

    at: Instant
    stores: Mapping[StoreName, StoreHealth]
    gateway: GatewayFacts | None
    leases: LeaseFacts | None
    ledger: LedgerFacts | None
    """None also where the ledger does not say whom it charged: its spend alone is known then."""
    spent: LedgerWindow | None
    """What was spent in the newest windows, by whomever."""
    queue: QueueSample | None
    """The newest sample; None also where there is none."""
    watched: Sequence[Watch]
    """Abandoned and after-finish tasks; none where the gateway can't be read."""
    older: Sequence[Watch]
    """Abandoned tasks that were looked at and are not watched any more: a lease of theirs may
    have ended a moment ago."""
    pools: Mapping[str, str]
    """The pool label of every task that was looked at one by one or holds a lease."""
    rejected: Sequence[Rejected]
    silences: Mapping[str, Micros] = field(default_factory=dict)
    """The longest silences between heartbeats that a running exporter has seen, by pool."""
    last_evidence: Instant | None = None
    """The newest evidence that earlier readings have left."""

    @property
    def is_unkeyed(self) -> bool:
        """Return whether the ledger was read, and does not say whom it charged."""
        return self.spent is not None and not self.spent.is_keyed
