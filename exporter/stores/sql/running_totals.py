"""Which rows of running totals a window needs: all of the tasks that were charged in it."""

from typing import Any

from sqlalchemy import JSON, ColumnElement, Double, and_, or_, select

from orphanwatch.exporter.stores.sql.reader import SqlReader, portions


def running_totals(
    reader: SqlReader, in_window: ColumnElement[bool], by_now: ColumnElement[bool]
) -> list[ColumnElement[bool]]:
    """Return selections of the rows up to now of every task with a row in a window.

    No two of them hold rows of one task. The tasks are asked for first and then named, as all
    other tasks are: within one statement no planner takes the index of their ids for granted.
    """
    task_id = reader.relation["task_id"]
    active = [row[0] for row in reader.rows(select(task_id).where(in_window).distinct())]
    named = [cell for cell in active if cell is not None]
    if not all(_is_askable(cell) for cell in named):
        return [and_(_is_active(reader, in_window), by_now)]
    portioned = list(portions(sorted({str(cell) for cell in named})))
    parts = []
    for keys in portioned:
        is_meant = reader.is_among(reader.relation, "task_id", keys)
        if len(portioned) > 1:
            # One that only looks alike is in another portion, and must not count in both.
            is_meant = and_(is_meant, reader.dialect.among(task_id, keys))
        parts.append(and_(is_meant, by_now))
    if len(named) < len(active):
        parts.append(and_(_is_without_id(reader), by_now))
    return parts


def _is_askable(cell: object) -> bool:
    """Return whether a store can be asked for an id as it was read: all but odd cells of SQLite."""
    if isinstance(cell, str):
        return "\0" not in cell and "\ufffd" not in cell
    return isinstance(cell, int)


def _is_active(reader: SqlReader, in_window: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return whether a row's task is active, of ids that can only be compared where they are."""
    task_id = reader.relation.stored.get("task_id", reader.relation["task_id"])
    return or_(task_id.in_(select(task_id).where(in_window)), task_id.is_(None))


def _is_without_id(reader: SqlReader) -> ColumnElement[bool]:
    """Return whether a row states no id, as an index tells where the column's type lets it."""
    relation = reader.relation
    cell: ColumnElement[Any] | None = relation.stored.get("task_id", relation.spelled)
    if cell is None or isinstance(cell.type, Double | JSON):  # what is there may be no id as well
        cell = relation["task_id"]
    return cell.is_(None)
