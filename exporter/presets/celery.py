"""Celery on Redis: what its workers are at, its queues, and the tasks it revoked."""

from typing import Final

from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.presets import Preset

_URL: Final = {"url": "redis://127.0.0.1:6379/0"}

PRESET: Final = Preset(
    name="celery",
    title="Celery with Redis as its broker",
    stores={
        StoreName.GATEWAY: {"type": "redis", "rows": "at_end"},
        # Workers beat every 2 s.
        StoreName.LEASES: {"type": "redis", "lease_ttl": "30s"},
        StoreName.QUEUE: {"type": "redis", "queues": ["celery"]},
    },
    asks={StoreName.GATEWAY: _URL, StoreName.LEASES: _URL, StoreName.QUEUE: _URL},
    notes=(
        "Start the workers with -E: what they are at is known from their events alone.",
        (
            "Events are not kept: what ran before serve started is unknown until it has ended, and "
            "so is what runs for a command that reads once, unless nothing does."
        ),
        (
            "With task_acks_late and worker_prefetch_multiplier 1 in Celery, set acks_late: true "
            "on leases and queue: then what runs is read at once, and no -E is needed."
        ),
        (
            "A revoke without terminate leaves no trace in Redis, and does not stop a task that "
            "runs: as the gateway, name the store in which your clients' cancels are."
        ),
        "Send tasks with task_id= set to the id of the request, so that the stores join.",
        "For how long a message has waited is unknown: Celery does not write it.",
    ),
)
