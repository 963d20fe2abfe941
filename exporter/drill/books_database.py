"""The databases that a drill writes into: one connection each, one transaction a step."""

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchTableError, SQLAlchemyError

from orphanwatch.exporter.config_stores import SqlSource
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import SECOND, Micros, seconds
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.sql.dialect import (
    Dialect,
    DriverMissingError,
    UnknownDialectError,
    dialect_of,
)

_DRIVERS: Final = {
    "sqlite": "sqlite",
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
}

_FORBIDDEN: Final = (
    "the user may not write to it; a drill needs the right to insert, update and delete there "
    "(GRANT, or for SQLite a file and folder that are writable)"
)
_UNFIT: Final = (
    "a drill's rows don't fit into it: run the drill on a copy of the config with tables whose "
    "other columns may be empty"
)
# By SQLSTATE of PostgreSQL, by number of MariaDB and MySQL: no right to write, or read-only.
_FORBIDDING: Final = frozenset({"42501", "25006", 1044, 1142, 1143, 1227, 1290, 1792, 1836})
_CONNECTION: Final = ("OperationalError", "InterfaceError")

Answer = TypeVar("Answer")


class Database:
    """One database, and the step that is being written into it: one for all books on it.

    Two transactions of ours on one SQLite file would wait for each other for ever.
    """

    def __init__(self, store: StoreName, config: SqlSource) -> None:
        """Raises ``StoreError``, in the name of its first store, where there is no such kind."""
        self.url = _url_of(store, config)
        self.kind = self.url.drivername.partition("+")[0]
        self._dialect = _dialect_of(store, self.url.drivername)
        self._timeout = config.timeout
        self.engine = _engine_of(self.url, config.timeout)
        self._open: Connection | None = None

    @property
    def connection(self) -> Connection:
        """The connection of the step; its first use begins a transaction."""
        if self._open is None:
            self._open = self.engine.connect()
            if self.kind == "postgresql":
                self._open.exec_driver_sql(f"SET LOCAL lock_timeout = {self._timeout // 1000}")
        return self._open

    def ask(self, store: StoreName, action: Callable[[], Answer]) -> Answer:
        """Return what an action returns; raises ``StoreError`` with what the database says.

        ``NoSuchTableError`` comes through.
        """
        try:
            return action()
        except NoSuchTableError:
            raise
        except DBAPIError as error:
            raise StoreError(store, self._say(error)) from error
        except SQLAlchemyError as error:
            raise StoreError(store, f"can't be written to: {type(error).__name__}") from error

    def commit(self) -> None:
        """End the step, if anything was written in it."""
        if self._open is not None:
            self._open.commit()
            self._open.close()
            self._open = None

    def give_up(self) -> None:
        """Forget what the step has written; what is broken is thrown away."""
        connection, self._open = self._open, None
        if connection is not None:
            with suppress(SQLAlchemyError):  # a lost connection has rolled back by itself
                connection.close()

    def close(self) -> None:
        """Give up what is not committed, and the connection."""
        self.give_up()
        self.engine.dispose()

    def _say(self, error: DBAPIError) -> str:
        """Return what the driver said, without anything secret of the URL."""
        original: Any = error.orig
        codes = {getattr(original, "sqlstate", None), *getattr(original, "args", ())[:1]}
        words = str(original).strip() or "failed"
        if codes & _FORBIDDING or "readonly" in words:
            return _FORBIDDEN
        explained = self._dialect.explain(error)
        said = (explained.said if explained is not None else words).splitlines()[0]
        if self.url.password:
            said = said.replace(str(self.url.password), "***")
        if explained is not None and type(original).__name__ in _CONNECTION:
            return f"{said}; {explained.remedy}"
        return f"{said}; {_UNFIT}"


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


def _url_of(store: StoreName, config: SqlSource) -> URL:
    try:
        url = make_url(config.url.get_secret_value())
    except ArgumentError:
        raise StoreError(
            store, "its url is no database URL; write for example sqlite:///stack.db"
        ) from None
    driver = _DRIVERS.get(url.drivername.partition("+")[0])
    if driver is None:
        kind = url.drivername.partition("+")[0]
        raise StoreError(store, f"a drill can't write to databases of kind {kind!r}")
    return url.set(drivername=driver)


def _dialect_of(store: StoreName, driver: str) -> Dialect:
    try:
        return dialect_of(driver)
    except UnknownDialectError:
        raise StoreError(store, "a drill can't write to databases of this kind") from None
    except DriverMissingError as error:
        raise StoreError(
            store, f"{error}; install it with pip install 'orphanwatch[{error.extra}]'"
        ) from error


def _engine_of(url: URL, timeout: Micros) -> Engine:
    if url.drivername == "sqlite":
        engine = create_engine(
            "sqlite://",
            creator=lambda: _open_file(url, timeout),
            poolclass=QueuePool,
            pool_size=1,
            max_overflow=0,
        )
        event.listen(engine, "connect", _sync_as_needed)
        return engine
    patience = max(2, -(-timeout // SECOND))
    options = _patience_of(url.drivername.partition("+")[0], patience)
    given = {name: value for name, value in options.items() if name not in url.query}
    more: dict[str, Any] = {}
    if url.drivername.startswith("mysql"):
        # Two drills that delete ranges would lock each other's gaps.
        more["isolation_level"] = "READ COMMITTED"
    engine = create_engine(
        url, connect_args=given, pool_size=1, max_overflow=0, pool_pre_ping=True, **more
    )
    if url.drivername.startswith("mysql"):
        event.listen(engine, "connect", lambda raw, _: _set_session(raw, patience))
    return engine


def _patience_of(kind: str, patience: int) -> dict[str, Any]:
    if kind == "postgresql":
        return {
            "application_name": "orphanwatch drill",
            "connect_timeout": patience,
            "tcp_user_timeout": 3000 * patience,
            "prepare_threshold": None,
        }
    return {
        "program_name": "orphanwatch drill",
        "charset": "utf8mb4",
        "connect_timeout": patience,
    }


def _set_session(raw: Any, patience: int) -> None:
    with raw.cursor() as cursor:
        cursor.execute(
            "SET SESSION time_zone = '+00:00', SESSION lock_wait_timeout = %s,"
            " SESSION innodb_lock_wait_timeout = %s",
            (patience, patience),
        )


def _open_file(url: URL, timeout: Micros) -> sqlite3.Connection:
    """Open a file that is there: a drill makes none by mistake."""
    database = url.database or ""
    if not database.startswith("file:"):
        database = f"file:{quote(str(Path(database).absolute()))}?mode=rw"
    return sqlite3.connect(database, uri=True, timeout=seconds(timeout), check_same_thread=False)


def _sync_as_needed(connection: Any, _: object) -> None:
    # With a write-ahead log a commit need not wait for the disk to be safe from corruption.
    if connection.execute("PRAGMA journal_mode").fetchone() == ("wal",):
        connection.execute("PRAGMA synchronous = NORMAL")
