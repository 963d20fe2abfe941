"""A relation as it stands: which of its columns say what, and in which form."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Connection, FromClause, column, select, table, text

from orphanwatch.exporter.columns import COLUMNS, REQUIRED
from orphanwatch.exporter.config import SqlStore
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.cells import (
    Form,
    InstantColumn,
    clean_id,
    clean_ids,
    form_of,
)
from orphanwatch.exporter.stores.dialect import Dialect

# How many cells are looked at to tell a column's form: a few odd ones must not decide.
_SAMPLE_ROWS: Final = 50


@dataclass(frozen=True, slots=True)
class Relation:
    """The columns that a relation has, by canonical name, as of one reading."""

    store: StoreName
    source: FromClause
    columns: Mapping[str, ColumnElement[Any]]
    instants: Mapping[str, InstantColumn]
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
        """Return the columns to select, in the order of ``names``, without the missing ones."""
        return [self.columns[name] for name in names if name in self.columns]

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


def stated_columns(connection: Connection, relation: str) -> tuple[str, ...]:
    """Return the names of a relation's columns."""
    probe = select(text("*")).select_from(_source(relation, ())).limit(0)
    return tuple(connection.execute(probe).keys())


def resolve_relation(
    connection: Connection, store: StoreName, config: SqlStore, dialect: Dialect
) -> Relation:
    """Return the relation of a store's config; raises ``StoreError`` naming a missing column."""
    stated = stated_columns(connection, config.relation)
    names = _match(store, config, stated)
    source = _source(config.relation, stated)
    columns = {name: source.c[actual] for name, actual in names.items()}
    cells = dict(_sampled(connection, source, columns, dialect))
    unique = (
        frozenset()
        if _is_select(config.relation)
        else dialect.unique_columns(connection, config.relation.rpartition(".")[2])
    )
    return Relation(
        store=store,
        source=source,
        columns=columns,
        instants={
            name: InstantColumn(columns[name], form_of(values) or Form(), dialect, config.zone)
            for name, values in cells.items()
        },
        unique=frozenset(name for name, actual in names.items() if actual in unique),
    )


def _match(store: StoreName, config: SqlStore, stated: Sequence[str]) -> dict[str, str]:
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


def _source(relation: str, columns: Sequence[str]) -> FromClause:
    stated: list[Column[Any]] = [column(name) for name in columns]  # type: ignore[misc]  # both kinds serve
    if _is_select(relation):
        inner = relation.strip().removesuffix(";").strip()[1:-1].strip().removesuffix(";")
        # On a line of its own, so that a comment at the end does not swallow the parenthesis.
        return text(inner.replace(":", "\\:") + "\n").columns(*stated).subquery("rel")
    schema, _, name = relation.rpartition(".")
    return table(name, *stated, schema=schema or None).alias("rel")


def _sampled(
    connection: Connection,
    source: FromClause,
    columns: Mapping[str, ColumnElement[Any]],
    dialect: Dialect,
) -> Iterator[tuple[str, list[object]]]:
    """Yield some cells of each column of instants: its form is told by what they hold."""
    for name, cell in columns.items():
        if name.endswith("_at"):
            telling = dialect.tells_form(cell)
            probe = select(cell).select_from(source).where(telling).limit(_SAMPLE_ROWS)
            yield name, [row[0] for row in connection.execute(probe)]
