"""The same questions as one refresh asks, as SQL written by hand for this one schema.

No mapping of columns, no form of instants to find out, no cell that may be no number, no store
that may be missing: what a good author writes once the schema is known. Rows are fetched and
nothing more is made of them; ``Answers`` adds them up outside of what is measured.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

Rows = Sequence[tuple[Any, ...]]

# Which requests have several tasks is told from the index alone; only those are joined.
_STOPPED: Final = """
CREATE TEMP TABLE stopped AS
WITH shared AS MATERIALIZED (
    SELECT retry_id FROM tasks WHERE retry_id NOT IN ('', 'none', 'null')
    GROUP BY retry_id HAVING count(*) > 1
), candidate AS (
    SELECT rowid AS task, cancelled_at AS stop_at, 'client_cancel' AS cause FROM tasks
    WHERE cancelled_at > :scope_start AND cancelled_at <= :at AND cancelled_at >= submitted_at
    UNION ALL
    SELECT rowid, deadline_at, 'deadline' FROM tasks
    WHERE deadline_at > :scope_start AND deadline_at <= :at
        AND (finished_at IS NULL OR finished_at > deadline_at)
    UNION ALL
    SELECT mine.rowid, other.finished_at, 'sibling_completed'
    FROM shared CROSS JOIN tasks AS mine ON mine.retry_id = shared.retry_id
    JOIN tasks AS other ON other.retry_id = shared.retry_id AND other.task_id <> mine.task_id
    WHERE other.outcome = 'ok' AND other.finished_at <= :at
        AND other.finished_at > mine.submitted_at
        AND (other.cancelled_at IS NULL OR other.cancelled_at > other.finished_at)
        AND (other.deadline_at IS NULL OR other.deadline_at >= other.finished_at)
), first_stop AS (
    SELECT task, min(stop_at) AS stop_at, cause FROM candidate GROUP BY task
)
SELECT task_id, retry_id, pool, attempt, submitted_at, deadline_at, finished_at, cancellable,
    stop_at, cause, stop_at + :grace AS cutoff
FROM first_stop JOIN tasks ON tasks.rowid = task
WHERE finished_at IS NULL OR finished_at > :at OR finished_at > stop_at
    OR (finished_at = stop_at AND cause = 'client_cancel')
"""

_QUESTIONS: Final[Mapping[str, str]] = {
    "stopped": "SELECT * FROM temp.stopped",
    "attached": """
        SELECT coalesce(sum(ends IS NULL), 0),
            sum(max(0, min(coalesce(ends, :at), :spend_end) - max(begins, :spend_start)))
                / (:spend_end - :spend_start),
            sum(max(0, min(coalesce(ends, :at), :spend_start) - max(begins, :baseline_start)))
                / (:spend_start - :baseline_start)
        FROM (
            SELECT submitted_at AS begins, CASE
                WHEN stop_at IS NULL THEN CASE WHEN tasks.finished_at <= :at THEN tasks.finished_at
                    END
                ELSE min(stop_at, coalesce(tasks.finished_at, stop_at)) END AS ends
            FROM tasks LEFT JOIN (SELECT task_id, stop_at FROM temp.stopped) USING (task_id)
            WHERE submitted_at <= :at
                AND (tasks.finished_at IS NULL OR tasks.finished_at > :baseline_start)
        )""",
    "budgets": """
        SELECT task_id, pool, deadline_at - submitted_at FROM tasks
        WHERE submitted_at > :spend_start AND submitted_at <= :spend_end
            AND pool = 'overflow' AND deadline_at IS NOT NULL""",
    "uncancellable": """
        SELECT task_id, pool FROM tasks
        WHERE finished_at IS NULL AND cancellable = 0 AND submitted_at <= :at""",
    "recent retries": """
        SELECT task_id, retry_id, attempt, (
            SELECT min(attempt) FROM tasks AS other WHERE other.retry_id = mine.retry_id
        ) FROM tasks AS mine
        WHERE submitted_at > :at - 60 AND submitted_at <= :at AND attempt > 1""",
    "held leases": """
        SELECT leases.task_id, worker_id, leases.pool, acquired_at, heartbeat_at, released_at,
            tasks.retry_id, tasks.attempt, tasks.pool, submitted_at, deadline_at, cancelled_at,
            finished_at, outcome, cancellable
        FROM leases LEFT JOIN tasks USING (task_id)
        WHERE released_at IS NULL AND acquired_at <= :at
        UNION ALL
        SELECT leases.task_id, worker_id, leases.pool, acquired_at, heartbeat_at, released_at,
            tasks.retry_id, tasks.attempt, tasks.pool, submitted_at, deadline_at, cancelled_at,
            finished_at, outcome, cancellable
        FROM leases LEFT JOIN tasks USING (task_id)
        WHERE released_at > :at - 300 AND acquired_at <= :at
            AND (released_at > :at OR acquired_at <= :at - 3600)""",
    "leases of the stopped": """
        SELECT leases.task_id, worker_id, leases.pool, acquired_at, heartbeat_at, released_at
        FROM temp.stopped JOIN leases USING (task_id)""",
    "spend by key": """
        SELECT spent.*, tasks.rowid IS NOT NULL, finished_at FROM (
            SELECT task_id, sum(tokens), max(charged_at), count(*) FROM ledger
            WHERE charged_at > :spend_start AND charged_at <= :at AND tokens >= 0 GROUP BY task_id
        ) AS spent LEFT JOIN tasks USING (task_id)""",
    "keys that are workers": """
        SELECT DISTINCT task_id FROM ledger
        WHERE charged_at > :spend_start AND charged_at <= :at AND task_id > ''
            AND NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.task_id = ledger.task_id)
            AND EXISTS (SELECT 1 FROM leases WHERE leases.worker_id = ledger.task_id)""",
    "baseline": """
        SELECT sum(tokens) FROM ledger
        WHERE charged_at > :baseline_start AND charged_at <= :spend_start AND tokens >= 0""",
    "charges past the cutoff": """
        SELECT task_id, sum(CASE WHEN charged_at > cutoff THEN tokens ELSE 0 END),
            sum(CASE WHEN charged_at > cutoff AND charged_at > :spend_start THEN tokens ELSE 0 END),
            max(charged_at), max(CASE WHEN charged_at > cutoff THEN charged_at END)
        FROM temp.stopped JOIN ledger USING (task_id)
        WHERE cancellable AND charged_at <= :at AND tokens >= 0 GROUP BY task_id""",
    "rejected in the windows": """
        SELECT entry_id, task_id, tokens, charged_at FROM ledger
        WHERE charged_at > :baseline_start AND charged_at <= :at AND (tokens IS NULL OR tokens < 0)
        UNION ALL
        SELECT entry_id, task_id, tokens, charged_at FROM ledger WHERE charged_at IS NULL""",
    "rejected of the stopped": """
        SELECT entry_id, task_id, tokens, charged_at
        FROM temp.stopped JOIN ledger USING (task_id)
        WHERE cancellable AND charged_at <= :at AND (tokens IS NULL OR tokens < 0)""",
    "queue": """
        SELECT * FROM queue WHERE sampled_at <= :at ORDER BY sampled_at DESC LIMIT 1""",
}


@dataclass(frozen=True)
class Answers:
    """What the statements returned, by question."""

    rows: Mapping[str, Rows]

    def numbers(self, at: float, lease_ttl: float = 60.0) -> dict[str, float]:
        """Return what can be compared with the product's numbers."""
        by_question = self.rows
        abandoned = {row[0]: row for row in by_question["stopped"] if row[7] and row[8] > at - 3600}
        charges = by_question["charges past the cutoff"]
        held = [row for row in by_question["held leases"] if row[5] is None or row[5] > at]
        live = [row for row in held if at - max(row[3], row[4] or 0.0) <= lease_ttl]
        orphans = [row for row in live if row[0] in abandoned and at > abandoned[row[0]][10]]
        spend = by_question["spend by key"]
        workers = {row[0] for row in by_question["keys that are workers"]}
        attached = by_question["attached"][0]
        bad = {
            row[0]
            for question in ("rejected in the windows", "rejected of the stopped")
            for row in by_question[question]
        }
        return {
            "abandoned tasks": len(abandoned),
            "orphan tokens": sum(row[1] for row in charges),
            "orphan token delta": sum(row[2] for row in charges),
            "live leases": len(live),
            "orphan leases": len(orphans),
            "leases of the stopped": len(by_question["leases of the stopped"]),
            "spend tokens": sum(row[1] for row in spend),
            "baseline tokens": by_question["baseline"][0][0] or 0,
            "tokens charged to workers": sum(row[1] for row in spend if row[0] in workers),
            "attached tasks": attached[0],
            "attached, spend window": attached[1],
            "attached, baseline window": attached[2],
            "deadline budgets": len(by_question["budgets"]),
            "rejected rows": len(bad),
            "queue depth": by_question["queue"][0][1],
        }


def ask_by_hand(file: Path, at: float) -> Answers:
    """Return the answers of one file as of ``at``, with the windows of the contract's defaults."""
    windows = {
        "at": at,
        "spend_end": at,
        "spend_start": at - 60,
        "baseline_start": at - 360,
        "scope_start": at - 3960,
        "grace": 1.0,
    }
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("BEGIN")
        connection.execute(_STOPPED, windows)
        return Answers(
            {
                question: connection.execute(statement, windows).fetchall()
                for question, statement in _QUESTIONS.items()
            }
        )
