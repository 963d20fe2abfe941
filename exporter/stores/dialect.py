"""What one SQL dialect needs of its own: connecting read-only, deadlines, id lists, instants.

Everything else about SQL stores is SQLAlchemy Core and the same for all. Another dialect is
another class here and an entry in ``DIALECTS``.
"""

import json
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol
from urllib.parse import quote

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    FromClause,
    NullPool,
    and_,
    create_engine,
    func,
    literal_column,
    select,
)
from sqlalchemy.engine import make_url

from orphanwatch.exporter.instants import SECOND, Micros, parse_instant, seconds

# How many of SQLite's own steps pass between two looks at the clock.
_STEPS_BETWEEN_LOOKS: Final = 20_000


class Dialect(Protocol):
    """The differences between SQL stores."""

    def engine(self, url: str, zone: tzinfo, timeout: Micros) -> Engine:
        """Return an engine whose connections only read; it keeps none open between readings."""
        ...

    def begin(self, connection: Connection) -> None:
        """Begin a transaction in which everything is read from one state of the store."""
        ...

    def limit(self, connection: Connection, timeout: Micros) -> None:
        """Make the next statement give up after ``timeout``."""
        ...

    def is_number(self, column: ColumnElement[Any]) -> ColumnElement[bool] | None:
        """Return whether a cell holds a number; None where the column's type says so."""
        ...

    def tells_form(self, column: ColumnElement[Any]) -> ColumnElement[bool]:
        """Return whether a cell says how its column writes instants."""
        ...

    def instant_of_text(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return the microseconds of a stamp written as text, null where it can't be read."""
        ...

    def forms_of(self, key: str) -> Iterable[str | int]:
        """Return how a column may hold an id, so that an index finds it in each."""
        ...

    def rows_of(self, rows: Collection[Sequence[Any]], names: Sequence[str]) -> FromClause:
        """Return rows handed in as one parameter, as something to select from."""
        ...

    def tolerates(self, connection: Connection, error: Exception) -> bool:
        """Return whether a statement is worth another try: what it met is tolerated from now on."""
        ...

    def now(self) -> ColumnElement[Any] | None:
        """Return the store's clock in epoch seconds, None where it has none of its own."""
        ...

    def unique_columns(self, connection: Connection, relation: str) -> frozenset[str]:
        """Return the columns that are unique on their own."""
        ...

    def leading_columns(self, connection: Connection, relation: str) -> frozenset[str] | None:
        """Return the first columns of the relation's indexes; None where it is no table."""
        ...


class Sqlite:
    """SQLite through the standard library's driver."""

    name: ClassVar = "sqlite"

    def engine(self, url: str, zone: tzinfo, timeout: Micros) -> Engine:
        """Return an engine that opens the file anew for each reading.

        A file that was moved away would otherwise be read on, calm, through the old handle.
        """
        return create_engine(
            "sqlite://", creator=_opener(make_url(url), zone, timeout), poolclass=NullPool
        )

    def begin(self, connection: Connection) -> None:
        """Begin a deferred transaction: the first statement fixes what all of them see."""
        connection.exec_driver_sql("BEGIN")

    def limit(self, connection: Connection, timeout: Micros) -> None:
        """Interrupt a statement that runs past its time."""
        deadline = time.monotonic() + seconds(timeout)
        raw: Any = connection.connection.driver_connection
        raw.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_BETWEEN_LOOKS)

    def is_number(self, column: ColumnElement[Any]) -> ColumnElement[bool] | None:
        """Return whether the cell itself is a number: SQLite types cells, not columns.

        Every number sorts before every text and blob, so an index serves this and its opposite.
        """
        return column < literal_column("''")

    def tells_form(self, column: ColumnElement[Any]) -> ColumnElement[bool]:
        """Return whether there is a cell, and no zero: that is no epoch's size."""
        return and_(column.is_not(None), column != 0)

    def instant_of_text(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return the same reading that the border uses, called from within SQL."""
        return func.orphanwatch_instant(column)

    def forms_of(self, key: str) -> Iterable[str | int]:
        """Return the text, and the whole number that it spells: to SQLite those are two values."""
        if key.removeprefix("-").isdecimal() and str(int(key)) == key:
            return (key, int(key))
        return (key,)

    def rows_of(self, rows: Collection[Sequence[Any]], names: Sequence[str]) -> FromClause:
        """Return the rows out of one JSON parameter."""
        if len(names) == 1:
            cells_only = json.dumps([row[0] for row in rows])
            each = func.json_each(cells_only).table_valued("value", name="handed_in")
            return select(each.c.value.label(names[0])).select_from(each).subquery("handed")
        each = func.json_each(json.dumps(list(rows))).table_valued("value", name="handed_in")
        cells = (
            func.json_extract(each.c.value, f"$[{number}]").label(name)
            for number, name in enumerate(names)
        )
        # Materialized: the parameter is taken apart once, and not for every row that it meets.
        return select(*cells).select_from(each).cte("handed").prefix_with("MATERIALIZED")

    def tolerates(self, connection: Connection, error: Exception) -> bool:
        """Take texts that are not UTF-8 for what they can be read as, once one was met.

        Not from the start: the driver's own decoding is several times as fast.
        """
        if "Could not decode" not in str(error):
            return False
        raw: Any = connection.connection.driver_connection
        raw.text_factory = _decode
        return True

    def now(self) -> ColumnElement[Any] | None:
        """Return the clock: the host's, to the millisecond."""
        return literal_column("(julianday('now') - 2440587.5) * 86400.0")

    def unique_columns(self, connection: Connection, relation: str) -> frozenset[str]:
        """Return single-column primary keys and unique indexes, from SQLite's own tables."""
        unique = {
            columns[0]
            for is_unique, columns in _indexes(connection, relation)
            if is_unique and len(columns) == 1
        }
        info = _pragma(connection, "table_info", relation)
        keys = [row[1] for row in info if row[5]]
        return frozenset(unique | (set(keys) if len(keys) == 1 else set()))

    def leading_columns(self, connection: Connection, relation: str) -> frozenset[str] | None:
        """Return what a look-up can start from, from SQLite's own tables."""
        info = _pragma(connection, "table_info", relation)
        if not info:
            return None
        keys = {row[1] for row in info if row[5] == 1}
        return frozenset(
            keys | {columns[0] for _, columns in _indexes(connection, relation) if columns}
        )


def _decode(text: bytes) -> str:
    return text.decode(errors="replace")


def _indexes(connection: Connection, relation: str) -> list[tuple[bool, list[str]]]:
    return [
        # A partial index (the fifth cell) promises nothing for the rows it leaves out.
        (bool(row[2]) and not row[4], [r[2] for r in _pragma(connection, "index_info", row[1])])
        for row in _pragma(connection, "index_list", relation)
    ]


def _pragma(connection: Connection, name: str, argument: str) -> Sequence[Any]:
    quoted = argument.replace('"', '""')
    return connection.exec_driver_sql(f'PRAGMA {name}("{quoted}")').all()


def _opener(url: URL, zone: tzinfo, timeout: Micros) -> Callable[[], sqlite3.Connection]:
    database = url.database or ""
    if not database.startswith("file:"):
        database = f"file:{quote(str(Path(database).absolute()))}?mode=ro"

    def instant_of(value: object) -> int | None:
        try:
            return None if value is None else parse_instant(value, zone)
        except (ValueError, TypeError, OverflowError):
            return None

    def open_read_only() -> sqlite3.Connection:
        connection = sqlite3.connect(
            database,
            uri=True,
            timeout=seconds(timeout),
            isolation_level=None,
            check_same_thread=False,  # the lane's thread reads, the engine may close elsewhere
        )
        connection.execute("PRAGMA query_only = ON")
        connection.create_function("orphanwatch_instant", 1, instant_of, deterministic=True)
        return connection

    return open_read_only


DIALECTS: Final[dict[str, Dialect]] = {Sqlite.name: Sqlite()}
"""By SQLAlchemy's name of the backend."""

DAY: Final = 86400 * SECOND
