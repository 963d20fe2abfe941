"""The cancel channel: how workers hear that a client has left, and the hop that gets lost."""

from collections.abc import Iterator

from orphanwatch.exporter.instants import Instant, Micros


class CancelChannel:
    """Carries cancels to the workers of one pool, unless it is broken."""

    def __init__(self, *, delays: Iterator[Micros]) -> None:
        """``delays`` never ends: it yields how long each cancel takes."""
        self._delays = delays
        self._works = True
        self._sent: list[tuple[Instant, str]] = []

    def lose(self) -> None:
        """From now on nothing arrives."""
        self._works = False

    def mend(self) -> None:
        """From now on everything arrives, also what was sent in the meantime."""
        self._works = True

    def send(self, task_id: str, now: Instant) -> None:
        """Tell the workers that nobody waits for a task any more."""
        self._sent.append((Instant(now + next(self._delays)), task_id))

    def arrived(self, now: Instant) -> frozenset[str]:
        """Return the tasks whose cancel has reached the workers since the last call."""
        if not self._works:
            return frozenset()
        due = frozenset(task_id for at, task_id in self._sent if at <= now)
        self._sent = [(at, task_id) for at, task_id in self._sent if at > now]
        return due
