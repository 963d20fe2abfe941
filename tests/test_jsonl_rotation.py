"""Logs that rotate: each line is read once, whatever is renamed, copied or truncated between."""

import gc
import json
import os
from collections.abc import Callable
from contextlib import ExitStack
from io import TextIOWrapper
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from log_follower import Follower, RotatedLog, line

from orphanwatch.exporter.errors import StoreError

Act = Callable[[RotatedLog], object]


def dated(date: str) -> Act:
    """Return a rotation that sets the file aside under a date, as ``dateext`` of logrotate does."""
    return lambda log: log.path.rename(log.path.with_name(f"{log.path.name}-{date}"))


def writes(*names: str) -> Act:
    """Return an act that writes the lines of these requests."""
    return lambda log: log.write(*(line(name) for name in names))


def renames(log: RotatedLog) -> None:
    """Set the file aside by its rename."""
    log.rename()


def copies(log: RotatedLog) -> None:
    """Set a copy aside and truncate the file."""
    log.copy_and_truncate()


def truncates(log: RotatedLog) -> None:
    """Truncate the file, as ``> access.log`` does."""
    log.path.write_text("")


def compresses(log: RotatedLog) -> None:
    """Compress what was set aside."""
    log.compress()


def vanishes(log: RotatedLog) -> None:
    """Set the file aside where nobody finds it."""
    log.path.rename(log.path.with_name("elsewhere"))


@pytest.mark.parametrize(
    ("between", "found"),
    [
        pytest.param([writes("c")], "c", id="what is added is found"),
        pytest.param([renames, writes("c")], "c", id="the new file is found"),
        pytest.param(
            [writes("c"), renames, writes("d")], "cd", id="the old file is read to its end first"
        ),
        pytest.param(
            [writes("c"), renames, writes("d"), renames, writes("e"), renames, writes("f")],
            "cdef",
            id="several rotations between two readings are found in their order",
        ),
        pytest.param(
            [writes("c"), renames], "c", id="the new file is waited for, the old one is read"
        ),
        pytest.param(
            [writes("c"), renames, compresses, writes("d")],
            "cd",
            id="a file that was open is read though it was compressed",
        ),
        pytest.param(
            [writes("c"), renames, compresses, writes("d"), renames, writes("e")],
            "cde",
            id="what came after it is found though it is no more to be seen",
        ),
        pytest.param(
            [writes("c"), vanishes, writes("d")], "cd", id="a file that vanished is read to its end"
        ),
        pytest.param(
            [writes("c"), dated("20270115"), writes("d"), dated("20270116"), writes("e")],
            "cde",
            id="files with dates are found in their order",
        ),
        pytest.param(
            [writes("c"), dated("2027-01-15T080000"), writes("d")],
            "cd",
            id="a date may be written out",
        ),
        pytest.param(
            [writes("c"), copies, writes("d")], "cd", id="the copy of a truncated file is read"
        ),
        pytest.param(
            [writes("c"), copies, writes(*"defghijkl")],
            "cdefghijkl",
            id="so it is where the file has grown longer than it was",
        ),
        pytest.param(
            [writes("c"), copies, writes("d"), copies, writes("e")],
            "cde",
            id="several copies are found in their order",
        ),
        pytest.param([copies], "", id="a copy without news has none"),
        pytest.param(
            [writes("lost"), truncates, writes("d")],
            "d",
            id="what is truncated without a copy is lost, the rest is found",
        ),
    ],
)
def test_between_two_readings(between: list[Act], found: str, tmp_path: Path) -> None:
    """The second reading finds each line that is new, and the third finds none."""
    log = RotatedLog(tmp_path / "access.log")
    log.write(line("a"), line("b"))
    follower = Follower(log.path)
    assert follower.read(0) == ["a", "b"]
    for act in between:
        act(log)

    assert follower.read(5) == list(found)
    assert follower.read(10) == []
    assert follower.rejected() == {}


@pytest.mark.parametrize("name", ["access.log.1", "access.log-20270115", "access-20270115.log"])
def test_the_first_reading_finds_files_that_were_set_aside(name: str, tmp_path: Path) -> None:
    """As far as the scope reaches into them, and whatever scheme names them."""
    (tmp_path / name).write_text(line("one") + line("two"))
    log = tmp_path / "access.log"
    log.write_text(line("three"))

    assert Follower(log).read() == ["one", "two", "three"]


@pytest.mark.parametrize(
    "name",
    [
        "access.log.1.gz",
        "access.log.2.zst",
        "access.log-20270115.xz",
        "access.log.1.bz2",
        "access.log.bak",
        "access-2.log",
        "access.log.1~",
        "other.log.1",
        "error.log",
    ],
)
def test_other_files_are_never_opened(name: str, tmp_path: Path) -> None:
    """What a compressor wrote, what an editor left, and other logs."""
    (tmp_path / name).mkdir()  # opening it would fail
    (tmp_path / "access.log.2").mkdir()
    log = tmp_path / "access.log"
    log.write_text(line("one"))

    assert Follower(log).read() == ["one"]


def test_a_copy_that_is_being_made_is_not_read_twice(tmp_path: Path) -> None:
    """Between the copy and the truncation both files hold the same lines."""
    log = RotatedLog(tmp_path / "access.log")
    log.write(line("one"), line("two"))
    log.older(1).write_bytes(log.path.read_bytes())
    follower = Follower(log.path)

    assert follower.read(0) == ["one", "two"]
    log.path.write_text("")
    log.write(line("three"))
    assert follower.read(5) == ["three"]


def test_a_slow_worker_may_still_write_to_the_old_file(tmp_path: Path) -> None:
    """Workers open the new file one after the other: the old one is read for a while longer."""
    log = RotatedLog(tmp_path / "access.log")
    log.write(line("one"))
    follower = Follower(log.path)
    follower.read(0)
    with log.path.open("a") as slow:
        log.rename()
        log.write(line("two"))
        assert follower.read(5) == ["two"]
        slow.write(line("three"))
        slow.flush()
        assert follower.read(10) == ["three"]
        slow.write(line("four"))
        slow.flush()
        assert follower.read(65) == ["four"]
    assert follower.read(70) == []


def test_a_slow_worker_hides_no_file_that_came_between(tmp_path: Path) -> None:
    """Not even where its own file was compressed since, and is younger than the one between."""
    log = RotatedLog(tmp_path / "access.log")
    log.write(line("one"))
    follower = Follower(log.path)
    follower.read(0)
    with log.path.open("a") as slow:
        log.rename()
        log.compress()
        log.write(line("two"))
        slow.write(line("three"))
    os.utime(log.path, (0, 0))
    log.rename()
    log.write(line("four"))

    assert follower.read(5) == ["three", "two", "four"]


def test_the_end_of_an_old_file_may_lack_its_newline(tmp_path: Path) -> None:
    """A line that is all there is read; one that broke off is bad once nobody writes any more."""
    log = RotatedLog(tmp_path / "access.log")
    log.write(line("one"), line("two").rstrip("\n"))
    follower = Follower(log.path)
    assert follower.read(0) == ["one"]
    log.rename()
    log.write(line("three"), line("four")[:9])
    assert follower.read(5) == ["two", "three"]
    log.rename()
    log.write(line("five"))

    assert follower.read(10) == ["five"]
    assert follower.rejected() == {}
    assert follower.read(80) == []
    assert follower.rejected() == {"invalid_record": 1}
    assert follower.read(85) == []
    assert follower.rejected() == {}


def test_a_file_that_stays_away_is_a_problem(tmp_path: Path) -> None:
    """After a minute nobody knows what the gateway does: blind, not calm."""
    log = RotatedLog(tmp_path / "access.log")
    log.write(line("one"))
    follower = Follower(log.path)
    follower.read(0)
    log.rename()
    assert follower.read(5) == []
    assert follower.read(65) == []
    with pytest.raises(StoreError, match="is gone for more than 1m; see where the gateway"):
        follower.read(66)
    log.write(line("two"))

    assert follower.read(70) == ["two"]


def test_a_log_that_begins_with_its_rotation_is_waited_for(tmp_path: Path) -> None:
    """A start in the moment when only older files are there is no error."""
    log = RotatedLog(tmp_path / "access.log")
    log.write(line("one"))
    log.rename()
    follower = Follower(log.path)
    assert follower.read(0) == ["one"]
    log.write(line("two"))

    assert follower.read(5) == ["two"]


class Writer:
    """A gateway with two workers, logrotate, and the hand that moves them."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._log = RotatedLog(folder / "access.log")
        self._stack = stack
        self._names = count()
        self._halves: dict[int, str] = {}
        self.workers: list[TextIOWrapper] = []
        self.written: list[str] = []
        for _ in range(2):
            self.workers.append(self._opened())

    def write(self, worker: int, lines: int) -> None:
        """Write whole lines, after the rest of one that was begun."""
        self.finish(worker)
        for _ in range(lines):
            self.workers[worker].write(self._new_line())
        self.workers[worker].flush()

    def begin(self, worker: int, share: float) -> None:
        """Write a part of a line, as a full disk or a large line may have it."""
        # With nobody else in between: lines of several writers don't mix.
        for number in range(2):
            self.finish(number)
        text = self._new_line()
        size = int(len(text) * share)
        self.workers[worker].write(text[:size])
        self.workers[worker].flush()
        self._halves[worker] = text[size:]

    def finish(self, worker: int) -> None:
        """Write the rest of a line; a worker that has another one's before it waits for it."""
        for number in range(2):
            self.workers[number].write(self._halves.pop(number, ""))
            self.workers[number].flush()
        assert worker not in self._halves

    def rename(self) -> None:
        """Rename the file; the workers go on writing to it."""
        if self._log.path.exists():
            self._log.rename()

    def reopen(self, worker: int) -> None:
        """Let a worker open the file anew."""
        self.finish(worker)
        self.workers[worker] = self._opened()

    def truncate(self) -> None:
        """Copy the file and truncate it, unless it was renamed and is not there yet."""
        self.finish(0)
        if self._log.path.exists():
            self._log.copy_and_truncate()

    def compress(self) -> None:
        """Compress what was set aside."""
        self._log.compress()

    def end(self) -> None:
        """Leave no line unfinished, and a file in place."""
        self.finish(0)
        self.workers[0] = self._opened()

    def _new_line(self) -> str:
        name = str(next(self._names))
        self.written.append(name)
        return line(name)

    def _opened(self) -> TextIOWrapper:
        return self._stack.enter_context(self._log.path.open("a", encoding="utf-8"))


WORKERS = st.integers(0, 1)
STEPS = st.one_of(
    st.tuples(st.just("write"), WORKERS, st.integers(1, 5)),
    st.tuples(st.just("begin"), WORKERS, st.floats(0, 1)),
    st.tuples(st.just("rename")),
    st.tuples(st.just("reopen"), WORKERS),
    st.tuples(st.just("read")),
    st.tuples(st.just("read and compress")),
)
"""What may happen to a log that rotates by rename."""

COPIED_STEPS = st.one_of(
    st.tuples(st.just("write"), st.just(0), st.integers(1, 5)),
    st.tuples(st.just("begin"), st.just(0), st.floats(0, 1)),
    st.tuples(st.just("truncate")),
    st.tuples(st.just("read")),
)
"""What may happen to a log that rotates by a copy."""


@pytest.mark.parametrize("steps", [STEPS, COPIED_STEPS], ids=["by rename", "by a copy"])
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_rotation_gives_the_rows_of_all_lines_read_at_once(
    steps: st.SearchStrategy[tuple[object, ...]], data: st.DataObject
) -> None:
    """However lines come and the log rotates, each row is given once, and none is bad."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        writer = Writer(Path(folder), stack)
        follower = Follower(Path(folder) / "access.log")
        for seconds, (what, *how) in enumerate(data.draw(st.lists(steps, max_size=25))):
            if what in {"read", "read and compress"}:
                follower.read(seconds)
                assert follower.rejected() == {}
                if what == "read and compress":
                    writer.compress()
            else:
                getattr(writer, str(what))(*how)
        writer.end()
        follower.read(30)
        assert follower.rejected() == {}
        whole = Path(folder) / "whole"
        whole.write_text("".join(map(line, writer.written)))

        assert sorted(map(str, follower.met), key=int) == Follower(whole).read()
        assert [json.loads(row)["id"] for row in whole.read_text().splitlines()] == writer.written


def test_files_are_let_go_of(tmp_path: Path) -> None:
    """However often the log rotates, few files stay open, and none when nobody reads any more."""
    log = RotatedLog(tmp_path / "access.log")
    gc.collect()  # of what other tests have left open
    before = open_files()
    follower = Follower(log.path)
    for number in range(50):
        log.write(line(str(number)))
        log.rename()
        log.write(line("x"))
        follower.read(30.0 * number)
        assert open_files() - before <= 6
    del follower
    gc.collect()

    assert open_files() == before


def open_files() -> int:
    """Return how many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))
