"""What ``check`` finds: how much it matters, where it is, what is to be said of it."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    NOTE = "note"
    """Works, but something is unknown or slow because of it."""
    WRONG = "wrong"
    """Must be mended: exit code 1."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    where: str
    said: str

    @property
    def is_wrong(self) -> bool:
        """Return whether it must be mended."""
        return self.level is Level.WRONG

    def __str__(self) -> str:
        """Return the finding as one line."""
        return f"{self.level:<5}  {self.where}: {self.said}"
