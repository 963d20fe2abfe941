"""One file of a log while it is followed: what of it was read, and whether it is still the same."""

import hashlib
import os
import weakref
from typing import Final, NamedTuple

from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.names import RejectReason
from orphanwatch.exporter.stores.logs.files import FileId
from orphanwatch.exporter.stores.logs.lines import LONGEST_LINE

_CHUNK: Final = 256 * 1024
_HEAD: Final = 256

BLOCK: Final = 2**20
"""Bad lines are counted by stretches of so many bytes: millions of them make few counts."""


class Bad(NamedTuple):
    """What is wrong with lines of one stretch of a file."""

    reason: RejectReason
    said: str
    block: int


class Mark(NamedTuple):
    """How far a file was read, to go back to."""

    offset: int
    is_within_long_line: bool
    superseded_at: Instant | None
    bad: dict[Bad, int]


class OpenLog:
    """A file of the log, held open: it can be read to its end wherever rotation takes it.

    ``offset`` is where the first line begins that was not taken yet. ``superseded_at`` is when
    another file was first seen in its place, None for the one that is written. ``changed_at`` is
    the last reading that found it changed, None before the first. ``bad`` counts lines that could
    not be used.
    """

    def __init__(self, descriptor: int, *, superseded_at: Instant | None = None) -> None:
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)
        found = os.fstat(descriptor)
        self.file_id: FileId = (found.st_dev, found.st_ino)
        self.head = self.read_at(0, _HEAD)
        self.offset = 0
        self.is_within_long_line = False
        self.superseded_at = superseded_at
        self.changed_at: Instant | None = None
        self._seen: tuple[int, int] | None = None
        self.bad: dict[Bad, int] = {}

    @property
    def size(self) -> int:
        """How many bytes it has now."""
        return os.fstat(self._descriptor).st_size

    @property
    def modified_ns(self) -> int:
        """When it was written last, by its file system's clock."""
        return os.fstat(self._descriptor).st_mtime_ns

    def note_change(self, at: Instant) -> None:
        """Take note of whether it has changed, once it was read to its end."""
        now = (self.size, self.modified_ns)
        if now != self._seen:
            self._seen, self.changed_at = now, at

    def read_at(self, offset: int, size: int) -> bytes:
        """Return bytes from a place on: fewer where the file ends."""
        return os.pread(self._descriptor, size, offset)

    def is_whole(self) -> bool:
        """Return whether all that was read is still there: neither cut off nor written anew."""
        head = self.read_at(0, _HEAD)
        if self.size < self.offset or not head.startswith(self.head):
            return False
        self.head = head
        return True

    def holds_copy_of(self, other: "OpenLog") -> bool:
        """Return whether it begins as the other does, and holds what was read of that."""
        if not other.head or self.size < other.offset:
            return False
        return self.head.startswith(other.head)

    def is_copy_of(self, other: "OpenLog") -> bool:
        """Return whether both begin and go on alike, as far as both reach.

        The beginning of a line is no evidence: one looks like the other.
        """
        common = min(self.size, other.size)
        size = min(common, _HEAD)
        head, end = self.read_at(0, size), max(0, common - _HEAD)
        if size < _HEAD and b"\n" not in head:
            return False
        return other.read_at(0, size) == head and (
            other.read_at(end, size) == self.read_at(end, size)
        )

    def whole_lines(self) -> bytes:
        """Return the next lines that are whole, each with its end; none is no bytes."""
        if len(self.head) < _HEAD:
            self.head = self.read_at(0, _HEAD)
        chunk = self.read_at(self.offset, _CHUNK)
        end = chunk.rfind(b"\n")
        if end < 0 and len(chunk) == _CHUNK:
            chunk = self.read_at(self.offset, LONGEST_LINE + 1)
            end = chunk.rfind(b"\n")
        return chunk[: end + 1]

    def skip_what_is_no_line(self) -> bool:
        """Go past zeros and past part of a line that is too long; return whether there was any.

        To be called where there are no whole lines. Zeros are what a writer leaves that does not
        notice that its file was truncated.
        """
        chunk = self.read_at(self.offset, LONGEST_LINE + 1)
        zeros = len(chunk) - len(chunk.lstrip(b"\0"))
        if zeros and not self.is_within_long_line:
            self.offset += zeros
            return True
        if len(chunk) <= LONGEST_LINE:
            return False
        if not self.is_within_long_line:
            self.count_bad(RejectReason.INVALID_RECORD, "is too long a line")
            self.is_within_long_line = True
        self.offset += len(chunk)
        return True

    def rest(self) -> bytes:
        """Return what stands after the last whole line."""
        return self.read_at(self.offset, LONGEST_LINE)

    def count_bad(self, reason: RejectReason, said: str) -> None:
        """Count the line at the offset among those that can't be used."""
        bad = Bad(reason, said, self.offset // BLOCK)
        self.bad[bad] = self.bad.get(bad, 0) + 1

    def forget_bad(self) -> None:
        """Forget the counts of stretches that are done."""
        block = self.offset // BLOCK
        self.bad = {bad: count for bad, count in self.bad.items() if bad.block == block}

    def key_of(self, bad: Bad) -> str:
        """Return what tells bad lines from those of other stretches and files.

        A file is told by its first line, since rotation changes its name.
        """
        first_line = self.read_at(0, _HEAD).partition(b"\n")[0]
        digest = hashlib.blake2s(first_line, digest_size=4).hexdigest()
        start = bad.block * BLOCK
        return f"{bad.said}, in bytes {start} to {start + BLOCK - 1} of the file {digest}"

    def mark(self) -> Mark:
        """Return how far it was read."""
        return Mark(self.offset, self.is_within_long_line, self.superseded_at, dict(self.bad))

    def return_to(self, mark: Mark) -> None:
        """Go back to where it was read up to once."""
        self.offset, self.is_within_long_line, self.superseded_at, bad = mark
        self.bad = dict(bad)
