"""Rows that are read whole, from stores that can't be asked questions: the seam for new sources.

A source turns what it finds into rows of canonical columns; ``mirror`` and ``listed`` answer the
watch's questions from them.
"""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from orphanwatch.exporter.model import Rejected
from orphanwatch.exporter.stores.questions import Windows

Row = tuple[object, ...]
"""Cells in the order of the source's ``columns``: an id as text, an ``Instant`` (microseconds) in
each column of instants, a float, an integer, or None where the record does not say."""


class RowSource(Protocol):
    """Where the rows of one logical store come from.

    A record that can't be read is no row: the source counts it in ``rejected``. A source that
    can't be read at all raises ``StoreError``.
    """

    @property
    def columns(self) -> tuple[str, ...]:
        """The canonical columns that the source states, in their canonical order."""
        ...

    @property
    def keeps(self) -> bool:
        """Whether each read gives only what is new, as a log does; else it lists all there is."""
        ...

    def read(self, windows: Windows) -> Iterable[Row]:
        """Return the rows; of a log, at its first read, those from the scope's start on."""
        ...

    def rejected(self) -> tuple[Rejected, ...]:
        """Return the records of the last read that could not be used."""
        ...

    def clock_skew_seconds(self) -> float | None:
        """Return the place's clock less ours, None where it has none to ask."""
        ...

    def close(self) -> None:
        """Let go of what a reading held; what is kept between readings stays."""
        ...


@runtime_checkable
class Noting(Protocol):
    """A source that can tell what its records don't say at all."""

    def notes(self) -> tuple[str, ...]:
        """Return what can't be known from what was read, in sentences with the remedy."""
        ...


def notes_of(source: RowSource) -> tuple[str, ...]:
    """Return what a source has to note, for ``check``; most have nothing."""
    return source.notes() if isinstance(source, Noting) else ()
