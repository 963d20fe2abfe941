"""Ctrl-C and its like while a drill runs: heard at once, obeyed between two steps.

A drill that were torn out of a statement would leave a connection in an unknown state, and rows
with it. So a signal is noted, the drill ends at its next step, and cleans up undisturbed.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from orphanwatch.exporter.errors import DrillError

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SAID: Final = (
    b"\nstopping; the drill's rows are being taken away\n",
    b"\nstill taking rows away; once more leaves them, for drill clean\n",
)


class DrillInterruptedError(DrillError):
    """Somebody wants the drill to end."""

    def __init__(self, number: int) -> None:
        super().__init__("the drill was interrupted")
        self.exit_code = 128 + number
        """What a shell expects of a program that a signal ended."""


class Interrupts:
    """What was heard so far."""

    def __init__(self) -> None:
        self._heard: list[int] = []

    @property
    def has_heard(self) -> bool:
        """Whether any signal came."""
        return bool(self._heard)

    def check(self) -> None:
        """Raise ``DrillInterruptedError`` once a signal was heard."""
        if self._heard:
            raise DrillInterruptedError(self._heard[0])

    def hear(self, number: int, _frame: FrameType | None) -> None:
        """Note a signal, say so, and give in to the third."""
        self._heard.append(number)
        if len(self._heard) > len(_SAID):
            raise KeyboardInterrupt
        # Not through click or a stream, which the signal may just have interrupted.
        os.write(2, _SAID[len(self._heard) - 1])


@contextmanager
def interrupts() -> Iterator[Interrupts]:
    """Hear the signals that end a program, until the block ends; those ignored stay so.

    Once one was heard, the program ends by itself: what comes after the block is its last words,
    and one more signal must not cut them off.
    """
    heard = Interrupts()
    before = {
        number: signal.signal(number, heard.hear)
        for number in _SIGNALS
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if heard.has_heard else handler)
