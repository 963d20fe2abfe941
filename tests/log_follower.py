"""A log in a folder, written as a gateway and logrotate do, and the product that follows it."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from orphanwatch.exporter.config import parse_config
from orphanwatch.exporter.config_stores import JsonlGatewayStore
from orphanwatch.exporter.instants import SECOND, Instant
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.logs.jsonl import JsonLines
from orphanwatch.exporter.stores.questions import Windows

ZERO: Final = 1_700_000_000
"""The zero of made-up logs, in epoch seconds: files are younger than what stands in them."""

COLUMNS: Final = {"task_id": "id", "ended_at": "at", "duration": "took"}

# The scope of the default windows: the horizon, the baseline window and the delta window.
SCOPE: Final = 3600 + 300 + 60


def line(task_id: str, seconds: float = 0.0, **more: Any) -> str:
    """Return the line of a request that ended so many seconds after ``ZERO``."""
    return json.dumps({"id": task_id, "at": ZERO + seconds, "took": 0.5, **more}) + "\n"


def settings(path: Path, **more: Any) -> JsonlGatewayStore:
    """Return the settings of a gateway that is a log."""
    patient = {"type": "jsonl", "path": str(path), "columns": COLUMNS, "timeout": "60s"}
    return JsonlGatewayStore.model_validate({**patient, **more})


def windows(seconds: float) -> Windows:
    """Return the windows of an evaluation so many seconds after ``ZERO``."""
    config = parse_config({"stores": {"gateway": {"type": "sql", "url": "sqlite://"}}})
    return Windows.ending(Instant(round((ZERO + seconds) * SECOND)), config)


class Follower:
    """Reads a log again and again, as the seconds after ``ZERO`` go by."""

    def __init__(self, path: Path, **more: Any) -> None:
        self.source = JsonLines(StoreName.GATEWAY, settings(path, **more))
        self.met: list[str | None] = []
        """The task ids of all rows so far, in their order."""

    def read(self, seconds: float = 0.0) -> list[str | None]:
        """Return the task ids that one more reading finds."""
        place = self.source.columns.index("task_id")
        found = []
        for row in self.source.read(windows(seconds)):
            task_id = row[place]
            assert task_id is None or isinstance(task_id, str)
            found.append(task_id)
        self.met += found
        return found

    def rejected(self) -> dict[str, int]:
        """Return how many lines the last reading could not use, by reason."""
        counts: dict[str, int] = {}
        for row in self.source.rejected():
            counts[str(row.reason)] = counts.get(str(row.reason), 0) + row.count
        return counts


class RotatedLog:
    """A log that rotates: numbered, the newest being 1."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def older(self, number: int) -> Path:
        """Return the path of a file that was set aside."""
        return self.path.with_name(f"{self.path.name}.{number}")

    def write(self, *texts: str) -> None:
        """Append to the file that is there, or to a new one."""
        with self.path.open("a", encoding="utf-8") as log:
            log.writelines(texts)

    def rename(self) -> None:
        """Set the file aside; a new one is there when it is written to."""
        self._shift()
        self.path.rename(self.older(1))

    def copy_and_truncate(self) -> None:
        """Set a copy aside, and go on in the same file."""
        self._shift()
        shutil.copyfile(self.path, self.older(1))
        with self.path.open("r+") as log:
            log.truncate(0)

    def compress(self) -> None:
        """Compress all files that were set aside."""
        for number in self.numbers():
            self.older(number).rename(f"{self.older(number)}.gz")

    def numbers(self) -> Sequence[int]:
        """Return the numbers of the files that were set aside, the oldest first."""
        files = self.path.parent.glob(f"{self.path.name}.*")
        return sorted((int(f.suffix[1:]) for f in files if f.suffix[1:].isdecimal()), reverse=True)

    def _shift(self) -> None:
        for number in self.numbers():
            self.older(number).rename(self.older(number + 1))
