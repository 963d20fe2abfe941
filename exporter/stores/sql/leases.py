"""Leases in SQL: workers' claims on tasks."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar, Final

from sqlalchemy import and_, or_, select, true

from orphanwatch.exporter.columns import COLUMNS
from orphanwatch.exporter.model import Lease
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.cells import clean_id
from orphanwatch.exporter.stores.lease_rows import leases_as_of
from orphanwatch.exporter.stores.questions import Windows
from orphanwatch.exporter.stores.sql.reader import SqlReader

_NAMES: Final = COLUMNS[StoreName.LEASES]
_BLANK: Final = Lease(None, None, None, None, None, None)
_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "task_id": clean_id,
    "worker_id": clean_id,
    "pool": clean_id,
}


class SqlLeases(SqlReader):
    """A table, view or SELECT with one row a lease."""

    name: ClassVar = StoreName.LEASES
    looked_up: ClassVar = ("task_id", "worker_id", "released_at")

    @property
    def states_heartbeats(self) -> bool:
        """Return whether the relation has heartbeats."""
        return self.relation.has("heartbeat_at")

    def unreleased(self, windows: Windows) -> Sequence[Lease]:
        """Return leases not released by now, and long ones that ended within the hold."""
        released = self.relation.instants.get("released_at")
        acquired = self.relation.instants.get("acquired_at")
        if released is None:
            return self._leases_of(self.rows(self._select()), windows)
        wanted = or_(released.is_missing(), released.reaches(windows.at))
        if acquired is not None:
            # The tasks of shorter ones stopped within the horizon, and are looked at anyway.
            ended = released.reaches(windows.hold_start)
            wanted = or_(wanted, and_(ended, acquired.by(windows.horizon_start)))
        return self._leases_of(self.rows(self._select().where(wanted)), windows)

    def of_tasks(self, task_ids: Collection[str], windows: Windows) -> Sequence[Lease]:
        """Return every lease of these tasks acquired by now, released or not."""
        rows = self.rows_for(task_ids, "task_id", lambda within: self._select().where(within))
        found = self._leases_of(rows, windows)
        return [lease for lease in found if lease.task_id in task_ids]

    def workers(self, keys: Collection[str], windows: Windows) -> frozenset[str]:
        """Return those of the keys that are the id of a worker that held a lease by now."""
        if not self.relation.has("worker_id"):
            return frozenset()
        worker_id = self.relation["worker_id"]
        acquired = self.relation.instants.get("acquired_at")
        by_now = true() if acquired is None else or_(acquired.is_missing(), acquired.by(windows.at))
        rows = self.rows_for(
            keys, "worker_id", lambda within: select(worker_id).where(within, by_now).distinct()
        )
        return frozenset(str(row[0]) for row in rows).intersection(keys)

    def _select(self) -> Any:
        return (
            select(*self.relation.selected(_NAMES)).select_from(self.relation.source).where(true())
        )

    def _leases_of(self, rows: Any, windows: Windows) -> list[Lease]:
        leases = self.facts(rows, _NAMES, _READERS, _BLANK)
        states_acquisition = self.relation.has("acquired_at")
        return leases_as_of(leases, windows.at, states_acquisition=states_acquisition)
