"""MariaDB and MySQL, through PyMySQL."""

import json
import re
from collections.abc import Callable, Collection, Sequence
from datetime import tzinfo
from typing import Any, ClassVar, Final

from pymysql.constants import FIELD_TYPE
from sqlalchemy import (
    CTE,
    JSON,
    TIMESTAMP,
    BigInteger,
    ColumnElement,
    Connection,
    Date,
    Double,
    Engine,
    FromClause,
    Integer,
    LargeBinary,
    Numeric,
    Select,
    Text,
    bindparam,
    case,
    create_engine,
    false,
    func,
    literal,
    literal_column,
    or_,
    text,
)
from sqlalchemy.engine import make_url
from sqlalchemy.types import NullType, TypeEngine

from orphanwatch.exporter.ids import UUID_PATTERN
from orphanwatch.exporter.instants import SECOND, Instant, Micros, seconds
from orphanwatch.exporter.stores.cells import NO_NUMBER
from orphanwatch.exporter.stores.sql.dialect import Explained, TableName
from orphanwatch.exporter.stores.sql.dialect_mysql_catalog import (
    index_statement_on,
    is_table,
    leading_columns,
    unique_columns,
)
from orphanwatch.exporter.stores.sql.dialect_mysql_errors import explain
from orphanwatch.exporter.stores.sql.dialect_mysql_text import (
    Bit,
    ExactText,
    InstantOfText,
    NumberOfText,
    exact_collation,
)
from orphanwatch.exporter.stores.sql.dialect_server import ServerDialect, is_double, is_text
from orphanwatch.exporter.stores.sql.dialect_server_instants import Scale
from orphanwatch.exporter.stores.sql.dialect_zones import (
    EARLIEST,
    LATEST,
    WallClock,
    datetime_of,
    wall_clock_of,
)

_INTEGERS: Final = (
    FIELD_TYPE.TINY,
    FIELD_TYPE.SHORT,
    FIELD_TYPE.INT24,
    FIELD_TYPE.LONG,
    FIELD_TYPE.LONGLONG,
)
_TEXTS: Final = (
    FIELD_TYPE.VARCHAR,
    FIELD_TYPE.VAR_STRING,
    FIELD_TYPE.STRING,
    FIELD_TYPE.TINY_BLOB,
    FIELD_TYPE.MEDIUM_BLOB,
    FIELD_TYPE.LONG_BLOB,
    FIELD_TYPE.BLOB,
)
_TYPES: Final[dict[int, TypeEngine[Any]]] = {
    **dict.fromkeys(_INTEGERS, BigInteger()),
    **dict.fromkeys(_TEXTS, Text()),
    FIELD_TYPE.BIT: Bit(),
    FIELD_TYPE.FLOAT: Double(),
    FIELD_TYPE.DOUBLE: Double(),
    FIELD_TYPE.DECIMAL: Numeric(),
    FIELD_TYPE.NEWDECIMAL: Numeric(),
    FIELD_TYPE.JSON: JSON(),
    FIELD_TYPE.DATE: Date(),
    FIELD_TYPE.NEWDATE: Date(),
    FIELD_TYPE.DATETIME: TIMESTAMP(timezone=False),
    # An instant that is shown in the session's zone, and that is UTC.
    FIELD_TYPE.TIMESTAMP: TIMESTAMP(timezone=True),
}
"""By the type's number in the protocol; all others are read as the text they show."""

_NO_CHARACTERS: Final = 63
"""The character set "binary". Numbers and stamps say it of themselves too."""

_ANY_UUID: Final = f"^(?-i:{UUID_PATTERN})\\z"
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,19}")
_DECIMAL: Final = re.compile(r"-?[0-9]{1,60}([.][0-9]{1,30})?")


class MySql(ServerDialect):
    """MariaDB 10.6 and later, MySQL 8.0.17 and later."""

    dot_is_any: ClassVar = "(?s)"
    very_end: ClassVar = r"\z"

    _collation: str = ""

    def engine(self, url: str, zone: tzinfo, timeout: Micros) -> Engine:  # noqa: ARG002  (SQL is told the zone)
        """Return an engine with one connection, which is tried before each reading."""
        parsed = make_url(url).set(drivername="mysql+pymysql")
        patience = max(1, -(-timeout // SECOND))
        options: dict[str, Any] = {
            "charset": "utf8mb4",
            "program_name": "orphanwatch",
            "connect_timeout": patience,
            # The server gives up first; this is for one that vanished without a word.
            "read_timeout": patience + 5,
        }
        return create_engine(
            parsed,
            pool_size=1,
            max_overflow=0,
            pool_timeout=patience,
            pool_pre_ping=True,
            connect_args={
                name: value for name, value in options.items() if name not in parsed.query
            },
        )

    def begin(self, connection: Connection, timeout: Micros) -> None:
        """Begin a transaction that reads one state, with its own limits."""
        is_mariadb = bool(getattr(connection.dialect, "is_mariadb", False))
        self._collation = exact_collation(is_mariadb=is_mariadb)
        limit = (
            f"max_statement_time = {max(0.001, seconds(timeout)):.3f}"
            if is_mariadb
            else f"max_execution_time = {max(1, timeout // 1000)}"
        )
        wait = max(1, timeout // SECOND // 2)
        connection.exec_driver_sql(
            f"SET SESSION {limit}, SESSION lock_wait_timeout = {wait}, SESSION time_zone = '+00:00'"
        )
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.exec_driver_sql("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")

    def explain(self, error: Exception) -> Explained | None:
        """Return what the server said, without user, host and database."""
        return explain(error)

    def column_types(self, cursor: Any) -> Sequence[TypeEngine[Any]]:
        """Return the types by their numbers; text of no character set is bytes."""
        return [
            LargeBinary()
            if field.type_code in _TEXTS and field.charsetnr == _NO_CHARACTERS
            else _TYPES.get(field.type_code, NullType())
            # What a cursor describes in public leaves the character set out.
            for field in cursor._result.fields  # noqa: SLF001  (as said above)
        ]

    def hex_of(self, name: str) -> str:
        """Return the functions that write bytes as text."""
        return f"HEX({name}), or BIN_TO_UUID({name}),"

    def text_of(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return text in a collation that knows no case and no blanks to be left out."""
        return column if isinstance(column, ExactText) else ExactText(column)

    def as_number(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return a number as a double."""
        if is_double(column) or isinstance(column.type, Integer | Bit):
            return column * literal_column("1e0", Double())
        return super().as_number(column)

    def number_of_text(self, text: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return a number; what is none is greater than all that are used."""
        return NumberOfText(text, literal_column(repr(NO_NUMBER * 1e8)))

    def number_of_decimal(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return a double: decimals have 65 digits at most."""
        return column * literal_column("1e0", Double())

    def instant_of_text(self, text: ColumnElement[Any], clock: WallClock) -> ColumnElement[Any]:
        """Return what patterns make of the text."""
        cases = "".join(
            f" WHEN digits < '{datetime_of(Instant(c.wall)):%Y%m%d%H%M%S}' THEN {c.before}"
            for c in clock.changes
        )
        offset = f"CASE{cases} ELSE {clock.last} END" if cases else str(clock.last)
        return InstantOfText(text, literal_column(offset))

    def uuid_of_text(self, text: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return it in lower case, with hyphens."""
        bare = func.lower(func.replace(func.trim(text), "-", ""))
        parts = (func.substr(bare, *place) for place in ((1, 8), (9, 4), (13, 4), (17, 4), (21,)))
        return case((text.op("REGEXP")(_ANY_UUID), func.concat_ws("-", *parts)), else_=text)

    def scale_of_stamps(self, column: ColumnElement[Any], zone: tzinfo, at: Instant) -> Scale:
        """Return a scale of ``TIMESTAMP``, or of wall time in the store's zone."""
        if getattr(column.type, "timezone", False):
            return Scale(
                _FIRST_TIMESTAMP,
                _stamp(LATEST),
                _since_1970,
                _stamp,
                _stamp,
                is_missing=_unset_before(_FIRST_TIMESTAMP),
            )
        clock = wall_clock_of(zone, at)

        def micros(cell: ColumnElement[Any]) -> ColumnElement[Any]:
            return _since_1970(cell) - clock.offset(lambda wall: cell < _stamp(Instant(wall)))

        return Scale(
            _stamp(EARLIEST),
            _stamp(LATEST),
            micros,
            lambda at: _stamp(clock.earliest(at)),
            lambda at: _stamp(clock.latest(at)),
            clock.is_steady,
            _unset_before(_stamp(EARLIEST)),
        )

    def among(self, column: ColumnElement[Any], keys: Collection[str]) -> ColumnElement[bool]:
        """Return whether the stored id is one of the keys, or looks like one to its collation."""
        kind, listed = column.type, sorted(keys)
        if isinstance(kind, Integer):
            numbers = [int(key) for key in listed if _INTEGER.fullmatch(key)]
            return column.in_([number for number in numbers if -(2**63) <= number < 2**64])
        if isinstance(kind, Numeric) and kind.asdecimal:
            decimals = [key for key in listed if _DECIMAL.fullmatch(key)]
            return column.in_([literal_column(key) for key in decimals]) if decimals else false()
        if not is_text(column) or isinstance(column, ExactText):
            return self.text_of(column).in_([key for key in listed if _is_storable(key)])
        # What a column's own character set may lack is not to be compared with the column as is.
        plain = [key for key in listed if key.isascii()]
        others = [key for key in listed if not key.isascii() and _is_storable(key)]
        is_other = self.text_of(column).in_(others) if others else false()
        return or_(column.in_(plain), is_other)

    def rows_of(self, rows: Collection[Sequence[Any]], names: Sequence[str]) -> FromClause:
        """Return the rows out of one JSON parameter."""
        key, *numbers = names
        cells = ", ".join(f"{name} BIGINT PATH '$[{at}]'" for at, name in enumerate(numbers, 1))
        given = text(
            f"SELECT {key} COLLATE {self._collation} AS {key}, {', '.join(numbers)}"  # noqa: S608  (names of ours)
            " FROM JSON_TABLE(:rows, '$[*]' COLUMNS"
            f" ({key} LONGTEXT CHARACTER SET utf8mb4 PATH '$[0]', {cells})) AS given"
        ).bindparams(bindparam("rows", json.dumps([list(row) for row in rows]), unique=True))
        kinds = {name: BigInteger() for name in numbers}
        return given.columns(**{key: Text()}, **kinds).subquery("handed")

    def materialized(self, statement: Select[Any], name: str) -> CTE:
        """Return a common table expression: its rows are found by their ids either way."""
        return statement.cte(name)

    def now(self) -> ColumnElement[Any] | None:
        """Return the clock as the statement begins."""
        return _since_1970(func.utc_timestamp(literal_column("6"))) / literal_column("1e6")

    def unique_columns(self, connection: Connection, table: TableName) -> frozenset[str]:
        """Return the columns with a unique index of their own."""
        return unique_columns(connection, table)

    def leading_columns(self, connection: Connection, table: TableName) -> frozenset[str] | None:
        """Return the first columns of the B-trees; None where the relation is a view."""
        return leading_columns(connection, table) if is_table(connection, table) else None

    def index_on(self, connection: Connection, table: TableName, column: str) -> str:
        """Return the statement; of long text an index takes the beginning."""
        return index_statement_on(connection, table, column)


def _is_storable(key: str) -> bool:
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


def _since_1970(cell: ColumnElement[Any]) -> ColumnElement[Any]:
    unit: ColumnElement[Any] = literal_column("MICROSECOND")
    epoch: ColumnElement[Any] = literal_column("'1970-01-01'")
    return func.timestampdiff(unit, epoch, cell, type_=BigInteger())


def _stamp(at: Instant) -> ColumnElement[Any]:
    return literal(datetime_of(at).replace(tzinfo=None), TIMESTAMP())


def _unset_before(
    first: ColumnElement[Any],
) -> Callable[[ColumnElement[Any]], ColumnElement[bool]]:
    """Return what tells a cell that is null, or the zero date: older schemas say the same by it."""
    return lambda column: or_(column.is_(None), column < first)


# Compared with a stamp that its type can't hold, a column is read from one end to the other.
_FIRST_TIMESTAMP: Final = _stamp(Instant(SECOND))
