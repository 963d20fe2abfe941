"""Who takes part in a drill: its requests and its crews, made from the knobs and one fault."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final

from orphanwatch.exporter.drill.faults import Fault
from orphanwatch.exporter.drill.knobs import PAID_TASKS, Knobs
from orphanwatch.exporter.instants import SECOND, Instant, Micros, micros
from orphanwatch.exporter.stack.books import Books
from orphanwatch.exporter.stack.requests import Request
from orphanwatch.exporter.stack.stack import Stack
from orphanwatch.exporter.stack.workers import Crew

STEP: Final = micros(0.1)
_DELAYS: Final = (1, 2, 3)
"""How many steps a cancel takes to arrive, where it arrives."""
_PAID_HEARTBEAT: Final = micros(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One drill, before it is played. ``prefix`` begins every id that it writes."""

    knobs: Knobs
    fault: Fault | None
    paid_pool: str
    overflow_pool: str
    prefix: str
    seed: int = 0

    def requests(self, start: Instant) -> tuple[Request, ...]:
        """Return all requests, the retry right after the attempt that it repeats."""
        knobs = self.knobs
        overflow = knobs.tasks - PAID_TASKS - 1
        asked = [
            self._request(number, start, self.paid_pool, leaves=False)
            for number in range(1, PAID_TASKS + 1)
        ]
        leaving = [
            self._request(number, start, self.overflow_pool, leaves=True)
            for number in range(PAID_TASKS + 1, PAID_TASKS + 1 + overflow)
        ]
        return (*asked, leaving[0], self._retry(leaving[0]), *leaving[1:])

    def stack(self, books: Books, start: Instant) -> Stack:
        """Return the stack that plays it, its fault in place."""
        chance = random.Random(self.seed)  # noqa: S311  (a rehearsal's variety, no secret)
        stack = Stack(
            books,
            start,
            _streams(self.requests(start)),
            self._crews(chance),
            admission_cap=4 * self.knobs.tasks,
            cancel_delays=(Micros(STEP * chance.choice(_DELAYS)) for _ in repeat(None)),
            step=STEP,
        )
        if self.fault is Fault.DROP_CANCEL:
            stack.cancels[self.overflow_pool].lose()
        return stack

    def _crews(self, chance: random.Random) -> Sequence[Crew]:
        knobs, fault = self.knobs, self.fault
        is_slow = fault is Fault.SLOW_HEARTBEAT
        crews = [
            Crew(
                pool=self.paid_pool,
                size=knobs.paid_lease_cap,
                heartbeat=_PAID_HEARTBEAT,
                tokens_per_second=knobs.tokens_per_second,
                prefix=self.prefix,
                first_beats=_first_beats(chance, knobs.paid_lease_cap, _PAID_HEARTBEAT),
            ),
            Crew(
                pool=self.overflow_pool,
                size=2 * knobs.tasks,
                heartbeat=knobs.slowest_heartbeat if is_slow else knobs.heartbeat,
                # A slow one that began earlier would still hear of the cancel in time.
                first_beats=(
                    () if is_slow else _first_beats(chance, 2 * knobs.tasks, knobs.heartbeat)
                ),
                tokens_per_second=knobs.tokens_per_second,
                prefix=self.prefix,
                hears_at_heartbeats=is_slow,
                charges_workers=fault is Fault.MISKEYED_LEDGER,
            ),
        ]
        chance.shuffle(crews)
        return crews

    def _request(self, number: int, start: Instant, pool: str, *, leaves: bool) -> Request:
        knobs = self.knobs
        return Request(
            task_id=f"{self.prefix}task-{number}",
            retry_id=f"{self.prefix}request-{number}",
            attempt=1,
            pool=pool,
            submitted_at=start,
            deadline_at=Instant(start + knobs.deadline),
            leaves_at=Instant(start + knobs.cancel_at) if leaves else None,
            # Of a client that leaves: enough to decode past the drill's end.
            tokens=2 * knobs.length * knobs.tokens_per_second // SECOND
            if leaves
            else knobs.answer_tokens,
            prompt_tokens=knobs.prompt_tokens,
            decoders=2 if leaves and self.fault is Fault.SECOND_DECODER else 1,
        )

    def _retry(self, first: Request) -> Request:
        knobs = self.knobs
        at = Instant(first.submitted_at + knobs.cancel_at + knobs.retry_after)
        return Request(
            task_id=f"{self.prefix}task-{knobs.tasks}",
            retry_id="" if self.fault is Fault.LOST_RETRY_ID else first.retry_id,
            attempt=2,
            pool=first.pool,
            submitted_at=at,
            deadline_at=Instant(at + knobs.deadline),
            leaves_at=None,
            tokens=knobs.answer_tokens,
            prompt_tokens=knobs.prompt_tokens,
        )


def _first_beats(chance: random.Random, size: int, heartbeat: Micros) -> tuple[Micros, ...]:
    """Return when each worker of a crew beats first: no two workers are in step."""
    steps = max(1, heartbeat // STEP)
    return tuple(Micros(STEP * chance.randint(1, steps)) for _ in range(size))


def _streams(requests: Sequence[Request]) -> Iterator[Iterator[Request]]:
    """Yield one stream a client: its first attempt, and its retry where it has one."""
    clients: list[list[Request]] = []
    for request in requests:
        if request.attempt == 1:
            clients.append([request])
        else:
            clients[-1].append(request)
    return (iter(client) for client in clients)
