"""Keeps what was made from the newest value, so that asking again costs a comparison."""

from collections.abc import Callable
from typing import Generic, TypeVar

Source = TypeVar("Source")
Made = TypeVar("Made")


class Latest(Generic[Source, Made]):
    """What was made from one object, until it is asked about another object.

    Two threads that ask at once may both make it; each gets a whole one.
    """

    def __init__(self, make: Callable[[Source], Made]) -> None:
        self._make = make
        self._kept: tuple[Source, Made] | None = None

    def of(self, source: Source) -> Made:
        """Return what is made from the object, made now only if it is not the kept one."""
        kept = self._kept
        if kept is None or kept[0] is not source:
            kept = (source, self._make(source))
            self._kept = kept
        return kept[1]
