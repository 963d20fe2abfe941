"""What the catalogs of MariaDB and MySQL say of a relation's indexes."""

from typing import Any, Final

from sqlalchemy import Connection, text

from orphanwatch.exporter.stores.sql.dialect import TableName, index_statement

# Of text without a limit an index takes only the beginning; no id is as long.
_PREFIX: Final = 191

_OF_TABLE: Final = "table_schema = COALESCE(:schema, DATABASE()) AND table_name = :name"

_LEADING: Final = text(
    f"SELECT column_name FROM information_schema.statistics WHERE {_OF_TABLE}"  # noqa: S608  (ours)
    " AND seq_in_index = 1 AND index_type = 'BTREE' AND column_name IS NOT NULL"
)
_UNIQUE: Final = text(
    "SELECT MIN(column_name) FROM information_schema.statistics"  # noqa: S608  (ours)
    f" WHERE {_OF_TABLE} AND non_unique = 0 GROUP BY index_name"
    " HAVING COUNT(*) = 1 AND COUNT(sub_part) = 0 AND COUNT(column_name) = 1"
)
_KIND: Final = text(f"SELECT table_type FROM information_schema.tables WHERE {_OF_TABLE}")  # noqa: S608  (ours)
_TYPE: Final = text(
    f"SELECT data_type FROM information_schema.columns WHERE {_OF_TABLE}"  # noqa: S608  (ours)
    " AND column_name = :column"
)
_LONG: Final = frozenset({"tinytext", "text", "mediumtext", "longtext", "json"})


def is_table(connection: Connection, table: TableName) -> bool:
    """Return whether the relation is a table: a view has no index."""
    kind: object = connection.execute(_KIND, table._asdict()).scalar()
    return kind == "BASE TABLE"


def leading_columns(connection: Connection, table: TableName) -> frozenset[str]:
    """Return the first columns of the B-trees."""
    return frozenset(connection.execute(_LEADING, table._asdict()).scalars())


def unique_columns(connection: Connection, table: TableName) -> frozenset[str]:
    """Return the columns with a unique index of their own, on all of the cell."""
    return frozenset(connection.execute(_UNIQUE, table._asdict()).scalars())


def index_statement_on(connection: Connection, table: TableName, column: str) -> str:
    """Return a statement that adds an index."""
    kind: Any = connection.execute(_TYPE, {**table._asdict(), "column": column}).scalar()
    statement = index_statement("CREATE INDEX", connection, table, column)
    return statement.removesuffix(")") + f"({_PREFIX}))" if kind in _LONG else statement
