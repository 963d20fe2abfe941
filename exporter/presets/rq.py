"""RQ (Redis Queue): jobs, their executions, and its queues."""

from typing import Final

from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.presets import Preset

_URL: Final = {"url": "redis://127.0.0.1:6379/0"}

PRESET: Final = Preset(
    name="rq",
    title="RQ, Redis Queue for Python",
    stores={
        StoreName.GATEWAY: {"type": "redis", "prefix": "rq"},
        # A worker beats every 30 s; its execution expires 60 s after the next one is missed.
        StoreName.LEASES: {
            "type": "redis",
            "prefix": "rq",
            "lease_ttl": "90s",
            "heartbeat": "30s",
        },
        StoreName.QUEUE: {"type": "redis", "prefix": "rq"},
    },
    asks={StoreName.GATEWAY: _URL, StoreName.LEASES: _URL, StoreName.QUEUE: _URL},
    notes=(
        "Enqueue with job_id= set to the id of the request, so that gateway and ledger join.",
        "RQ writes the second of a cancel without its fraction: set clock_skew_allowance to 1s.",
        "The queue of a job is its pool: name the pools as the queues are named.",
        "A cancel alone does not stop a job that runs: send the worker a stop-job command too.",
        "A job that runs again after a failure keeps its id: retries are not told apart.",
    ),
)
