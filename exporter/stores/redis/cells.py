"""Cells that Redis keeps as text, a whole column at a time: ids and instants."""

from collections.abc import Sequence
from datetime import tzinfo
from typing import Final

from orphanwatch.exporter.config_redis import Unit
from orphanwatch.exporter.ids import IdRule
from orphanwatch.exporter.instants import (
    Instant,
    parse_instant,
)
from orphanwatch.exporter.stores.cells import clean_ids

MICROS_PER_UNIT: Final[dict[str, float]] = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}

# No worker beat before or will after: a stamp out here is of another unit than was declared.
_EARLIEST: Final = round(1e9 * MICROS_PER_UNIT["s"])
_LATEST: Final = round(1e10 * MICROS_PER_UNIT["s"])

Instants = list[Instant | None]


def texts_of(cells: Sequence[str | None]) -> list[str | None]:
    """Return ids and names; None for what is none, bytes that are no UTF-8 among it."""
    texts = clean_ids(cells)
    if all(map(str.isascii, filter(None, texts))):
        return texts
    return [text if _is_whole(text) else None for text in texts]


def task_ids_of(cells: Sequence[str | None], rule: IdRule) -> list[str | None]:
    """Return task ids as the store's rule leaves them."""
    texts = texts_of(cells)
    if not rule.is_set:
        return texts
    return clean_ids(None if text is None else rule.apply(text) for text in texts)


def instants_of(
    cells: Sequence[str | None], unit: Unit, zone: tzinfo
) -> tuple[Instants, list[int]]:
    """Return instants, None where the cell is empty, and the places of cells that are none."""
    scale = MICROS_PER_UNIT.get(unit)
    if scale is not None:
        try:
            # ``Instant`` is but a name for an integer: naming each would only cost.
            read: Instants = [round(float(cell) * scale) if cell else None for cell in cells]  # type: ignore[misc]
        except (ValueError, OverflowError):
            pass  # one of them is no number: then one by one
        else:
            known = [instant for instant in read if instant is not None]
            if not known or _EARLIEST <= min(known) <= max(known) <= _LATEST:
                return read, []
    return _one_by_one(cells, scale, zone)


def readable(text: str) -> str:
    """Return a key as it can be shown and stored, whatever its bytes are."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _one_by_one(
    cells: Sequence[str | None], scale: float | None, zone: tzinfo
) -> tuple[Instants, list[int]]:
    instants: Instants = []
    bad: list[int] = []
    for place, cell in enumerate(cells):
        try:
            instants.append(_instant_of(cell, scale, zone))
        except (ValueError, OverflowError):
            instants.append(None)
            bad.append(place)
    return instants, bad


def _instant_of(cell: str | None, scale: float | None, zone: tzinfo) -> Instant | None:
    if cell is None or not cell.strip():
        return None
    if scale is not None:
        instant = round(float(cell) * scale)
        if not _EARLIEST <= instant <= _LATEST:
            raise ValueError("decades off: another unit than the one declared")
        return Instant(instant)
    if "-" not in cell and "T" not in cell.upper():
        raise ValueError("a bare number, where ISO 8601 is declared")
    return parse_instant(cell, zone)


def _is_whole(text: str | None) -> bool:
    """Return whether the text can be written as UTF-8, which stray bytes can't."""
    return text is None or not any("\udc80" <= character <= "\udcff" for character in text)
