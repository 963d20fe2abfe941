"""Leases and queues of sources that list all there is at each read: answered from the list."""

from collections.abc import Collection, Iterable, Sequence
from itertools import repeat
from typing import ClassVar, Final

from orphanwatch.exporter.columns import COLUMNS
from orphanwatch.exporter.model import Lease, QueueSample, Rejected
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.lease_rows import leases_as_of
from orphanwatch.exporter.stores.questions import Inspection, Windows
from orphanwatch.exporter.stores.rows import Row, RowSource, notes_of


class _Listed:
    """What every store that is listed whole has in common."""

    name: ClassVar[StoreName]

    def __init__(self, source: RowSource) -> None:
        self._source = source

    def close(self) -> None:
        """End the reading."""
        self._source.close()

    def clock_skew_seconds(self) -> float | None:
        """Return what the source knows of its clock."""
        return self._source.clock_skew_seconds()

    def rejected(self) -> tuple[Rejected, ...]:
        """Return the records that could not be used."""
        return self._source.rejected()

    def inspect(self) -> Inspection:
        """Return the columns that the source does not state."""
        stated = self._source.columns
        unstated = tuple(name for name in COLUMNS[self.name] if name not in stated)
        return Inspection(unstated=unstated, advised=(), notes=notes_of(self._source))

    def _cells(self, windows: Windows) -> Iterable[Row]:
        """Return the rows with a cell for every canonical column, in their order."""
        names, stated = COLUMNS[self.name], self._source.columns
        rows = self._source.read(windows)
        if stated == names:
            return rows
        # Column by column: a fraction of the time that a look into each row would take.
        columns = dict(zip(stated, zip(*rows, strict=True), strict=False))  # no rows, no columns
        if not columns:
            return ()
        return zip(*(columns.get(name, repeat(None)) for name in names), strict=False)


class ListedLeases(_Listed):
    """Leases of which the source lists those that are held."""

    name: ClassVar = StoreName.LEASES

    def __init__(self, source: RowSource) -> None:
        super().__init__(source)
        self._leases: Sequence[Lease] = ()

    @property
    def states_heartbeats(self) -> bool:
        """Whether the source states heartbeats: else its leases live until release."""
        return "heartbeat_at" in self._source.columns

    def open(self, windows: Windows) -> None:
        """Read the list."""
        self._leases = leases_as_of(
            # The source's cells are what a lease is made of: nothing is left to be read.
            map(Lease._make, self._cells(windows)),
            windows.at,
            states_acquisition="acquired_at" in self._source.columns,
        )

    def unreleased(self, windows: Windows) -> Sequence[Lease]:
        """Return the leases not released by now, and long ones that ended within the hold."""
        return [
            lease
            for lease in self._leases
            if lease.released_at is None or lease.released_at > windows.hold_start
        ]

    def of_tasks(self, task_ids: Collection[str], windows: Windows) -> Sequence[Lease]:  # noqa: ARG002  (the list is as of now)
        """Return every listed lease of these tasks."""
        wanted = frozenset(task_ids)
        return [lease for lease in self._leases if lease.task_id in wanted]

    def workers(self, keys: Collection[str], windows: Windows) -> frozenset[str]:  # noqa: ARG002  (the list is as of now)
        """Return those of the keys that are the id of a worker that holds a lease."""
        held = {lease.worker_id for lease in self._leases if lease.worker_id is not None}
        return frozenset(keys).intersection(held)


class ListedQueue(_Listed):
    """A queue of which the source gives a sample, or the newest few."""

    name: ClassVar = StoreName.QUEUE

    def __init__(self, source: RowSource) -> None:
        super().__init__(source)
        self._samples: Sequence[QueueSample] = ()

    def open(self, windows: Windows) -> None:
        """Read the samples."""
        self._samples = [QueueSample._make(row) for row in self._cells(windows)]

    def newest(self, windows: Windows) -> QueueSample | None:
        """Return the newest sample taken by now, None where there is none."""
        taken = [
            sample
            for sample in self._samples
            if sample.sampled_at is not None and sample.sampled_at <= windows.at
        ]
        return max(taken, key=_taken_at, default=None)


_NEVER: Final = -1


def _taken_at(sample: QueueSample) -> int:
    return sample.sampled_at if sample.sampled_at is not None else _NEVER
