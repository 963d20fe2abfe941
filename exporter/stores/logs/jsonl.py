"""Logs with one JSON object a line, followed as they grow.

The first reading begins where the scope does, in whatever file that is; each later one goes on
where the last one ended. No position is kept over a restart: the scope is read again then.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from orphanwatch.exporter.config_documents import JsonlSource
from orphanwatch.exporter.instants import Instant, seconds
from orphanwatch.exporter.model import Rejected
from orphanwatch.exporter.names import RejectReason, StoreName
from orphanwatch.exporter.stores.documents import BadDocument, DocumentReader
from orphanwatch.exporter.stores.logs.files import LogFolder
from orphanwatch.exporter.stores.logs.lines import document_of, is_blank, split
from orphanwatch.exporter.stores.logs.reading import OpenLog
from orphanwatch.exporter.stores.logs.start import ScopeStart
from orphanwatch.exporter.stores.logs.tail import LogTail, Marks
from orphanwatch.exporter.stores.questions import Windows
from orphanwatch.exporter.stores.rows import Row

# So much of the timeout may go by before a reading stops and goes on at the next one.
_SHARE: Final = 0.8
# After so many lines of which none is a record, the log is not one that can be read.
_MEGABYTE: Final = 1e6


class JsonLines:
    """The rows of a log."""

    keeps = True

    def __init__(self, store: StoreName, config: JsonlSource) -> None:
        self._store = store
        self._config = config
        self._reader = DocumentReader(store, config)
        self._folder = LogFolder(store, Path(config.path))
        self._tail = LogTail(self._folder, config.flush)
        self._before: Marks | None = None
        self._is_complete = True
        self._has_moved = False
        self._gone: list[Rejected] = []
        """Of the files that the last reading let go of."""
        self._has_records = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The canonical columns that a line may state."""
        return self._reader.columns

    def read(self, windows: Windows) -> Iterator[Row]:
        """Yield the rows that are new; at first, those from the scope's start on.

        Raises ``StoreError`` after the rows that were read where there was no time for all: the
        next reading goes on from there. Rows that were not taken to the end are given again.
        """
        if self._before is not None:
            self._tail.return_to(self._before)
        if self._is_complete:
            self._gone = []
            for log in self._tail.logs:
                log.forget_bad()
        self._before, self._is_complete = self._tail.marks(), False
        self._has_moved = False
        end = time.monotonic() + seconds(self._config.timeout) * _SHARE
        if self._tail.has_begun:
            self._tail.follow(windows.at)
        else:
            self._begin(windows)
        for log in self._tail.logs:
            yield from self._rows_of(log, end)
        self._let_go(windows.at)
        self._before, self._is_complete = None, True
        self._refuse_what_is_no_log()

    def rejected(self) -> tuple[Rejected, ...]:
        """Return the lines that could not be used, counted by stretches of their file."""
        present = (row for log in self._tail.logs for row in self._rejected_of(log))
        return (*self._gone, *present)

    def notes(self) -> tuple[str, ...]:
        """Return what the lines don't say at all, in sentences."""
        return self._reader.notes()

    def clock_skew_seconds(self) -> float | None:
        """Return None: a file has no clock."""
        return None

    def close(self) -> None:
        """Let nothing go: the files stay open, so that rotation can't take them away."""

    def _begin(self, windows: Windows) -> None:
        start = ScopeStart(self._newest_of, windows.scope_start, self._config.flush)
        self._tail.begin(windows.at, start)

    def _newest_of(self, line: bytes) -> Instant | None:
        try:
            newest = self._reader.newest(document_of(line))
        except BadDocument:
            return None
        self._has_records = self._has_records or newest is not None
        return newest

    def _rows_of(self, log: OpenLog, end: float) -> Iterator[Row]:
        """Yield the rows of a file's new lines."""
        while lines := self._next_lines(log, end):
            yield from self._rows_in(log, lines)
        rest = log.rest()
        if log.superseded_at is not None and self._is_record(rest):
            yield from self._rows_in(log, rest)

    def _next_lines(self, log: OpenLog, end: float) -> bytes:
        """Return whole lines, and no bytes where there are none; raises where time is up."""
        while True:
            lines = log.whole_lines()
            if not lines and not log.skip_what_is_no_line():
                return b""
            if self._has_moved and time.monotonic() > end:
                self._stop_short()
            self._has_moved = True
            if lines:
                return lines

    def _rows_in(self, log: OpenLog, lines: bytes) -> Iterator[Row]:
        for offset, line in split(lines, log.offset):
            row = None
            if log.is_within_long_line:
                log.is_within_long_line = False  # the rest of one that was counted
            elif not is_blank(line):
                row = self._row_of(log, line)
            log.offset = offset
            if row is not None:
                yield row

    def _row_of(self, log: OpenLog, line: bytes) -> Row | None:
        try:
            row = self._reader.row(document_of(line))
        except BadDocument as problem:
            log.count_bad(problem.reason, problem.said)
            return None
        self._has_records = True
        return row

    def _is_record(self, rest: bytes) -> bool:
        """Return whether a line without an end, in a file that was set aside, is all there."""
        try:
            return isinstance(document_of(rest), dict)
        except BadDocument:
            return False

    def _let_go(self, at: Instant) -> None:
        for log in self._tail.settle(at):
            if not is_blank(log.rest()) and not log.is_within_long_line:
                log.count_bad(RejectReason.INVALID_RECORD, "breaks off")
            self._gone += self._rejected_of(log)

    def _rejected_of(self, log: OpenLog) -> Iterator[Rejected]:
        for bad, count in log.bad.items():
            yield Rejected(self._store, bad.reason, log.key_of(bad), count)

    def _stop_short(self) -> None:
        """Say that there is more to be read, and keep what was."""
        left = sum(log.size - log.offset for log in self._tail.logs) / _MEGABYTE
        self._before = None
        raise self._folder.error(
            f"{self._folder.path} is still being caught up with, {left:.1f} MB are left; "
            "where this does not end by itself, raise the store's timeout"
        )

    def _refuse_what_is_no_log(self) -> None:
        if self._has_records:
            return
        bad = [(bad, count) for log in self._tail.logs for bad, count in log.bad.items()]
        total = sum(count for _, count in bad)
        if total:
            raise self._folder.error(
                f"none of the {total} lines read of {self._folder.path} is a record, the last of "
                f"them {bad[-1][0].said}; check path:, columns: and the format that is written"
            )
