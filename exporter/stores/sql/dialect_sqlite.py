"""SQLite, through the standard library's driver."""

import json
import sqlite3
import time
from collections.abc import Callable, Collection, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import (
    CTE,
    URL,
    ColumnElement,
    Connection,
    Engine,
    FromClause,
    NullPool,
    Select,
    String,
    and_,
    cast,
    create_engine,
    func,
    literal_column,
    select,
)
from sqlalchemy.engine import make_url
from sqlalchemy.types import NullType, TypeEngine

from orphanwatch.exporter.ids import IdRule
from orphanwatch.exporter.instants import Instant, Micros, parse_instant, seconds
from orphanwatch.exporter.stores.cells import Form, form_of
from orphanwatch.exporter.stores.sql.dialect import (
    Explained,
    InstantColumn,
    Sample,
    TableName,
    index_statement,
)
from orphanwatch.exporter.stores.sql.dialect_sqlite_bytes import holding_bytes
from orphanwatch.exporter.stores.sql.dialect_sqlite_instants import SqliteInstants, is_number

# How many of SQLite's own steps pass between two looks at the clock.
_STEPS_BETWEEN_LOOKS: Final = 20_000


class Sqlite:
    """SQLite: types belong to cells, not to columns, so that columns stand as they are."""

    def __init__(self) -> None:
        self._file = ""

    def engine(self, url: str, zone: tzinfo, timeout: Micros) -> Engine:
        """Return an engine that opens the file anew for each reading.

        A file that was moved away would otherwise be read on, calm, through the old handle.
        """
        place = make_url(url)
        self._file = _file_of(place)
        return create_engine("sqlite://", creator=_opener(place, zone, timeout), poolclass=NullPool)

    def begin(self, connection: Connection, timeout: Micros) -> None:
        """Begin a deferred transaction: the first statement fixes what all of them see."""
        self.limit(connection, timeout)
        connection.exec_driver_sql("BEGIN")

    def limit(self, connection: Connection, timeout: Micros) -> None:
        """Interrupt a statement that runs past its time."""
        deadline = time.monotonic() + seconds(timeout)
        raw: Any = connection.connection.driver_connection
        raw.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS_BETWEEN_LOOKS)

    def tolerates(self, connection: Connection, error: Exception) -> bool:
        """Take texts that are not UTF-8 for what they can be read as, once one was met.

        Not from the start: the driver's own decoding is several times as fast.
        """
        if "Could not decode" not in str(error):
            return False
        raw: Any = connection.connection.driver_connection
        raw.text_factory = _decode
        return True

    def explain(self, error: Exception) -> Explained | None:
        """Return the remedies for what SQLite says; the file where it is at fault."""
        said = str(getattr(error, "orig", error))
        if said.endswith("database file") and self._file:
            said = f"{said} {self._file}"
        return next((Explained(said, remedy) for sign, remedy in _REMEDIES if sign in said), None)

    def column_types(self, cursor: Any) -> Sequence[TypeEngine[Any]]:
        """Return no type for any column."""
        return [NullType() for _ in cursor.description]

    def holding_bytes(
        self, connection: Connection, source: FromClause, columns: Sequence[ColumnElement[Any]]
    ) -> Sequence[ColumnElement[Any]]:
        """Return the columns of which some cells are bytes, and none is anything else."""
        return holding_bytes(connection, source, columns)

    def hex_of(self, name: str) -> str:
        """Return the function that writes bytes as text."""
        return f"hex({name})"

    def as_id(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return the cells as they are."""
        return column

    def as_number(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return the cells as they are."""
        return column

    def as_flag(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return the cells as they are: SQLite's functions take numbers for their text."""
        return column

    def spelled(self, column: ColumnElement[Any], rule: IdRule) -> ColumnElement[Any]:
        """Return what the rule itself leaves, called from within SQL."""
        return func.orphanwatch_id(self.as_text(column), *rule)

    def is_number(self, column: ColumnElement[Any]) -> ColumnElement[bool] | None:
        """Return whether the cell itself is a number: SQLite types cells, not columns.

        Every number sorts before every text and blob, so an index serves this and its opposite.
        """
        return is_number(column)

    def sample(self, column: ColumnElement[Any]) -> Sample | None:
        """Return the cells, apart from zeros: that is no epoch's size."""
        return Sample(column, and_(column.is_not(None), column != 0))

    def instants(
        self,
        column: ColumnElement[Any],
        values: list[object],
        zone: tzinfo,
        at: Instant,  # noqa: ARG002  (the same rules hold at all times)
    ) -> InstantColumn:
        """Return a column of the form that most of the cells have."""
        return SqliteInstants(column, form_of(values) or Form(), zone)

    def among(self, column: ColumnElement[Any], keys: Collection[str]) -> ColumnElement[bool]:
        """Return whether the cell is one of the keys, in each form that it may be held in."""
        forms = json.dumps([form for key in sorted(keys) for form in _forms_of(key)])
        each = func.json_each(forms).table_valued("value", name="handed_in")
        handed = select(each.c.value.label("key")).select_from(each).subquery("handed")
        within: ColumnElement[bool] = column.in_(select(handed.c.key))
        return within

    def rows_of(self, rows: Collection[Sequence[Any]], names: Sequence[str]) -> FromClause:
        """Return the rows out of one JSON parameter."""
        each = func.json_each(json.dumps(list(rows))).table_valued("value", name="handed_in")
        cells = (
            func.json_extract(each.c.value, f"$[{number}]").label(name)
            for number, name in enumerate(names)
        )
        # The parameter is taken apart once, and not for every row that it meets.
        return self.materialized(select(*cells).select_from(each), "handed")

    def materialized(self, statement: Select[Any], name: str) -> CTE:
        """Return a common table expression that SQLite's planner leaves alone."""
        return statement.cte(name).prefix_with("MATERIALIZED")

    def as_text(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return an id as text, whatever its cell holds."""
        return cast(column, String)

    def now(self) -> ColumnElement[Any] | None:
        """Return the clock: the host's, to the millisecond."""
        return literal_column("(julianday('now') - 2440587.5) * 86400.0")

    def unique_columns(self, connection: Connection, table: TableName) -> frozenset[str]:
        """Return single-column primary keys and unique indexes, from SQLite's own tables."""
        unique = {
            columns[0]
            for is_unique, columns in _indexes(connection, table.name)
            if is_unique and len(columns) == 1
        }
        info = _pragma(connection, "table_info", table.name)
        keys = [row[1] for row in info if row[5]]
        return frozenset(unique | (set(keys) if len(keys) == 1 else set()))

    def leading_columns(self, connection: Connection, table: TableName) -> frozenset[str] | None:
        """Return what a look-up can start from, from SQLite's own tables."""
        info = _pragma(connection, "table_info", table.name)
        if not info:
            return None
        keys = {row[1] for row in info if row[5] == 1}
        return frozenset(
            keys | {columns[0] for _, columns in _indexes(connection, table.name) if columns}
        )

    def index_on(self, connection: Connection, table: TableName, column: str) -> str:
        """Return the statement, names quoted where they need it."""
        return index_statement("CREATE INDEX", connection, table, column)


_REMEDIES: Final = (
    ("no such table", "check relation: in the config"),
    ("unable to open", "check that the file is where the url says, and readable"),
    ("interrupted", "the query ran past the store's timeout; look for a missing index with check"),
    ("locked", "another process holds it; see which, or raise the store's timeout"),
)


def _forms_of(key: str) -> tuple[str | int, ...]:
    """Return the text, and the whole number that it spells: to SQLite those are two values."""
    if key.removeprefix("-").isdecimal() and str(int(key)) == key:
        return (key, int(key))
    return (key,)


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


def _spelled(key: str | None, prefix: str, suffix: str, uuid: int) -> str | None:
    return None if key is None else IdRule(prefix, suffix, bool(uuid)).apply(key)


def _file_of(url: URL) -> str:
    """Return the path of the file; nothing of what the url asks for besides, be it a secret."""
    database = url.database or ""
    if database.startswith("file:"):
        database = database.removeprefix("file:").partition("?")[0]
    return str(Path(database).absolute())


def _opener(url: URL, zone: tzinfo, timeout: Micros) -> Callable[[], sqlite3.Connection]:
    database = url.database or ""
    if not database.startswith("file:"):
        database = f"file:{quote(_file_of(url))}"
    if "?" not in database:
        database += "?mode=ro"  # else a file that is missing would be made, and be empty

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
        connection.create_function("orphanwatch_id", 4, _spelled, deterministic=True)
        return connection

    return open_read_only
