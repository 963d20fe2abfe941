"""Places that tell only of now: what is in them is of the instant at which they are read.

What such a list does not say of its records, the readings tell: when a lease was first seen, and
when a running total had grown.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

from orphanwatch.exporter.instants import Instant, micros
from orphanwatch.exporter.model import Rejected
from orphanwatch.exporter.stores.questions import Windows
from orphanwatch.exporter.stores.rows import Row

PRESENT: Final = micros(5)
"""A reading begins with its instant: what is read so soon after it is of that instant."""


class Found(NamedTuple):
    """A record of a list: the document, and the row that it makes."""

    document: Any
    row: Row


class Stamps(Protocol):
    """What the readings add to the rows of one store."""

    @property
    def keeps(self) -> bool:
        """Whether the rows are only what is new; else they are all there is."""
        ...

    @property
    def needs_another_look(self) -> bool:
        """Whether nothing can be told before the list has been read once more."""
        ...

    def rows(self, found: Sequence[Found], windows: Windows) -> list[Row]:
        """Return the rows, filled in as of the windows' instant."""
        ...

    def rejected(self) -> Sequence[Rejected]:
        """Return the records of the last call that could not be used."""
        ...


class Attention:
    """Since when a place has been read without a break that is longer than a delta window."""

    def __init__(self) -> None:
        self.since: Instant | None = None
        self._last: Instant | None = None

    def look(self, windows: Windows) -> bool:
        """Note a reading, and return whether the watching begins with it."""
        at, longest = windows.at, windows.spend_end - windows.spend_start
        begins = self._last is None or not 0 <= at - self._last <= longest
        if begins:
            self.since = at
        self._last = at
        return begins


class AsStated:
    """Records that say all that is known of them."""

    keeps = False
    needs_another_look = False

    def rows(self, found: Sequence[Found], windows: Windows) -> list[Row]:  # noqa: ARG002  (of any instant)
        """Return the rows as they are."""
        return [record.row for record in found]

    def rejected(self) -> Sequence[Rejected]:
        """Return none."""
        return ()


class Sampled(AsStated):
    """Samples of a queue that don't say when they were taken: as they are read."""

    def __init__(self, names: Sequence[str]) -> None:
        """Take the columns of the rows, in their order."""
        self._place = names.index("sampled_at")

    def rows(self, found: Sequence[Found], windows: Windows) -> list[Row]:
        """Return the rows, taken at the windows' instant."""
        return [with_cell(record.row, self._place, windows.at) for record in found]


def with_cell(row: Row, place: int, value: object) -> Row:
    """Return a row with another value in one place."""
    return (*row[:place], value, *row[place + 1 :])
