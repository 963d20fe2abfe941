"""nginx's access log, in the ``log_format`` of the preset's page: a gateway.

A line is written when its request has ended. nginx calls only a client that left before the
first byte 499. Once the answer has begun the status stays what it was, and what tells is
``$request_completion``: empty where the client was gone before the end. (An upstream that breaks
off, or stalls, in the middle of an answer leaves ``OK``: nginx 1.22.1.)
"""

from typing import Final

from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.presets import Preset

PRESET: Final = Preset(
    name="nginx",
    title="nginx: access log in JSON lines",
    stores={
        StoreName.GATEWAY: {
            "type": "jsonl",
            "rows": "at_end",
            "columns": {
                "task_id": "request_id",
                "retry_id": "retry_id",
                "attempt": "attempt",
                "ended_at": "msec",
                "duration": "request_time",
            },
            "duration_unit": "s",
            "cancelled_when": [
                {"status": 499},
                {"request_completion": "", "status": "<500"},
                # nginx itself waited no longer: proxy_read_timeout before the first byte.
                {"status": 504},
            ],
            "failed_when": [{"status": ">=400"}],
        },
    },
    asks={StoreName.GATEWAY: {"path": "/var/log/nginx/orphanwatch.log"}},
    notes=(
        (
            "nginx must write the log_format of docs/presets/nginx.md, and forward the id that it "
            "logs: proxy_set_header X-Request-Id $orphanwatch_id."
        ),
        (
            "A request has no line while it runs: attached tasks, the in-flight gap and the split "
            "signal are unknown."
        ),
        "Clients that retry must send the same X-Retry-Id with each try, or retries don't join.",
    ),
)
