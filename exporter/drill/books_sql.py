"""A drill's books in SQL: the very tables that the config names, in the forms that they hold."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from sqlalchemy import (
    REAL,
    Boolean,
    ColumnClause,
    ColumnElement,
    CursorResult,
    Executable,
    Integer,
    MetaData,
    String,
    Table,
    TableClause,
    Text,
    and_,
    cast,
    column,
    delete,
    func,
    insert,
    inspect,
    literal_column,
    not_,
    select,
    table,
    tuple_,
    update,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import NoSuchTableError
from sqlalchemy.types import NullType, TypeEngine

from orphanwatch.exporter.columns import COLUMNS, REQUIRED
from orphanwatch.exporter.config_stores import SqlSource
from orphanwatch.exporter.drill.books_database import Database
from orphanwatch.exporter.drill.sql_instants import InstantForm, instant_form, telling
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.sql.relation import table_name

_SAMPLED: Final = 50
_CLOSE: Final = 0.01
"""By how much a stored number may differ from the one that was written, for its column's sake."""

Row = Mapping[str, object]
"""Canonical columns; an ``Instant`` in each column of instants."""


class SqlBook:
    """One store's table, written one transaction a step; rows are told apart by their ids."""

    def __init__(self, store: StoreName, config: SqlSource, database: Database) -> None:
        """Raises ``StoreError`` where there is no such table, before anything is written."""
        self._store = store
        self._config = config
        self._database = database
        self._reflected = self._reflect()
        self._table = self._bare()
        self._declared: dict[str, TypeEngine[Any]] = {}
        self._columns = self._mapped()
        self._forms = {name: self._form(name) for name in self._columns if name.endswith("_at")}

    def states(self, name: str) -> bool:
        """Return whether the table has a canonical column."""
        return name in self._columns

    def kept(self, name: str, at: Instant) -> Instant:
        """Return an instant as its column will hold it."""
        form = self._forms.get(name)
        return at if form is None else form.kept(at)

    def add(self, row: Row) -> None:
        """Insert a row, without what the table has no column for."""
        cells = self._cells(row)
        self._execute(insert(self._table), cells)

    def stamp(self, row: Row, **key: str) -> None:
        """Set cells of the rows that have these ids."""
        cells = self._cells(row)
        if cells:
            self._execute(update(self._table).where(self._is(key)).values(cells))

    def drop(self, **key: str) -> None:
        """Delete the rows that have these ids."""
        self._execute(delete(self._table).where(self._is(key)))

    def as_of(self, at: Instant) -> None:
        """Do nothing: the table holds what was written."""

    def flush(self) -> None:
        """Commit the step, of all books that share the database."""
        self._database.ask(self._store, self._database.commit)

    def rehearse(self) -> None:
        """Give up the step: the database has taken all of it."""
        self._database.give_up()

    def give_up(self) -> None:
        """Forget what was not flushed."""
        self._database.give_up()

    def remove(self, prefix: str, spared: Collection[str] = ()) -> int:
        """Delete the rows whose task id begins with a prefix; return how many there were.

        Those that begin with one of ``spared`` stay. It is for ``flush`` to make it so.
        """
        owned = self._begins(prefix)
        others = [not_(self._begins(other)) for other in spared]
        return int(self._execute(delete(self._table).where(owned, *others)).rowcount)

    def remove_sampled(self, samples: Iterable[Mapping[str, int | float]]) -> int:
        """Delete samples of ours; return how many there were.

        A sample has no id: all its cells have to be as we wrote them, those that we write nothing
        into empty, and no more rows go than we wrote.
        """
        gone = 0
        for sample, count in Counter(tuple(sorted(row.items())) for row in samples).items():
            gone += self._remove_like(dict(sample), count)
        return gone

    def close(self) -> None:
        """Give up what is not flushed, and the connection."""
        self._database.close()

    def _execute(
        self, statement: Executable, cells: Mapping[str, object] | None = None
    ) -> CursorResult[Any]:
        def execute() -> CursorResult[Any]:
            return self._database.connection.execute(statement, cells)

        return self._database.ask(self._store, execute)

    def _cells(self, row: Row) -> dict[str, object]:
        return {
            self._columns[name].name: self._cell(name, value)
            for name, value in row.items()
            if self.states(name)
        }

    def _cell(self, name: str, value: object) -> object:
        if name in self._forms and isinstance(value, int):
            return self._forms[name](Instant(value))
        kind = self._declared[name]
        if isinstance(value, bool) and not isinstance(kind, Boolean):
            return str(value).lower() if isinstance(kind, String) else int(value)
        if isinstance(kind, String):
            return str(value)
        return value

    def _is(self, key: Mapping[str, str]) -> ColumnElement[bool]:
        stated = {self._columns[name]: value for name, value in key.items() if self.states(name)}
        return and_(
            *(column == value for column, value in stated.items()),
            *(self._exact(column) == value for column, value in stated.items()),
        )

    def _begins(self, prefix: str) -> ColumnElement[bool]:
        """Return whether a task id begins with a prefix, letter by letter.

        The first condition is for an index; to it capitals may be the same letters.
        """
        column = self._columns["task_id"]
        if self._database.kind == "sqlite":
            after = prefix[:-1] + chr(ord(prefix[-1]) + 1)
            near = and_(column >= prefix, column < after)
        else:
            near = column.startswith(prefix, autoescape=True)
        return and_(near, func.substr(self._exact(column), 1, len(prefix)) == prefix)

    def _exact(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return an id that compares letter by letter, whatever its column's collation is."""
        if self._database.kind == "sqlite":
            return column.collate("BINARY")
        if self._database.kind == "postgresql":
            return cast(column, Text).collate("C")
        from orphanwatch.exporter.stores.sql.dialect_mysql_text import (  # noqa: PLC0415  (an extra)
            ExactText,
        )

        return ExactText(column)

    def _remove_like(self, sample: Mapping[str, int | float], count: int) -> int:
        like = and_(*self._likenesses(sample))
        statement = delete(self._table)
        if self._database.kind == "mysql":
            statement = statement.where(like).with_dialect_options(mysql_limit=count)
        else:
            which = tuple_(*self._row_key())
            found = select(*self._row_key()).select_from(self._table).where(like).limit(count)
            statement = statement.where(which.in_(found))
        return int(self._execute(statement).rowcount)

    def _likenesses(self, sample: Mapping[str, int | float]) -> Iterator[ColumnElement[bool]]:
        for name, value in sample.items():
            if name in self._forms:
                yield self._columns[name] == self._forms[name](Instant(int(value)))
            elif self.states(name):
                off = 0.5 if isinstance(self._declared[name], Integer) else _CLOSE
                yield self._columns[name].between(value - off, value + off)
        ours = [self._columns[name].name for name in sample if self.states(name)]
        for other in self._reflected.c:
            is_left_empty = other.nullable and other.server_default is None
            if is_left_empty and other.name not in ours and other.computed is None:
                yield self._table.c[other.name].is_(None)

    def _row_key(self) -> list[ColumnElement[Any]]:
        """Return what tells two rows of the table apart that are alike."""
        keys = [self._table.c[column.name] for column in self._reflected.primary_key.columns]
        if keys:
            return [*keys]
        if self._database.kind == "sqlite":
            return [literal_column("rowid")]
        return [literal_column("tableoid"), literal_column("ctid")]

    def _reflect(self) -> Table:
        named = table_name(self._config.relation)
        if named is None:
            raise StoreError(
                self._store,
                "its relation is a SELECT, which a drill can't write to; run the drill on a copy "
                "of the config whose relation is the table",
            )

        def look() -> Table:
            connection = self._database.connection
            catalog = inspect(connection)
            if named.name in catalog.get_view_names(schema=named.schema):
                raise StoreError(
                    self._store,
                    f"{self._config.relation!r} is a view, and rows that are written through one "
                    "need not come back; run the drill on a copy of the config whose relation is "
                    "the table",
                )
            return Table(named.name, MetaData(), schema=named.schema, autoload_with=connection)

        try:
            return self._database.ask(self._store, look)
        except NoSuchTableError:
            raise StoreError(
                self._store,
                f"there is no table {self._config.relation!r}; check relation: in the config",
            ) from None

    def _bare(self) -> TableClause:
        """Return the table without its keys and defaults, which are the database's business."""
        is_typed = self._database.kind != "sqlite"  # a cell has a type there, a column has none
        return table(
            self._reflected.name,
            *(column(c.name, c.type if is_typed else NullType()) for c in self._reflected.c),
            schema=self._reflected.schema,
        )

    def _mapped(self) -> dict[str, ColumnClause[Any]]:
        found = {}
        for name in COLUMNS[self._store]:
            actual = self._config.columns.get(name, name)
            if actual in self._table.c:
                found[name] = self._table.c[actual]
            elif name in self._config.columns or name in REQUIRED[self._store]:
                raise StoreError(
                    self._store,
                    f"its table has no column {actual!r} (for {name}); map it under columns:",
                )
        self._declared = {name: self._reflected.c[c.name].type for name, c in found.items()}
        task_id = self._declared.get("task_id")
        is_sqlite = self._database.kind == "sqlite"
        if not (task_id is None or is_sqlite or isinstance(task_id, String)):
            raise StoreError(
                self._store,
                "its task_id is no text, and the ids of a drill are; run the drill on a copy of "
                "the config with tables whose ids are text",
            )
        return found

    def _form(self, name: str) -> InstantForm:
        column, kind = self._columns[name], self._declared[name]
        probe = select(column).where(column.is_not(None)).limit(_SAMPLED)
        cells = telling(row[0] for row in self._execute(probe).all())
        is_typed = self._database.kind != "sqlite"
        if is_typed and isinstance(kind, REAL | mysql.FLOAT):
            raise StoreError(
                self._store,
                f"its column {column.name} is a number of four bytes, which holds an epoch to a "
                "minute or two; make it DOUBLE PRECISION, or a native timestamp",
            )
        return instant_form(kind, cells, self._config.zone, is_typed=is_typed)
