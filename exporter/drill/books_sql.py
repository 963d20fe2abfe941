"""A drill's books in SQL: the very tables that the config names, in the forms that they hold."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sqlalchemy import (
    Column,
    Connection,
    DateTime,
    Engine,
    Executable,
    Integer,
    MetaData,
    String,
    Table,
    and_,
    create_engine,
    delete,
    event,
    insert,
    select,
    update,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import NoSuchTableError, SQLAlchemyError

from orphanwatch.exporter.columns import COLUMNS, REQUIRED
from orphanwatch.exporter.config_stores import SqlSource
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import SECOND, Instant, seconds
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.cells import Form, FormKind, form_of

_DRIVERS: Final = {
    "sqlite": "sqlite",
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
}
_SAMPLED: Final = 50

Row = Mapping[str, object]
"""Canonical columns; an ``Instant`` in each column of instants."""


class SqlBook:
    """One store's table, written one transaction a step; rows are told apart by their ids."""

    def __init__(self, store: StoreName, config: SqlSource, database: "Database") -> None:
        """Raises ``StoreError`` where the store can't be written to, before anything is."""
        self._store = store
        self._config = config
        self._database = database
        self._engine = database.engine
        self._table = self._reflect()
        self._columns = self._mapped()
        self._writers = {
            name: self._writer(column)
            for name, column in self._columns.items()
            if name.endswith("_at")
        }

    def states(self, name: str) -> bool:
        """Return whether the table has a canonical column."""
        return name in self._columns

    def add(self, row: Row) -> None:
        """Insert a row, without what the table has no column for."""
        self._run(
            lambda: self._database.connection.execute(insert(self._table).values(self._cells(row)))
        )

    def stamp(self, row: Row, **key: str) -> None:
        """Set cells of the rows that have these ids."""
        cells = self._cells(row)
        if not cells:
            return
        of = and_(
            *(self._columns[name] == value for name, value in key.items() if self.states(name))
        )
        self._run(
            lambda: self._database.connection.execute(update(self._table).where(of).values(cells))
        )

    def flush(self) -> None:
        """Commit the step, of all books that share the database."""
        self._run(self._database.commit)

    def remove(self, prefix: str) -> int:
        """Delete the rows whose task id begins with a prefix; return how many there were."""
        owned = self._columns["task_id"].startswith(prefix, autoescape=True)
        with self._engine.begin() as connection:
            done = self._run(lambda: connection.execute(delete(self._table).where(owned)))
            return int(done.rowcount)

    def remove_sampled(self, instants: Iterable[Instant]) -> int:
        """Delete the samples of these very instants; return how many there were."""
        column, write = self._columns["sampled_at"], self._writers["sampled_at"]
        gone = 0
        with self._engine.begin() as connection:
            for instant in instants:
                statement = delete(self._table).where(column == write(instant))
                gone += self._run(lambda made=statement: connection.execute(made)).rowcount  # type: ignore[misc]  # bound now
        return gone

    def close(self) -> None:
        """Give up what is not flushed, and the connections."""
        self._database.close()

    def _execute(self, statement: Executable) -> None:
        self._run(lambda: self._database.connection.execute(statement))

    def _cells(self, row: Row) -> dict[str, object]:
        return {
            self._columns[name].name: self._cell(name, value)
            for name, value in row.items()
            if self.states(name)
        }

    def _cell(self, name: str, value: object) -> object:
        if name in self._writers and isinstance(value, int):
            return self._writers[name](Instant(value))
        column = self._columns[name]
        if isinstance(value, bool) and isinstance(column.type, Integer | String):
            return int(value) if isinstance(column.type, Integer) else str(value).lower()
        return value

    def _reflect(self) -> Table:
        relation = self._config.relation.strip()
        if relation.startswith("("):
            raise StoreError(
                self._store,
                "its relation is a SELECT, which a drill can't write to; run the drill on a copy "
                "of the config whose relation is the table",
            )
        schema, _, name = relation.rpartition(".")
        try:
            table: Table = self._run(
                lambda: Table(
                    name.strip('"'),
                    MetaData(),
                    schema=schema.strip('"') or None,
                    autoload_with=self._engine,
                )
            )
        except NoSuchTableError:
            raise StoreError(
                self._store, f"there is no table {relation!r}; check relation: in the config"
            ) from None
        return table

    def _mapped(self) -> dict[str, Column[Any]]:
        found = {}
        for name in COLUMNS[self._store]:
            actual = self._config.columns.get(name, name)
            if actual in self._table.c:
                found[name] = self._table.c[actual]
            elif name in REQUIRED[self._store]:
                raise StoreError(
                    self._store,
                    f"its table has no column {actual!r} (for {name}); map it under columns:",
                )
        return found

    def _writer(self, column: Column[Any]) -> Callable[[Instant], object]:
        """Return how the column writes an instant: as its type and its cells do."""
        kind = column.type
        if isinstance(kind, DateTime):
            zone = None if kind.timezone else self._config.zone
            return lambda at: _stamp(at, UTC if zone is None else zone, naive=zone is not None)
        probe = select(column).where(column.is_not(None)).limit(_SAMPLED)
        with self._engine.connect() as connection:
            cells = [row[0] for row in self._run(lambda: connection.execute(probe).all())]
        form = form_of(cells) or _usual_form(column)
        if form.kind is FormKind.TEXT:
            return lambda at: _stamp(at, UTC, naive=False).isoformat().replace("+00:00", "Z")
        unit = form.micros_per_unit
        if isinstance(kind, Integer):
            return lambda at: round(at / unit)
        return lambda at: at / unit

    def _run(self, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except NoSuchTableError:
            raise
        except SQLAlchemyError as error:
            raise StoreError(
                self._store,
                f"can't be written to ({type(error).__name__}); a drill needs the right to insert, "
                "update and delete in its table",
            ) from error


class Database:
    """One database, and the step that is being written into it: one for all books on it.

    Two transactions of ours on one SQLite file would wait for each other for ever.
    """

    def __init__(self, store: StoreName, config: SqlSource) -> None:
        self.engine = _engine_of(store, config)
        self._open: Connection | None = None

    @property
    def connection(self) -> Connection:
        """The connection of the step; its first use begins a transaction."""
        if self._open is None:
            self._open = self.engine.connect()
        return self._open

    def commit(self) -> None:
        """End the step, if anything was written in it."""
        if self._open is not None:
            self._open.commit()
            self._open.close()
            self._open = None

    def close(self) -> None:
        """Give up what is not committed."""
        if self._open is not None:
            self._open.close()
            self._open = None
        self.engine.dispose()


class Databases:
    """The databases of a config, each once, however many stores live in it."""

    def __init__(self) -> None:
        self._by_url: dict[str, Database] = {}

    def of(self, store: StoreName, config: SqlSource) -> Database:
        """Return the database of a store."""
        url = config.url.get_secret_value()
        if url not in self._by_url:
            self._by_url[url] = Database(store, config)
        return self._by_url[url]


def _engine_of(store: StoreName, config: SqlSource) -> Engine:
    url = make_url(config.url.get_secret_value())
    driver = _DRIVERS.get(url.drivername.partition("+")[0])
    if driver is None:
        raise StoreError(store, f"a drill can't write to databases of kind {url.drivername!r}")
    engine = create_engine(url.set(drivername=driver), connect_args=_patience(driver, config))
    if driver == "sqlite":
        event.listen(engine, "connect", _let_readers_in)
    return engine


def _patience(driver: str, config: SqlSource) -> dict[str, Any]:
    key = "timeout" if driver == "sqlite" else "connect_timeout"
    return {key: max(1, round(seconds(config.timeout)))}


def _let_readers_in(connection: Any, _: object) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")


def _usual_form(column: Column[Any]) -> Form:
    if isinstance(column.type, String):
        return Form(FormKind.TEXT)
    per_unit = SECOND / 1000 if isinstance(column.type, Integer) else SECOND
    return Form(FormKind.EPOCH, micros_per_unit=float(per_unit))


def _stamp(at: Instant, zone: Any, *, naive: bool) -> datetime:
    stamp = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)).astimezone(zone)
    return stamp.replace(tzinfo=None) if naive else stamp
