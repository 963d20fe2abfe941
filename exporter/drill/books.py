"""A drill's books: what its stack writes, put into the stores that a config names.

``StoreBooks`` knows what each event means for each store; a *book* (``books_sql``) knows how one
kind of store takes rows.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.config_source import Source
from orphanwatch.exporter.config_stores import LedgerSettings, SqlSource
from orphanwatch.exporter.drill.books_sql import Databases, SqlBook
from orphanwatch.exporter.drill.journal import Journal
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.names import ARM_STORES, StoreName
from orphanwatch.exporter.stack.books import Charge, QueueState
from orphanwatch.exporter.stack.requests import Request


class Book(Protocol):
    """One store, as a drill writes it."""

    def states(self, name: str) -> bool:
        """Return whether the store has a canonical column."""
        ...

    def add(self, row: Mapping[str, object]) -> None:
        """Add a row of canonical columns."""
        ...

    def stamp(self, row: Mapping[str, object], **key: str) -> None:
        """Set cells of the rows that have these ids."""
        ...

    def flush(self) -> None:
        """Let everybody see what was written."""
        ...

    def remove(self, prefix: str) -> int:
        """Take the rows out whose task id begins with a prefix; return how many there were."""
        ...

    def remove_sampled(self, instants: Iterable[Instant]) -> int:
        """Take out the samples of these very instants; return how many there were."""
        ...

    def close(self) -> None:
        """Give up what is not flushed, and let go of the store."""
        ...


def open_books(config: Config) -> dict[StoreName, Book]:
    """Return a book for each configured store; raises ``StoreError`` for one that takes none.

    The three stores of the two arms must be there.
    """
    stores = config.stores
    settings = {
        StoreName.GATEWAY: stores.gateway,
        StoreName.LEASES: stores.leases,
        StoreName.LEDGER: stores.ledger,
        StoreName.QUEUE: stores.queue,
    }
    books: dict[StoreName, Book] = {}
    databases = Databases()
    try:
        for name, store in settings.items():
            if store is not None or name in ARM_STORES:
                books[name] = _book_of(name, store, databases)
    except StoreError:
        for book in books.values():
            book.close()
        raise
    return books


def _book_of(name: StoreName, store: Source | None, databases: Databases) -> Book:
    if store is None:
        raise StoreError(name, "is not configured: a drill needs it; add it")
    if isinstance(store, SqlSource):
        return SqlBook(name, store, databases.of(name, store))
    raise StoreError(
        name,
        "is of a kind that a drill can't write to; run it on a config whose store is a table",
    )


class StoreBooks:
    """Writes what happens in a stack into the configured stores."""

    def __init__(
        self, books: Mapping[StoreName, Book], ledger: LedgerSettings, journal: Journal
    ) -> None:
        self._books = books
        self._gateway = books[StoreName.GATEWAY]
        self._leases = books[StoreName.LEASES]
        self._ledger = books[StoreName.LEDGER]
        self._queue = books.get(StoreName.QUEUE)
        self._shape = ledger.shape
        self._last: dict[tuple[str, Instant], Charge] = {}
        self._prompts: dict[tuple[str, Instant], int] = {}
        self._journal = journal

    def submitted(self, request: Request) -> None:
        """Add a task."""
        self._gateway.add(
            {
                "task_id": request.task_id,
                "retry_id": request.retry_id,
                "attempt": request.attempt,
                "pool": request.pool,
                "submitted_at": request.submitted_at,
                "deadline_at": request.deadline_at,
                "cancellable": True,
            }
        )

    def cancelled(self, task_id: str, at: Instant) -> None:
        """Stamp a task."""
        self._gateway.stamp({"cancelled_at": at}, task_id=task_id)

    def finished(self, task_id: str, at: Instant) -> None:
        """Stamp a task."""
        self._gateway.stamp({"finished_at": at, "outcome": "ok"}, task_id=task_id)

    def acquired(self, task_id: str, worker_id: str, pool: str, at: Instant) -> None:
        """Add a lease."""
        self._leases.add(
            {
                "task_id": task_id,
                "worker_id": worker_id,
                "pool": pool,
                "acquired_at": at,
                "heartbeat_at": at,
            }
        )

    def beat(self, task_id: str, worker_id: str, at: Instant) -> None:
        """Stamp a lease."""
        self._leases.stamp({"heartbeat_at": at}, task_id=task_id, worker_id=worker_id)

    def released(self, task_id: str, worker_id: str, at: Instant) -> None:
        """Stamp a lease; a ``final`` ledger gets its row now."""
        self._leases.stamp({"released_at": at}, task_id=task_id, worker_id=worker_id)
        for key in [key for key in self._last if key[0] in (task_id, worker_id)]:
            charge = self._last.pop(key)
            self._charge(charge, charge.total, at, self._prompts.pop(key))

    def charged(self, charge: Charge) -> None:
        """Add a charge in the ledger's shape."""
        if self._shape == "final":
            key = (charge.key, charge.started_at)
            self._last[key] = charge
            self._prompts[key] = self._prompts.get(key, 0) + charge.prompt_tokens
        else:
            is_total = self._shape == "cumulative"
            tokens = charge.total if is_total else charge.tokens
            self._charge(charge, tokens, charge.at, charge.prompt_tokens)

    def sampled(self, queue: QueueState, at: Instant) -> None:
        """Add a sample."""
        if self._queue is not None:
            self._journal.note(at)
            self._queue.add({"sampled_at": at, **queue._asdict()})

    def flush(self) -> None:
        """Let everybody see what was written."""
        for book in self._books.values():
            book.flush()

    def _charge(self, charge: Charge, tokens: int, at: Instant, prompt_tokens: int) -> None:
        row: dict[str, object] = {
            "task_id": charge.key,
            "tokens": tokens,
            "charged_at": at,
            "prompt_tokens": prompt_tokens,
        }
        if self._shape == "final":
            row["started_at"] = charge.started_at
        self._ledger.add(row)
