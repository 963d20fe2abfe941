"""What a drill has to take away and can't tell by an id: noted before it is written.

Each drill has a file of its own beside the config, locked for as long as it runs. A file that
nobody locks is of a drill that was killed: ``drill clean`` reads it.
"""

import fcntl
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from orphanwatch.exporter.errors import DrillError

PREFIX: Final = "orphanwatch-drill-"
"""What every id that a drill writes begins with; the run and a hyphen follow."""

_NAME: Final = re.compile(r"\.orphanwatch-drill-([0-9a-f]+)\.journal")

Cells = Mapping[str, int | float]
"""A queue sample by canonical column; its instant in microseconds."""


def prefix_of(run: str) -> str:
    """Return what every id of one run begins with."""
    return f"{PREFIX}{run}-"


class Journal:
    """The file of one run: a line for each queue sample; it is gone once all is cleaned up."""

    def __init__(self, path: Path, run: str, file: int) -> None:
        self.run = run
        self._path = path
        self._file = file

    @classmethod
    def begin(cls, folder: Path, run: str) -> Self:
        """Return the journal of a new run, locked; raises ``DrillError``."""
        path = folder / f".orphanwatch-drill-{run}.journal"
        while True:
            try:
                file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
                fcntl.flock(file, fcntl.LOCK_EX)
            except OSError as error:
                raise DrillError(
                    f"{path} can't be written ({error.strerror}): "
                    "a drill notes there what it has to take away; make the folder writable"
                ) from error
            if os.fstat(file).st_nlink:
                return cls(path, run, file)
            os.close(file)  # a ``drill clean`` came in between, and took it for left behind

    def note(self, sample: Cells) -> None:
        """Note a sample that is about to be written; raises ``DrillError``."""
        try:
            os.write(self._file, f"{json.dumps(dict(sample))}\n".encode())
        except OSError as error:
            raise DrillError(f"{self._path} can't be written ({error.strerror})") from error

    def noted(self) -> tuple[Cells, ...]:
        """Return every sample that was noted; a line that was cut short is none."""
        try:
            text = self._path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise DrillError(f"{self._path} can't be read ({error.strerror})") from error
        return tuple(_samples(text.splitlines()))

    def forget(self) -> None:
        """Remove the file: nothing of the run is left."""
        self._path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Let go of the file, which stays where it is not forgotten."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


@dataclass(frozen=True, slots=True)
class Journals:
    """The journals of a folder."""

    left: tuple[Journal, ...]
    """Of drills that were killed, now locked by us."""
    running: tuple[str, ...]
    """The runs that still go on."""


def journals_in(folder: Path) -> Journals:
    """Return the journals of a folder; raises ``DrillError`` for one that can't be opened."""
    left: list[Journal] = []
    running: list[str] = []
    for path in sorted(folder.iterdir()):
        named = _NAME.fullmatch(path.name)
        if named is None:
            continue
        try:
            file = os.open(path, os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:
            continue  # its drill has just come to its end
        except OSError as error:
            raise DrillError(
                f"{path} can't be opened ({error.strerror}); clean up as the user who ran the drill"
            ) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            running.append(named[1])
        else:
            left.append(Journal(path, named[1], file))
    return Journals(tuple(left), tuple(running))


def _samples(lines: Iterable[str]) -> Iterable[Cells]:
    for line in lines:
        try:
            sample = json.loads(line)
        except ValueError:
            continue
        if isinstance(sample, dict) and "sampled_at" in sample:
            yield sample
