"""One thread per store, so that a store that hangs costs its timeout and nothing else."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

from orphanwatch.exporter.errors import StoreBusyError, StoreError
from orphanwatch.exporter.instants import Micros, format_duration, seconds
from orphanwatch.exporter.names import StoreName

# How much longer than the store's own timeout we wait for it to give up by itself.
_PATIENCE_SECONDS = 0.5

Answer = TypeVar("Answer")


class Lane:
    """Runs a store's questions one at a time, each bounded; refuses while one is still out."""

    def __init__(self, store: StoreName, timeout: Micros) -> None:
        self._store = store
        self._timeout = timeout
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = (
            queue.SimpleQueue()
        )
        self._pending: Future[Any] | None = None
        self._thread: threading.Thread | None = None

    def ask(self, question: Callable[[], Answer]) -> Answer:
        """Return the answer; raises ``StoreError`` on a timeout or while another is in flight."""
        if self._pending is not None and not self._pending.done():
            raise StoreBusyError(self._store)
        if self._thread is None:
            # A daemon: a driver that never comes back must not keep the process alive.
            self._thread = threading.Thread(
                target=self._work, name=f"store-{self._store}", daemon=True
            )
            self._thread.start()
        future: Future[Answer] = Future()
        self._pending = future
        self._jobs.put((future, question))
        try:
            return future.result(seconds(self._timeout) + _PATIENCE_SECONDS)
        except FutureTimeoutError:
            raise StoreError(
                self._store,
                f"no answer within {format_duration(self._timeout)}; "
                "see what blocks it, or raise the store's timeout",
            ) from None

    def is_busy(self) -> bool:
        """Return whether a question that timed out is still running."""
        return self._pending is not None and not self._pending.done()

    def stop(self) -> None:
        """End the thread once its question is done."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, question = job
            try:
                future.set_result(question())
            except BaseException as error:  # noqa: BLE001  (handed over to the asker)
                future.set_exception(error)
