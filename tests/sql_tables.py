"""The tables of the embedded default on servers, in the types that people give their columns."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from stack_file import TABLES, ZERO

Writer = Callable[[float], object]

EVERYWHERE = ("gateway", "leases", "ledger", "queue")


def utc(offset: float) -> datetime:
    """Return so many seconds after zero as an aware stamp."""
    return datetime(2027, 1, 15, 8, tzinfo=UTC) + timedelta(seconds=offset)


def wall(zone: str) -> Writer:
    """Return what writes stamps without a zone, as a clock on the wall there shows them."""
    return lambda offset: utc(offset).astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def epochs(per_second: int) -> Writer:
    """Return what writes whole epoch numbers of a unit."""
    return lambda offset: round((ZERO + offset) * per_second)


def typed(number: str, instant: str | None = None, **columns: str) -> dict[str, str]:
    """Return the default's tables: numbers and instants of a type, some columns of their own.

    A column is named ``table__column``.
    """
    tables = {}
    for name, declared in TABLES.items():
        text = re.sub(r"(\w+_at) REAL", rf"\1 {instant or number}", declared)
        tables[name] = text.replace("REAL", number)
    for place, kind in columns.items():
        table, _, column = place.partition("__")
        tables[table] = re.sub(rf"\b{column} \w+(?: precision)?", f"{column} {kind}", tables[table])
    return tables


def in_zone(zone: str) -> dict[str, dict[str, Any] | None]:
    """Return settings that say the same zone of all stores."""
    return {store: {"timezone": zone} for store in EVERYWHERE}
