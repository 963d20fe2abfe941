"""What all SQL stores share: one read-only connection a reading, bounded statements, plain rows."""

import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import repeat
from typing import Any, ClassVar, Final, TypeVar

from sqlalchemy import ColumnElement, Connection, Engine, Executable, and_, or_, select, true
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from orphanwatch.exporter.columns import COLUMNS
from orphanwatch.exporter.config_stores import SqlSource
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import Instant, Micros
from orphanwatch.exporter.model import Rejected
from orphanwatch.exporter.names import RejectReason, StoreName
from orphanwatch.exporter.stores.questions import Inspection, Windows
from orphanwatch.exporter.stores.sql.dialect import (
    Dialect,
    DriverMissingError,
    Explained,
    UnknownDialectError,
    dialect_of,
    known_schemes,
)
from orphanwatch.exporter.stores.sql.id_spellings import spellings
from orphanwatch.exporter.stores.sql.line import Line
from orphanwatch.exporter.stores.sql.relation import Relation, resolve_relation, table_name

Fact = TypeVar("Fact")

# Ids handed to one statement: a JSON parameter has no limit of its own, a server's patience has.
_IDS_AT_ONCE: Final = 5_000


class SqlReader:
    """One SQL store, read through one connection from ``open`` to ``close``."""

    name: ClassVar[StoreName]
    looked_up: ClassVar[tuple[str, ...]]
    """Columns that the questions select by: an index on each keeps a refresh cheap."""

    def __init__(self, config: SqlSource) -> None:
        self._config = config
        self.dialect = _dialect_of(self.name, config)
        self._engine: Engine | None = None
        self._line = Line()
        self._connection: Connection | None = None
        self._relation: Relation | None = None
        self._at = Instant(0)
        self._rejected: dict[tuple[RejectReason, str], int] = {}

    def open(self, windows: Windows) -> None:
        """Connect and find out what the relation states, as of now."""
        self.close()  # of a reading that was given up
        self._at = windows.at
        self._rejected = {}
        self._guard(self._connect)

    def close(self) -> None:
        """Give the connection back; a connection that broke is thrown away."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(SQLAlchemyError):  # it is being thrown away, whatever state it is in
                connection.close()

    def cut(self) -> bool:
        """Cut the connection, from any thread; return whether nothing is in flight on it then."""
        return self._line.cut()

    def clock_skew_seconds(self) -> float | None:
        """Return the store's clock less ours, the middle of the round trip taken as ours."""
        import time  # noqa: PLC0415  (the wall clock is asked for here alone)

        now = self.dialect.now()
        if now is None:
            return None
        before = time.time()
        theirs = float(self.rows(select(now))[0][0])
        return theirs - (before + time.time()) / 2

    def rejected(self) -> tuple[Rejected, ...]:
        """Return the rows of this reading that could not be used, each once."""
        return tuple(
            Rejected(self.name, reason, key, count)
            for (reason, key), count in self._rejected.items()
        )

    def inspect(self) -> Inspection:
        """Return the columns that are not stated and the indexes that are not there."""
        relation, name = self.relation, table_name(self._config.relation)
        unstated = tuple(column for column in COLUMNS[self.name] if not relation.has(column))
        connection, dialect = self.connection, self.dialect
        leading = (
            self._guard(lambda: dialect.leading_columns(connection, name))
            if name is not None
            else None
        )
        if name is None or leading is None:
            return Inspection(unstated=unstated, advised=())
        wanted = [
            self._config.columns.get(column, column)
            for column in self.looked_up
            if column not in unstated
        ]
        lacking = [column for column in wanted if column not in leading]
        advised = self._guard(
            lambda: tuple(dialect.index_on(connection, name, column) for column in lacking)
        )
        return Inspection(unstated=unstated, advised=advised)

    def reject(self, reason: RejectReason, key: str, count: int = 1) -> None:
        """Note a row; the same row met twice in one reading is one."""
        self._rejected[reason, key] = max(count, self._rejected.get((reason, key), 0))

    @property
    def connection(self) -> Connection:
        """The connection of the reading."""
        if self._connection is None:
            raise StoreError(self.name, "is not open")
        return self._connection

    @property
    def relation(self) -> Relation:
        """What the relation states, as of the reading."""
        if self._relation is None:
            raise StoreError(self.name, "is not open")
        return self._relation

    def rows(self, statement: Executable) -> Sequence[Any]:
        """Return a statement's rows, or raise ``StoreError``."""
        return self._guard(lambda: self._execute(statement))

    def is_among(self, relation: Relation, name: str, keys: Collection[str]) -> ColumnElement[bool]:
        """Return whether a row's id is one of the keys; one that only looks alike may be too."""
        within = self.dialect.among(relation.stored.get(name, relation[name]), keys)
        if name != "task_id" or relation.spelled is None:
            return within
        rule = self._config.id_rule
        spelled = [form for key in keys for form in spellings(rule, key) or ()]
        # An index finds what may be meant, the rule says which of it is.
        return and_(self.dialect.among(relation.spelled, spelled), within) if spelled else within

    def rows_for(
        self,
        keys: Collection[str],
        name: str,
        statement_for: Callable[[ColumnElement[bool]], Executable],
    ) -> Iterator[Any]:
        """Yield the rows of a statement restricted to keys of an id column."""
        for portion in portions(sorted(keys)):
            yield from self.rows(statement_for(self.is_among(self.relation, name, portion)))

    def facts(
        self,
        rows: Iterable[Sequence[Any]],
        names: Sequence[str],
        others: Mapping[str, Callable[[Any], Any]],
        blank: Fact,
    ) -> list[Fact]:
        """Return rows as facts; one that can't be read costs only itself.

        ``names`` are the canonical columns in the fact's order; those the relation does not
        state keep the value of ``blank``.
        """
        listed = list(rows)
        if not listed:
            return []
        try:
            read = self.relation.read_columns(listed, names, others)
        except (ValueError, TypeError, OverflowError):
            return self._facts_one_by_one(listed, names, others, blank)
        columns = (read.get(place, repeat(value)) for place, value in enumerate(_cells(blank)))
        # What a NamedTuple's own constructor comes down to, without a call of Python for each.
        kind: Any = type(blank)
        make: Callable[[Iterable[Any]], Fact] = partial(tuple.__new__, kind)
        return list(map(make, zip(*columns, strict=False)))  # those not stated have no end

    def _facts_one_by_one(
        self,
        rows: Iterable[Sequence[Any]],
        names: Sequence[str],
        others: Mapping[str, Callable[[Any], Any]],
        blank: Fact,
    ) -> list[Fact]:
        readers = self.relation.readers(names, others)
        make: Callable[[Iterable[Any]], Fact] = type(blank)._make  # type: ignore[attr-defined]  # a NamedTuple
        start = _cells(blank)
        read_facts = []
        for row in rows:
            values = start.copy()
            try:
                for (place, read), cell in zip(readers, row, strict=True):
                    values[place] = read(cell)
            except (ValueError, TypeError, OverflowError):
                self.reject(self._reason(names[place]), repr(tuple(row)))
            else:
                read_facts.append(make(values))
        return read_facts

    def _reason(self, name: str) -> RejectReason:
        is_instant = name in self.relation.instants
        return RejectReason.INVALID_INSTANT if is_instant else RejectReason.INVALID_NUMBER

    def _connect(self) -> None:
        if self._engine is None:
            config = self._config
            self._engine = self.dialect.engine(
                config.url.get_secret_value(), config.zone, config.timeout
            )
            self._line.watch(self._engine)
            weakref.finalize(self, self._engine.dispose)  # what the pool holds goes with us
        self._connection = connection = self._engine.connect()
        self.dialect.begin(connection, self._config.timeout)
        try:
            self._relation = self._resolve(connection)
        except DBAPIError as error:
            if not self.dialect.tolerates(connection, error):
                raise
            self._relation = self._resolve(connection)

    def _resolve(self, connection: Connection) -> Relation:
        return resolve_relation(connection, self.name, self._config, self.dialect, self._at)

    def _execute(self, statement: Executable) -> Sequence[Any]:
        connection = self.connection
        self.dialect.limit(connection, self._config.timeout)
        try:
            return connection.execute(statement).all()
        except DBAPIError as error:
            if not self.dialect.tolerates(connection, error):
                raise
            return connection.execute(statement).all()

    def _guard(self, action: Callable[[], Fact]) -> Fact:
        try:
            return action()
        except DBAPIError as error:
            raise StoreError(self.name, self._say(error)) from error
        except SQLAlchemyError as error:
            raise StoreError(self.name, f"can't be asked: {type(error).__name__}") from error
        except (ValueError, TypeError, OSError) as error:
            if self._connection is not None:
                raise
            # Not "from error": its text may hold what stands in the url.
            raise StoreError(
                self.name,
                f"can't be opened ({type(error).__name__}): check what follows the ? in the url",
            ) from None

    def _say(self, error: DBAPIError) -> str:
        """Return what the driver said, without anything secret of the URL."""
        explained = self.dialect.explain(error)
        if explained is None:
            words = str(error.orig).strip()
            explained = Explained(words or "failed", "check the store")
        if self._config.relation.lstrip().lower().startswith("select"):
            explained = explained._replace(remedy="put the SELECT of relation: into parentheses")
        said = explained.said.splitlines()[0]
        password = make_url(self._config.url.get_secret_value()).password
        if password:
            said = said.replace(str(password), "***")
        return f"{said}; {explained.remedy}"


def portions(listed: Sequence[Fact]) -> Iterator[Sequence[Fact]]:
    """Yield what is to be handed to one statement at a time."""
    for start in range(0, len(listed), _IDS_AT_ONCE):
        yield listed[start : start + _IDS_AT_ONCE]


def may_end_after(
    relation: Relation, begin: str, at: Instant, longest: Micros | None
) -> ColumnElement[bool]:
    """Return whether a row can have ended after ``at``, going by when it began.

    An index on the column ``begin`` serves that. Every row can, where none of the two is known.
    """
    if longest is None or not relation.has(begin):
        return true()
    began = relation.instants[begin]
    return or_(began.reaches(Instant(at - longest)), began.is_missing())


def _cells(fact: Any) -> list[Any]:
    return list(fact)


def _dialect_of(store: StoreName, config: SqlSource) -> Dialect:
    try:
        scheme = make_url(config.url.get_secret_value()).drivername
        return dialect_of(scheme)
    except ArgumentError:
        raise StoreError(
            store, "its url is no database URL; write for example sqlite:///stack.db"
        ) from None
    except UnknownDialectError:
        kind, known = scheme.partition("+")[0], ", ".join(known_schemes())
        raise StoreError(
            store, f"databases of kind {kind!r} can't be read; known: {known}"
        ) from None
    except DriverMissingError as error:
        raise StoreError(
            store, f"{error}; install it with pip install 'orphanwatch[{error.extra}]'"
        ) from error
