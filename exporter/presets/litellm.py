"""LiteLLM's spend log in PostgreSQL: a ledger, and the clients that LiteLLM saw leaving.

``"LiteLLM_SpendLogs"`` gets one row a call, when the call is over. Prompts, answers, keys and
addresses stand in it too: no statement here names one of those columns.
"""

from typing import Final

from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.presets import Preset

# What callers know is the call id, the header x-litellm-call-id. Where a row has it differs by
# version: in a column of its own, in metadata, or nowhere but in request_id.
#
# A name that the table lacks is looked up one level further out, in ``older``: so one statement
# serves every version, and '' there says that the version has no such column.
_PART: Final = """
SELECT {task_id} AS task_id, {columns}
FROM (SELECT '' AS litellm_call_id, 'success' AS status) AS older
CROSS JOIN LATERAL (
  SELECT litellm_call_id AS call_id, metadata ->> 'litellm_call_id' AS noted_id, request_id,
         total_tokens, prompt_tokens, "startTime", "endTime", call_type, cache_hit,
         status AS end_status,
         metadata #>> '{{error_information,error_code}}' AS error_code
  FROM "LiteLLM_SpendLogs"
) AS entry
WHERE {place} AND {kind}
"""

_PLACES: Final = {
    "call_id": "call_id <> ''",
    "noted_id": "(call_id IS NULL OR call_id = '') AND noted_id IS NOT NULL",
    "request_id": "(call_id IS NULL OR call_id = '') AND noted_id IS NULL",
}
"""Where an id may stand, and which rows have theirs there. Parts of their own, and no COALESCE:
an index of the table then finds ids in each."""

# An answer out of the cache costs no token. A batch or file is billed whole when somebody asks
# about it, and a stored response is logged again each time it is read: nobody waits for those.
_DECODED: Final = (
    "cache_hit IS DISTINCT FROM 'True' AND call_type NOT IN ("
    "'create_batch', 'acreate_batch', 'retrieve_batch', 'aretrieve_batch', "
    "'cancel_batch', 'acancel_batch', 'create_file', 'acreate_file', "
    "'get_responses', 'aget_responses')"
)


def _relation(columns: str) -> str:
    parts = (
        _PART.format(task_id=name, columns=columns, place=place, kind=_DECODED)
        for name, place in _PLACES.items()
    )
    return f"({'UNION ALL'.join(parts)})"


# LiteLLM gives a call up after 6,000 s unless it is told another time.
_LONGEST: Final = "2h"

PRESET: Final = Preset(
    name="litellm",
    title="LiteLLM proxy: spend log in PostgreSQL",
    stores={
        StoreName.LEDGER: {
            "type": "sql",
            "relation": _relation(
                'total_tokens AS tokens, prompt_tokens, "startTime" AS started_at, '
                '"endTime" AS charged_at'
            ),
            "shape": "final",
            "lag": "60s",
            "longest_request": _LONGEST,
            "timezone": "UTC",
        },
        StoreName.GATEWAY: {
            "type": "sql",
            # A client that leaves in the middle of a stream is a 499 in metadata, of status
            # success. Such a row has no end: LiteLLM does not know when the engine stopped.
            "relation": _relation(
                '"startTime" AS submitted_at, '
                "CASE WHEN error_code = '499' THEN \"endTime\" END AS cancelled_at, "
                "CASE WHEN error_code IS DISTINCT FROM '499' THEN \"endTime\" END AS finished_at, "
                "CASE WHEN end_status = 'failure' THEN 'error' ELSE 'ok' END AS outcome"
            ),
            "rows": "at_end",
            "longest_request": _LONGEST,
            "timezone": "UTC",
        },
    },
    asks={
        StoreName.LEDGER: {"url": "postgresql://orphanwatch:${LITELLM_PASSWORD}@db/litellm"},
        StoreName.GATEWAY: {"url": "postgresql://orphanwatch:${LITELLM_PASSWORD}@db/litellm"},
    },
    notes=(
        (
            "The front proxy must send one id as x-litellm-call-id: rows join by it. LiteLLM of "
            "before June 2026 keeps it for calls that failed, and no other."
        ),
        (
            "A row is written when its call is over, up to a minute late: until then the leases "
            "are the live evidence."
        ),
        (
            "As a gateway it tells of a client when the call is over; before the summer of 2026 it "
            "wrote no row for a client that left in the middle of a stream."
        ),
    ),
)
