"""Clients: what they ask for and when, and how long they are willing to wait.

The same order of things in every run: no randomness, so that a run can be told and repeated.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import count

from orphanwatch.exporter.instants import Instant, Micros
from orphanwatch.exporter.stack.requests import Request


class Habit(StrEnum):
    """What a client does while it waits."""

    STAYS = "stays"
    LEAVES = "leaves"
    RETRIES = "leaves, and asks again with the same retry_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clients:
    """A stream of clients of one pool; their habits follow each other in turn."""

    pool: str
    every: Micros
    deadline: Micros
    patience: Micros
    """How long a client that leaves has waited by then."""
    pause: Micros
    """How long a client that retries stays away."""
    tokens: int
    """What one answer takes."""
    habits: tuple[Habit, ...]

    def requests(self, start: Instant) -> Iterator[Request]:
        """Yield the clients' requests without end, about in the order of their submission.

        A retry comes right after the attempt it repeats, and is submitted later than that.
        """
        for number in count():
            habit = self.habits[number % len(self.habits)]
            first = self._request(number, 1, Instant(start + number * self.every), habit)
            yield first
            if habit is Habit.RETRIES and first.leaves_at is not None:
                again = Instant(first.leaves_at + self.pause)
                yield self._request(number, 2, again, Habit.STAYS)

    def _request(self, number: int, attempt: int, at: Instant, habit: Habit) -> Request:
        return Request(
            task_id=f"{self.pool}-{number}-{attempt}",
            retry_id=f"{self.pool}-{number}",
            attempt=attempt,
            pool=self.pool,
            submitted_at=at,
            deadline_at=Instant(at + self.deadline),
            leaves_at=None if habit is Habit.STAYS else Instant(at + self.patience),
            tokens=self.tokens,
        )
