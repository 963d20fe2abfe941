"""Lists of JSON documents over HTTP: the slots of a server, the jobs of a queue, one object.

A list is asked for once a reading. What it does not say of its records, since it tells only of
now, is filled in as of the reading: see ``live_leases`` and ``live_totals``.
"""

import json
import time
from collections.abc import Sequence
from typing import Any, Final

from orphanwatch.exporter.clock import Clock
from orphanwatch.exporter.config_documents import HttpJsonSource
from orphanwatch.exporter.config_stores import HttpJsonLeaseStore, LedgerSettings
from orphanwatch.exporter.document_fields import ABSENT, field_at, first_stated
from orphanwatch.exporter.document_rules import any_matches
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import SECOND, Instant, format_instant, seconds
from orphanwatch.exporter.model import Rejected
from orphanwatch.exporter.names import RejectReason, StoreName
from orphanwatch.exporter.stores.document_cells import text_cell
from orphanwatch.exporter.stores.documents import BadDocument, DocumentReader
from orphanwatch.exporter.stores.http.access import HttpPlace
from orphanwatch.exporter.stores.http.live import PRESENT, AsStated, Found, Sampled, Stamps
from orphanwatch.exporter.stores.http.live_leases import SeenLeases
from orphanwatch.exporter.stores.http.live_totals import SeenTotals
from orphanwatch.exporter.stores.http.problems import place_of
from orphanwatch.exporter.stores.questions import Windows
from orphanwatch.exporter.stores.rows import Row

_LONGEST_KEY: Final = 200

# How long to wait before a list is asked for again to see what has grown, and how much of the
# timeout that may take.
_PAUSE: Final = SECOND
_PARTS_OF_TIMEOUT: Final = 4


class HttpDocuments:
    """The rows of a list, or of one object."""

    def __init__(self, store: StoreName, config: HttpJsonSource, clock: Clock) -> None:
        """Raises ``StoreError`` where the settings say too little to make rows of."""
        if not config.columns:
            raise StoreError(
                store, "its settings name no field; write for example columns: {in_flight: running}"
            )
        self._store = store
        self._config = config
        self._clock = clock
        self._stamped = _stamped(store, config)
        self._reader = DocumentReader(store, config, stamped=self._stamped)
        self._stamps = _stamps(config, self._reader.columns, self._stamped)
        self._place = HttpPlace(store, config, config.timeout)
        self._expected = [(_spelled(paths), first_stated(paths)) for paths in config.expects]
        self._fields = [first_stated(paths) for paths in config.columns.values()]
        self._rejected: list[Rejected] = []

    @property
    def columns(self) -> tuple[str, ...]:
        """The canonical columns that a row states."""
        return self._reader.columns

    @property
    def keeps(self) -> bool:
        """Whether running totals are told as they grow; else each read lists all there is."""
        return self._stamps.keeps

    @property
    def watched_since(self) -> Instant | None:
        """Since when running totals have been seen to grow; None before the first reading."""
        return self._stamps.watched_since if isinstance(self._stamps, SeenTotals) else None

    def read(self, windows: Windows) -> list[Row]:
        """Return the rows as of the windows' instant.

        Raises ``StoreError`` where the answer is no list that can be read, or where the list
        tells only of now and is asked about the past.
        """
        self._refuse_the_past(windows)
        self._place.begin()
        rows: list[Row] = []
        if self._stamps.needs_another_look:
            rows += self._look(windows)
            time.sleep(seconds(min(_PAUSE, self._config.timeout // _PARTS_OF_TIMEOUT)))
        return rows + self._look(windows)

    def rejected(self) -> tuple[Rejected, ...]:
        """Return the records of the last read that could not be used."""
        return (*self._rejected, *self._stamps.rejected())

    def notes(self) -> tuple[str, ...]:
        """Return what the records don't say at all, in sentences."""
        return self._reader.notes()

    def clock_skew_seconds(self) -> float | None:
        """Return the server's clock less ours; None where no instant is the server's."""
        config = self._config
        stated = any(name.endswith("_at") for name in config.columns)
        return self._place.clock_skew_seconds() if stated else None

    def close(self) -> None:
        """Let go of the connection."""
        self._place.close()

    def _refuse_the_past(self, windows: Windows) -> None:
        if self._stamped and abs(self._clock() - windows.at) > PRESENT:
            raise StoreError(
                self._store,
                f"tells only of now, and is asked about {format_instant(windows.at)}; leave out "
                f"--at, or map {' and '.join(sorted(self._stamped))} if its records say when",
            )

    def _look(self, windows: Windows) -> list[Row]:
        return self._stamps.rows(self._found(self._records()), windows)

    def _records(self) -> Sequence[Any]:
        """Return the list that the place answers with; an object is a list of one."""
        place, path = place_of(self._config.url), self._config.list_path
        answer = self._place.get(self._config.url, accept="application/json")
        try:
            document = json.loads(answer.body)
        except (ValueError, RecursionError):
            kind = answer.content_type
            instead = f" but {kind}" if kind and not kind.endswith("json") else ""
            # Not "from" the error, which holds the whole answer.
            raise StoreError(
                self._store, f"the answer of {place} is no JSON{instead}; check the url's path"
            ) from None
        found = field_at(path)(document) if path else document
        if isinstance(found, list):
            return found
        if isinstance(found, dict):
            return [found]
        if path:
            raise StoreError(
                self._store, f"the answer of {place} has no list at {path!r}; check list_path"
            )
        raise StoreError(
            self._store, f"the answer of {place} is neither list nor object; check the url's path"
        )

    def _found(self, records: Sequence[Any]) -> list[Found]:
        """Return the records that are ours, with their rows; note those that can't be read."""
        self._rejected = []
        found = []
        others = 0
        said = ""
        for number, record in enumerate(records, start=1):
            try:
                row = self._row(record)
            except BadDocument as error:
                said = said or error.said
                self._reject(error, record, number)
                continue
            if row is None:
                others += 1
            else:
                found.append(Found(record, row))
        if said and not found and not others:
            which = "the only record" if len(records) == 1 else f"each of {len(records)} records"
            raise StoreError(
                self._store,
                f"{which} in the answer of {place_of(self._config.url)} can't be read: it {said}; "
                "check list_path and columns",
            )
        return found

    def _row(self, record: Any) -> Row | None:
        if isinstance(record, dict):
            for path, find in self._expected:
                if find(record) is ABSENT:
                    raise BadDocument(RejectReason.INVALID_RECORD, f"has no {path}")
        row = self._reader.row(record)
        if row is not None and all(find(record) is ABSENT for find in self._fields):
            raise BadDocument(RejectReason.INVALID_RECORD, "has none of the fields of columns")
        return row

    def _reject(self, error: BadDocument, record: Any, number: int) -> None:
        # By its id, else by its place: a record that stays bad is met at every reading.
        key = f"{self._id_of(record) or f'record {number}'} {error.said}"
        self._rejected.append(Rejected(self._store, error.reason, key))

    def _id_of(self, record: Any) -> str | None:
        paths = self._config.columns.get("task_id")
        if paths is None or not isinstance(record, dict):
            return None
        try:
            text = text_cell(first_stated(paths)(record))
        except BadDocument:
            return None
        return None if text is None else repr(text[:_LONGEST_KEY])


def _spelled(paths: str | list[str]) -> str:
    return paths if isinstance(paths, str) else " or ".join(paths)


def _stamped(store: StoreName, config: HttpJsonSource) -> frozenset[str]:
    """Return the columns that only the readings can tell."""
    stated = config.columns.keys()
    if store is StoreName.QUEUE:
        return frozenset({"sampled_at"} - stated)
    if isinstance(config, LedgerSettings) and config.shape == "cumulative":
        return frozenset() if config.tells_ends else frozenset({"charged_at"} - stated)
    if isinstance(config, HttpJsonLeaseStore):
        acquired = frozenset() if config.tells_starts else frozenset({"acquired_at"} - stated)
        return acquired | {"heartbeat_at"} if config.alive_when else acquired
    return frozenset()


def _stamps(config: HttpJsonSource, names: Sequence[str], stamped: frozenset[str]) -> Stamps:
    if isinstance(config, LedgerSettings) and config.shape == "cumulative":
        return SeenTotals(names, are_stamped=bool(stamped))
    if isinstance(config, HttpJsonLeaseStore) and stamped:
        return SeenLeases(names, stamped, any_matches(config.alive_when))
    return Sampled(names) if stamped else AsStated()
