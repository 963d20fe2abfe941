"""The clients of a drill on a real gateway, all at once, each in a thread of its own."""

import threading
import time
from collections.abc import Mapping
from typing import Final

from orphanwatch.exporter.clock import Clock
from orphanwatch.exporter.drill.target_client import Client, Told
from orphanwatch.exporter.drill.target_ids import Sent
from orphanwatch.exporter.drill.target_requests import Ask, Budget, TargetPlan, in_seconds
from orphanwatch.exporter.errors import DrillError
from orphanwatch.exporter.instants import Micros, seconds

_PATIENCE_SECONDS: Final = 5.0


class Crowd:
    """Asks and leaves by itself; whoever started it may look on, and must have it leave."""

    def __init__(self, plan: TargetPlan, bound: Micros, clock: Clock) -> None:
        """Raises ``DrillError`` where a certificate's file can't be read."""
        self._plan = plan
        self._bound = bound
        self._budget = Budget(plan.target)
        self._clients = {ask: Client(plan.target, clock) for ask in plan.asks}
        self._told: dict[Ask, Told] = {}
        self._sent: list[Ask] = []
        self._lock = threading.Lock()
        self._is_leaving = threading.Event()
        *leavers, self._retry = plan.asks
        self._threads = [
            # Daemons: a gateway that keeps one busy must not keep the process alive.
            threading.Thread(target=self._play, args=(ask,), name=ask.task_id, daemon=True)
            for ask in leavers
        ]
        self._left: float | None = None

    def start(self) -> None:
        """Send all requests but the retry, which follows by itself."""
        for thread in self._threads:
            thread.start()

    def leave(self) -> None:
        """Close whatever is still open, and return once everybody is gone."""
        self._is_leaving.set()
        for client in self._clients.values():
            client.leave()
        for thread in self._threads:
            thread.join(_PATIENCE_SECONDS)

    @property
    def told(self) -> Mapping[Ask, Told]:
        """What those who are through have seen."""
        with self._lock:
            return dict(self._told)

    @property
    def sent(self) -> tuple[Sent, ...]:
        """The requests that were sent so far."""
        with self._lock:
            return tuple(
                Sent(
                    ask=ask,
                    answered_id=told.answered_id if (told := self._told.get(ask)) else None,
                    left_at=told.left_at if told else None,
                )
                for ask in self._sent
            )

    @property
    def is_through(self) -> bool:
        """Return whether everybody has left, or has the whole answer."""
        return not any(thread.is_alive() for thread in self._threads)

    @property
    def is_over(self) -> bool:
        """Return whether the bound has passed since the last client left."""
        left = self._left
        return left is not None and time.monotonic() - left >= seconds(self._bound)

    def refuse_problems(self) -> None:
        """Raise ``DrillError`` where a client that was to leave could not rehearse that."""
        for ask, told in self.told.items():
            if not ask.leaves or self._is_leaving.is_set():
                continue
            if told.problem:
                raise DrillError(f"{ask.task_id}: {told.problem}")
            if told.left_at is None:
                stayed = in_seconds(self._plan.knobs.cancel_at)
                raise DrillError(
                    f"{ask.task_id}: the answer ended after {told.events} events, before its "
                    f"client left at {stayed}: no cancel was rehearsed; raise answer_tokens or "
                    "lower cancel_at in a --drill.file, or set ignore_eos: true where the engine "
                    "knows it"
                )

    def _play(self, ask: Ask) -> None:
        told = self._send(ask, self._plan.knobs.cancel_at)
        if told is None:
            return
        if ask.retry_id == self._retry.retry_id and told.left_at is not None:
            if self._is_leaving.wait(seconds(self._plan.knobs.retry_after)):
                return
            self._send(self._retry, self._bound)

    def _send(self, ask: Ask, leave_after: Micros) -> Told | None:
        """Send one request, once the caps have let it; None where everybody is leaving."""
        with self._lock:
            if self._is_leaving.is_set():
                return None
            self._budget.take(self._plan.tokens_each)
            self._sent.append(ask)
        told = self._clients[ask].ask(ask, self._plan.body, leave_after)
        with self._lock:
            self._told[ask] = told
            if ask.leaves:
                self._left = time.monotonic()
        return told
