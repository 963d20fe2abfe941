"""Envoy's access log in JSON, by the field names of Envoy Gateway and Envoy AI Gateway.

A line is written when its request has ended, and its fields are the user's own choice. The
response flags tell who ended it: the code stays 200 where a client leaves in the middle of an
answer. A format without the flags shows no cancel at all.
"""

from typing import Final

from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.presets import Preset

_CLIENT_LEFT: Final = (
    *("DC", "DownstreamConnectionTermination"),
    *("DR", "DownstreamRemoteReset"),
)
_GAVE_UP: Final = (
    *("UT", "UpstreamRequestTimeout"),
    *("DT", "DurationTimeout"),
    *("SI", "StreamIdleTimeout"),
    *("UMSDR", "UpstreamMaxStreamDurationReached"),
)
_BROKE: Final = (
    *("UC", "UpstreamConnectionTermination"),
    *("UF", "UpstreamConnectionFailure"),
    *("UR", "UpstreamRemoteReset"),
    *("LR", "LocalReset"),
    *("UPE", "UpstreamProtocolError"),
)
"""The answer had begun, and the upstream did not get to its end."""

PRESET: Final = Preset(
    name="envoy",
    title="Envoy, Envoy Gateway, Envoy AI Gateway: access log in JSON lines",
    stores={
        StoreName.GATEWAY: {
            "type": "jsonl",
            "rows": "at_end",
            "columns": {
                "task_id": ["x-request-id", "request_id"],
                "retry_id": "x-retry-id",
                "attempt": "x-retry-attempt",
                "started_at": "start_time",
                "duration": "duration",
            },
            "duration_unit": "ms",
            "deadline_unit": "ms",
            "cancelled_when": [
                {"response_flags": {"has": [*_CLIENT_LEFT, *_GAVE_UP]}},
                # No answer had begun: for the most part since the client had gone.
                {"response_code": 0},
                {"response_code": 504},
            ],
            "failed_when": [
                {"response_code": ">=400"},
                {"response_flags": {"has": list(_BROKE)}},
            ],
        },
    },
    asks={StoreName.GATEWAY: {"path": "/var/log/envoy/access.log"}},
    notes=(
        (
            "The access log's format must have response_flags (%RESPONSE_FLAGS%), or cancels in "
            "the middle of an answer are unseen; check says so."
        ),
        (
            "A request has no line while it runs: attached tasks, the in-flight gap and the split "
            "signal are unknown."
        ),
        "Envoy forwards x-request-id by itself; clients that retry must send the same X-Retry-Id.",
    ),
)
