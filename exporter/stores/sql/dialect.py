"""What one SQL dialect needs of its own: connecting read-only, deadlines, ids, numbers, instants.

Everything else about SQL stores is SQLAlchemy Core and the same for all. Another dialect is a
module with a class of its own and an entry in ``_MODULES``; a dialect is imported when a store
uses it, so that a driver that is not installed costs only the stores that need it.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import tzinfo
from importlib import import_module
from typing import Any, Final, NamedTuple, Protocol

from sqlalchemy import CTE, ColumnElement, Connection, Engine, FromClause, Select
from sqlalchemy.types import TypeEngine

from orphanwatch.exporter.ids import IdRule
from orphanwatch.exporter.instants import Instant, Micros


class TableName(NamedTuple):
    """The name of a table or a view, as the database knows it."""

    schema: str | None
    name: str


class InstantColumn(Protocol):
    """A column of instants, comparable in SQL to ours and readable at the border."""

    @property
    def column(self) -> ColumnElement[Any]:
        """The column as it is stored."""
        ...

    def moved_to(self, column: ColumnElement[Any]) -> "InstantColumn":
        """Return the same kind of column, as another relation passes it on."""
        ...

    def after(self, at: Instant) -> ColumnElement[bool]:
        """Return whether the cell's instant, to the microsecond, is strictly after ``at``."""
        ...

    def reaches(self, at: Instant) -> ColumnElement[bool]:
        """Return whether the cell is after ``at`` or can't be read: a condition an index serves."""
        ...

    def by(self, at: Instant) -> ColumnElement[bool]:
        """Return whether the cell's instant is at or before ``at``."""
        ...

    def within(self, start: Instant, end: Instant) -> ColumnElement[bool]:
        """Return whether the cell's instant lies in (start, end]."""
        ...

    def after_micros(self, micros: ColumnElement[Any]) -> ColumnElement[bool]:
        """Return whether the cell is strictly after an instant that SQL computed."""
        ...

    def is_missing(self) -> ColumnElement[bool]:
        """Return whether the cell states nothing."""
        ...

    def is_unreadable(self) -> ColumnElement[bool] | None:
        """Return whether there is a cell that states no instant; None where that can't be."""
        ...

    def epoch_micros(self) -> ColumnElement[Any]:
        """Return the cell in whole microseconds, as the border reads it: exact within SQL too."""
        ...

    def cell(self) -> ColumnElement[Any]:
        """Return what to select, so that ``reader`` reads it."""
        ...

    def reader(self) -> Callable[[Any], Instant | None]:
        """Return the function that reads the selected cells; it raises on what is no instant."""
        ...

    def read_all(self, cells: Iterable[Any]) -> list[Instant | None]:
        """Return what ``reader`` makes of each cell, at the pace of a whole column."""
        ...


class Explained(NamedTuple):
    """What a driver said, without anything secret, and the remedy."""

    said: str
    remedy: str


class Dialect(Protocol):
    """The differences between SQL stores."""

    def engine(self, url: str, zone: tzinfo, timeout: Micros) -> Engine:
        """Return an engine whose connections only read; it keeps at most one open."""
        ...

    def begin(self, connection: Connection, timeout: Micros) -> None:
        """Begin a transaction in which everything is read from one state of the store."""
        ...

    def limit(self, connection: Connection, timeout: Micros) -> None:
        """Make the next statement give up after ``timeout``."""
        ...

    def tolerates(self, connection: Connection, error: Exception) -> bool:
        """Return whether a statement is worth another try: what it met is tolerated from now on."""
        ...

    def explain(self, error: Exception) -> Explained | None:
        """Return what a driver's error means; None where nothing more than its words is known."""
        ...

    def column_types(self, cursor: Any) -> Sequence[TypeEngine[Any]]:
        """Return the types of a relation's columns, from the driver's cursor that names them."""
        ...

    def holding_bytes(
        self, connection: Connection, source: FromClause, columns: Sequence[ColumnElement[Any]]
    ) -> Sequence[ColumnElement[Any]]:
        """Return those of the columns whose cells are bytes: no text that an id could be."""
        ...

    def hex_of(self, name: str) -> str:
        """Return how bytes are written as text in a SELECT of the user's."""
        ...

    def as_id(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return an id as the text that the border reads, which groups and joins exactly."""
        ...

    def as_number(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return a number that sums without overflow; see ``is_number`` for what is none."""
        ...

    def as_flag(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return a truth value or a status as what ``lower`` and ``trim`` can be asked of."""
        ...

    def spelled(self, column: ColumnElement[Any], rule: IdRule) -> ColumnElement[Any]:
        """Return an id of ``as_id`` as a store's rule for its ids leaves it."""
        ...

    def is_number(self, column: ColumnElement[Any]) -> ColumnElement[bool] | None:
        """Return whether a cell of ``as_number`` is a number; None where none is beyond all."""
        ...

    def sample(self, column: ColumnElement[Any]) -> "Sample | None":
        """Return how to look at some cells to tell how a column writes its instants.

        None where the column's type says so.
        """
        ...

    def instants(
        self, column: ColumnElement[Any], values: list[object], zone: tzinfo, at: Instant
    ) -> InstantColumn:
        """Return a column of instants, given some of its cells; they are compared around ``at``."""
        ...

    def among(self, column: ColumnElement[Any], keys: Collection[str]) -> ColumnElement[bool]:
        """Return whether a stored id is one of the keys: what an index of the column serves.

        One that only looks alike may be among them too.
        """
        ...

    def rows_of(self, rows: Collection[Sequence[Any]], names: Sequence[str]) -> FromClause:
        """Return rows handed in as parameters, as something to join: a text, then integers."""
        ...

    def materialized(self, statement: Select[Any], name: str) -> CTE:
        """Return a selection that is made first and joined after."""
        ...

    def as_text(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return an id of ``as_id`` as text, to be compared with ids that are handed in."""
        ...

    def now(self) -> ColumnElement[Any] | None:
        """Return the store's clock in epoch seconds, None where it has none of its own."""
        ...

    def unique_columns(self, connection: Connection, table: TableName) -> frozenset[str]:
        """Return the columns that are unique on their own."""
        ...

    def leading_columns(self, connection: Connection, table: TableName) -> frozenset[str] | None:
        """Return the first columns of the relation's indexes; None where it is no table."""
        ...

    def index_on(self, connection: Connection, table: TableName, column: str) -> str:
        """Return the statement that adds an index."""
        ...


class Sample(NamedTuple):
    """Cells that tell the form of a column of instants."""

    cell: ColumnElement[Any]
    telling: ColumnElement[bool]
    """Which of them tell it."""


class UnknownDialectError(Exception):
    """The URL names a kind of database that can't be read."""


class DriverMissingError(Exception):
    """The Python driver of a dialect is not installed; ``extra`` brings it."""

    def __init__(self, title: str, extra: str) -> None:
        super().__init__(f"the driver for {title} is not installed")
        self.title = title
        self.extra = extra


class _Module(NamedTuple):
    module: str
    kind: str
    title: str
    driver: str
    """What the module needs to be importable."""
    extra: str


_HERE: Final = "orphanwatch.exporter.stores.sql"
_SQLITE: Final = _Module(f"{_HERE}.dialect_sqlite", "Sqlite", "SQLite", "sqlite3", "")
_POSTGRESQL: Final = _Module(
    f"{_HERE}.dialect_postgresql", "Postgresql", "PostgreSQL", "psycopg", "postgres"
)
_MYSQL: Final = _Module(f"{_HERE}.dialect_mysql", "MySql", "MariaDB and MySQL", "pymysql", "mysql")

_MODULES: Final = {
    "sqlite": _SQLITE,
    "postgresql": _POSTGRESQL,
    "postgres": _POSTGRESQL,
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
}
"""By the scheme of the URL, without the driver's name."""


def dialect_of(scheme: str) -> Dialect:
    """Return a dialect for a URL's scheme, such as ``postgresql`` or ``mysql+pymysql``.

    Raises ``UnknownDialectError`` and ``DriverMissingError``.
    """
    found = _MODULES.get(scheme.partition("+")[0])
    if found is None:
        raise UnknownDialectError(scheme)
    try:
        import_module(found.driver)
    except ImportError as error:
        raise DriverMissingError(found.title, found.extra) from error
    dialect: Dialect = getattr(import_module(found.module), found.kind)()
    return dialect


def known_schemes() -> tuple[str, ...]:
    """Return the schemes of the databases that can be read."""
    return tuple(_MODULES)


def index_statement(verb: str, connection: Connection, table: TableName, column: str) -> str:
    """Return a statement that adds an index, names quoted where they need it."""
    quote = connection.dialect.identifier_preparer.quote
    relation = f"{quote(table.schema)}.{quote(table.name)}" if table.schema else quote(table.name)
    return f"{verb} {quote(f'{table.name}_{column}')} ON {relation} ({quote(column)})"
