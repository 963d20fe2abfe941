"""Fields of a JSON document read as cells: ids, numbers, flags, instants and lengths of time."""

from collections.abc import Callable
from datetime import tzinfo
from typing import Any, Final

from orphanwatch.exporter.config_documents import DocumentSource
from orphanwatch.exporter.document_fields import ABSENT, is_empty
from orphanwatch.exporter.ids import IdRule
from orphanwatch.exporter.instants import Instant, Micros, checked_instant, parse_instant
from orphanwatch.exporter.names import RejectReason, StoreName
from orphanwatch.exporter.stores.cells import FALSE_TEXTS, clean_id, clean_number

_MICROS_PER_UNIT: Final = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
_LARGEST_COUNT: Final = 2**31


Read = Callable[[Any], object]
"""From what a field holds, or ``ABSENT``, to the cell."""


class BadDocument(Exception):  # noqa: N818  (it is no error of ours: the document is counted)
    """A document that can't be used: the reason to count it under, and what is wrong with it."""

    def __init__(self, reason: RejectReason, said: str) -> None:
        super().__init__(said)
        self.reason = reason
        self.said = said


def reader_of(store: StoreName, name: str, config: DocumentSource) -> Read:
    """Return how a field that states a canonical column is read."""
    zone, rule = config.zone, config.id_rule
    if name == "task_id":
        return lambda value: _id_by(rule, value)
    if name.endswith("_at"):
        return lambda value: instant_cell(value, zone)
    if name == "attempt":
        return _count_cell
    if name == "cancellable":
        return _flag_cell
    if name in _NUMBERS:
        reason = RejectReason.INVALID_NUMBER
        if store is StoreName.LEDGER:
            reason = RejectReason.INVALID_TOKENS
        return lambda value: number_cell(value, reason)
    return text_cell


_NUMBERS: Final = frozenset(
    {"tokens", "prompt_tokens", "depth", "age_seconds", "in_flight", "admission_cap"}
)


def text_cell(value: Any) -> str | None:
    """Return an id or a word, None for what is none; raises ``BadDocument`` for a structure."""
    if value is ABSENT or is_empty(value):
        return None
    if isinstance(value, bool | list | dict):
        raise BadDocument(RejectReason.INVALID_RECORD, "has a structure where a text belongs")
    text = clean_id(value)
    if text is not None and not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            # Half of a surrogate pair: JSON can spell it, and no text can hold it.
            raise BadDocument(RejectReason.INVALID_RECORD, "has a text that is none") from None
    return text


def instant_cell(value: Any, zone: tzinfo) -> Instant | None:
    """Return an instant, None where there is none; raises ``BadDocument`` for what is none."""
    if value is ABSENT or is_empty(value) or (isinstance(value, str) and not value.strip()):
        return None
    try:
        return parse_instant(value, zone)
    except (ValueError, OverflowError) as error:
        raise BadDocument(
            RejectReason.INVALID_INSTANT, "has no instant where one belongs"
        ) from error


def number_cell(value: Any, reason: RejectReason = RejectReason.INVALID_NUMBER) -> float | None:
    """Return a number, None where there is none; raises ``BadDocument`` for what is none."""
    if value is ABSENT or is_empty(value):
        return None
    if isinstance(value, bool):  # to Python it is one
        raise BadDocument(reason, "has a truth value where a number belongs")
    try:
        return clean_number(value)
    except (ValueError, OverflowError) as error:
        raise BadDocument(reason, "has no number where one belongs") from error


def length_cell(value: Any, unit: str) -> Micros | None:
    """Return a length of time given in a unit; raises ``BadDocument`` for what is none."""
    number = number_cell(value)
    if number is None:
        return None
    if number < 0:
        raise BadDocument(RejectReason.INVALID_NUMBER, "has a length of time below zero")
    return Micros(round(number * _MICROS_PER_UNIT[unit]))


def moved(instant: Instant, by: int) -> Instant:
    """Return another instant; raises ``BadDocument`` where it is beyond all times."""
    try:
        return checked_instant(instant + by)
    except ValueError as error:
        raise BadDocument(RejectReason.INVALID_INSTANT, "lasts beyond all times") from error


def _id_by(rule: IdRule, value: Any) -> str | None:
    text = text_cell(value)
    if text is None or not rule.is_set:
        return text
    return clean_id(rule.apply(text))


def _count_cell(value: Any) -> int | None:
    number = number_cell(value)
    if number is not None and abs(number) > _LARGEST_COUNT:
        raise BadDocument(RejectReason.INVALID_NUMBER, "counts more than there can be")
    return None if number is None else int(number)


def _flag_cell(value: Any) -> int | None:
    if value is ABSENT or is_empty(value):
        return None
    return int(str(value).strip().lower() not in FALSE_TEXTS)
