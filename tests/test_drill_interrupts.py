"""A drill that is ended at any moment leaves no row of its own, and touches nobody else's."""

import os
import random
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from cli_session import PROGRAM, run
from servers import wait_until
from sqlalchemy import Connection, NullPool, create_engine
from stack_file import TABLES, StackFile, patience_of

from orphanwatch.exporter.drill.interrupts import interrupts

pytestmark = pytest.mark.servers

POINTS = 8
"""Random points of each signal on each database."""

SPEED = "8"
LONGEST = 2.2
"""Seconds: a little more than a drill takes at that speed."""

COLUMNS = {name: columns.replace("REAL", "DOUBLE PRECISION") for name, columns in TABLES.items()}

Rows = dict[str, list[tuple[object, ...]]]


@pytest.fixture(params=["sqlite", "postgresql"])
def stack(request: pytest.FixtureRequest, tmp_path: Path) -> StackFile:
    """Return a stack with rows of somebody else in each table."""
    url = None if request.param == "sqlite" else request.getfixturevalue("postgresql_url")
    stack = StackFile(tmp_path, tables=COLUMNS, url=url)
    stack.add(
        "tasks", {"task_id": "theirs", "submitted_at": 1.0}, {"task_id": "orphanwatch_drill-1"}
    )
    stack.add("leases", {"task_id": "theirs", "acquired_at": 1.0})
    stack.add("ledger", {"task_id": "theirs", "tokens": 3.0, "charged_at": 2.0})
    stack.add("queue", {"sampled_at": 1.0, "depth": 4.0})
    return stack


def rows_of(stack: StackFile) -> Rows:
    """Return every row of every table."""
    url = stack.url or f"sqlite:///{stack.database}"
    with create_engine(url, poolclass=NullPool, connect_args=patience_of(url)).connect() as server:
        return {table: sorted(_rows(server, table), key=repr) for table in TABLES}


def _rows(server: Connection, table: str) -> list[tuple[object, ...]]:
    statement = f"SELECT * FROM {table}"  # noqa: S608  (names of ours)
    return [tuple(row) for row in server.exec_driver_sql(statement)]


@contextmanager
def a_drill(folder: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a running drill, begun: its journal is there."""
    command = [str(PROGRAM), "drill", "run", "--config.file", "orphanwatch.yml", "--speed", SPEED]
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen([*command, *options], cwd=folder, stdout=said, stderr=said)
    try:
        wait_until("the drill's journal", lambda: bool(journals(folder)), 30)
        yield process
    finally:
        process.kill()
        process.wait()


def journals(folder: Path) -> list[Path]:
    """Return the journals of drills that run, or were killed."""
    return list(folder.glob(".orphanwatch-drill-*.journal"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_drill_that_is_told_to_end_cleans_up_by_itself(
    stack: StackFile, tmp_path: Path, number: signal.Signals
) -> None:
    """At every random point, and an impatient second signal changes nothing."""
    before = rows_of(stack)
    chance = random.Random(number)
    codes = []
    for point in range(POINTS):
        with a_drill(tmp_path, "--fault", "drop-cancel") as drill:
            time.sleep(chance.uniform(0, LONGEST))
            drill.send_signal(number)
            if point % 2:
                time.sleep(chance.uniform(0, 0.05))
                drill.send_signal(number)
            codes.append(drill.wait(60))
        assert rows_of(stack) == before, (tmp_path / "said").read_text()
        assert journals(tmp_path) == []
    # The last points may find the drill at its end: then it has found what it was to find.
    assert codes.count(128 + number) >= POINTS // 2
    assert set(codes) <= {128 + number, 1, -number, 2}


@pytest.mark.parametrize("is_heard", [True, False], ids=["one was heard", "none was"])
def test_a_program_that_was_told_to_end_is_not_cut_off_in_its_last_words(*, is_heard: bool) -> None:
    """A signal that comes after the block is for whoever was there before, or for nobody."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with interrupts() as heard:
            if is_heard:
                signal.raise_signal(signal.SIGTERM)
        after = {number: signal.getsignal(number) for number in before}
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert heard.has_heard is is_heard
    assert after == (dict.fromkeys(before, signal.SIG_IGN) if is_heard else before)


def test_a_drill_that_is_killed_leaves_nothing_after_a_clean(
    stack: StackFile, tmp_path: Path
) -> None:
    """At every random point; what it left is gone, and nothing else."""
    before = rows_of(stack)
    chance = random.Random(9)
    left = 0
    for _ in range(POINTS):
        with a_drill(tmp_path, "--fault", "drop-cancel") as drill:
            time.sleep(chance.uniform(0, LONGEST))
            drill.kill()
            drill.wait(60)
        left += rows_of(stack) != before
        answer = run(tmp_path, "drill", "clean", "--config.file", "orphanwatch.yml")
        assert (answer.code, answer.err) == (0, "")
        assert rows_of(stack) == before
        assert journals(tmp_path) == []
    assert left >= POINTS // 2


def hold_between_writes(pid: int, stack: StackFile) -> None:
    """Let a drill stand still, at a moment at which it does not hold the database file."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        if stack.url is not None:
            return
        with closing(sqlite3.connect(stack.database, timeout=0.2)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                os.kill(pid, signal.SIGCONT)
                time.sleep(0.02)
            else:
                return


def test_a_clean_leaves_the_rows_of_a_drill_that_runs(stack: StackFile, tmp_path: Path) -> None:
    """It says so, and comes back with 1."""
    before = rows_of(stack)
    with a_drill(tmp_path) as drill:
        wait_until("a row of the drill", lambda: rows_of(stack) != before, 30)
        hold_between_writes(drill.pid, stack)
        held = rows_of(stack)
        answer = run(tmp_path, "drill", "clean", "--config.file", "orphanwatch.yml")
        assert answer.code == 1
        assert "1 still running, whose rows were left" in answer.out
        assert rows_of(stack) == held
        os.kill(drill.pid, signal.SIGCONT)
        assert drill.wait(60) == 0, (tmp_path / "said").read_text()
    assert rows_of(stack) == before


def test_a_drill_on_its_own_file_leaves_no_folder(tmp_path: Path) -> None:
    """Ended half way, without any config."""
    process = subprocess.Popen(
        [PROGRAM, "drill", "run", "--speed", SPEED],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    wait_until("the drill's journal", lambda: any(tmp_path.glob("*/.orphanwatch-drill-*")), 30)
    time.sleep(0.5)
    process.terminate()
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert "no lease of it is open" in said
    assert list(tmp_path.iterdir()) == []
