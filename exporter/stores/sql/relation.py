"""A relation as it stands: which of its columns say what, and in which form."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Connection, FromClause, column, select, table, text
from sqlalchemy.types import TypeEngine

from orphanwatch.exporter.columns import COLUMNS, REQUIRED
from orphanwatch.exporter.config_stores import SqlSource
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.cells import clean_id, clean_ids
from orphanwatch.exporter.stores.sql.dialect import Dialect, InstantColumn, TableName

# How many cells are looked at to tell a column's form: a few odd ones must not decide.
_SAMPLE_ROWS: Final = 50

_IDS: Final = frozenset({"task_id", "retry_id", "worker_id", "pool", "entry_id"})
_FLAGS: Final = frozenset({"outcome", "cancellable"})


@dataclass(frozen=True, slots=True)
class Relation:
    """The columns that a relation has, by canonical name, as of one reading."""

    store: StoreName
    source: FromClause
    columns: Mapping[str, ColumnElement[Any]]
    """Ids, numbers and flags in the form that the dialect gives them; instants as stored."""
    instants: Mapping[str, InstantColumn]
    stored: Mapping[str, ColumnElement[Any]] = field(default_factory=dict)
    """Ids as they are stored, for look-ups that an index serves; empty once moved."""
    spelled: ColumnElement[Any] | None = None
    """The task's id as it is stored, where a rule tells ids otherwise."""
    unique: frozenset[str] = field(default=frozenset())
    """Canonical names of columns that are unique on their own."""

    def has(self, name: str) -> bool:
        """Return whether the relation states this at all."""
        return name in self.columns

    def __getitem__(self, name: str) -> ColumnElement[Any]:
        """Return a column that is known to be there."""
        return self.columns[name]

    def moved_to(self, source: FromClause, columns: Mapping[str, ColumnElement[Any]]) -> "Relation":
        """Return the same relation as another selection passes it on."""
        return Relation(
            store=self.store,
            source=source,
            columns=columns,
            instants={
                name: stamp.moved_to(columns[name])
                for name, stamp in self.instants.items()
                if name in columns
            },
            unique=self.unique,
        )

    def selected(self, names: Sequence[str]) -> list[ColumnElement[Any]]:
        """Return the cells to select, in the order of ``names``, without the missing ones."""
        return [
            self.instants[name].cell() if name in self.instants else self.columns[name]
            for name in names
            if name in self.columns
        ]

    def readers(
        self, names: Sequence[str], others: Mapping[str, Callable[[Any], Any]]
    ) -> list[tuple[int, Callable[[Any], Any]]]:
        """Return, for each selected column, its place in ``names`` and how its cells are read."""
        return [
            (place, self.instants[name].reader() if name in self.instants else others[name])
            for place, name in enumerate(names)
            if name in self.columns
        ]

    def read_columns(
        self,
        rows: Sequence[Sequence[Any]],
        names: Sequence[str],
        others: Mapping[str, Callable[[Any], Any]],
    ) -> dict[int, list[Any]]:
        """Return the cells of selected columns as ``readers`` read them, by place in ``names``.

        Reads column by column, which takes a fraction of the time, and raises where a single
        cell can't be read.
        """
        selected = [(place, name) for place, name in enumerate(names) if name in self.columns]
        return {
            place: self.instants[name].read_all(cells)
            if name in self.instants
            else _read_all(others[name], cells)
            for (place, name), cells in zip(selected, zip(*rows, strict=True), strict=True)
        }


def _read_all(read: Callable[[Any], Any], cells: Sequence[Any]) -> list[Any]:
    if read is clean_id:
        return clean_ids(cells)
    # Flags and small numbers: the same few values in every row. Cells that are equal read equal.
    known = {cell: read(cell) for cell in set(cells)}
    return [known[cell] for cell in cells]


def stated_columns(
    connection: Connection, relation: str, dialect: Dialect
) -> dict[str, TypeEngine[Any]]:
    """Return the names of a relation's columns, and their types as the dialect tells them."""
    probe = select(text("*")).select_from(_source(relation, {})).limit(0)
    result = connection.execute(probe)
    return dict(zip(result.keys(), dialect.column_types(result.cursor), strict=True))


def resolve_relation(
    connection: Connection, store: StoreName, config: SqlSource, dialect: Dialect, at: Instant
) -> Relation:
    """Return the relation of a store's config, to be compared with instants around ``at``.

    Raises ``StoreError`` naming a column that is missing, or whose ids are bytes.
    """
    stated = stated_columns(connection, config.relation, dialect)
    names = _match(store, config, tuple(stated))
    source = _source(config.relation, stated)
    columns = {name: source.c[actual] for name, actual in names.items()}
    _refuse_bytes(connection, store, source, columns, dialect)
    cells = dict(_sampled(connection, source, columns, dialect))
    named, rule = table_name(config.relation), config.id_rule
    in_form = {name: _in_one_form(name, cell, dialect) for name, cell in columns.items()}
    stored = {name: cell for name, cell in columns.items() if name in _IDS}
    if rule.is_set and "task_id" in in_form:
        in_form["task_id"] = dialect.spelled(in_form["task_id"], rule)
        del stored["task_id"]
    unique = frozenset() if named is None else dialect.unique_columns(connection, named)
    return Relation(
        store=store,
        source=source,
        columns=in_form,
        instants={
            name: dialect.instants(columns[name], values, config.zone, at)
            for name, values in cells.items()
        },
        stored=stored,
        spelled=columns.get("task_id") if rule.is_set else None,
        # What is told apart as it is stored may be one id once the rule was applied.
        unique=frozenset(
            name
            for name, actual in names.items()
            if actual in unique and not (rule.is_set and name == "task_id")
        ),
    )


def _refuse_bytes(
    connection: Connection,
    store: StoreName,
    source: FromClause,
    columns: Mapping[str, ColumnElement[Any]],
    dialect: Dialect,
) -> None:
    """Raise ``StoreError`` where a column of ids holds bytes.

    Bytes are no id. To read on would be calm while blind: where all ids are unknown, nothing joins
    and nothing is told of an orphan, a request or a worker.
    """
    ids = {name: cell for name, cell in columns.items() if name in _IDS}
    found = dialect.holding_bytes(connection, source, list(ids.values()))
    for name, cell in ids.items():
        if any(cell is binary for binary in found):
            actual = str(cell.key)
            meant = "" if actual == name else f" (for {name})"
            raise StoreError(
                store,
                f"{actual}{meant} is binary, and bytes are no id; select {dialect.hex_of(actual)} "
                f"AS {name} through a parenthesised SELECT in relation:",
            )


def _in_one_form(name: str, cell: ColumnElement[Any], dialect: Dialect) -> ColumnElement[Any]:
    if name.endswith("_at"):
        return cell
    if name in _IDS:
        return dialect.as_id(cell)
    return dialect.as_flag(cell) if name in _FLAGS else dialect.as_number(cell)


def _match(store: StoreName, config: SqlSource, stated: Sequence[str]) -> dict[str, str]:
    names = {}
    for name in COLUMNS[store]:
        actual = config.columns.get(name, name)
        if actual in stated:
            names[name] = actual
        elif name in config.columns or name in REQUIRED[store]:
            raise StoreError(
                store,
                f"its relation has no column {actual!r} (for {name}); it has "
                f"{', '.join(stated)}; map the name under columns:",
            )
    return names


def _is_select(relation: str) -> bool:
    return relation.lstrip().startswith("(")


def table_name(relation: str) -> TableName | None:
    """Return the name of a table or view; None of a SELECT.

    A name in the database's own quotes stands for what is within them.
    """
    if _is_select(relation):
        return None
    quoted = _QUOTED_NAME.fullmatch(relation.strip())
    if quoted is not None:
        schema, name = quoted.group("schema", "name")
        return TableName(_unquoted(schema) if schema else None, _unquoted(name))
    schema, _, name = relation.rpartition(".")
    return TableName(schema or None, name)


_PART: Final = r'"(?:[^"]|"")+"|`(?:[^`]|``)+`|[^".`]+'
_QUOTED_NAME: Final = re.compile(rf"(?:(?P<schema>{_PART})\.)?(?P<name>{_PART})")


def _unquoted(part: str) -> str:
    quote = part[0]
    return part[1:-1].replace(quote * 2, quote) if quote in '"`' else part


def _source(relation: str, columns: Mapping[str, TypeEngine[Any]]) -> FromClause:
    stated: list[Column[Any]] = [column(name, kind) for name, kind in columns.items()]  # type: ignore[misc]  # both kinds serve
    named = table_name(relation)
    if named is None:
        inner = relation.strip().removesuffix(";").strip()[1:-1].strip().removesuffix(";")
        # On a line of its own, so that a comment at the end does not swallow the parenthesis.
        return text(inner.replace(":", "\\:") + "\n").columns(*stated).subquery("rel")
    return table(named.name, *stated, schema=named.schema).alias("rel")


def _sampled(
    connection: Connection,
    source: FromClause,
    columns: Mapping[str, ColumnElement[Any]],
    dialect: Dialect,
) -> Iterator[tuple[str, list[object]]]:
    """Yield some cells of each column of instants: its form is told by what they hold."""
    for name, cell in columns.items():
        if name.endswith("_at"):
            sample = dialect.sample(cell)
            if sample is None:
                yield name, []
                continue
            probe = select(sample.cell).select_from(source).where(sample.telling)
            yield name, [row[0] for row in connection.execute(probe.limit(_SAMPLE_ROWS))]
