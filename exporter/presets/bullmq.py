"""BullMQ: active jobs with their locks, and its queues."""

from typing import Final

from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.presets import Preset

_ASKS: Final = {"url": "redis://127.0.0.1:6379/0", "queues": ["generate"]}

PRESET: Final = Preset(
    name="bullmq",
    title="BullMQ, a queue for Node",
    stores={
        # ``ttl`` is lockDuration, which a worker renews each half of it; lease_ttl follows.
        StoreName.LEASES: {"type": "redis", "prefix": "bull", "ttl": "30s", "heartbeat": "15s"},
        StoreName.QUEUE: {"type": "redis", "prefix": "bull"},
    },
    asks={StoreName.LEASES: _ASKS, StoreName.QUEUE: _ASKS},
    notes=(
        "Cancels are not in Redis: a job is cancelled inside of its worker. Name a gateway.",
        "Add jobs with jobId set to the id of the request, so that gateway and ledger join.",
        "Where workers set lockDuration, set ttl to the same, else lease ages are off.",
        "The queue of a job is its pool: name the pools as the queues are named.",
    ),
)
