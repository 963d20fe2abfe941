"""Which files of a log are to be read next, across its rotation by rename and by truncation."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import SECOND, Instant, format_duration
from orphanwatch.exporter.stores.logs.files import FileId, LogFolder, Place
from orphanwatch.exporter.stores.logs.reading import Mark, OpenLog
from orphanwatch.exporter.stores.logs.start import Age, ScopeStart

# A rotation leaves no file for a moment; one that is gone for longer is lost from sight.
_MISSING: Final = 60 * SECOND

# A file that was set aside is held for as long as somebody goes on writing to it: so many at most.
_HELD: Final = 8

Marks = Sequence[tuple[OpenLog, Mark]]


class Left(NamedTuple):
    """Where a file stood when it was let go of, to go on from there should it grow once more."""

    mark: Mark
    head: bytes
    size: int


class LogTail:
    """Follows a log: holds its newest file open, and older ones for as long as they may grow.

    A file that was renamed is read to its end, then what came between, then the new one. So is
    the copy of a file that was truncated; where there is no copy, what was added since the last
    reading is lost. Nothing is written down: a restart begins anew.

    A gateway that was not told of the rotation goes on in the renamed file, for ever: that is
    followed until it is quiet, and taken up again where it stands should it grow later.
    """

    def __init__(self, folder: LogFolder, linger: int) -> None:
        """``linger`` is how long a renamed file is to be quiet to be let go, in microseconds."""
        self._folder = folder
        self._linger = linger
        self._logs: list[OpenLog] = []
        self._set_aside: frozenset[FileId] = frozenset()
        self._left: dict[FileId, Left] = {}
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
            self._leave(older)
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
        self._take_up_again(at)

    def settle(self, at: Instant) -> list[OpenLog]:
        """Let go of files that nobody writes to any more, and return them."""
        for log in self._logs:
            log.note_change(at)
        # While nothing was written to any file after it, that is where the gateway may go on.
        newest_written = next((log for log in reversed(self._logs) if log.size), None)
        over = [
            log
            for log in self._logs[:-1]
            if log is not newest_written and self._is_older(log.superseded_at, at)
        ]
        growing = [log for log in over if not self._is_older(log.changed_at, at)]
        gone = [log for log in over if log not in growing[-_HELD:]]
        self._logs = [log for log in self._logs if log not in gone]
        for log in gone:
            self._leave(log)
        return gone

    def marks(self) -> Marks:
        """Return where everything stands."""
        return [(log, log.mark()) for log in self._logs]

    def return_to(self, marks: Marks) -> None:
        """Go back to where everything stood."""
        self._logs = [log for log, _ in marks]
        for log, mark in marks:
            log.return_to(mark)

    def _is_older(self, then: Instant | None, at: Instant) -> bool:
        return then is not None and at - then > self._linger

    def _leave(self, log: OpenLog) -> None:
        self._left[log.file_id] = Left(log.mark(), log.head, log.size)

    def _take_up_again(self, at: Instant) -> None:
        """Go on in files that were let go of and have grown since."""
        if not self._left:
            return
        places = self._folder.rotated()
        ids = {place.file_id for place in places}
        self._left = {key: left for key, left in self._left.items() if key in ids}
        grown = [
            place
            for place in places
            if place.file_id in self._left and place.size > self._left[place.file_id].size
        ]
        self._logs[:0] = self._open_all(grown, self._logs, at)

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
        if descriptor is None:
            return None
        log = OpenLog(descriptor, superseded_at=superseded_at)
        left = self._left.get(log.file_id)
        if left is not None and log.size >= left.size and log.head.startswith(left.head):
            log.return_to(left.mark)
            log.superseded_at = superseded_at and left.mark.superseded_at
        return log

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
