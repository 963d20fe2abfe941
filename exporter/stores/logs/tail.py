"""Which files of a log are to be read next, across its rotation by rename and by truncation."""

from collections.abc import Iterator, Sequence
from typing import Final

from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import SECOND, Instant, format_duration
from orphanwatch.exporter.stores.logs.files import FileId, LogFolder, Place
from orphanwatch.exporter.stores.logs.reading import Mark, OpenLog
from orphanwatch.exporter.stores.logs.start import Age, ScopeStart

# A rotation leaves no file for a moment; one that is gone for longer is lost from sight.
_MISSING: Final = 60 * SECOND

Marks = Sequence[tuple[OpenLog, Mark]]


class LogTail:
    """Follows a log: holds its newest file open, and older ones for as long as they may grow.

    A file that was renamed is read to its end, then what came between, then the new one. So is
    the copy of a file that was truncated; where there is no copy, what was added since the last
    reading is lost. Nothing is written down: a restart begins anew.
    """

    def __init__(self, folder: LogFolder, linger: int) -> None:
        """``linger`` is how long a renamed file may still be written to, in microseconds."""
        self._folder = folder
        self._linger = linger
        self._logs: list[OpenLog] = []
        self._set_aside: frozenset[FileId] = frozenset()
        self._missing_since: Instant | None = None

    @property
    def has_begun(self) -> bool:
        """Whether there is anything that is followed."""
        return bool(self._logs)

    @property
    def logs(self) -> Sequence[OpenLog]:
        """What is to be read, the oldest first."""
        return tuple(self._logs)

    def begin(self, at: Instant, start: ScopeStart) -> None:
        """Open the file that is written now and those older ones that the scope reaches into.

        Raises ``StoreError`` where there is no file at all.
        """
        # The newest first: what a rotation meanwhile renames is then met twice, and not missed.
        current = self._folder.current()
        logs = [] if current is None else self._opened(current)
        for log in logs:
            start.seek(log)
        rotated = self._rotated()
        if not logs and not rotated:
            raise self._missing()
        is_reached = False
        for place in reversed(rotated):
            if is_reached and not start.may_hold(place):
                continue
            older = self._open_new(place, logs, at)
            if older is None:
                continue
            age = start.seek(older)
            if age is Age.NEW or (age is Age.UNKNOWN and start.may_hold(place)):
                logs.insert(0, older)
            is_reached = is_reached or age is Age.OLD
        self._logs = logs

    def follow(self, at: Instant) -> None:
        """Take note of what rotation did since the last reading."""
        newest, current = self._logs[-1], self._folder.current()
        if current is None:
            self._wait(newest, at)
            return
        self._missing_since = None
        if current.file_id != newest.file_id:
            self._supersede(newest, self._opened(current), at)
        elif newest.offset == 0:
            # Nothing of it was read by which its copy could be told: all that is new may be one.
            known, places = self._set_aside, self._rotated()
            unseen = [place for place in places if place.file_id not in known]
            self._logs[-1:] = [*self._open_all(unseen, self._logs, at), *self._opened(current)]
        elif not newest.is_whole():
            self._logs[-1:] = [*self._copies(newest, at), *self._opened(current)]

    def settle(self, at: Instant) -> list[OpenLog]:
        """Let go of files that nobody writes to any more, and return them."""
        gone = [
            log
            for log in self._logs[:-1]
            if log.superseded_at is not None and at - log.superseded_at > self._linger
        ]
        self._logs = [log for log in self._logs if log not in gone]
        return gone

    def marks(self) -> Marks:
        """Return where everything stands."""
        return [(log, log.mark()) for log in self._logs]

    def return_to(self, marks: Marks) -> None:
        """Go back to where everything stood."""
        self._logs = [log for log, _ in marks]
        for log, mark in marks:
            log.return_to(mark)

    def _wait(self, newest: OpenLog, at: Instant) -> None:
        """Go on with the files that are there while the one to be written is not."""
        if self._missing_since is None:
            self._missing_since = at
        if at - self._missing_since > _MISSING:
            raise self._missing()
        self._supersede(newest, [], at)

    def _supersede(self, newest: OpenLog, opened: Sequence[OpenLog], at: Instant) -> None:
        successors = [*self._between(newest, opened, at), *opened]
        if successors:
            newest.superseded_at = at
            self._logs += successors

    def _between(self, older: OpenLog, newest: Sequence[OpenLog], at: Instant) -> list[OpenLog]:
        """Return the files that came after one and were set aside before the newest was there."""
        seen, places = self._set_aside, self._rotated()
        ids = [place.file_id for place in places]
        if older.file_id in ids:
            places = places[ids.index(older.file_id) + 1 :]
        else:  # it is compressed, or gone
            places = [
                place
                for place in places
                if place.file_id not in seen or place.modified_ns > older.modified_ns
            ]
        return list(self._open_all(places, [*self._logs, *newest], at))

    def _copies(self, truncated: OpenLog, at: Instant) -> list[OpenLog]:
        """Return the copy of a file that was truncated, and the copies that were made after it."""
        places = self._rotated()
        for number, place in reversed(list(enumerate(places))):
            log = self._open(place, superseded_at=at)
            if log is not None and log.holds_copy_of(truncated):
                log.offset = truncated.offset
                log.is_within_long_line = truncated.is_within_long_line
                return [log, *self._open_all(places[number + 1 :], [*self._logs, log], at)]
        return []

    def _open_all(
        self, places: Sequence[Place], known: Sequence[OpenLog], at: Instant
    ) -> Iterator[OpenLog]:
        for place in places:
            log = self._open_new(place, known, at)
            if log is not None:
                yield log

    def _open_new(self, place: Place, known: Sequence[OpenLog], at: Instant) -> OpenLog | None:
        """Return the file at a place, None for one that is known, itself or by its copy."""
        if any(place.file_id == log.file_id for log in known):
            return None
        opened = self._open(place, superseded_at=at)
        if opened is None or any(opened.is_copy_of(log) for log in known):
            return None
        return opened

    def _rotated(self) -> list[Place]:
        places = self._folder.rotated()
        self._set_aside = frozenset(place.file_id for place in places)
        return places

    def _opened(self, place: Place) -> list[OpenLog]:
        log = self._open(place)
        return [] if log is None else [log]

    def _open(self, place: Place, *, superseded_at: Instant | None = None) -> OpenLog | None:
        descriptor = self._folder.open(place)
        return None if descriptor is None else OpenLog(descriptor, superseded_at=superseded_at)

    def _missing(self) -> StoreError:
        path = self._folder.path
        if not self.has_begun:
            return self._folder.error(
                f"there is no file {path}; check path: in the config, and that the gateway writes "
                "its log there"
            )
        return self._folder.error(
            f"{path} is gone for more than {format_duration(_MISSING)}; see where the gateway "
            "writes its log now"
        )
