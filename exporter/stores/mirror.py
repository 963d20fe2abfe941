"""Rows of a source that can't be asked, mirrored into a database in memory that can.

The SQL stores answer from it, so that a log, a list over HTTP and a table mean the same.
"""

import itertools
import os
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from pydantic import SecretStr
from sqlalchemy import NullPool, create_engine

from orphanwatch.exporter.config_stores import (
    GatewaySettings,
    LedgerSettings,
    SqlGatewayStore,
    SqlLedgerStore,
)
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import SECOND, Instant, Micros
from orphanwatch.exporter.model import Rejected
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.questions import Inspection, Windows
from orphanwatch.exporter.stores.rows import RowSource, notes_of
from orphanwatch.exporter.stores.sql.gateway import SqlGateway
from orphanwatch.exporter.stores.sql.ledger import SqlLedger
from orphanwatch.exporter.stores.sql.reader import SqlReader

_TABLE: Final = "rows"
_INDEXED: Final = frozenset(
    {*SqlGateway.looked_up, *SqlLedger.looked_up}  # the questions' own
)

# A cancel is remembered for so long after it: its orphan may hold a lease for days.
_CANCELS_KEPT: Final = 7 * 86400 * SECOND
_PRUNED_EVERY: Final = 60 * SECOND

_numbers = itertools.count()


class Mirror:
    """One table in memory, filled from a source at the beginning of each reading."""

    def __init__(self, store: StoreName, source: RowSource) -> None:
        self.source = source
        self._store = store
        self._name = f"file:orphanwatch-{os.getpid()}-{next(_numbers)}?mode=memory&cache=shared"
        self._pruned_at = Instant(0)
        self._database = self._connect()  # the table lives as long as this connection
        names = source.columns
        self._database.execute(f"CREATE TABLE {_TABLE} ({', '.join(names)})")
        for name in names:
            if name in _INDEXED:
                self._database.execute(f"CREATE INDEX {_TABLE}_{name} ON {_TABLE} ({name})")
        marks = ", ".join("?" * len(names))
        self._insert = f"INSERT INTO {_TABLE} VALUES ({marks})"  # noqa: S608  (names of ours)
        self.engine = create_engine("sqlite://", creator=self._connect_to_read, poolclass=NullPool)

    def fill(self, windows: Windows) -> None:
        """Take over what the source has to say, all of it or nothing.

        A log that there was no time to read to its end says so by a ``StoreError``, and goes on
        from there at the next reading: what it said until then is kept.
        """
        rows = self.source.read(windows)
        problem: StoreError | None = None
        with self._database:
            if not self.source.keeps:
                self._database.execute(f"DELETE FROM {_TABLE}")  # noqa: S608  (a name of ours)
            try:
                self._database.executemany(self._insert, rows)
            except StoreError as error:
                if not self.source.keeps:
                    raise
                problem = error
            if self.source.keeps and windows.at - self._pruned_at > _PRUNED_EVERY:
                self._pruned_at = windows.at
                self._prune(windows)
        if problem is not None:
            raise problem

    def _prune(self, windows: Windows) -> None:
        """Forget what no question of this or a later reading can be about."""
        if self._store is StoreName.LEDGER:
            # Of a task that is still charged all rows stay: its totals must not fall.
            active = f"SELECT task_id FROM {_TABLE} WHERE charged_at > :since"  # noqa: S608  (names of ours)
            where = f"charged_at <= :since AND task_id NOT IN ({active} AND task_id NOT NULL)"
        else:
            where = " AND ".join(self._is_over())
        self._database.execute(
            f"DELETE FROM {_TABLE} WHERE {where}",  # noqa: S608  (names of ours)
            {"since": windows.scope_start, "long_ago": windows.at - _CANCELS_KEPT},
        )

    def _is_over(self) -> Iterator[str]:
        """Yield what holds of a task that no later question can be about.

        It ended long ago, as its client wished and in time, and no attempt stands beside it: any
        other may be an orphan that still lives, which does not age out.
        """
        stated = self.source.columns
        for name in stated:
            if name.endswith("_at"):
                bound = "long_ago" if name == "cancelled_at" else "since"
                yield f"coalesce({name}, 0) <= :{bound}"
        ends = [name for name in ("finished_at", "cancelled_at") if name in stated]
        if ends:
            yield f"coalesce({', '.join([*ends, 'NULL'])}) NOT NULL"
        if "deadline_at" in stated and "finished_at" in stated:
            yield "(deadline_at IS NULL OR finished_at <= deadline_at)"
        if "retry_id" in stated:
            several = (
                f"SELECT retry_id FROM {_TABLE} WHERE retry_id NOT NULL "  # noqa: S608  (names of ours)
                "GROUP BY retry_id HAVING count(*) > 1"
            )
            yield f"(retry_id IS NULL OR retry_id NOT IN ({several}))"

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._name, uri=True, check_same_thread=False)

    def _connect_to_read(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._name, uri=True, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA query_only = ON")
        return connection


class _Mirrored(SqlReader):
    """What is asked of a mirror's source rather than of its table."""

    _mirror: Mirror

    def open(self, windows: Windows) -> None:
        """Read the source, then answer from its mirror."""
        self.close()  # of a reading that was given up: it would lock the table
        self._mirror.fill(windows)
        super().open(windows)

    def close(self) -> None:
        """End the reading."""
        super().close()
        self._mirror.source.close()

    def clock_skew_seconds(self) -> float | None:
        """Return what the source knows of its clock."""
        return self._mirror.source.clock_skew_seconds()

    def rejected(self) -> tuple[Rejected, ...]:
        """Return the records and the rows that could not be used."""
        return (*self._mirror.source.rejected(), *super().rejected())

    def inspect(self) -> Inspection:
        """Return the columns that are not stated; the mirror has its indexes."""
        return replace(super().inspect(), advised=(), notes=notes_of(self._mirror.source))


class MirroredGateway(_Mirrored, SqlGateway):
    """A gateway that is no SQL store."""

    def __init__(self, settings: GatewaySettings, timeout: Micros, source: RowSource) -> None:
        super().__init__(
            SqlGatewayStore.model_construct(
                **_PLACE, timeout=timeout, deadline=settings.deadline, rows=settings.rows
            )
        )
        self._mirror = Mirror(self.name, source)
        self._engine = self._mirror.engine


class MirroredLedger(_Mirrored, SqlLedger):
    """A ledger that is no SQL store."""

    def __init__(self, settings: LedgerSettings, timeout: Micros, source: RowSource) -> None:
        super().__init__(
            SqlLedgerStore.model_construct(**_PLACE, timeout=timeout, shape=settings.shape)
        )
        self._mirror = Mirror(self.name, source)
        self._engine = self._mirror.engine


_PLACE: Final[Mapping[str, Any]] = {
    "type": "sql",
    "url": SecretStr("sqlite://"),
    "relation": _TABLE,
}
