"""Leases of a list that does not say since when they are held, or when their worker was alive.

A lease is acquired at the reading that sees it first, at most a refresh too late. What the very
first reading sees was there before: since when is unknown, unless nothing else says that it began.
Its worker was alive at the newest reading at which it was at work.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from orphanwatch.exporter.document_rules import Test
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.stores.http.live import AsStated, Attention, Found, with_cell
from orphanwatch.exporter.stores.questions import Windows
from orphanwatch.exporter.stores.rows import Row


class _Sight(NamedTuple):
    """What earlier readings have seen of a lease."""

    acquired_at: Instant | None
    heartbeat_at: Instant | None


_Key = tuple[object, object]
"""Task and worker: what makes a record of two readings the same lease."""


class SeenLeases(AsStated):
    """Fills in what the readings know: ``stamped`` of the columns."""

    def __init__(self, names: Sequence[str], stamped: frozenset[str], is_alive: Test) -> None:
        self._names = names
        self._stamped = stamped
        self._is_alive = is_alive
        self._attention = Attention()
        self._seen: Mapping[_Key, _Sight] = {}

    def rows(self, found: Sequence[Found], windows: Windows) -> list[Row]:
        """Return the rows, as the readings up to the windows' instant have seen them."""
        begins = self._attention.look(windows)
        seen: dict[_Key, _Sight] = {}
        rows = []
        for document, row in found:
            key = (self._cell(row, "task_id"), self._cell(row, "worker_id"))
            before = self._seen.get(key)
            heartbeat = self._heartbeat(document, row, before, windows.at)
            sight = _Sight(
                before.acquired_at
                if before is not None
                # A lease of which nothing says that it began would be none.
                else (None if begins and heartbeat is not None else windows.at),
                heartbeat,
            )
            seen[key] = sight
            rows.append(self._filled(row, sight))
        self._seen = seen
        return rows

    def _heartbeat(
        self, document: object, row: Row, before: _Sight | None, at: Instant
    ) -> Instant | None:
        stated = self._cell(row, "heartbeat_at")
        if isinstance(stated, int):
            return Instant(stated)
        if "heartbeat_at" not in self._stamped:
            return None
        if self._is_alive(document):
            return at
        return before.heartbeat_at if before is not None else None

    def _filled(self, row: Row, sight: _Sight) -> Row:
        for name, value in zip(_Sight._fields, sight, strict=True):
            if name in self._stamped:
                row = with_cell(row, self._names.index(name), value)
        return row

    def _cell(self, row: Row, name: str) -> object:
        return row[self._names.index(name)] if name in self._names else None
