"""PostgreSQL, through psycopg 3.

Nothing rests on the state of a session, so that a pooler may hand each transaction to another:
statements are not prepared on the server, and every setting is the transaction's own.
"""

import codecs
import re
from collections.abc import Collection, Sequence
from datetime import datetime, tzinfo
from typing import Any, Final

from psycopg import IsolationLevel
from sqlalchemy import (
    ARRAY,
    TIMESTAMP,
    BigInteger,
    ColumnElement,
    Connection,
    Double,
    Engine,
    FromClause,
    Numeric,
    Text,
    Uuid,
    any_,
    case,
    cast,
    create_engine,
    event,
    false,
    func,
    literal,
    literal_column,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.engine import make_url
from sqlalchemy.types import NullType, TypeEngine

from orphanwatch.exporter.ids import UUID_PATTERN, IdRule
from orphanwatch.exporter.instants import SECOND, Instant, Micros
from orphanwatch.exporter.stores.sql.dialect import Explained, TableName, index_statement
from orphanwatch.exporter.stores.sql.dialect_postgresql_catalog import (
    PARTITIONED,
    WITH_INDEXES,
    indexes,
    kind_of,
)
from orphanwatch.exporter.stores.sql.dialect_postgresql_errors import explain
from orphanwatch.exporter.stores.sql.dialect_postgresql_patterns import without_inner_flags
from orphanwatch.exporter.stores.sql.dialect_postgresql_text import InstantOfText, NumberOfText
from orphanwatch.exporter.stores.sql.dialect_postgresql_types import TYPES, Char
from orphanwatch.exporter.stores.sql.dialect_server import ServerDialect, is_text
from orphanwatch.exporter.stores.sql.dialect_server_instants import Scale
from orphanwatch.exporter.stores.sql.dialect_zones import (
    EARLIEST,
    LATEST,
    WallClock,
    datetime_of,
    wall_clock_of,
)

# Waiting for a lock is given up before the statement is, so that the reason shows.
_SETTINGS: Final = (
    "SET LOCAL statement_timeout = {timeout};"
    "SET LOCAL lock_timeout = {lock};"
    "SET LOCAL idle_in_transaction_session_timeout = '5min';"
    "SET LOCAL TimeZone = 'UTC';"  # a SELECT of the user's may convert stamps
    "SET LOCAL jit = off"  # compiling takes longer than these questions do
)

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ANY_UUID: Final = f"^(?:{UUID_PATTERN})$"
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
_DECIMAL: Final = re.compile(r"-?[0-9]{1,100}([.][0-9]{1,100})?")


class Postgresql(ServerDialect):
    """PostgreSQL 12 and later."""

    _encoding: str = "utf-8"

    def engine(self, url: str, zone: tzinfo, timeout: Micros) -> Engine:  # noqa: ARG002  (SQL is told the zone)
        """Return an engine with one connection, which is tried before each reading."""
        parsed = make_url(url).set(drivername="postgresql+psycopg")
        patience = max(2, -(-timeout // SECOND))
        options: dict[str, Any] = {
            "application_name": "orphanwatch",
            "client_encoding": "utf8",
            "connect_timeout": patience,
            # A server that vanished without a word is told from one that is thinking.
            "keepalives_idle": patience,
            "keepalives_interval": patience,
            "keepalives_count": 2,
            "tcp_user_timeout": 3000 * patience,
        }
        engine = create_engine(
            parsed,
            pool_size=1,
            max_overflow=0,
            pool_timeout=patience,
            pool_pre_ping=True,
            use_native_hstore=False,
            connect_args={
                "prepare_threshold": None,
                **{name: value for name, value in options.items() if name not in parsed.query},
            },
        )
        event.listen(engine, "connect", _only_read)
        return engine

    def begin(self, connection: Connection, timeout: Micros) -> None:
        """Begin a transaction that reads one state, with its own limits."""
        milliseconds = max(1, timeout // 1000)
        connection.exec_driver_sql(
            _SETTINGS.format(timeout=milliseconds, lock=max(1, milliseconds // 2))
        )
        raw: Any = connection.connection.driver_connection
        self._encoding = _codec(raw.info.parameter_status("server_encoding"))

    def explain(self, error: Exception) -> Explained | None:
        """Return the server's own sentence; of a connection that failed, only the reason."""
        return explain(error)

    def column_types(self, cursor: Any) -> Sequence[TypeEngine[Any]]:
        """Return the types by their numbers."""
        return [TYPES.get(column[1], NullType()) for column in cursor.description]

    def hex_of(self, name: str) -> str:
        """Return the function that writes bytes as text."""
        return f"encode({name}, 'hex')"

    def text_of(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return the column itself where it is text; of JSON, what stands within the quotes."""
        if is_text(column):
            return column
        if isinstance(column.type, JSONB):
            return column.op("#>>", return_type=Text())(literal_column("'{}'"))
        return cast(column, Text())

    def number_of_text(self, text: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return a number, NaN for what is none: that is greater than all numbers here."""
        return NumberOfText(text)

    def number_of_decimal(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return a double, NaN for what fits none."""
        fits = column.between(literal_column("-1e300"), literal_column("1e300"))
        no_number: ColumnElement[Any] = literal_column("'NaN'::float8", Double())
        return case((column.is_(None), None), (fits, cast(column, Double())), else_=no_number)

    def instant_of_text(self, text: ColumnElement[Any], clock: WallClock) -> ColumnElement[Any]:
        """Return what a pattern makes of the text."""
        cases = "".join(f" WHEN wall < {c.wall} THEN {c.before}" for c in clock.changes)
        offset = f"CASE{cases} ELSE {clock.last} END" if cases else str(clock.last)
        return InstantOfText(text, literal_column(offset))

    def uuid_of_text(self, text: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return what the type makes of it: lower case, with hyphens."""
        uuid = cast(cast(func.btrim(text), Uuid()), Text())
        return case((text.op("~")(_ANY_UUID), uuid), else_=text)

    def spelled(self, column: ColumnElement[Any], rule: IdRule) -> ColumnElement[Any]:
        """Return what the server's own patterns leave of an id."""
        prefix, suffix = map(without_inner_flags, (rule.strip_prefix, rule.strip_suffix))
        return super().spelled(column, IdRule(prefix, suffix, rule.uuid))

    def scale_of_stamps(self, column: ColumnElement[Any], zone: tzinfo, at: Instant) -> Scale:
        """Return a scale of ``timestamptz``, or of wall time in the store's zone."""
        if getattr(column.type, "timezone", False):
            return _scale_of_absolute_stamps()
        clock = wall_clock_of(zone, at)

        def micros(cell: ColumnElement[Any]) -> ColumnElement[Any]:
            return _since_1970(cell) - clock.offset(lambda wall: cell < _wall(Instant(wall)))

        return Scale(
            _wall(EARLIEST),
            _wall(LATEST),
            micros,
            lambda at: _wall(clock.earliest(at)),
            lambda at: _wall(clock.latest(at)),
            clock.is_steady,
            has_lower=True,
        )

    def among(self, column: ColumnElement[Any], keys: Collection[str]) -> ColumnElement[bool]:
        """Return whether the stored id is one of the keys, each written as the column's type."""
        kept, kind = self._keys_for(column, keys), column.type
        if isinstance(kind, BigInteger | Numeric | Uuid | Char | Text):
            if not kept:
                return false()
            array = cast(literal(kept, ARRAY(Text())), ARRAY(kind))
            return column == any_(array)
        return self.text_of(column) == any_(literal(kept, ARRAY(Text())))

    def rows_of(self, rows: Collection[Sequence[Any]], names: Sequence[str]) -> FromClause:
        """Return the rows out of one array a column."""
        listed = [row for row in rows if self._is_storable(row[0])]
        texts, *numbers = ([row[place] for row in listed] for place in range(len(names)))
        arrays = [
            literal(texts, ARRAY(Text())),
            *(literal(column, ARRAY(BigInteger())) for column in numbers),
        ]
        return func.unnest(*arrays).table_valued(*names).render_derived(name="handed")

    def now(self) -> ColumnElement[Any] | None:
        """Return the clock as it stands, not as the transaction began."""
        return literal_column("CAST(extract(epoch FROM clock_timestamp()) AS float8)")

    def unique_columns(self, connection: Connection, table: TableName) -> frozenset[str]:
        """Return the columns with a unique index of their own."""
        return frozenset(row.attname for row in indexes(connection, table) if row.is_unique)

    def leading_columns(self, connection: Connection, table: TableName) -> frozenset[str] | None:
        """Return the first columns of the B-trees; None where the relation is a view."""
        kind = kind_of(connection, table)
        if kind not in WITH_INDEXES:
            return None
        return frozenset(row.attname for row in indexes(connection, table) if row.is_tree)

    def index_on(self, connection: Connection, table: TableName, column: str) -> str:
        """Return the statement that lets writers go on; a partitioned table knows none."""
        verb = "CREATE INDEX"
        if kind_of(connection, table) != PARTITIONED:
            verb += " CONCURRENTLY"
        return index_statement(verb, connection, table, column)

    def _keys_for(self, column: ColumnElement[Any], keys: Collection[str]) -> list[str]:
        """Return the keys that can be in a column at all, in their order."""
        kind = column.type
        if isinstance(kind, BigInteger):
            return [k for k in sorted(keys) if _INTEGER.fullmatch(k) and abs(int(k)) < 2**63]
        if isinstance(kind, Numeric) and kind.asdecimal:
            return [key for key in sorted(keys) if _DECIMAL.fullmatch(key)]
        if isinstance(kind, Uuid):
            return [key for key in sorted(keys) if _UUID.fullmatch(key)]
        return [key for key in sorted(keys) if self._is_storable(key)]

    def _is_storable(self, key: str) -> bool:
        """Return whether the database's encoding has all characters of a key."""
        if key.isascii():
            return True
        try:
            key.encode(self._encoding)
        except UnicodeEncodeError:
            return False
        return True


def _only_read(connection: Any, _: object) -> None:
    """Let psycopg begin each transaction as one that reads a single state."""
    connection.read_only = True
    connection.isolation_level = IsolationLevel.REPEATABLE_READ


def _codec(server_encoding: str | None) -> str:
    """Return Python's name of a database's encoding; ASCII where it has none."""
    name = (server_encoding or "").lower()
    try:
        return codecs.lookup(name.replace("win", "cp")).name
    except LookupError:
        return "ascii"


def _since_1970(cell: ColumnElement[Any]) -> ColumnElement[Any]:
    return cast(func.round(func.extract("epoch", cell) * 1_000_000), BigInteger)


def _stamp(at: Instant) -> ColumnElement[Any]:
    return literal(datetime_of(at), TIMESTAMP(timezone=True))


def _wall(at: Instant) -> ColumnElement[Any]:
    naive: datetime = datetime_of(at).replace(tzinfo=None)
    return literal(naive, TIMESTAMP(timezone=False))


def _scale_of_absolute_stamps() -> Scale:
    return Scale(_stamp(EARLIEST), _stamp(LATEST), _since_1970, _stamp, _stamp, has_lower=True)
