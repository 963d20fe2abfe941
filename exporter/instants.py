"""Instants and durations: whole microseconds inside, any stated form at the border.

Microseconds are integers, so that ``A + g`` is exact and "strictly after" means what it says;
a double of epoch seconds carries no more than that (its step is 0.24 µs today).
"""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, NewType

from dateutil import parser as iso_parser  # type: ignore[import-untyped]  # ships no types

Instant = NewType("Instant", int)
"""Microseconds since 1970-01-01T00:00:00Z."""

Micros = NewType("Micros", int)
"""A length of time in microseconds."""

SECOND: Final = 1_000_000

# An epoch number is told apart by its size: seconds reach 1e11 in the year 5138.
EPOCH_SIZES: Final[tuple[tuple[float, float], ...]] = ((1e11, 1e6), (1e14, 1e3), (1e17, 1.0))
"""(upper bound, microseconds per unit) for seconds, milliseconds, microseconds."""

_NANOSECONDS: Final = 1e-3
_LARGEST: Final = 1e20
LARGEST_INSTANT: Final = 10**18
"""Beyond this many microseconds, some 30,000 years, a number is no instant."""

LONGEST: Final = 10_000_000_000 * SECOND
"""A length of this and more, three centuries, is a slip of the keyboard."""

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d|w|y)")
_UNITS: Final = {
    "ms": 1_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
    "d": 86400 * SECOND,
    "w": 7 * 86400 * SECOND,
    "y": 365 * 86400 * SECOND,
}
_NUMBER: Final = re.compile(r"\s*[+-]?\d+(\.\d+)?([eE][+-]?\d+)?\s*")
# A date and, mostly, a time: what ISO 8601 allows and dateutil's isoparse reads.
_ISO_HEAD: Final = re.compile(r"\d{4}-?\d{2}-?\d{2}")


def micros(seconds: float) -> Micros:
    """Return a length of time given in seconds, to the nearest microsecond."""
    return Micros(round(seconds * SECOND))


def seconds(length: int) -> float:
    """Return microseconds as seconds."""
    return length / SECOND


def microseconds_per_unit(number: float) -> float:
    """Return how many microseconds one unit of an epoch number is, told by the number's size."""
    size = abs(number)
    return next((unit for bound, unit in EPOCH_SIZES if size < bound), _NANOSECONDS)


def instant_of_epoch(number: float) -> Instant:
    """Return the instant of an epoch number in s, ms, µs or ns, told apart by size."""
    unit = microseconds_per_unit(number)
    if unit < 1 and isinstance(number, int):
        return Instant((number + 500) // 1000)
    return Instant(round(number * unit))


def checked_instant(instant: int) -> Instant:
    """Return an instant that was computed; raises ``ValueError`` where it is beyond all times."""
    if not -LARGEST_INSTANT <= instant <= LARGEST_INSTANT:
        raise ValueError("beyond all times")
    return Instant(instant)


def instant_of_datetime(stamp: datetime, zone: tzinfo = UTC) -> Instant:
    """Return the instant of a native timestamp; one without a zone is in ``zone``."""
    aware = stamp if stamp.tzinfo is not None else stamp.replace(tzinfo=zone)
    since = aware - datetime(1970, 1, 1, tzinfo=UTC)
    return Instant((since.days * 86400 + since.seconds) * SECOND + since.microseconds)


def parse_instant(value: object, zone: tzinfo = UTC) -> Instant:
    """Return the instant that a store's or a user's value states.

    Accepts epoch numbers (also as text), ISO 8601 text and native timestamps. Raises
    ``ValueError`` for anything else, booleans and the not-a-number included.
    """
    if isinstance(value, datetime):
        return instant_of_datetime(value, zone)
    if isinstance(value, bool):
        raise ValueError("a truth value is no instant")  # noqa: TRY004  (one kind to catch)
    if isinstance(value, int | float):
        return _of_number(value)
    if not isinstance(value, str):
        raise ValueError(f"a {type(value).__name__} is no instant")  # noqa: TRY004  (one kind to catch)
    if _NUMBER.fullmatch(value):
        is_whole = "." not in value and "e" not in value.lower()
        return _of_number(int(value) if is_whole else float(value))
    if not _ISO_HEAD.match(value.strip()):
        raise ValueError("neither ISO 8601 nor an epoch number")
    return instant_of_datetime(_parse_iso(value.strip()), zone)


def _of_number(number: float) -> Instant:
    if not abs(number) <= _LARGEST:
        raise ValueError("no epoch number is as large as that")
    return checked_instant(instant_of_epoch(number))


def _parse_iso(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        # isoparse knows more of ISO 8601, but wants at most six digits of a fraction.
        shortened = re.sub(r"([.,]\d{6})\d+", r"\1", text.replace(" ", "T", 1))
        stamp: datetime = iso_parser.isoparse(shortened)
        return stamp


def format_instant(instant: Instant) -> str:
    """Return an instant as RFC 3339 in UTC, with a fraction only where there is one."""
    stamp = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=instant)
    return stamp.isoformat().replace("+00:00", "Z")


def to_the_second(instant: Instant) -> Instant:
    """Return the whole second that an instant is in, for people: nobody reads a fraction."""
    return Instant(instant - instant % SECOND)


def parse_duration(text: str) -> Micros:
    """Return the length of a Prometheus-style duration such as ``90s``, ``1h30m``, ``250ms``.

    Raises ``ValueError`` for anything else, an empty text and what is longer than any window
    included.
    """
    parts = list(_DURATION.finditer(text))
    if not parts or "".join(part.group(0) for part in parts) != text:
        raise ValueError(f"{text!r} is no duration; write for example 60s, 5m or 1h30m")
    length = sum(float(part[1]) * _UNITS[part[2]] for part in parts)
    if not length < LONGEST:
        raise ValueError(f"{text!r} is longer than any window; write for example 60s, 5m or 1h30m")
    return Micros(round(length))


def format_bound(length: int) -> str:
    """Return a length as ``850ms``, ``1s`` or ``1.25s``: to the millisecond, never understated."""
    milliseconds = -(-length // 1000)
    if milliseconds < 1000:  # noqa: PLR2004  (one second)
        return f"{milliseconds}ms"
    return f"{milliseconds / 1000:.3f}".rstrip("0").rstrip(".") + "s"


def format_duration(length: int) -> str:
    """Return a length of time the way Prometheus writes it: ``90s`` is ``1m30s``."""
    if length == 0:
        return "0s"
    rest, text = length // 1000, ""
    for name, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, rest = divmod(rest, size)
        text += f"{count}{name}" if count else ""
    return text
