"""A drill's books: what its stack writes, put into the stores that a config names.

``StoreBooks`` knows what each event means for each store; a *book* (``books_sql``,
``books_redis``) knows how one kind of store takes rows.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.config_redis import RedisSource
from orphanwatch.exporter.config_source import Source
from orphanwatch.exporter.config_stores import LedgerSettings, RedisLeaseStore, SqlSource
from orphanwatch.exporter.drill.books_database import Databases
from orphanwatch.exporter.drill.books_sql import SqlBook
from orphanwatch.exporter.drill.journal import Cells, Journal
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.names import ARM_STORES, StoreName
from orphanwatch.exporter.stack.books import Charge, QueueState
from orphanwatch.exporter.stack.requests import Request


class Book(Protocol):
    """One store, as a drill writes it. What can't be written raises ``StoreError``."""

    def states(self, name: str) -> bool:
        """Return whether the store has a canonical column."""
        ...

    def kept(self, name: str, at: Instant) -> Instant:
        """Return an instant of a column as it will be read again: never later than it was."""
        ...

    def add(self, row: Mapping[str, object]) -> None:
        """Add a row of canonical columns."""
        ...

    def stamp(self, row: Mapping[str, object], **key: str) -> None:
        """Set cells of the rows that have these ids."""
        ...

    def drop(self, **key: str) -> None:
        """Take out the rows that have these ids."""
        ...

    def as_of(self, at: Instant) -> None:
        """Let what a store reckons by a clock of its own be as if it were that instant."""
        ...

    def flush(self) -> None:
        """Let everybody see what was written."""
        ...

    def rehearse(self) -> None:
        """Make sure that what was not flushed would be taken, and forget it."""
        ...

    def give_up(self) -> None:
        """Forget what was not flushed, and whatever is broken."""
        ...

    def remove(self, prefix: str, spared: Collection[str] = ()) -> int:
        """Take the rows out whose task id begins with a prefix; return how many there were.

        Those that begin with one of ``spared`` stay; ``flush`` makes it so.
        """
        ...

    def remove_sampled(self, samples: Iterable[Cells]) -> int:
        """Take these samples out; return how many there were; ``flush`` makes it so."""
        ...

    def close(self) -> None:
        """Give up what is not flushed, and let go of the store."""
        ...


def stores_of(config: Config) -> dict[StoreName, Source | None]:
    """Return the settings of the four stores, None for one that the config does not name."""
    stores = config.stores
    return {
        StoreName.GATEWAY: stores.gateway,
        StoreName.LEASES: stores.leases,
        StoreName.LEDGER: stores.ledger,
        StoreName.QUEUE: stores.queue,
    }


def open_books(config: Config) -> dict[StoreName, Book]:
    """Return a book for each configured store; raises ``StoreError`` for one that takes none.

    The three stores of the two arms must be there.
    """
    books: dict[StoreName, Book] = {}
    databases = Databases()
    try:
        for name, store in stores_of(config).items():
            if store is not None or name in ARM_STORES:
                books[name] = book_of(name, store, databases)
    except BaseException:
        for book in books.values():
            book.close()
        raise
    return books


def book_of(name: StoreName, store: Source | None, databases: Databases) -> Book:
    """Return the book of one store; raises ``StoreError`` where it can't have any."""
    if store is None:
        raise StoreError(name, f"is not configured, and a drill needs it; add stores.{name}")
    if not can_hold_rows(store):
        kind = f"preset {store.preset}" if store.preset else f"type {_type_of(store)}"
        raise StoreError(
            name,
            f"is of {kind}, into which a drill can't write; run the drill on a copy of the config "
            f"whose stores.{name} is a table of your own (type: sql)"
            + (", or keys (type: redis)" if name is StoreName.LEASES else ""),
        )
    if isinstance(store, RedisLeaseStore):
        from orphanwatch.exporter.drill.books_redis import (  # noqa: PLC0415  (an extra)
            RedisLeaseBook,
        )

        return RedisLeaseBook(store)
    assert isinstance(store, SqlSource)  # noqa: S101  (see can_hold_rows)
    return SqlBook(name, store, databases.of(name, store))


def can_hold_rows(store: Source) -> bool:
    """Return whether a drill could ever have written into a store of this kind."""
    return store.preset is None and isinstance(store, SqlSource | RedisLeaseStore)


def _type_of(store: Source) -> str:
    return "redis" if isinstance(store, RedisSource) else str(getattr(store, "type", "unknown"))


class StoreBooks:
    """Writes what happens in a stack into the configured stores."""

    def __init__(
        self, books: Mapping[StoreName, Book], ledger: LedgerSettings, journal: Journal | None
    ) -> None:
        """Take the books; without a journal nothing may be flushed."""
        self._books = books
        self._gateway = books[StoreName.GATEWAY]
        self._leases = books[StoreName.LEASES]
        self._ledger = books[StoreName.LEDGER]
        self._queue = books.get(StoreName.QUEUE)
        self._journal = journal
        self.shape = ledger.shape
        self._totals: dict[str, int] = defaultdict(int)

    def states(self, store: StoreName, name: str) -> bool:
        """Return whether a store has a canonical column."""
        return store in self._books and self._books[store].states(name)

    def kept(self, store: StoreName, name: str, at: Instant) -> Instant:
        """Return an instant of a column as the exporter will read it."""
        return self._books[store].kept(name, at) if store in self._books else at

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
        """Stamp a task; its outcome is ok where none is said."""
        self._gateway.stamp({"finished_at": at}, task_id=task_id)

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
        """Stamp a lease, or take it out of a store that keeps no released ones."""
        if self._leases.states("released_at"):
            self._leases.stamp({"released_at": at}, task_id=task_id, worker_id=worker_id)
        else:
            self._leases.drop(task_id=task_id, worker_id=worker_id)

    def charged(self, charge: Charge) -> None:
        """Add a charge in the ledger's shape."""
        self._totals[charge.key] += charge.tokens
        row: dict[str, object] = {
            "task_id": charge.key,
            "tokens": self._totals[charge.key] if self.shape == "cumulative" else charge.tokens,
            "charged_at": charge.at,
            "prompt_tokens": charge.prompt_tokens,
        }
        if self.shape == "final":
            row["started_at"] = charge.started_at
        self._ledger.add(row)

    def sampled(self, queue: QueueState, at: Instant) -> None:
        """Add a sample."""
        self._leases.as_of(at)
        if self._queue is None:
            return
        sample: Cells = {"sampled_at": at, **queue._asdict()}
        if self._journal is not None:
            self._journal.note(sample)
        self._queue.add(sample)

    def flush(self) -> None:
        """Let everybody see what was written."""
        for book in self._books.values():
            book.flush()

    def as_of(self, at: Instant) -> None:
        """Let what the leases reckon by a clock of their own be as if it were that instant."""
        self._leases.as_of(at)
        self._leases.flush()

    def rehearse(self) -> None:
        """Make sure that all of it would be taken, and forget it."""
        for book in self._books.values():
            book.rehearse()
