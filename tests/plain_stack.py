"""The plain stack: one orphan, one healthy task and a queue, and what it reads at +30."""

from pathlib import Path
from typing import Any

from stack_file import StackFile, charge, lease, sample, task

READS: dict[str, float | str | None] = {
    "orphan_token_delta pool=overflow": 10,
    "orphan_tokens_total": 10,
    "orphan_leases cause=client_cancel": 1,
    "orphan_live_leases": 2,
    "orphan_spend_tokens_per_second": 30 / 60,
    "orphan_attached_tasks": (3 + 30) / 60,
    "orphan_in_flight_gap": 2,
    "orphan_queue_depth": 1,
    "orphan_unmatched_tokens": 0,
    "orphan_store_up": 4,
    "action": "shed",
}
"""What the plain stack says at +30."""


GOOD_ROWS = {
    "tasks": task("bad", submitted_at=1),
    "leases": lease("h", "w3", heartbeat_at=29),
    "ledger": charge("h", 1000, 21),
    "queue": sample(29.5, depth=100),
}
"""One more row of each table, to be spoilt."""


def plain(folder: Path, **settings: Any) -> StackFile:
    """Return a stack with one orphan, one healthy task and a queue."""
    stack = StackFile(folder, **settings)
    stack.add("tasks", task("x", cancelled_at=3), task("h"))
    stack.add("leases", lease("x", heartbeat_at=30), lease("h", "w2", heartbeat_at=30))
    stack.add("ledger", charge("x", 10, 20), charge("h", 20, 20))
    stack.add("queue", sample(29, depth=1, in_flight=2))
    return stack
