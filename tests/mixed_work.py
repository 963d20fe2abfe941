"""The work of the mixed stack: an RQ job that decodes, charges, and never hears of a cancel."""

import time

import psycopg

TOKENS_PER_BEAT = 20
BEAT_SECONDS = 0.5


def decode(task_id: str, seconds: float, ledger: str) -> None:
    """Charge tokens to the task, row by row, until its time is over."""
    ends = time.monotonic() + seconds
    with psycopg.connect(ledger, autocommit=True) as connection:
        while time.monotonic() < ends:
            time.sleep(BEAT_SECONDS)
            connection.execute(
                "INSERT INTO charges (request_id, tokens, charged_at) VALUES (%s, %s, now())",
                (task_id, TOKENS_PER_BEAT),
            )
