"""What PostgreSQL's catalogs say of a relation's indexes."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, text

from orphanwatch.exporter.stores.sql.dialect import TableName

PARTITIONED: Final = "p"
WITH_INDEXES: Final = frozenset({"r", PARTITIONED, "m"})
"""Kinds of relations, as ``pg_class`` has them: tables and materialized views."""

# An index on part of the rows promises nothing for others, nor one that is not built to the end.
_INDEXES: Final = text(
    "SELECT a.attname, i.indisunique AND i.indnkeyatts = 1 AS is_unique,"
    " m.amname = 'btree' AS is_tree"
    " FROM pg_catalog.pg_index i"
    " JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid"
    " JOIN pg_catalog.pg_am m ON m.oid = c.relam"
    " JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]"
    " WHERE i.indrelid = to_regclass(:name) AND i.indisvalid AND i.indpred IS NULL"
)
_KIND: Final = text(
    "SELECT CAST(relkind AS text) FROM pg_catalog.pg_class WHERE oid = to_regclass(:name)"
)


def indexes(connection: Connection, table: TableName) -> Sequence[Any]:
    """Return first column, ``is_unique`` (on its own) and ``is_tree`` of each whole index."""
    return connection.execute(_INDEXES, {"name": _quoted(connection, table)}).all()


def kind_of(connection: Connection, table: TableName) -> str | None:
    """Return the relation's kind as ``pg_class`` has it, None where there is none."""
    kind: str | None = connection.execute(_KIND, {"name": _quoted(connection, table)}).scalar()
    return kind


def _quoted(connection: Connection, table: TableName) -> str:
    quote = connection.dialect.identifier_preparer.quote_identifier
    return ".".join(quote(part) for part in table if part is not None)
