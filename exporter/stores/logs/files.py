"""The files of one log: the one that is written, and those that rotation set aside."""

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.names import StoreName

FileId = tuple[int, int]
"""Device and inode: what a file keeps when it is renamed."""

# Numbers count back from the newest, dates do not; so long a number is a date.
_LEAST_DATE_DIGITS: Final = 8


@dataclass(frozen=True, slots=True)
class Place:
    """A file of the log where the folder lists it, not opened."""

    path: Path
    file_id: FileId
    size: int
    modified_ns: int


class LogFolder:
    """Where a log's files are: ``access.log``, ``access.log.1``, ``access.log-20261130`` ..."""

    def __init__(self, store: StoreName, path: Path) -> None:
        self._store = store
        self.path = path
        name, stem, suffix = map(re.escape, (path.name, path.stem, path.suffix))
        # What a compressor wrote ends in letters: it is never looked at.
        self._rotated = re.compile(
            rf"{name}[.-](?P<after>\d[\dTZ:_.-]*)|{stem}[.-](?P<within>\d[\dTZ:_.-]*){suffix}"
        )

    def current(self) -> Place | None:
        """Return the file that is written now, None where there is none at the moment."""
        return self._place(self.path)

    def rotated(self) -> list[Place]:
        """Return the files that rotation set aside, the oldest first; compressed ones are none."""
        try:
            names = [entry.name for entry in self.path.parent.iterdir()]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self.error(f"its folder can't be listed: {error.strerror}") from error
        ages = {name: age for name in names if (age := self._age(name)) is not None}
        paths = [self.path.with_name(name) for name in sorted(ages, key=lambda name: ages[name])]
        return [place for path in paths if (place := self._place(path)) is not None]

    def open(self, place: Place) -> int | None:
        """Return a descriptor of the file at a place, None where it has just gone."""
        try:
            return os.open(place.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self.error(
                f"{place.path} can't be opened: {error.strerror}; let the exporter's user read it"
            ) from error

    def error(self, problem: str) -> StoreError:
        """Return the error that tells a problem of this log."""
        return StoreError(self._store, problem)

    def _place(self, path: Path) -> Place | None:
        try:
            found = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self.error(f"{path} can't be read: {error.strerror}") from error
        if not stat.S_ISREG(found.st_mode):
            if path != self.path:
                return None
            raise self.error(
                f"{path} is no regular file; have the gateway write its log to a file of its own"
            )
        return Place(path, (found.st_dev, found.st_ino), found.st_size, found.st_mtime_ns)

    def _age(self, name: str) -> tuple[int, int, str] | None:
        """Return what sorts a rotated file's name, the oldest first; None for any other file."""
        match = self._rotated.fullmatch(name)
        if match is None:
            return None
        mark = match["after"] or match["within"]
        digits = re.sub(r"\D", "", mark)
        if len(digits) >= _LEAST_DATE_DIGITS:
            return (1, 0, mark)
        # access-2.log is more likely another log than an older one.
        return (0, -int(mark), "") if match["after"] and mark == digits else None
