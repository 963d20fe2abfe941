"""Rows of a source that can't be asked, mirrored into a database in memory that can.

The SQL stores answer from it, so that a log, a list over HTTP and a table mean the same.
"""

import itertools
import json
import os
import sqlite3
from collections.abc import Collection, Iterator, Mapping
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
from orphanwatch.exporter.model import Charges, Cutoff, Rejected
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

# A cancel is remembered for so long after it: its orphan may hold a lease for days. So are the
# charges of a task past its cutoff: what comes on top of them is counted by their sum.
_CANCELS_KEPT: Final = 7 * 86400 * SECOND
_PRUNED_EVERY: Final = 60 * SECOND

_numbers = itertools.count()


class Mirror:
    """One table in memory, filled from a source at the beginning of each reading."""

    def __init__(self, store: StoreName, source: RowSource, *, totals: bool = False) -> None:
        """``totals`` says that the rows of a ledger are running totals."""
        self.source = source
        self._totals = totals
        self._store = store
        self._name = f"file:orphanwatch-{os.getpid()}-{next(_numbers)}?mode=memory&cache=shared"
        self._pruned_at = Instant(0)
        self._asked: dict[str, Instant] | None = None
        """The tasks whose charges were asked for, each with until when its rows stay."""
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
            if self._is_prunable and windows.at - self._pruned_at > _PRUNED_EVERY:
                self._pruned_at = windows.at
                self._prune(windows)
        if problem is not None:
            raise problem

    def keep(self, charged: Mapping[str, Charges], windows: Windows) -> None:
        """Keep the rows of tasks whose charges were asked for: their totals must not fall.

        Somebody waits for none of them, so they are few. Those with a charge past their cutoff
        stay for days after they were asked for last, and of running totals all do, as the next
        one counts by what it adds; any other stays for the length of the scope.
        """
        after = Instant(windows.at + _CANCELS_KEPT)
        soon = Instant(2 * windows.at - windows.scope_start)
        self._asked = self._asked or {}
        self._asked |= {
            task_id: after if self._totals or _is_orphan(it) else soon
            for task_id, it in charged.items()
        }

    @property
    def _is_prunable(self) -> bool:
        """Whether rows are added and never taken back, and it is known which are needed."""
        is_known = self._store is not StoreName.LEDGER or self._asked is not None
        return self.source.keeps and is_known

    def _prune(self, windows: Windows) -> None:
        """Forget what no question of this or a later reading can be about."""
        if self._store is StoreName.LEDGER:
            # Of a task that is still charged all rows stay, and of those that were asked for.
            active = f"SELECT task_id FROM {_TABLE} WHERE charged_at > :since"  # noqa: S608  (names of ours)
            asked = "SELECT value FROM json_each(:asked)"
            nameless = "" if self._totals else "task_id IS NULL OR "
            where = (
                f"charged_at <= :since AND ({nameless}task_id NOT IN"
                f" ({active} AND task_id NOT NULL UNION ALL {asked}))"
            )
        else:
            where = " AND ".join(self._is_over())
        asked_for = self._asked or {}
        self._asked = {key: until for key, until in asked_for.items() if until > windows.at}
        self._database.execute(
            f"DELETE FROM {_TABLE} WHERE {where}",  # noqa: S608  (names of ours)
            {
                "since": windows.scope_start,
                "long_ago": windows.at - _CANCELS_KEPT,
                "asked": json.dumps(list(self._asked)),
            },
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

    def cut(self) -> bool:
        """Return False: a source bounds its questions itself."""
        return False

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
        self._mirror = Mirror(self.name, source, totals=settings.shape == "cumulative")
        self._engine = self._mirror.engine

    def charges(
        self, cutoffs: Collection[Cutoff], windows: Windows, counting_since: Instant | None
    ) -> Mapping[str, Charges]:
        """Return each task's charges past its cutoff, and have their rows kept."""
        found = super().charges(cutoffs, windows, counting_since)
        self._mirror.keep(found, windows)
        return found


def _is_orphan(charges: Charges) -> bool:
    return bool(charges.charged or charges.prorated or charges.straddling)


_PLACE: Final[Mapping[str, Any]] = {
    "type": "sql",
    "url": SecretStr("sqlite://"),
    "relation": _TABLE,
}
