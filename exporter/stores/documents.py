"""From JSON documents to rows of a store: for the lines of a log, and lists over HTTP.

::

    reader = DocumentReader(StoreName.GATEWAY, config)
    reader.columns          # the canonical columns that a row of it has, in their order
    row = reader.row(json.loads(line))

``row`` is None where ``where:`` says that the document is not ours. A document that can't be
used raises ``BadDocument`` with the ``reason`` under which it is to be counted. A source that
knows instants which its documents do not state (when a list was asked for) names their columns
as ``stamped``, and fills them in: in a row they are None.

A field that is missing, null, ``""`` or ``-`` is None. Numbers may be texts. Of ``started_at``,
``ended_at`` and ``duration`` any two tell the third; a start is the ``submitted_at`` of a
gateway, the ``acquired_at`` of a lease and the ``started_at`` of a charge, and an end is
``finished_at`` (``cancelled_at`` instead, where ``cancelled_when`` matches), ``released_at`` and
``charged_at``: each where no field of its own states it. ``deadline_after``, counted from the
start, is the deadline.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from orphanwatch.exporter.columns import COLUMNS, REQUIRED
from orphanwatch.exporter.config_documents import DocumentSource
from orphanwatch.exporter.config_stores import GatewaySettings
from orphanwatch.exporter.document_fields import ABSENT, field_at, first_stated
from orphanwatch.exporter.document_rules import any_matches
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.names import RejectReason, StoreName
from orphanwatch.exporter.stores.document_cells import (
    BadDocument,
    instant_cell,
    length_cell,
    moved,
    reader_of,
)
from orphanwatch.exporter.stores.rows import Row

__all__ = ["BadDocument", "DocumentReader"]


class Times(NamedTuple):
    """When what a document tells of began and ended, as far as it says."""

    started: Instant | None
    ended: Instant | None


_STARTS: Final[Mapping[StoreName, str]] = {
    StoreName.GATEWAY: "submitted_at",
    StoreName.LEASES: "acquired_at",
    StoreName.LEDGER: "started_at",
}
_ENDS: Final[Mapping[StoreName, str]] = {
    StoreName.GATEWAY: "finished_at",
    StoreName.LEASES: "released_at",
    StoreName.LEDGER: "charged_at",
}


class DocumentReader:
    """Makes rows of one store out of documents, by the store's settings."""

    def __init__(
        self, store: StoreName, config: DocumentSource, *, stamped: Collection[str] = ()
    ) -> None:
        """Raises ``StoreError`` where the settings say too little to make rows of."""
        self._store = store
        self._stamped = stamped
        self._finds = {name: first_stated(paths) for name, paths in config.columns.items()}
        self._zone = config.zone
        self._duration_unit, self._deadline_unit = config.duration_unit, config.deadline_unit
        self._is_ours = any_matches(config.where) if config.where else None
        self._is_cancelled = any_matches(config.cancelled_when)
        self._is_failed = any_matches(config.failed_when)
        self._must_end = isinstance(config, GatewaySettings) and config.rows == "at_end"
        self._must_be_charged = store is StoreName.LEDGER and "charged_at" not in stamped
        self.columns = tuple(name for name in COLUMNS[store] if self._states(name, config))
        self._cells: list[tuple[str, Callable[[Any], object]]] = [
            (name, self._cell_of(name, config)) for name in self.columns if name in self._finds
        ]
        missing = [name for name in sorted(REQUIRED[store]) if name not in self.columns]
        if self._must_end and not {"cancelled_at", "finished_at"} & set(self.columns):
            missing.append("ended_at")
        if missing:
            raise StoreError(
                store,
                f"its settings name no field for {', '.join(missing)}; "
                f"write for example columns: {{{missing[0]}: {_EXAMPLES.get(missing[0], 'time')}}}",
            )
        self._unseen = _fields_of(config)
        self._met = self._read = 0

    def row(self, document: object) -> Row | None:
        """Return the document's row, None for one that is not ours; raises ``BadDocument``."""
        if type(document) is not dict:
            raise BadDocument(RejectReason.INVALID_RECORD, "is no JSON object")
        self._met += 1
        if self._is_ours is not None and not self._is_ours(document):
            return None
        self._read += 1
        if self._unseen:
            self._look_for_fields(document)
        cells: dict[str, object] = {name: read(document) for name, read in self._cells}
        times = self._times(document)
        _fill(cells, _STARTS.get(self._store), times.started)
        _fill(cells, self._end_of(document, cells, times), times.ended)
        if self._must_be_charged and cells.get("charged_at") is None:
            raise BadDocument(RejectReason.MISSING_INSTANT, "does not say when it was charged")
        if self._store is StoreName.GATEWAY:
            self._judge(document, cells)
        return tuple([cells.get(name) for name in self.columns])

    def newest(self, document: object) -> Instant | None:
        """Return the newest instant that a document states of what has happened.

        None where it states none that can be read, and for what is no document. Every such
        instant is at or before the moment at which the document was written.
        """
        if type(document) is not dict:
            return None
        try:
            stated = [
                instant_cell(self._finds[name](document), self._zone)
                for name in self._finds
                if name.endswith("_at") and name != "deadline_at"
            ]
            stated.append(self._times(document).ended)
        except BadDocument:
            return None
        return max((instant for instant in stated if instant is not None), default=None)

    def notes(self) -> tuple[str, ...]:
        """Return what the documents that were read so far don't say at all, in sentences."""
        if self._met and not self._read:
            return (f"where: lets in none of the {self._met} records that were read",)
        return tuple(self._unseen) if self._read else ()

    def _states(self, name: str, config: DocumentSource) -> bool:
        if name in self._finds or name in self._stamped:
            return True
        if name == _STARTS.get(self._store):
            return config.tells_starts
        if name == _ENDS.get(self._store):
            return config.tells_ends
        if self._store is not StoreName.GATEWAY:
            return False
        return {
            "cancelled_at": bool(config.cancelled_when),
            "outcome": bool(config.failed_when),
            "deadline_at": "deadline_after" in self._finds,
        }.get(name, False)

    def _cell_of(self, name: str, config: DocumentSource) -> Callable[[Any], object]:
        find, read = self._finds[name], reader_of(self._store, name, config)
        return lambda document: read(find(document))

    def _times(self, document: Any) -> Times:
        """Return start and end; what is not stated follows from the other and the duration."""
        started, ended = self._instant(document, "started_at"), self._instant(document, "ended_at")
        if "duration" in self._finds and (started is None) != (ended is None):
            length = length_cell(self._finds["duration"](document), self._duration_unit)
            if length is None:
                return Times(started, ended)
            if ended is None and started is not None:
                return Times(started, moved(started, length))
            if ended is not None:
                return Times(moved(ended, -length), ended)
        return Times(started, ended)

    def _instant(self, document: Any, name: str) -> Instant | None:
        find = self._finds.get(name)
        return None if find is None else instant_cell(find(document), self._zone)

    def _end_of(self, document: Any, cells: Mapping[str, object], times: Times) -> str | None:
        """Return which column the end of a document is: a cancel's or a finish's."""
        if self._store is not StoreName.GATEWAY:
            return _ENDS.get(self._store)
        is_cancelled = self._is_cancelled(document)
        stated = cells.get("cancelled_at")  # a document may say itself when it was given up
        if stated is None and not is_cancelled:
            stated = cells.get("finished_at")
        if times.ended is None and stated is None and (is_cancelled or self._must_end):
            raise BadDocument(RejectReason.INVALID_INSTANT, "does not say when it ended")
        return "cancelled_at" if is_cancelled else "finished_at"

    def _judge(self, document: Any, cells: dict[str, object]) -> None:
        """Say whether a request failed, and by when it was due."""
        if self._is_failed(document):
            _fill(cells, "outcome", "error")
        find, start = self._finds.get("deadline_after"), cells.get("submitted_at")
        if find is not None and isinstance(start, int):
            budget = length_cell(find(document), self._deadline_unit)
            if budget:  # gateways write 0 for no limit
                _fill(cells, "deadline_at", moved(Instant(start), budget))

    def _look_for_fields(self, document: Any) -> None:
        for note in [note for note, is_said in self._unseen.items() if is_said(document)]:
            del self._unseen[note]


def _fill(cells: dict[str, object], name: str | None, value: object) -> None:
    """Put a value where a document states none of its own."""
    if name is not None and value is not None and cells.get(name) is None:
        cells[name] = value


def _fields_of(config: DocumentSource) -> dict[str, Callable[[Any], bool]]:
    """Return what is to be said as long as no document said something, and what tells that."""
    notes: dict[str, Callable[[Any], bool]] = {}
    for name, paths in config.columns.items():
        spelled = paths if isinstance(paths, str) else " or ".join(paths)
        notes[f"no record that was read states {name}, as {spelled}; {_REMEDY}"] = _says(paths)
    for use, rules in (
        ("cancels that show in it are unseen", config.cancelled_when),
        ("failures that show in it are unseen", config.failed_when),
    ):
        for path in dict.fromkeys(field for rule in rules for field in rule):
            notes[f"no record that was read has {path}: {use}; {_REMEDY}"] = _has(path)
    return notes


def _says(paths: str | Sequence[str]) -> Callable[[Any], bool]:
    find = first_stated(paths)
    return lambda document: find(document) not in (ABSENT, None)


def _has(path: str) -> Callable[[Any], bool]:
    find = field_at(path)
    return lambda document: find(document) is not ABSENT


_EXAMPLES: Final = {"task_id": "request_id", "tokens": "usage.total_tokens"}
_REMEDY: Final = "add it to what is written, or name the field that says so"
