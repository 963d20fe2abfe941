"""The canonical columns of each store (contract, section 3)."""

from collections.abc import Mapping
from typing import Final

from orphanwatch.exporter.names import StoreName

COLUMNS: Final[Mapping[StoreName, tuple[str, ...]]] = {
    StoreName.GATEWAY: (
        "task_id",
        "retry_id",
        "attempt",
        "pool",
        "submitted_at",
        "deadline_at",
        "cancelled_at",
        "finished_at",
        "outcome",
        "cancellable",
    ),
    StoreName.LEASES: (
        "task_id",
        "worker_id",
        "pool",
        "acquired_at",
        "heartbeat_at",
        "released_at",
    ),
    StoreName.LEDGER: (
        "task_id",
        "tokens",
        "charged_at",
        "prompt_tokens",
        "started_at",
        "entry_id",
    ),
    StoreName.QUEUE: ("sampled_at", "depth", "age_seconds", "in_flight", "admission_cap"),
}

REQUIRED: Final[Mapping[StoreName, frozenset[str]]] = {
    StoreName.GATEWAY: frozenset({"task_id"}),
    StoreName.LEASES: frozenset({"task_id"}),
    StoreName.LEDGER: frozenset({"task_id", "tokens", "charged_at"}),
    StoreName.QUEUE: frozenset(),
}
