"""Which columns of SQLite hold bytes: each cell has a type of its own, so the cells are asked."""

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, FromClause, func, literal_column, select

# A few cells raise the suspicion, at the same small cost whatever the size of the table.
_SAMPLE_ROWS: Final = 50


def holding_bytes(
    connection: Connection, source: FromClause, columns: Sequence[ColumnElement[Any]]
) -> Sequence[ColumnElement[Any]]:
    """Return the columns of which some cells are bytes, and none is anything else."""
    if not columns:
        return ()
    probe = select(*(func.typeof(column) for column in columns)).select_from(source)
    rows = connection.execute(probe.limit(_SAMPLE_ROWS)).all()
    return [
        column
        for column, kinds in zip(columns, zip(*rows, strict=True), strict=False)  # may have no rows
        if set(kinds) - {"null"} == {"blob"} and not _holds_others(connection, source, column)
    ]


def _holds_others(connection: Connection, source: FromClause, column: ColumnElement[Any]) -> bool:
    """Return whether any cell is a number or a text: those sort before all bytes."""
    others = select(1).select_from(source).where(column < literal_column("X''")).limit(1)
    return connection.execute(others).first() is not None
