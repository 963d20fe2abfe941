"""Random stacks in the tables of a server: each column has a type that suits what it holds."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import yaml
from hypothesis import strategies as st
from sqlalchemy import Engine, create_engine
from stack_strategies import stacks
from stacks import COLUMNS, Row, Stack, config_document, written

from orphanwatch.exporter.instants import Micros
from orphanwatch.exporter.stores.sql.dialect import Dialect

Types = dict[tuple[str, str], str]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

NATIVE_FORMS: Final = ("stamp", "stamp", "wall")
"""Native stamps that are absolute, or wall time without a zone."""


@st.composite
def typed_stacks(draw: Any) -> Stack:
    """Draw any stack, some of its instants in native columns."""
    stack: Stack = draw(stacks())
    forms = {
        place: draw(st.sampled_from((form, *NATIVE_FORMS))) for place, form in stack.forms.items()
    }
    return Stack(
        settings=stack.settings,
        rows=stack.rows,
        dropped=stack.dropped,
        unconfigured=stack.unconfigured,
        missing=stack.missing,
        forms=forms,
    )


class StackServer:
    """One database that holds a stack after the other."""

    def __init__(self, url: str, types: dict[str, tuple[str, ...]], quote: str = '"') -> None:
        """Take a URL, and the types that a column of each form may have."""
        self.url = url
        self._types = types
        self._quote = quote
        # Prepared for the tables of one stack, a statement does not fit the next one's.
        arguments = {"prepare_threshold": None} if url.startswith("postgresql") else {}
        self._engine = create_engine(url, connect_args=arguments)

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()

    def write(self, stack: Stack, folder: Path, number: int = 0) -> Path:
        """Write the stack in the place of the one before; return the path of its config.

        ``number`` picks among the types that would do.
        """
        with self._engine.begin() as connection:
            for table in COLUMNS:
                connection.exec_driver_sql(f"DROP TABLE IF EXISTS {table}")
                if table not in stack.missing:
                    self._write_table(connection, stack, table, number)
        path = folder / "orphanwatch.yml"
        name = "application_name" if self.url.startswith("postgresql") else "program_name"
        document = config_document(stack, self.url + f"?{name}={{store}}")
        for store in document["stores"].values():
            store["timeout"] = "7s"  # a machine that is busy with other tests is no finding
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        return path

    def _write_table(self, connection: Any, stack: Stack, table: str, number: int) -> None:
        gone = stack.dropped.get(table, ())
        kept = [name for name in COLUMNS[table] if name not in gone]
        rows = stack.rows.get(table, [])
        types = {name: self._type_of(stack, table, name, rows, number) for name in kept}
        declared = ", ".join(f"{name} {kind}" for name, kind in types.items())
        connection.exec_driver_sql(f"CREATE TABLE {table} ({declared})")
        if not rows:
            return
        marks = ", ".join("%s" for _ in kept)
        cells = [
            tuple(
                self._cell(row.get(name), stack.forms.get((table, name), "s"), types[name])
                for name in kept
            )
            for row in rows
        ]
        connection.exec_driver_sql(f"INSERT INTO {table} VALUES ({marks})", cells)  # noqa: S608  (names of ours)

    def _type_of(self, stack: Stack, table: str, name: str, rows: list[Row], number: int) -> str:
        form = stack.forms.get((table, name))
        if form is None:
            values = [row.get(name) for row in rows]
            form = COLUMNS[table][name]
            if any(isinstance(value, str) for value in values):
                form = "TEXT"
        choice = self._types["iso" if form.startswith("iso") else form]
        return choice[(number + len(table) + len(name)) % len(choice)]

    def _cell(self, value: Any, form: str, kind: str) -> Any:
        if value is None:
            return None
        if form in NATIVE_FORMS:
            stamp = _EPOCH + timedelta(seconds=value)
            return stamp if kind.startswith("timestamptz") else stamp.replace(tzinfo=None)
        cell = written(value, form)
        if kind == "boolean":
            return bool(cell)
        return str(cell) if kind in TEXTS and not isinstance(cell, str) else cell


TEXTS: Final = ("text", "varchar(99)", "varchar(99) COLLATE utf8mb4_general_ci")


@contextmanager
def one_engine_a_store(kind: type[Dialect]) -> Iterator[None]:
    """Let all stacks of the block be read through the same few engines, as one process would."""
    plain = kind.engine

    with ExitStack() as kept_until_then:

        @lru_cache
        def kept(dialect: type[Dialect], url: str, zone: tzinfo, timeout: Micros) -> Engine:
            engine = plain(dialect(), url, zone, timeout)
            kept_until_then.callback(engine.dispose)
            kept_until_then.enter_context(patch.object(engine, "dispose"))
            return engine

        def engine(_: Dialect, url: str, zone: tzinfo, timeout: Micros) -> Engine:
            return kept(kind, url, zone, timeout)

        with patch.object(kind, "engine", engine):
            yield
