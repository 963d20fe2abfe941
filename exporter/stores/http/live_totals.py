"""Running totals of a list that shows only what they are by now: kept, as they grow.

What a total had grown by at a reading was charged then, at most a refresh too late. What it
already was at the first reading of all was charged before that, nobody knows when: it stands
before every cutoff and every window, so that it is no orphan charge and no spend of now. So does
a total that is new after a break in the watch.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

from orphanwatch.exporter.config_stores import LedgerSettings
from orphanwatch.exporter.instants import Instant, Micros
from orphanwatch.exporter.model import LedgerWindow, Rejected
from orphanwatch.exporter.names import RejectReason, StoreName
from orphanwatch.exporter.stores.http.live import Attention, Found
from orphanwatch.exporter.stores.mirror import MirroredLedger
from orphanwatch.exporter.stores.questions import Windows
from orphanwatch.exporter.stores.rows import Row, RowSource
from orphanwatch.exporter.stores.sql.ledger_rows import MOST_TOKENS

LONG_AGO: Final = Instant(10**14)
"""In 1973: the earliest instant whose size says that it is in microseconds."""


class _Total(NamedTuple):
    """What was last seen of one task."""

    said: float | None
    """Its total as the record said it, None where it did not."""
    known: float | None
    """The last total that was one."""
    charged_at: Instant
    """The instant under which that was handed over."""
    seen_at: Instant


class SeenTotals:
    """Hands over each total that is new: once, and again only where it has changed."""

    keeps = True

    def __init__(self, names: Sequence[str], *, are_stamped: bool) -> None:
        """Take the columns of the rows, in their order, and whether we say when is charged."""
        self._names = tuple(names)
        self._are_stamped = are_stamped
        self._attention = Attention()
        self._is_first = True
        self._begins = True
        """Whether the watch begins with the present reading, the first one or one after a break."""
        self._seen: dict[str, _Total] = {}
        self._rejected: list[Rejected] = []

    @property
    def needs_another_look(self) -> bool:
        """Whether no total was seen yet: what it grows by can't be told from one look."""
        return self._is_first

    @property
    def watched_since(self) -> Instant | None:
        """Since when all that is charged has been seen; None before the first reading."""
        return self._attention.since

    def rows(self, found: Sequence[Found], windows: Windows) -> list[Row]:
        """Return the totals that have changed, charged as of the windows' instant."""
        self._begins = self._attention.look(windows)
        self._rejected = []
        rows: list[Row] = []
        for record in found:
            rows += self._news(record.row, windows)
        self._is_first = False
        # Of what is not listed for so long, no question is about any more.
        gone = [it for it, total in self._seen.items() if total.seen_at <= windows.scope_start]
        for task_id in gone:
            del self._seen[task_id]
        return rows

    def rejected(self) -> Sequence[Rejected]:
        """Return the totals that are nobody's: whether they grow can't be told."""
        return self._rejected

    def _news(self, row: Row, windows: Windows) -> Iterator[Row]:
        """Yield the rows that bring what is known of a task up to date."""
        task_id, said, stated = (self._cell(row, name) for name in _READ)
        if not isinstance(task_id, str):
            self._rejected.append(_NOBODYS)
            return
        charged_at = Instant(stated) if isinstance(stated, int) else windows.at
        total = float(said) if isinstance(said, int | float) else None
        before = self._seen.get(task_id)
        if total is not None and 0 <= total <= MOST_TOKENS:
            known: float | None = total
            stood_at = yield from self._steps(row, total, before, charged_at, windows)
        else:
            # Whoever adds up the rows counts it as one that can't be used.
            if before is None or before.said != total:
                yield self._charged(row, total, charged_at)
            known = None if before is None else before.known
            stood_at = charged_at if before is None else before.charged_at
        self._seen[task_id] = _Total(total, known, stood_at, windows.at)

    def _steps(
        self, row: Row, total: float, before: _Total | None, charged_at: Instant, windows: Windows
    ) -> Generator[Row, None, Instant]:
        """Yield the rows of a total that is known; return the instant of the last."""
        is_of_unknown_age = self._begins if before is None else before.known is None
        if is_of_unknown_age:
            yield self._charged(row, total, LONG_AGO)
            if self._are_stamped:
                return LONG_AGO
        elif before is not None:
            if total == before.known and (self._are_stamped or charged_at == before.charged_at):
                return before.charged_at
            if before.charged_at <= windows.scope_start:
                # It may be forgotten by now, and what is new would look like all there was.
                yield self._charged(row, before.known, before.charged_at)
        yield self._charged(row, total, charged_at)
        return charged_at

    def _charged(self, row: Row, total: float | None, at: Instant) -> Row:
        """Return the row of a total; it is no entry that could stand in the list twice."""
        cells = dict(zip(self._names, row, strict=True))
        cells |= {"tokens": total, "charged_at": at}
        if "entry_id" in cells:
            cells["entry_id"] = None
        return tuple(cells.values())

    def _cell(self, row: Row, name: str) -> object:
        return row[self._names.index(name)]


_READ: Final = ("task_id", "tokens", "charged_at")
_NOBODYS: Final = Rejected(
    StoreName.LEDGER, RejectReason.INVALID_RECORD, "a running total without an id"
)


class TotalsSource(RowSource, Protocol):
    """A source that hands over totals as it sees them."""

    @property
    def watched_since(self) -> Instant | None:
        """Since when all that is charged has been seen; None before the first reading."""
        ...


class LiveLedger(MirroredLedger):
    """A ledger of running totals, of which nothing is known from before they were watched."""

    def __init__(self, settings: LedgerSettings, timeout: Micros, source: TotalsSource) -> None:
        super().__init__(settings, timeout, source)
        self._source = source

    def window(self, windows: Windows) -> LedgerWindow:
        """Return what was charged; spend is unknown where the window began before the watch."""
        window, since = super().window(windows), self._source.watched_since
        if since is None or since > windows.spend_start:
            return replace(window, is_whole=False, baseline_tokens=None)
        return window if since <= windows.baseline_start else replace(window, baseline_tokens=None)
