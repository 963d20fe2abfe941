"""A small stack in a SQLite file with its config, looked at through the product.

Instants in rows are seconds after ``ZERO``; a text stands as it is, for stamps in other forms.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from sqlalchemy import Engine, NullPool, create_engine

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.instants import instant_of_epoch
from orphanwatch.exporter.model import Evaluation
from orphanwatch.exporter.snapshot import snapshot_document, take_snapshot

Row = dict[str, Any]
Document = dict[str, Any]

ZERO: Final = 1_800_000_000
"""The common zero of the made-up stories: 2027-01-15T08:00:00Z."""

STORES: Final = {"gateway": "tasks", "leases": "leases", "ledger": "ledger", "queue": "queue"}

TABLES: Final = {
    "tasks": (
        "task_id TEXT, retry_id TEXT, attempt INTEGER, pool TEXT, submitted_at REAL, "
        "deadline_at REAL, cancelled_at REAL, finished_at REAL, outcome TEXT, cancellable INTEGER"
    ),
    "leases": (
        "task_id TEXT, worker_id TEXT, pool TEXT, "
        "acquired_at REAL, heartbeat_at REAL, released_at REAL"
    ),
    "ledger": (
        "task_id TEXT, tokens REAL, charged_at REAL, "
        "prompt_tokens REAL, started_at REAL, entry_id TEXT"
    ),
    "queue": "sampled_at REAL, depth REAL, age_seconds REAL, in_flight REAL, admission_cap REAL",
}
"""The embedded default (contract, section 3)."""


def epoch_seconds(offset: float) -> object:
    """Return an instant the way the embedded default writes it."""
    return ZERO + offset


def patience_of(url: str) -> dict[str, Any]:
    """Return what makes a reader of SQLite wait while a busy writer holds the file."""
    return {"timeout": 60} if url.startswith("sqlite") else {}


class StackFile:
    """A stack in a folder: ``stack.db`` and ``orphanwatch.yml``."""

    def __init__(
        self,
        folder: Path,
        *,
        tables: Mapping[str, str] = TABLES,
        stores: Mapping[str, Row | None] | None = None,
        write: Callable[[float], object] = epoch_seconds,
        url: str | None = None,
        **settings: Any,
    ) -> None:
        """Write an empty stack; ``stores`` overrides keys of a store, None leaves it out.

        With a URL the tables stand in that server's database, which is empty so far.
        """
        self.url = url
        self._server = create_engine(url, poolclass=NullPool) if url is not None else None
        self.database = folder / "stack.db"
        self.config_file = folder / "orphanwatch.yml"
        self._write = write
        self.run_sql(*(f"CREATE TABLE {name} ({columns})" for name, columns in tables.items()))
        self.configure(stores=stores, **settings)

    def configure(self, *, stores: Mapping[str, Row | None] | None = None, **settings: Any) -> None:
        """Write the config anew."""
        overrides = stores or {}
        document: Row = {
            "pools": {
                "paid": {"role": "paid", "lease_cap": 2},
                "overflow": {"role": "overflow"},
            },
            "stores": {
                store: self._store(table, overrides.get(store) or {}, shaped=store == "ledger")
                for store, table in STORES.items()
                if overrides.get(store, {}) is not None
            },
            **settings,
        }
        self.config_file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")

    def run_sql(self, *statements: str) -> None:
        """Run statements on the database."""
        if self._server is not None:
            with self._server.begin() as server:
                for statement in statements:
                    server.exec_driver_sql(statement)
            return
        with self._file() as connection:
            for statement in statements:
                connection.execute(statement)

    def add(self, table: str, *rows: Row) -> None:
        """Insert rows; what a row does not say is null."""
        if self._server is not None:
            self._add_to_server(self._server, table, rows)
            return
        with self._file() as connection:
            for row in rows:
                names = ", ".join(f'"{name}"' for name in row)
                marks = ", ".join("?" for _ in row)
                cells = [self._cell(name, value) for name, value in row.items()]
                connection.execute(f'INSERT INTO "{table}" ({names}) VALUES ({marks})', cells)  # noqa: S608  (names of ours)

    @contextmanager
    def _file(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.database)) as connection, connection:
            connection.execute("PRAGMA synchronous = OFF")  # nothing here outlives a power cut
            yield connection

    def _add_to_server(self, engine: Engine, table: str, rows: tuple[Row, ...]) -> None:
        with engine.begin() as server:
            quote = server.dialect.identifier_preparer.quote
            for row in rows:
                names = ", ".join(quote(name) for name in row)
                marks = ", ".join("%s" for _ in row)
                cells = tuple(self._cell(name, value) for name, value in row.items())
                statement = f"INSERT INTO {quote(table)} ({names}) VALUES ({marks})"  # noqa: S608  (names of ours)
                server.exec_driver_sql(statement, cells)

    def beat(self, offset: float) -> None:
        """Let every lease's heartbeat be so many seconds after zero."""
        with self._file() as connection:
            connection.execute("UPDATE leases SET heartbeat_at = ?", (self._write(offset),))

    def _cell(self, name: str, value: object) -> object:
        if name.endswith("_at") and isinstance(value, int | float):
            return self._write(value)
        return value

    def _store(self, table: str, overrides: Row, *, shaped: bool) -> Row:
        url = self.url or "sqlite:///stack.db"
        store: Row = {"type": "sql", "url": url, "relation": table}
        if shaped:
            store["shape"] = "increments"
        return {**store, **overrides}

    @property
    def config(self) -> Config:
        """The config, loaded from its file."""
        return load_config(self.config_file)

    def evaluate(self, offset: float) -> Evaluation:
        """Return one evaluation, so many seconds after zero."""
        return take_snapshot(self.config, instant_of_epoch(ZERO + offset))

    def document(self, offset: float) -> Document:
        """Return the JSON document of one evaluation, so many seconds after zero."""
        return snapshot_document(self.evaluate(offset), self.config)


def task(task_id: object, **cells: Any) -> Row:
    """Return a row of the gateway: submitted at zero to the overflow pool unless it says else."""
    return {"task_id": task_id, "pool": "overflow", "submitted_at": 0, **cells}


def lease(task_id: object, worker_id: object = "w1", **cells: Any) -> Row:
    """Return a row of the leases: acquired at zero in the overflow pool unless it says else."""
    row = {"task_id": task_id, "worker_id": worker_id, "pool": "overflow", "acquired_at": 0}
    return {**row, **cells}


def charge(task_id: object, tokens: object, charged_at: object, **cells: Any) -> Row:
    """Return a row of the ledger."""
    return {"task_id": task_id, "tokens": tokens, "charged_at": charged_at, **cells}


def sample(sampled_at: object, **cells: Any) -> Row:
    """Return a row of the queue: nothing waits and nothing runs under a cap of 8."""
    row = {"sampled_at": sampled_at, "depth": 0, "age_seconds": 0, "in_flight": 0}
    return {**row, "admission_cap": 8, **cells}


def read(document: Document, key: str) -> float | None:
    """Return the sum of a metric's samples, None where there is none.

    A key is the metric's name, then the labels to pick by: ``orphan_leases cause=deadline``.
    """
    name, *picks = key.split()
    wanted = dict(pick.split("=") for pick in picks)
    values = [
        item["value"]
        for item in document["metrics"].get(name, ())
        if wanted.items() <= item["labels"].items()
    ]
    return sum(values) if values else None


def read_all(document: Document, keys: Mapping[str, object]) -> dict[str, float | None]:
    """Return what a document says for each of the keys."""
    return {key: read(document, key) for key in keys}


def action(document: Document) -> str:
    """Return the verdict's action."""
    said: str = document["verdict"]["action"]
    return said


def rejections(document: Document) -> dict[str, float]:
    """Return the rejected rows that were counted, by ``store reason``."""
    return {
        f"{item['labels']['store']} {item['labels']['reason']}": item["value"]
        for item in document["metrics"]["orphan_rows_rejected_total"]
        if item["value"]
    }


def store_problem(evaluation: Evaluation, store: str) -> str:
    """Return what is said of a store that could not be read, empty where it was."""
    return next(health.problem for name, health in evaluation.stores.items() if name == store)


@dataclass(frozen=True, kw_only=True)
class Story:
    """A stack and what it reads at some instants: seconds after zero, and what is expected then.

    Expected values are worked out by hand; None is "absent", and ``action`` is the verdict's.
    """

    looks: Mapping[float, Mapping[str, float | str | None]]
    tasks: tuple[Row, ...] = ()
    leases: tuple[Row, ...] = ()
    ledger: tuple[Row, ...] = ()
    queue: tuple[Row, ...] = ()
    stores: Mapping[str, Row | None] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> StackFile:
        """Return the stack, written into a folder."""
        stack = StackFile(folder, stores=self.stores, **self.settings)
        for table in STORES.values():
            stack.add(table, *getattr(self, table))
        return stack


def assert_story(story: Story, folder: Path) -> None:
    """Look at a story at each of its instants and compare."""
    stack = story.write(folder)
    for offset, expected in story.looks.items():
        assert_reads(stack.document(offset), expected, f"at +{offset}")


def assert_reads(
    document: Document, expected: Mapping[str, float | str | None], where: str = ""
) -> None:
    """Compare what a document says with what is expected, all at once."""
    said: dict[str, float | str | None] = {
        key: action(document) if key == "action" else read(document, key) for key in expected
    }
    wanted = {
        key: pytest.approx(value, rel=1e-9, abs=1e-9) if isinstance(value, int | float) else value
        for key, value in expected.items()
    }
    assert said == wanted, where
