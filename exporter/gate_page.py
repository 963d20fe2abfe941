"""What ``/gate`` answers: 200 open, 503 closed, with every condition and its evidence as JSON.

The answer is made once for each thing that is published, and the age is all that is added for a
request: it asks no store, and costs a look-up.
"""

import json
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from math import ceil
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs

from orphanwatch.exporter.board import Published
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.gate import Gate, PoolGate
from orphanwatch.exporter.instants import Instant, Micros, seconds
from orphanwatch.exporter.latest import Latest
from orphanwatch.exporter.model import Finding
from orphanwatch.exporter.names import Condition
from orphanwatch.exporter.signals.verdict import CONDITION_WORDS
from orphanwatch.exporter.web_response import JSON, Response

NOTHING_KNOWN: Final = (
    "no current evaluation: nothing is known, so it is closed; see the exporter's log and stores"
)
_SHOWN_NAME: Final = 100
_UNITS: Final = {
    Condition.CANCEL_SLOWER_THAN_SLACK: "seconds",
    Condition.NO_CANCEL_CHANNEL: "tasks",
    Condition.RETRY_ID_MISSING: "tasks",
    Condition.LEDGER_KEYED_BY_HOST: "tokens",
    Condition.HEARTBEAT_TOO_SLOW: "seconds",
    Condition.SECOND_DECODER: "leases",
    Condition.ORPHAN_TOKENS: "tokens",
    Condition.BLIND: "stores",
}


class _Answer(NamedTuple):
    """An answer but for its age: the rest of the JSON object, without the opening brace."""

    is_open: bool
    rest: bytes
    opens_at: Instant | None


_Answers = Mapping[str | None, _Answer]
"""By pool; None is all of them together."""


class GatePage:
    """Answers for all pools, or with ``?pool=NAME`` for one."""

    def __init__(self, config: Config) -> None:
        self._retry_after = config.refresh_interval
        self._answers = Latest(partial(_answers, hold=config.reopen_hold))

    def answer(self, published: Published, query: str, now: Instant) -> Response:
        """Return the response to one request; whatever can't be told is closed."""
        answers = self._answers.of(published)
        asked = parse_qs(query, keep_blank_values=True).get("pool", [None])
        found = answers.get(asked[0]) if len(asked) == 1 else None
        if found is None:
            found = answers[None] if published.gate is None else _unknown(asked, answers)
        at = published.last_evaluated_at
        age = "null" if at is None else f"{max(0.0, seconds(now - at)):.3f}"
        body = b'{"age_seconds": ' + age.encode() + b", " + found.rest
        if found.is_open:
            return Response(HTTPStatus.OK, body, JSON)
        opens_at = found.opens_at if found.opens_at is not None else now + self._retry_after
        wait = max(1, ceil(seconds(opens_at - now)))
        return Response(
            HTTPStatus.SERVICE_UNAVAILABLE, body, JSON, headers=(("Retry-After", str(wait)),)
        )


def _answers(published: Published, hold: Micros) -> _Answers:
    gate, last = published.gate, published.last_evaluated_at
    if gate is None:
        return {None: _answer(_nothing_known(last), opens_at=None)}
    waits = [pool.opens_at for pool in gate.pools.values() if pool.opens_at is not None]
    whole = _document(gate, gate.pools, is_open=gate.is_open, reasons=gate.reasons, hold=hold)
    answers: dict[str | None, _Answer] = {None: _answer(whole, max(waits, default=None))}
    for name, pool in gate.pools.items():
        alone = _document(gate, {name: pool}, is_open=pool.is_open, reasons=pool.reasons, hold=hold)
        answers[name] = _answer(alone, pool.opens_at)
    return answers


def _answer(document: Mapping[str, Any], opens_at: Instant | None) -> _Answer:
    text = json.dumps(document, allow_nan=False)
    return _Answer(bool(document["open"]), text[1:].encode() + b"\n", opens_at)


def _unknown(asked: list[Any], answers: _Answers) -> _Answer:
    """Return that a name which is no overflow pool's is closed."""
    known = ", ".join(name for name in answers if name is not None) or "none"
    reason = (
        f"{str(asked[0])[:_SHOWN_NAME]!r} is no overflow pool of this config; these are: {known}"
        if len(asked) == 1
        else f"{len(asked)} pools are named; ask for one, or for all by naming none"
    )
    return _answer({"open": False, "verdict": None, "reasons": [reason], "pools": {}}, None)


def _nothing_known(last: Instant | None) -> dict[str, Any]:
    return {
        "open": False,
        "verdict": None,
        "reasons": [NOTHING_KNOWN],
        "at": None if last is None else seconds(last),
        "hold_seconds": None,
        "last_sign_at": None,
        "pools": {},
    }


def _document(
    gate: Gate,
    pools: Mapping[str, PoolGate],
    *,
    is_open: bool,
    reasons: tuple[str, ...],
    hold: Micros,
) -> dict[str, Any]:
    return {
        "open": is_open,
        "verdict": str(gate.action),
        "reasons": list(reasons),
        "at": seconds(gate.at),
        "hold_seconds": seconds(hold),
        "last_sign_at": None if gate.last_sign is None else seconds(gate.last_sign),
        "pools": {
            name: {
                "open": pool.is_open,
                "reasons": list(pool.reasons),
                "opens_at": None if pool.opens_at is None else seconds(pool.opens_at),
                "conditions": {
                    str(condition): _finding(condition, finding)
                    for condition, finding in pool.conditions.items()
                },
            }
            for name, pool in pools.items()
        },
    }


def _finding(condition: Condition, finding: Finding) -> dict[str, Any]:
    """Return one condition; null is unknown, or nothing to judge by."""
    return {
        "holds": finding.holds,
        "value": finding.value,
        "threshold": finding.threshold,
        "unit": _UNITS[condition],
        "meaning": CONDITION_WORDS[condition],
    }
