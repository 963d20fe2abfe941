"""The state file: who may use it, and what is said when it can't be used."""

import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import structlog
from stack_file import StackFile
from state_worlds import DAY, START, a_config, a_propagation, a_tally, after, an_evaluation, moved

from orphanwatch.exporter.errors import StateError
from orphanwatch.exporter.instants import SECOND
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.refresh import Refresher
from orphanwatch.exporter.state import CounterBook, Counters
from orphanwatch.exporter.state_schema import APPLICATION_ID

CONFIG = a_config()
DAYS = DAY // SECOND
AFRESH = "move it away, with its -wal and -shm files, and start again"


def written(path: Path) -> None:
    """Leave a state file behind that has counted something."""
    book = CounterBook.open(path, CONFIG, START)
    charged(book, 5, 30)
    book.close()


def charged(book: CounterBook, at: float, tokens: float) -> Counters:
    """Apply an evaluation in which 200 tasks were charged so much each."""
    tallies = [a_tally(tokens, task=f"t{number}") for number in range(200)]
    return book.apply(an_evaluation(at, tallies=tallies), CONFIG, refresh_seconds=0.01)


def overwrite_pages(path: Path) -> None:
    """Scribble over all pages but the first."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"scribble" * ((size - 4096) // 8))


def cut_short(path: Path) -> None:
    """Leave only the first two pages."""
    os.truncate(path, 8192)


def replace_by_a_folder(path: Path) -> None:
    """Put a folder where the file was."""
    path.unlink()
    path.mkdir()


def replace_by_a_store(path: Path) -> None:
    """Put somebody else's database where the file was."""
    path.unlink()
    run_sql("CREATE TABLE tasks (task_id TEXT)")(path)


def run_sql(*statements: str) -> Callable[[Path], None]:
    """Return what has another program write to the file."""

    def run(path: Path) -> None:
        connection = sqlite3.connect(path)
        for statement in statements:
            connection.execute(statement)
        connection.commit()
        connection.close()

    return run


@pytest.mark.parametrize(
    ("spoil", "problem", "remedy"),
    [
        pytest.param(
            lambda path: path.write_text("no database at all " * 500),
            "is damaged, or no SQLite file",
            AFRESH,
            id="a text file in its place",
        ),
        pytest.param(
            overwrite_pages,
            "is damaged",
            AFRESH,
            id="pages overwritten",
        ),
        pytest.param(
            cut_short,
            "is damaged",
            AFRESH,
            id="a file cut short",
        ),
        pytest.param(
            run_sql("PRAGMA user_version = 2"),
            "has version 2, and this orphanwatch reads version 1",
            "run the orphanwatch that wrote it",
            id="a newer version",
        ),
        pytest.param(
            replace_by_a_store,
            "is a database of something else",
            "set state_file to a file of its own",
            id="the file of a store",
        ),
        pytest.param(
            replace_by_a_folder,
            "can't be opened",
            "its folder must exist",
            id="a folder in its place",
        ),
    ],
)
def test_a_file_that_cannot_be_used(
    tmp_path: Path, spoil: Callable[[Path], object], problem: str, remedy: str
) -> None:
    """The error names the file, what is wrong with it, and the remedy."""
    path = tmp_path / "state.db"
    written(path)
    spoil(path)
    with pytest.raises(StateError) as caught:
        CounterBook.open(path, CONFIG, START)
    assert re.match(re.escape(f"state file {path}: {problem}"), str(caught.value))
    assert remedy in str(caught.value)


def test_a_missing_folder(tmp_path: Path) -> None:
    """A state file in a folder that does not exist is refused, with the remedy."""
    with pytest.raises(StateError, match="its folder must exist and be writable for this user"):
        CounterBook.open(tmp_path / "none" / "state.db", CONFIG, START)


def test_a_store_named_by_mistake_is_left_alone(tmp_path: Path) -> None:
    """Not a byte is written to a database that is not ours."""
    path = tmp_path / "stack.db"
    run_sql("CREATE TABLE tasks (task_id TEXT)")(path)
    before = path.read_bytes()
    with pytest.raises(StateError):
        CounterBook.open(path, CONFIG, START)
    assert path.read_bytes() == before


OWNER = """
import sys
from state_worlds import START, a_config
from orphanwatch.exporter.instants import SECOND
from orphanwatch.exporter.state import CounterBook
book = CounterBook.open(sys.argv[1], a_config(), START)
print("open", flush=True)
sys.stdin.read()
"""


def test_one_owner(tmp_path: Path) -> None:
    """A second process is refused by any name of the file, until the first one is gone."""
    path, alias = tmp_path / "state.db", tmp_path / "alias.db"
    alias.symlink_to(path)
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(path)],
        cwd=Path(__file__).parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"open\n"
        for name in (path, alias):
            with pytest.raises(StateError) as caught:
                CounterBook.open(name, CONFIG, START)
            assert str(caught.value) == (
                f"state file {path}: is in use by another orphanwatch (process {owner.pid}); "
                "stop that one, or give this one a state_file of its own"
            )
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    CounterBook.open(path, CONFIG, START).close()


def test_a_failed_write_changes_nothing(tmp_path: Path) -> None:
    """While the file takes nothing the book stays as it was; once it does, nothing is missing."""
    book = CounterBook.open(tmp_path / "state.db", CONFIG, START)
    charged(book, 5, 30)
    before = (book.counters, book.memory, book.counting_since)
    with sqlite3.connect(tmp_path / "state.db") as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StateError, match="is locked by another program; close that one"):
            charged(book, 10, 50)
        other.rollback()
    other.close()
    assert (book.counters, book.memory, book.counting_since) == before
    counters = charged(book, 15, 50)
    assert moved(counters) == {
        "orphan_tokens_total['overflow', 'client_cancel', 'charged']": 10_000
    }
    book.close()


def test_a_failed_write_is_told_once_and_so_is_its_end(tmp_path: Path) -> None:
    """However many refreshes it lasts; the numbers of the stores go on meanwhile."""
    stack = StackFile(tmp_path, state_file="state.db")
    book = CounterBook.open(tmp_path / "state.db", stack.config, START)
    book._file.connection.execute("PRAGMA busy_timeout = 0")
    refresher = Refresher(stack.config, lambda: START, book)
    try:
        with structlog.testing.capture_logs() as logs:
            refresher.refresh()
            with closing(sqlite3.connect(tmp_path / "state.db")) as other:
                other.execute("BEGIN IMMEDIATE")
                evaluations = [refresher.refresh() for _ in range(2)]
                other.rollback()
            refresher.refresh()
            refresher.refresh()
    finally:
        refresher.stop()
        book.close()
    assert [each.stores[StoreName.LEDGER].up for each in evaluations] == [True, True]
    told = [(log["log_level"], log["event"]) for log in logs if "state" in log["event"]]
    assert told == [("error", "state not written"), ("info", "state written again")]


def test_a_full_disk(tmp_path: Path) -> None:
    """A disk without room is named as such, and loses nothing."""
    book = CounterBook.open(tmp_path / "state.db", CONFIG, START)
    charged(book, 5, 30)
    connection = book._file.connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    grown = [a_tally(1, task=f"u{number}") for number in range(2000)]
    with pytest.raises(StateError, match="can't grow, its disk is full; free some space"):
        book.apply(an_evaluation(10, tallies=grown), CONFIG, refresh_seconds=0.01)
    connection.execute("PRAGMA max_page_count = 1000000")
    counters = book.apply(an_evaluation(15, tallies=grown), CONFIG, refresh_seconds=0.01)
    assert moved(counters) == {"orphan_tokens_total['overflow', 'client_cancel', 'charged']": 8000}
    book.close()


def test_a_start_in_the_future_is_corrected(tmp_path: Path) -> None:
    """A clock that was wrong when counting began does not silence the counters until then."""
    CounterBook.open(tmp_path / "state.db", CONFIG, after(9999 * DAYS)).close()
    book = CounterBook.open(tmp_path / "state.db", CONFIG, after(60))
    assert book.counting_since == after(60)
    book.close()
    book = CounterBook.open(tmp_path / "state.db", CONFIG, after(90))
    assert book.counting_since == after(60)
    book.close()


def test_samples_can_be_read_beside_the_owner(tmp_path: Path) -> None:
    """Another program reads the samples while the owner writes, and finds them for their time."""
    path = tmp_path / "state.db"
    book = CounterBook.open(path, CONFIG, START)
    samples = [a_propagation(2), a_propagation(0, task="t0")]
    book.apply(an_evaluation(90, propagations=samples), CONFIG, refresh_seconds=0.01)
    query = (
        "SELECT task_id, pool, stopped_at, seconds, observed_at, source, counted FROM propagations"
    )
    reader = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    expected = [
        ("t0", "overflow", START, 0.0, after(90), "observed", 0),
        ("t1", "overflow", START, 2.0, after(90), "observed", 1),
    ]
    found = []
    for day in (8, 29, 31):
        book.apply(an_evaluation(day * DAYS), CONFIG, refresh_seconds=0.01)
        found.append(reader.execute(query).fetchall())
    reader.close()
    book.close()
    assert found == [expected, expected, []]


def test_the_file_is_marked_as_ours(tmp_path: Path) -> None:
    """The file carries our application id, so that `file` and we ourselves can tell it."""
    written(tmp_path / "state.db")
    connection = sqlite3.connect(tmp_path / "state.db")
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    connection.close()


def test_pools_come_and_go(tmp_path: Path) -> None:
    """A pool that is not configured for a while is not shown, and then carries on."""
    path = tmp_path / "state.db"
    written(path)
    one_pool = a_config(pools={"paid": {"role": "paid"}})
    shown = []
    for config in (one_pool, CONFIG):
        book = CounterBook.open(path, config, after(60))
        shown.append(moved(book.counters))
        book.close()
    assert shown == [{}, {"orphan_tokens_total['overflow', 'client_cancel', 'charged']": 6000}]
