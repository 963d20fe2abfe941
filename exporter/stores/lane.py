"""One thread per store, so that a store that hangs costs its timeout and nothing else."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Protocol, TypeVar, runtime_checkable

from orphanwatch.exporter.errors import StoreBusyError, StoreError
from orphanwatch.exporter.instants import Micros, format_duration, seconds
from orphanwatch.exporter.names import StoreName

# How much longer than the store's own timeout we wait for it to give up by itself.
_PATIENCE_SECONDS = 0.5

Answer = TypeVar("Answer")

_Jobs = queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]


@runtime_checkable
class Cuttable(Protocol):
    """A store whose connection can be cut under a question that does not come back."""

    def cut(self) -> bool:
        """Cut it, from any thread; return whether nothing of the question is in flight then."""
        ...


class Lane:
    """Runs a store's questions one at a time, each bounded; refuses while one is still out."""

    def __init__(self, store: StoreName, timeout: Micros) -> None:
        self._store = store
        self._timeout = timeout
        self._jobs: _Jobs = queue.SimpleQueue()
        self._pending: Future[Any] | None = None
        self._was_cut = False
        self._thread: threading.Thread | None = None
        self._left_behind: threading.Thread | None = None

    def ask(self, question: Callable[[], Answer]) -> Answer:
        """Return the answer; raises ``StoreError`` on a timeout or while another is in flight."""
        if self._pending is not None and not self._pending.done():
            raise StoreBusyError(self._store)
        if self._thread is None:
            # A daemon: a driver that never comes back must not keep the process alive.
            self._thread = threading.Thread(
                target=_work, args=(self._jobs,), name=f"store-{self._store}", daemon=True
            )
            self._thread.start()
        future: Future[Answer] = Future()
        self._pending, self._was_cut = future, False
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

    def free(self, store: Cuttable) -> bool:
        """Get back from a question that has been out for longer than it may.

        Its connection is cut, so that its driver gives up. One that still does not, at a second
        try, is left behind with its thread and all that it holds, unless another one is still
        there: threads don't pile up. Return whether it was: then the store is to be made anew.
        """
        if self._pending is None or self._pending.done():
            return False
        is_cut = store.cut()
        wait([self._pending], _PATIENCE_SECONDS)
        if self._pending.done():
            return False
        is_lost = is_cut and self._was_cut
        self._was_cut = is_cut
        if not is_lost or (self._left_behind is not None and self._left_behind.is_alive()):
            return False
        self.stop()
        self._left_behind, self._thread = self._thread, None
        self._jobs, self._pending = queue.SimpleQueue(), None
        return True

    def stop(self) -> None:
        """End the thread once its question is done."""
        self._jobs.put(None)


def _work(jobs: _Jobs) -> None:
    while (job := jobs.get()) is not None:
        future, question = job
        try:
            future.set_result(question())
        except BaseException as error:  # noqa: BLE001  (handed over to the asker)
            future.set_exception(error)
