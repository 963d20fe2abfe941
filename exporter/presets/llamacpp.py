"""llama.cpp's server: ``/slots``, and the metrics page, which ``--metrics`` turns on.

Read in ``tools/server/README.md`` and in the server's own source. A slot is a place for one
request: while it is at work it is a lease, and its ``n_decoded`` is a running total of tokens. An
idle slot goes on naming the task that it had last, so only slots at work are let in; what has
ended would look as if it went on until it is seen to have ended. ``next_token`` is a list in newer
builds and an object in older ones. A request that finds no free slot is deferred.
"""

from typing import Any, Final

from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.presets import Preset

_SERVER: Final = "http://127.0.0.1:8080"
_AT_WORK: Final = [{"is_processing": True}]
_SLOTS: Final[dict[str, Any]] = {
    "type": "http_json",
    # The page may change, the server's own documentation says: a build without this field must
    # not look like a server at rest.
    "expects": ["is_processing"],
    "where": _AT_WORK,
}

PRESET: Final = Preset(
    name="llamacpp",
    title="llama.cpp server: its slots, and its metrics page",
    stores={
        StoreName.LEASES: {
            **_SLOTS,
            # Not the slot's id as worker_id: small numbers that ids of tasks would be taken for.
            "columns": {"task_id": "id_task"},
            "alive_when": _AT_WORK,
        },
        StoreName.LEDGER: {
            **_SLOTS,
            "shape": "cumulative",
            "columns": {
                "task_id": "id_task",
                "tokens": ["next_token.n_decoded", "next_token.0.n_decoded"],
            },
        },
        StoreName.QUEUE: {
            "type": "prometheus",
            "form": "exposition",
            "metrics": {
                "depth": ["llamacpp:requests_deferred"],
                "in_flight": ["llamacpp:requests_processing"],
            },
        },
    },
    asks={
        StoreName.LEASES: {"url": f"{_SERVER}/slots"},
        StoreName.LEDGER: {"url": f"{_SERVER}/slots"},
        StoreName.QUEUE: {"url": f"{_SERVER}/metrics", "admission_cap": 8},
    },
    notes=(
        "/slots is on by default, and off with --no-slots; start it with --metrics for the queue.",
        (
            "A slot names its task by id_task, a counter of the server's own: leases and charges "
            "join no gateway by it. A seed of its own with each request joins them: see the page "
            "named below."
        ),
        (
            "The age of the oldest waiting request is not exposed, and a cap is not either: write "
            "your own as admission_cap."
        ),
    ),
)
