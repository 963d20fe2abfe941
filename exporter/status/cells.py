"""How values read on the page. What is unknown is a word, never a number."""

from typing import Final, NamedTuple

from orphanwatch.exporter import names
from orphanwatch.exporter.instants import SECOND, Instant, format_instant, seconds
from orphanwatch.exporter.model import Evaluation, Sample
from orphanwatch.exporter.names import Family

UNKNOWN: Final = "unknown"


class Cell(NamedTuple):
    """One shown value, and how it looks: ``bad``, ``warn``, ``unknown``, ``id``, ``tight``."""

    text: str
    look: str = ""


BLANK: Final = Cell(UNKNOWN, "unknown")


class Row(NamedTuple):
    """One line of a table: what it is about, and its values."""

    name: str
    cells: tuple[Cell, ...]


def samples_of(evaluation: Evaluation, family: Family, pool: str | None) -> tuple[Sample, ...]:
    """Return a gauge's samples, those of one pool if it is named; none where it is unknown."""
    samples = evaluation.gauges.get(family, ())
    if pool is None:
        return samples
    place = family.labels.index(names.POOL)
    return tuple(sample for sample in samples if sample.labels[place] == pool)


def value_of(evaluation: Evaluation, family: Family, pool: str | None = None) -> float | None:
    """Return a gauge, summed over the labels that are not asked for; None where it is unknown."""
    samples = samples_of(evaluation, family, pool)
    return sum(sample.value for sample in samples) if samples else None


def number(value: float) -> str:
    """Return a number as people read it; only zero reads as zero."""
    text = f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"
    return "under 0.1" if text == "0.0" else text


def count(value: float | None, bad_above: float | None = None) -> Cell:
    """Return a number, marked as bad above a limit."""
    if value is None:
        return BLANK
    return Cell(number(value), "bad" if bad_above is not None and value > bad_above else "")


def truth(value: float | None, bad: str = "") -> Cell:
    """Return yes or no, a yes in the look that is given."""
    if value is None:
        return BLANK
    return Cell("yes", bad) if value else Cell("no")


def age(now: Instant, then: Instant) -> str:
    """Return how long ago something was; never negative, whatever the clock did."""
    return length(max(0.0, seconds(now - then)))


def stamp(instant: Instant) -> str:
    """Return an instant as RFC 3339, in whole seconds: nobody reads a fraction here."""
    return format_instant(Instant(instant - instant % SECOND))


def clock(instant: Instant) -> str:
    """Return its time of day."""
    return stamp(instant).partition("T")[2]


def length(span: float) -> str:
    """Return seconds in their two largest units, under ten of them with a tenth."""
    if span < 10:  # noqa: PLR2004  (there the fraction matters)
        return f"{span:.1f}".removesuffix(".0") + " s"
    whole = round(span)
    units = (("d", whole // 86400), ("h", whole // 3600 % 24), ("min", whole // 60 % 60))
    parts = [f"{amount} {unit}" for unit, amount in units if amount]
    if whole % 60 or not parts:
        parts.append(f"{whole % 60} s")
    return " ".join(parts[:2])
