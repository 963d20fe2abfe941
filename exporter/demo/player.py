"""Plays the story in a thread, on a clock that is handed in."""

import threading
from collections.abc import Callable

from orphanwatch.exporter.clock import Clock
from orphanwatch.exporter.demo.story import Story, Turn


class Player:
    """Moves the stack along with the clock until it is stopped, ``pause_seconds`` between moves."""

    def __init__(
        self,
        story: Story,
        *,
        clock: Clock,
        pause_seconds: float,
        tell: Callable[[Turn], None],
    ) -> None:
        self._story = story
        self._clock = clock
        self._pause_seconds = pause_seconds
        self._tell = tell
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._play, name="demo-stack", daemon=True)
        self.failure: Exception | None = None
        """What ended the play early, such as a full disk; None while all is well."""

    def start(self) -> None:
        """Begin to play."""
        self._thread.start()

    def stop(self) -> None:
        """Return when the last step is written."""
        self._stopping.set()
        self._thread.join()

    def _play(self) -> None:
        try:
            while not self._stopping.wait(self._pause_seconds):
                for turn in self._story.advance(self._clock()):
                    self._tell(turn)
        except Exception as error:  # noqa: BLE001  (a thread's errors are handed to who waits)
            self.failure = error
