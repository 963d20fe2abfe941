"""Refreshes on PostgreSQL: on a copy of the stack that was built in a SQLite file."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import psycopg
from database_servers import running_postgresql
from refreshes import Timing, time_refreshes
from stack_at_scale import advised_indexes

from orphanwatch.exporter.config import Config, parse_config

_TABLES: Final = {
    "tasks": (
        "task_id text PRIMARY KEY, retry_id text, attempt integer, pool text, "
        "submitted_at float8, deadline_at float8, cancelled_at float8, "
        "finished_at float8, outcome text, cancellable integer"
    ),
    "leases": (
        "task_id text, worker_id text, pool text, acquired_at float8, "
        "heartbeat_at float8, released_at float8"
    ),
    "ledger": "entry_id bigint PRIMARY KEY, task_id text, tokens integer, charged_at float8",
    "queue": (
        "sampled_at float8, depth integer, age_seconds float8, "
        "in_flight integer, admission_cap integer"
    ),
}


def refresh_on_postgresql(
    folder: Path, file: Path, at: float, rounds: int
) -> Timing[dict[str, float]]:
    """Return the median refresh on a copy of a stack's file, with the numbers that it gave."""
    with running_postgresql(folder) as server:
        url = server.url
        config = config_on(url)
        with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
            for table, columns in _TABLES.items():
                connection.execute(f"CREATE TABLE {table} ({columns})")
                _copy(connection, file, table)
                connection.execute(f"ALTER TABLE {table} {_as_stamps(columns)}")
            for statement in advised_indexes(config):
                connection.execute(statement)
            connection.execute("VACUUM ANALYZE")
        return time_refreshes(config, at, rounds)


def config_on(url: str) -> Config:
    """Return the config of the stack's copy, with patience for a slow machine."""
    place = {"type": "sql", "url": url, "timeout": "20s"}
    return parse_config(
        {
            "pools": {"paid": {"role": "paid"}, "overflow": {"role": "overflow"}},
            "stores": {
                "gateway": place,
                "leases": {**place, "lease_ttl": "60s"},
                "ledger": {**place, "shape": "increments"},
                "queue": place,
            },
            "refresh_interval": "30s",
        }
    )


def _copy(connection: "psycopg.Connection[tuple[object, ...]]", file: Path, table: str) -> None:
    names = [column.split()[0] for column in _TABLES[table].split(", ")]
    with connection.cursor().copy(f"COPY {table} ({', '.join(names)}) FROM STDIN") as copy:
        for row in _rows(file, table, names):
            copy.write_row(row)


def _rows(file: Path, table: str, names: list[str]) -> Iterator[tuple[object, ...]]:
    with closing(sqlite3.connect(file)) as source:
        yield from source.execute(f"SELECT {', '.join(names)} FROM {table}")  # noqa: S608  (names of ours)


def _as_stamps(columns: str) -> str:
    """Return what turns the epoch numbers of a table into native timestamps."""
    stamps = [name for column in columns.split(", ") if (name := column.split()[0]).endswith("_at")]
    return ", ".join(
        f"ALTER COLUMN {name} TYPE timestamptz USING to_timestamp({name})" for name in stamps
    )
