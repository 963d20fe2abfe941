"""How a column of an SQL table writes instants: as its type says, and as its cells do."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import BigInteger, DateTime, Float, Integer, Numeric, String
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TypeEngine

from orphanwatch.exporter.instants import SECOND, Instant
from orphanwatch.exporter.stores.cells import FormKind, form_of

_ISO: Final = re.compile(
    r"\d{4}-\d\d-\d\d(?P<sep>[Tt ])\d\d:\d\d:\d\d(?:[.,](?P<digits>\d+))?"
    r"(?P<zone>[Zz]|[+-]\d\d(?::?\d\d)?)?"
)
_DIGITS: Final = 6
_MILLI: Final = SECOND // 1000


@dataclass(frozen=True, slots=True)
class InstantForm:
    """One form of instants."""

    write: Callable[[Instant], object]
    step: int = 1
    """What it can tell apart, in microseconds."""

    def kept(self, at: Instant) -> Instant:
        """Return an instant as it will be read again: never later than it was."""
        return Instant(at - at % self.step)

    def __call__(self, at: Instant) -> object:
        """Return the cell of an instant."""
        return self.write(self.kept(at))


def instant_form(
    kind: TypeEngine[Any], cells: Sequence[object], zone: tzinfo, *, is_typed: bool
) -> InstantForm:
    """Return the form of a column, from its declared type and some of its cells.

    ``is_typed`` is False for SQLite, where a cell may be of any type, whatever is declared.
    Without cells an untyped column gets what its type suggests.
    """
    if is_typed and isinstance(kind, DateTime):
        return _native(kind, zone)
    form = form_of(list(cells))
    if form is None:
        if isinstance(kind, DateTime):
            return _text(" ", "", _DIGITS, zone)
        if isinstance(kind, String):
            return _text("T", "Z", _DIGITS, UTC)
        # A four-byte integer holds no milliseconds.
        is_large = isinstance(kind, Integer) and (not is_typed or isinstance(kind, BigInteger))
        unit = float(_MILLI if is_large else SECOND)
    elif form.kind is FormKind.TEXT:
        return _text_like([cell for cell in cells if isinstance(cell, str)], zone)
    else:
        unit = form.micros_per_unit
    is_whole = not is_typed and any(isinstance(cell, int) for cell in cells)
    return _epoch(kind, unit, is_whole=is_whole and all(isinstance(c, int) for c in cells))


def _native(kind: DateTime, zone: tzinfo) -> InstantForm:
    if isinstance(kind, mysql.TIMESTAMP | mysql.DATETIME):
        # TIMESTAMP is shown in the session's zone, and ours is UTC.
        zone = UTC if isinstance(kind, mysql.TIMESTAMP) else zone
        return InstantForm(lambda at: _naive(at, zone), 10 ** (_DIGITS - (kind.fsp or 0)))
    precision = getattr(kind, "precision", None)
    step = 10 ** (_DIGITS - (_DIGITS if precision is None else precision))
    if kind.timezone:
        return InstantForm(lambda at: _aware(at, UTC), step)
    return InstantForm(lambda at: _naive(at, zone), step)


def _epoch(kind: TypeEngine[Any], unit: float, *, is_whole: bool) -> InstantForm:
    step = max(1, round(unit))
    if unit < 1:
        return InstantForm(lambda at: round(at / unit))
    if is_whole or isinstance(kind, Integer):
        return InstantForm(lambda at: at // step, step)
    if isinstance(kind, Numeric) and not isinstance(kind, Float):
        scale = kind.scale if kind.scale is not None else _DIGITS
        return InstantForm(lambda at: Decimal(at) / step, max(1, step // 10**scale))
    return InstantForm(lambda at: at / step)


def _text_like(cells: Sequence[str], zone: tzinfo) -> InstantForm:
    found = [match for match in map(_ISO.fullmatch, cells) if match is not None]
    if not found:
        return _text("T", "Z", _DIGITS, UTC)
    first, digits = found[0], max(len(match["digits"] or "") for match in found)
    if not first["zone"]:
        return _text(first["sep"], "", digits, zone)
    return _text(first["sep"], "Z" if first["zone"] in "Zz" else "+00:00", digits, UTC)


def _text(separator: str, suffix: str, digits: int, zone: tzinfo) -> InstantForm:
    digits = min(digits, _DIGITS)

    def write(at: Instant) -> str:
        stamp = _naive(at, zone)
        text = f"{stamp:%Y-%m-%d}{separator}{stamp:%H:%M:%S}"
        fraction = f".{stamp.microsecond:06d}"[: digits + 1] if digits else ""
        return f"{text}{fraction}{suffix}"

    return InstantForm(write, 10 ** (_DIGITS - digits))


def _aware(at: Instant, zone: tzinfo) -> datetime:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)).astimezone(zone)


def _naive(at: Instant, zone: tzinfo) -> datetime:
    return _aware(at, zone).replace(tzinfo=None)


def telling(cells: Iterable[object]) -> list[object]:
    """Return the cells that tell a form: no empty ones, decimals as numbers."""
    return [float(cell) if isinstance(cell, Decimal) else cell for cell in cells if cell]
