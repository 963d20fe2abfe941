"""The JSON answers about the present: the verdict in short, and the orphans page by page.

What they hold is written down in ``docs/schemas/``; unknown is null, never zero.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

from orphanwatch.exporter import names
from orphanwatch.exporter.board import Published
from orphanwatch.exporter.config import ACTION_WORDS, Config
from orphanwatch.exporter.instants import seconds
from orphanwatch.exporter.model import Evaluation, StoreHealth
from orphanwatch.exporter.names import Condition, Family
from orphanwatch.exporter.snapshot import orphan_document

NOTHING_KNOWN: Final = {"error": "no current evaluation: nothing is known, treat it as blind"}
"""What is answered before the first evaluation, and once the last one is too old."""

DEFAULT_LIMIT: Final = 100
LARGEST_LIMIT: Final = 1000


class Window(NamedTuple):
    """Which orphans are asked for: so many, after so many of the worst."""

    limit: int
    offset: int


def verdict_document(published: Published, config: Config) -> dict[str, Any]:
    """Return the verdict and what it rests on, without the single orphans."""
    evaluation = published.evaluation
    if evaluation is None:
        return NOTHING_KNOWN
    verdict = evaluation.verdict
    return {
        "at": seconds(evaluation.at),
        "service": config.service,
        "version": published.version,
        "action": str(verdict.action),
        "sentence": ACTION_WORDS[verdict.action],
        "reasons": list(verdict.reasons),
        "orphans": len(evaluation.orphans),
        "pools": {pool: _pool(evaluation, config, pool) for pool in config.pool_names},
        "stores": {str(store): _store(health) for store, health in evaluation.stores.items()},
        "notes": list(evaluation.notes),
    }


def _pool(evaluation: Evaluation, config: Config, pool: str) -> dict[str, Any]:
    def total(family: Family, *rest: str) -> float | None:
        values = [
            sample.value
            for sample in evaluation.gauges.get(family, ())
            if sample.labels[0] == pool and sample.labels[1 : 1 + len(rest)] == rest
        ]
        return sum(values) if values else None

    role, allowed = config.role(pool), total(names.OVERFLOW_ADMISSION_ALLOWED)
    document: dict[str, Any] = {
        "role": None if role is None else str(role),
        "orphan_token_delta": total(names.TOKEN_DELTA),
        "orphan_leases": total(names.LEASES),
        "duplicate_in_flight": total(names.DUPLICATE_IN_FLIGHT),
        "live_leases": total(names.LIVE_LEASES),
        "grace_seconds": total(names.GRACE_SECONDS),
        "overflow_admission_allowed": None if allowed is None else bool(allowed),
    }
    if pool in config.overflow_pools:
        held = {each: total(names.FAIL_CLOSED, str(each)) for each in Condition}
        document["fail_closed"] = {
            str(each): None if value is None else bool(value) for each, value in held.items()
        }
    return document


def _store(health: StoreHealth) -> dict[str, Any]:
    last = health.last_success
    return {
        "up": health.up,
        "problem": health.problem,
        "last_success_at": None if last is None else seconds(last),
    }


def orphans_document(published: Published, window: Window) -> dict[str, Any]:
    """Return a page of the orphans, the worst first, and where the next page begins.

    The list is that of one evaluation: where ``at`` differs between two pages, begin again.
    """
    evaluation = published.evaluation
    if evaluation is None:
        return NOTHING_KNOWN
    end = window.offset + window.limit
    return {
        "at": seconds(evaluation.at),
        "total": len(evaluation.orphans),
        "limit": window.limit,
        "offset": window.offset,
        "next_offset": end if end < len(evaluation.orphans) else None,
        "orphans": [orphan_document(each) for each in evaluation.orphans[window.offset : end]],
    }


def parse_window(query: str) -> Window:
    """Return which orphans a query string asks for.

    Raises ``ValueError`` that names the key and what may stand there; it never repeats the value.
    """
    wanted: dict[str, int] = {}
    for key, text in parse_qsl(query, keep_blank_values=True):
        if key not in _LIMITS:
            raise ValueError("only limit and offset are known")
        if key in wanted:
            raise ValueError(f"{key} stands there twice")
        wanted[key] = _LIMITS[key](text)
    return Window(wanted.get("limit", DEFAULT_LIMIT), wanted.get("offset", 0))


def _whole(key: str, least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if (
            text.isascii()
            and text.isdigit()
            and len(text) <= _DIGITS
            and least <= int(text) <= most
        ):
            return int(text)
        raise ValueError(f"{key} is a whole number from {least} to {most}")

    return read


_DIGITS: Final = 9
_LIMITS: Final[Mapping[str, Callable[[str], int]]] = {
    "limit": _whole("limit", 1, LARGEST_LIMIT),
    "offset": _whole("offset", 0, 10**_DIGITS - 1),
}
