"""What happens in the demo, and when: the overflow pool loses its cancels, and mends."""

from dataclasses import dataclass
from typing import Final

from orphanwatch.exporter.demo.stack import OVERFLOW
from orphanwatch.exporter.instants import Instant, Micros, micros
from orphanwatch.exporter.stack.stack import Stack

CALM: Final = micros(25)
"""How long all is well at first."""
LOST: Final = micros(45)
"""How long the cancels are lost."""
MENDED: Final = micros(75)
"""How long all is well again: long enough for the verdict to reopen."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of the story, told in a sentence."""

    at: Instant
    words: str


_LOST: Final = "the overflow pool has lost its cancels: its workers decode on for clients that left"
_MENDED: Final = "the cancels arrive again: the overflow workers stop what nobody waits for"


class Story:
    """Breaks and mends the stack's overflow pool, on and on."""

    def __init__(self, stack: Stack, start: Instant) -> None:
        self._stack = stack
        self._is_lost = False
        self._next = Instant(start + CALM)

    def advance(self, to: Instant) -> list[Turn]:
        """Move the stack on to an instant; returns the turns that were taken on the way."""
        turns = []
        while self._next <= to:
            self._stack.advance(self._next)
            turns.append(self._turn(self._next))
        self._stack.advance(to)
        return turns

    def _turn(self, at: Instant) -> Turn:
        self._is_lost = not self._is_lost
        channel = self._stack.cancels[OVERFLOW]
        if self._is_lost:
            channel.lose()
        else:
            channel.mend()
        length: Micros = LOST if self._is_lost else MENDED
        self._next = Instant(at + length)
        return Turn(at, _LOST if self._is_lost else _MENDED)
