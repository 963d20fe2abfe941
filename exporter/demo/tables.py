"""The stack's tables: the columns of the embedded default, instants as epoch seconds."""

from pathlib import Path
from typing import Final

from sqlalchemy import (
    URL,
    Boolean,
    Column,
    Engine,
    Float,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    create_engine,
    event,
)
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

METADATA: Final = MetaData()

TASKS: Final = Table(
    "tasks",
    METADATA,
    Column("task_id", Text, primary_key=True),
    Column("retry_id", Text, index=True),
    Column("attempt", Integer),
    Column("pool", Text),
    Column("submitted_at", Float, index=True),
    Column("deadline_at", Float, index=True),
    Column("cancelled_at", Float, index=True),
    Column("finished_at", Float, index=True),
    Column("outcome", Text),
    Column("cancellable", Boolean),
)

LEASES: Final = Table(
    "leases",
    METADATA,
    Column("task_id", Text, index=True),
    Column("worker_id", Text),
    Column("pool", Text),
    Column("acquired_at", Float),
    Column("heartbeat_at", Float),
    Column("released_at", Float),
)
# Unreleased leases are few among many: an index of them alone stays small.
Index("leases_unreleased", LEASES.c.acquired_at, sqlite_where=LEASES.c.released_at.is_(None))

LEDGER: Final = Table(
    "ledger",
    METADATA,
    Column("entry_id", Integer, primary_key=True),
    Column("task_id", Text),
    Column("tokens", Integer),
    Column("charged_at", Float, index=True),
)
Index("ledger_task", LEDGER.c.task_id, LEDGER.c.charged_at)

QUEUE: Final = Table(
    "queue",
    METADATA,
    Column("sampled_at", Float, index=True),
    Column("depth", Integer),
    Column("age_seconds", Float),
    Column("in_flight", Integer),
    Column("admission_cap", Integer),
)


def open_database(file: Path) -> Engine:
    """Return an engine on a new SQLite database that holds the four tables, empty."""
    engine = create_engine(URL.create("sqlite", database=str(file)))
    event.listen(engine, "connect", _let_readers_in)
    METADATA.create_all(engine)
    return engine


def _let_readers_in(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    # With a write-ahead log, the exporter's reads never wait for the stack's writes.
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()
