"""A relation as it stands: which of its columns say what, and in which form."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Connection, FromClause, column, select, table, text

from orphanwatch.exporter.config import SqlStore
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.cells import Form, InstantColumn, form_of
from orphanwatch.exporter.stores.dialect import Dialect

COLUMNS: Final[Mapping[StoreName, tuple[str, ...]]] = {
    StoreName.GATEWAY: (
        "task_id",
        "retry_id",
        "attempt",
        "pool",
        "submitted_at",
        "deadline_at",
        "cancelled_at",
        "finished_at",
        "outcome",
        "cancellable",
    ),
    StoreName.LEASES: (
        "task_id",
        "worker_id",
        "pool",
        "acquired_at",
        "heartbeat_at",
        "released_at",
    ),
    StoreName.LEDGER: (
        "task_id",
        "tokens",
        "charged_at",
        "prompt_tokens",
        "started_at",
        "entry_id",
    ),
    StoreName.QUEUE: ("sampled_at", "depth", "age_seconds", "in_flight", "admission_cap"),
}
"""The canonical columns of each store (contract, section 3)."""

REQUIRED: Final[Mapping[StoreName, frozenset[str]]] = {
    StoreName.GATEWAY: frozenset({"task_id"}),
    StoreName.LEASES: frozenset({"task_id"}),
    StoreName.LEDGER: frozenset({"task_id", "tokens", "charged_at"}),
    StoreName.QUEUE: frozenset(),
}

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
    forms = dict(_forms(connection, source, columns))
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
            name: InstantColumn(columns[name], form, dialect, config.zone)
            for name, form in forms.items()
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
        inner = relation.strip().removesuffix(";").strip()[1:-1]
        return text(inner.replace(":", "\\:")).columns(*stated).subquery("rel")
    schema, _, name = relation.rpartition(".")
    return table(name, *stated, schema=schema or None).alias("rel")


def _forms(
    connection: Connection, source: FromClause, columns: Mapping[str, ColumnElement[Any]]
) -> Iterator[tuple[str, Form]]:
    for name, cell in columns.items():
        if name.endswith("_at"):
            probe = select(cell).select_from(source).where(cell.is_not(None)).limit(_SAMPLE_ROWS)
            values = [row[0] for row in connection.execute(probe)]
            yield name, form_of(values) or Form()
