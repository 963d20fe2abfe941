"""A stack at scale in one SQLite file: an hour of traffic, told by arithmetic and not by chance.

Tasks arrive evenly over the hour and live for as long as the newest fifth is in flight. Every
fiftieth was abandoned: half by its client, the others by deadline and sibling; the abandoned of
the newest fifth are still decoding.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orphanwatch.exporter.channel import Channels
from orphanwatch.exporter.clock import wall_clock
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.stores.questions import Windows

_TABLES: Final = """
CREATE TABLE tasks (
    task_id TEXT PRIMARY KEY, retry_id TEXT, attempt INTEGER, pool TEXT, submitted_at REAL,
    deadline_at REAL, cancelled_at REAL, finished_at REAL, outcome TEXT, cancellable INTEGER
);
CREATE TABLE leases (
    task_id TEXT, worker_id TEXT, pool TEXT, acquired_at REAL, heartbeat_at REAL, released_at REAL
);
CREATE TABLE ledger (entry_id INTEGER PRIMARY KEY, task_id TEXT, tokens INTEGER, charged_at REAL);
CREATE TABLE queue (
    sampled_at REAL, depth INTEGER, age_seconds REAL, in_flight INTEGER, admission_cap INTEGER
);
"""

# One row a task, with all that the tables are filled from. The kinds: 0 nobody left, 1 the client
# did, 2 the deadline passed, 3 a sibling (the task before) completed. 7919 is prime: it scatters
# the abandoned tasks over the hour.
_STORY: Final = """
CREATE TEMP TABLE story AS
WITH RECURSIVE number(i) AS (
    SELECT 0 UNION ALL SELECT i + 1 FROM number WHERE i + 1 < :tasks
), scattered AS (
    SELECT i, i * 7919 % :tasks AS place, i >= :tasks - :live AS in_flight,
        :at - 3600 + (i + 0.5) * 3600.0 / :tasks AS submitted, 3600.0 * :live / :tasks AS life
    FROM number
), told AS (
    SELECT *, CASE WHEN place >= :abandoned THEN 0
        WHEN place % 10 < 5 OR (in_flight AND place % 10 > 7) THEN 1
        WHEN place % 10 > 7 AND i % 40 <> 8 THEN 3 ELSE 2 END AS kind
    FROM scattered
), stopped AS (
    SELECT *, i % 40 = 7 AND kind = 0 AND NOT in_flight AS failed,
        CASE kind WHEN 0 THEN NULL WHEN 3 THEN submitted - 3600.0 / :tasks + life
            ELSE submitted + (0.1 + place % 7 * 0.1) * min(life, :at - submitted) END AS stop
    FROM told
)
SELECT *, submitted + 0.001 AS acquired,
    CASE WHEN kind = 0 AND NOT in_flight THEN submitted + life END AS finished,
    CASE WHEN in_flight THEN NULL WHEN kind = 0 THEN submitted + life + 0.05
        WHEN place % 5 = 0 THEN stop + 5 + place % 60 ELSE stop + 0.05 + place % 75 * 0.01
    END AS released
FROM stopped
"""

_TASKS: Final = """
INSERT INTO tasks
SELECT 't' || i,
    CASE WHEN kind = 3 THEN 'r' || (i - 1) WHEN is_retry THEN 'r' || (i - :live) ELSE 'r' || i END,
    CASE WHEN is_retry OR kind = 3 THEN 2 ELSE 1 END,
    CASE WHEN i % 10 < 3 THEN 'paid' ELSE 'overflow' END,
    submitted,
    CASE WHEN kind = 2 THEN stop WHEN i % 10 <> 3 THEN submitted + 2 * life END,
    CASE WHEN kind = 1 THEN stop END,
    finished,
    CASE WHEN failed THEN 'error' WHEN finished IS NOT NULL THEN 'ok' END,
    kind > 0 OR i % 200 <> 11
FROM (
    SELECT *, kind <> 3 AND coalesce(lag(failed, :live) OVER (ORDER BY i), 0) AS is_retry FROM story
)
"""

_LEASES: Final = """
INSERT INTO leases
SELECT 't' || i, 'w' || (i % 500), CASE WHEN i % 10 < 3 THEN 'paid' ELSE 'overflow' END, acquired,
    max(acquired, coalesce(released, :at) - i % 10), released
FROM story
"""

# Older history: as dense in time as the hour, each task's rows spread over a lifetime.
_HISTORY: Final = """
WITH RECURSIVE number(j) AS (
    SELECT 0 WHERE :history > 0 UNION ALL SELECT j + 1 FROM number WHERE j + 1 < :history
)
INSERT INTO ledger (task_id, tokens, charged_at)
SELECT 'h' || (j / (10 * :live) * :live + j % :live), 20 + j % 30,
    :at - 3600 - (:history - j) * 3600.0 / :rows
FROM number
"""

# Twelve charges a lifetime, those that have come; written in the order they came. A few are
# keyed wrongly, by nothing or by the worker, a few are adjustments or unknown.
_LEDGER: Final = """
WITH RECURSIVE step(k) AS (SELECT 0 UNION ALL SELECT k + 1 FROM step WHERE k < 11),
charge AS (
    SELECT i, k, i * 12 + k AS j, kind, acquired + (k + 0.5) / 12 * life AS charged_at,
        CASE WHEN in_flight THEN :at WHEN kind = 0 THEN finished ELSE released END AS ends
    FROM story CROSS JOIN step
), landed AS (
    SELECT * FROM charge WHERE charged_at <= ends ORDER BY k, i LIMIT :rows
)
INSERT INTO ledger (task_id, tokens, charged_at)
SELECT CASE WHEN kind > 0 THEN 't' || i WHEN j % 1000 = 3 THEN 'w' || (i % 500)
        WHEN j % 1000 = 4 THEN '' ELSE 't' || i END,
    CASE j % 5000 WHEN 17 THEN -5 WHEN 18 THEN NULL ELSE 20 + i % 30 END,
    charged_at
FROM landed ORDER BY charged_at
"""

_QUEUE: Final = """
WITH RECURSIVE number(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM number WHERE i < 719)
INSERT INTO queue SELECT :at - 5 * i, 40, 1.5, :live, 400 FROM number
"""


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large a stack is."""

    tasks: int
    abandoned: int
    live_leases: int
    ledger_rows: int
    history_rows: int = 0
    """Ledger rows from before the hour, besides."""

    def parameters(self, at: float) -> dict[str, float]:
        """Return the size as the statements name it, for a stack whose hour ends at ``at``."""
        return {
            "at": at,
            "tasks": self.tasks,
            "abandoned": self.abandoned,
            "live": self.live_leases,
            "rows": self.ledger_rows,
            "history": self.history_rows,
        }


def build_stack(file: Path, size: Size, at: float, config: Config) -> None:
    """Write a stack whose hour ends at ``at`` into a new file, indexed as ``check`` advises."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.executescript(f"PRAGMA page_size = 4096; {_TABLES}")
    advised = list(advised_indexes(config))
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -200000"
        )
        parameters = size.parameters(at)
        for statement in (_STORY, _TASKS, _LEASES, _HISTORY, _LEDGER, _QUEUE):
            connection.execute(statement, parameters)
        for statement in advised:
            connection.execute(statement)


def advised_indexes(config: Config) -> Iterator[str]:
    """Yield the statements that ``orphanwatch check`` prints for the tables as they are."""
    channels, windows = Channels(config), Windows.ending(wall_clock(), config)
    try:
        for channel in channels.all():
            channel.begin(windows)
            inspection = channel.ask(lambda store: store.inspect())
            channel.end()
            if inspection is None:
                raise RuntimeError(f"store {channel.name} can't be inspected: {channel.problem}")
            yield from inspection.advised
    finally:
        channels.stop()
