"""LiteLLM's spend log on a real PostgreSQL, as its versions have it, with nginx's log beside it.

Instants are in seconds after the log's zero, which lies a minute back.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from cli_session import Answer, run
from database_servers import PostgreSQL
from preset_pages import Database, evaluated, reader, statement_of, write_config
from stack_file import Document, Row

LOG: Final = "/var/log/nginx/orphanwatch.log"
"""Where the page's config looks for nginx's log."""

READ_AT: Final = 60.0
"""When a stack is looked at, in seconds after its zero; or a little later."""

_BASELINE = """
    request_id text NOT NULL, call_type text NOT NULL, api_key text NOT NULL DEFAULT '',
    spend double precision NOT NULL DEFAULT 0, total_tokens integer NOT NULL DEFAULT 0,
    prompt_tokens integer NOT NULL DEFAULT 0, completion_tokens integer NOT NULL DEFAULT 0,
    "startTime" timestamp(3) NOT NULL, "endTime" timestamp(3) NOT NULL,
    "completionStartTime" timestamp(3), model text NOT NULL DEFAULT '', "user" text DEFAULT '',
    metadata jsonb DEFAULT '{}', cache_hit text DEFAULT '', messages jsonb DEFAULT '{}',
    response jsonb DEFAULT '{}', proxy_server_request jsonb DEFAULT '{}', session_id text
"""
_CURRENT = f"""{_BASELINE},
    status text, request_duration_ms integer, litellm_call_id text,
    created_at timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP
"""
_PARTITIONED = f'{_CURRENT}, PRIMARY KEY (request_id, "startTime")'
_INDEXES = (
    'CREATE INDEX ON "LiteLLM_SpendLogs" ("startTime")',
    'CREATE INDEX ON "LiteLLM_SpendLogs" ("startTime", request_id)',
    'CREATE INDEX ON "LiteLLM_SpendLogs" (session_id)',
)
_CALL_ID_INDEX = 'CREATE INDEX ON "LiteLLM_SpendLogs" (litellm_call_id)'

SCHEMAS: Final = {
    "early 2025": (
        f'CREATE TABLE "LiteLLM_SpendLogs" ({_BASELINE}, PRIMARY KEY (request_id))',
        *_INDEXES,
    ),
    "2026": (
        f'CREATE TABLE "LiteLLM_SpendLogs" ({_CURRENT}, PRIMARY KEY (request_id))',
        *_INDEXES,
        _CALL_ID_INDEX,
    ),
    "2026, by day": (
        f'CREATE TABLE "LiteLLM_SpendLogs" ({_PARTITIONED}) PARTITION BY RANGE ("startTime")',
        'CREATE TABLE "LiteLLM_SpendLogs_pdefault" PARTITION OF "LiteLLM_SpendLogs" DEFAULT',
        *_INDEXES,
        _CALL_ID_INDEX,
    ),
}
"""The table as the migrations of LiteLLM leave it, without what has no part in this."""

NOT_YET: Final = {"early 2025": {"status", "litellm_call_id"}}
"""Columns that a version lacks."""


@dataclass
class SpendLog:
    """A database with LiteLLM's table, nginx's log beside it, and the page's role and config."""

    database: Database
    folder: Path
    reader_url: str
    lacks: frozenset[str] = frozenset()
    zero: float = field(default_factory=lambda: round(time.time() - READ_AT, 3))

    def configure(self, config: str) -> None:
        """Write one of the page's configs."""
        write_config(self.folder, config.replace(LOG, str(self.folder / "access.log")))

    def add(self, *rows: Row) -> None:
        """Insert rows of ``call``; a column that this version lacks is left out."""
        for row in rows:
            cells = {name: cell for name, cell in row.items() if name not in self.lacks}
            for name in ("startTime", "endTime"):
                # LiteLLM's own way: an instant in UTC, put down without its zone.
                stamp = datetime.fromtimestamp(self.zero + cells[name], UTC)
                cells[name] = stamp.replace(tzinfo=None)
            names = ", ".join(f'"{name}"' for name in cells)
            marks = ", ".join(
                f"CAST(:{name} AS jsonb)" if name == "metadata" else f":{name}" for name in cells
            )
            self.database.run(
                f'INSERT INTO "LiteLLM_SpendLogs" ({names}) VALUES ({marks})',  # noqa: S608  (names of ours)
                **cells,
            )

    def log(self, task_id: str, end: float, *, start: float = 0.0, left: bool = False) -> None:
        """Let nginx write the line of a request: the client left, or was served to the end."""
        line = {
            "msec": f"{self.zero + end:.3f}",
            "request_time": f"{end - start:.3f}",
            "request_id": task_id,
            "status": "200",
            "request_completion": "" if left else "OK",
        }
        with (self.folder / "access.log").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def command(self, words: str) -> Answer:
        """Return what the program itself answers with the config that was written."""
        arguments = (*words.split(), "--config.file", "orphanwatch.yml")
        return run(self.folder, *arguments, LITELLM_DATABASE_URL=self.reader_url)

    def snapshot(self) -> Document:
        """Return one evaluation of the config that was written, now."""
        return evaluated(self.folder / "orphanwatch.yml", LITELLM_DATABASE_URL=self.reader_url)


@contextmanager
def spend_log(server: PostgreSQL, folder: Path, schema: str = "2026") -> Iterator[SpendLog]:
    """Yield an empty spend log of a version."""
    lacks = frozenset(NOT_YET.get(schema, ()))
    with server.new_database() as url:
        database = Database(url)
        database.run(*SCHEMAS[schema])
        grants = [statement_of("litellm", "CREATE ROLE")]
        if lacks:
            grants = [grants[0].replace(", status)", ")")]
        else:
            grants.append(statement_of("litellm", "GRANT SELECT (litellm_call_id)"))
        with reader(database, *grants) as reader_url:
            (folder / "access.log").touch()
            yield SpendLog(database, folder, reader_url, lacks)


def call(request_id: str, start: float, end: float, tokens: int = 1300, **cells: Any) -> Row:
    """Return a row: a chat completion with a prompt of 100 tokens unless it says else."""
    metadata = cells.pop("metadata", {})
    row = {
        "request_id": request_id,
        "call_type": "acompletion",
        "startTime": start,
        "endTime": end,
        "total_tokens": tokens,
        "prompt_tokens": min(100, tokens),
        "completion_tokens": max(0, tokens - 100),
        "cache_hit": "None",
        "status": "success",
        "metadata": None if metadata is None else json.dumps(metadata),
    }
    return {**row, **cells}
