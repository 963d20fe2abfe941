"""The queue samples of a drill: they have no id, so they are noted before they are written."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from orphanwatch.exporter.errors import DrillError
from orphanwatch.exporter.instants import Instant

NAME: Final = ".orphanwatch-drill.journal"


class Journal:
    """A file beside the config with one instant a line; it is gone once all is cleaned up."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def note(self, at: Instant) -> None:
        """Note a sample that is about to be written; raises ``DrillError``."""
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"{json.dumps(at)}\n")
        except OSError as error:
            raise DrillError(
                f"{self._path} can't be written ({error.strerror}): "
                "a drill notes there what it has to take away; make the folder writable"
            ) from error

    def noted(self) -> tuple[Instant, ...]:
        """Return every instant that was noted; a line that was cut short is none."""
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise DrillError(f"{self._path} can't be read ({error.strerror})") from error
        return tuple(_instants(lines))

    def forget(self) -> None:
        """Remove the file."""
        self._path.unlink(missing_ok=True)


def _instants(lines: Iterable[str]) -> Iterable[Instant]:
    for line in lines:
        if line.isdecimal():
            yield Instant(int(line))
