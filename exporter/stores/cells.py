"""Cells of a row: from what a driver hands over to ids, numbers, truth and forms of instants."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from string import ascii_letters, digits
from typing import Final

from orphanwatch.exporter.instants import SECOND, microseconds_per_unit

NO_ID: Final = frozenset({"", "none", "null"})
"""What stands for "no id", in lower case and without blanks around."""

NO_NUMBER: Final = 1e300
"""What stands for a cell that is no number, where a column can hold none that says so."""

FALSE_TEXTS: Final = frozenset({"0", "0.0", "false", "f", "no", "n", "off"})


def clean_id(value: object) -> str | None:
    """Return an id as text, None for what is no id. Ids match exactly, blanks included.

    What no store could be asked for is none: a text with a null character, bytes, a fraction.
    """
    if type(value) is str:
        return None if value.strip().lower() in NO_ID or "\0" in value else value
    if value is None or isinstance(value, bytes | bytearray | memoryview | float):
        return None
    return clean_id(str(value))


# A text that starts with one of these is an id: neither blank nor any of ``NO_ID``.
_STARTS_OF_IDS: Final = frozenset((ascii_letters + digits).replace("n", "").replace("N", ""))


def clean_ids(cells: Iterable[object]) -> list[str | None]:
    """Return what ``clean_id`` makes of each cell, at the pace of a whole column."""
    return [
        cell
        if type(cell) is str and cell[:1] in _STARTS_OF_IDS and "\0" not in cell
        else clean_id(cell)
        for cell in cells
    ]


def clean_truth(value: object) -> bool:
    """Return a flag whose absence means true."""
    return value is None or str(value).strip().lower() not in FALSE_TEXTS


def clean_ok(value: object) -> bool:
    """Return whether an outcome is ok; a store that does not say means ok."""
    return value is None or str(value).strip().lower() in {"", "ok"}


def clean_number(value: object) -> float | None:
    """Return a number, None where there is none; raises ``ValueError`` where it is no number."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    try:
        number = float(value)  # type: ignore[arg-type]  # Decimal and its like say so themselves
    except TypeError as error:
        raise ValueError(f"a {type(value).__name__} is no number") from error
    if not abs(number) < NO_NUMBER:
        raise ValueError("not a finite number")
    return number


class FormKind(Enum):
    """How a column writes its instants."""

    EPOCH = "epoch"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Form:
    """The one form of a column whose type does not tell: epoch numbers of a unit, or text."""

    kind: FormKind = FormKind.EPOCH
    micros_per_unit: float = float(SECOND)
    sorts_by_day: bool = False
    """Text that starts with YYYY-MM-DD: its order follows the days."""


def form_of(values: list[object]) -> Form | None:
    """Return the form that most of the values have, None where there is nothing to tell by."""
    # A zero is no epoch's size: it stands for "not yet" in more than one schema.
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool) and v]
    texts = [v for v in values if isinstance(v, str)]
    if not numbers and not texts:
        return None
    if len(texts) > len(numbers):
        dashed = all(v[4:5] == "-" and v[7:8] == "-" and v[:4].isdigit() for v in texts)
        return Form(FormKind.TEXT, sorts_by_day=dashed)
    units = [microseconds_per_unit(number) for number in numbers]
    return Form(FormKind.EPOCH, micros_per_unit=max(set(units), key=units.count))
