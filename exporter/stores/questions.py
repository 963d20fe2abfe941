"""What the watch asks of the four stores: the seam at which an adapter is added.

Each adapter answers by its own means, pushing selection and sums down to where the rows are.
A question that can't be answered raises ``StoreError``; rows that can't be read are left out and
reported through ``rejected``.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.model import (
    Attached,
    Budget,
    Charges,
    Cutoff,
    Lease,
    LedgerWindow,
    QueueSample,
    Rejected,
    Task,
)
from orphanwatch.exporter.names import StoreName


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """The instants that bound one evaluation; each window is open below and closed above."""

    at: Instant
    delta_start: Instant
    """The delta window is (delta_start, at]."""
    spend_start: Instant
    spend_end: Instant
    baseline_start: Instant
    """The baseline window is (baseline_start, spend_start]."""
    retry_start: Instant
    """Retries are judged when submitted in (retry_start, at]."""
    horizon_start: Instant
    scope_start: Instant
    """A task is looked at when something happened to it, or is due, after this."""
    hold_start: Instant

    @classmethod
    def ending(cls, at: Instant, config: Config) -> "Windows":
        """Return the windows of one evaluation (contract, section 4)."""
        spend_start = at - config.lag - config.delta_window
        baseline_start = spend_start - config.baseline_window
        return cls(
            at=at,
            delta_start=Instant(spend_start),
            spend_start=Instant(spend_start),
            spend_end=Instant(at - config.lag),
            baseline_start=Instant(baseline_start),
            retry_start=Instant(at - config.delta_window),
            horizon_start=Instant(at - config.horizon),
            scope_start=Instant(baseline_start - config.horizon),
            hold_start=Instant(at - config.reopen_hold),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """What ``check`` wants to know of a store beyond its rows."""

    unstated: tuple[str, ...]
    """Canonical columns that the store does not state."""
    advised: tuple[str, ...]
    """Statements that would add the indexes which the questions look for and don't find."""
    notes: tuple[str, ...] = ()
    """What else can't be known from what was read, in sentences with the remedy."""


class Store(Protocol):
    """One logical store while it is being read."""

    @property
    def name(self) -> StoreName:
        """Which of the four it is."""
        ...

    def open(self, windows: Windows) -> None:
        """Begin one reading: everything until ``close`` sees one state of the store."""
        ...

    def close(self) -> None:
        """End the reading."""
        ...

    def clock_skew_seconds(self) -> float | None:
        """Return the store's clock less ours, None where the store has no clock to ask."""
        ...

    def rejected(self) -> tuple[Rejected, ...]:
        """Return the rows of this reading that could not be used."""
        ...

    def inspect(self) -> Inspection:
        """Return what the store lacks, for ``check``."""
        ...


class Gateway(Store, Protocol):
    """Requests, their cancels, deadlines and ends."""

    @property
    def states_submissions(self) -> bool:
        """Whether the store says when a task was submitted."""
        ...

    def flagged_tasks(self, windows: Windows) -> Sequence[Task]:
        """Return the looked-at tasks that may have stopped, or need a look for another reason.

        All others are those that ``attached`` has summed.
        """
        ...

    def attached(self, windows: Windows) -> Attached:
        """Return how many of the tasks that are not flagged somebody waits for."""
        ...

    def tasks(self, task_ids: Collection[str]) -> Sequence[Task]:
        """Return the tasks of these ids, however old."""
        ...

    def completed_ids(self, retry_ids: Collection[str], windows: Windows) -> Sequence[str]:
        """Return the ids of tasks of these requests that finished with outcome ok by now."""
        ...

    def tasks_of_requests(self, retry_ids: Collection[str]) -> Sequence[Task]:
        """Return the tasks of these requests, however old."""
        ...

    def budgets(self, windows: Windows, pools: Collection[str]) -> Sequence[Budget]:
        """Return the budgets of tasks submitted in the spend window, of these pools or of none."""
        ...

    def newest_ids(self, windows: Windows, most: int) -> Sequence[str]:
        """Return at most so many ids of looked-at tasks, those submitted last; for ``check``."""
        ...


class Leases(Store, Protocol):
    """Workers' claims on tasks."""

    @property
    def states_heartbeats(self) -> bool:
        """Return whether the store states heartbeats: else its leases live until release."""
        ...

    def unreleased(self, windows: Windows) -> Sequence[Lease]:
        """Return the leases acquired and not released by now, live and expired ones.

        Among them are the long ones that ended within the hold: an orphan that just let go.
        """
        ...

    def of_tasks(self, task_ids: Collection[str], windows: Windows) -> Sequence[Lease]:
        """Return every lease of these tasks acquired by now, released or not."""
        ...

    def workers(self, keys: Collection[str], windows: Windows) -> frozenset[str]:
        """Return those of the keys that are the id of a worker that held a lease by now."""
        ...


class Ledger(Store, Protocol):
    """Tokens charged."""

    def window(self, windows: Windows) -> LedgerWindow:
        """Return all charges of the newest windows, summed by key."""
        ...

    def charges(
        self, cutoffs: Collection[Cutoff], windows: Windows, counting_since: Instant | None
    ) -> Mapping[str, Charges] | None:
        """Return each task's charges past its cutoff; a task without any row is absent.

        None where the ledger does not say whom it charged, as its window says too.
        """
        ...


class Queue(Store, Protocol):
    """Samples of the admission queue."""

    def newest(self, windows: Windows) -> QueueSample | None:
        """Return the newest sample taken by now, None where there is none."""
        ...
