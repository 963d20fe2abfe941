"""The ledger: tokens charged, keyed by task_id and nothing else."""

from sqlalchemy import Connection, insert

from orphanwatch.exporter.demo.tables import LEDGER
from orphanwatch.exporter.instants import Instant, seconds


def charge(task_id: str, tokens: int, now: Instant, connection: Connection) -> None:
    """Book what a worker decoded since its last charge; nothing decoded leaves no row."""
    if tokens > 0:
        connection.execute(
            insert(LEDGER).values(task_id=task_id, tokens=tokens, charged_at=seconds(now))
        )
