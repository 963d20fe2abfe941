"""What a drill takes away after itself, and ``drill clean`` after those that could not."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.drill.books import Book, book_of, can_hold_rows, stores_of
from orphanwatch.exporter.drill.books_database import Databases
from orphanwatch.exporter.drill.journal import PREFIX, Cells, journals_in, prefix_of
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.names import StoreName

# Leases first: whatever comes in between, none of a drill's own stays open. The gateway's rows
# go last, for others may refer to them.
_ORDER = (StoreName.LEASES, StoreName.LEDGER, StoreName.GATEWAY)


@dataclass(frozen=True, slots=True)
class Taken:
    """What was taken away."""

    rows: int
    problems: tuple[str, ...]
    """What could not be, a sentence each with its store."""
    running: tuple[str, ...] = ()
    """The runs that still go on: theirs was left alone."""


def take_away(
    books: Mapping[StoreName, Book],
    samples: Sequence[Cells],
    prefix: str = PREFIX,
    spared: Collection[str] = (),
) -> Taken:
    """Delete every row whose id begins with a prefix, and these samples.

    One store that can't be reached keeps none of the others from being cleaned.
    """
    rows = 0
    problems: list[str] = []
    for book in books.values():
        book.give_up()
    for name in (*_ORDER, StoreName.QUEUE):
        if name not in books:
            continue
        book = books[name]
        try:
            is_queue = name is StoreName.QUEUE
            gone = book.remove_sampled(samples) if is_queue else book.remove(prefix, spared)
            book.flush()
        except StoreError as error:
            problems.append(str(error))
            book.give_up()
        else:
            rows += gone
    return Taken(rows, tuple(problems))


def clean(config: Config, folder: Path) -> Taken:
    """Delete all rows that drills have left behind in the stores that can be reached.

    A drill that still runs from this folder keeps its own. Raises ``DrillError`` where the
    folder's journals can't be read.
    """
    journals = journals_in(folder)
    books, problems = _books_that_open(config)
    try:
        samples = [sample for journal in journals.left for sample in journal.noted()]
        taken = take_away(books, samples, PREFIX, [prefix_of(run) for run in journals.running])
    finally:
        for book in books.values():
            book.close()
    problems = (*problems, *taken.problems)
    for journal in journals.left:
        if problems:
            journal.close()
        else:
            journal.forget()
    return Taken(taken.rows, problems, journals.running)


def _books_that_open(config: Config) -> tuple[dict[StoreName, Book], tuple[str, ...]]:
    """Return the books of the stores that may hold rows of a drill, and what keeps others shut."""
    books: dict[StoreName, Book] = {}
    problems = []
    databases = Databases()
    for name, store in stores_of(config).items():
        if store is not None and can_hold_rows(store):
            try:
                books[name] = book_of(name, store, databases)
            except StoreError as error:
                problems.append(str(error))
    return books, tuple(problems)
