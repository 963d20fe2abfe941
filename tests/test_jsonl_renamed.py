"""Logs that were renamed while their gateway goes on in the old file: nobody told it to reopen."""

import gc
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from log_follower import Follower, RotatedLog, line
from test_jsonl_rotation import Writer, open_files

FLUSH = 60.0
"""The default of ``flush:``, in seconds."""


def rotated(folder: Path) -> tuple[RotatedLog, Follower]:
    """Return a log of one line that was read, and whoever follows it."""
    log = RotatedLog(folder / "gw.jsonl")
    log.write(line("first"))
    follower = Follower(log.path)
    assert follower.read(0) == ["first"]
    return log, follower


@pytest.mark.parametrize(
    "pause",
    [
        pytest.param(5, id="a line at each reading"),
        pytest.param(FLUSH + 1, id="a line now and then"),
        pytest.param(20 * FLUSH, id="hardly a line"),
    ],
)
def test_a_gateway_that_goes_on_in_the_renamed_file_is_followed(
    pause: float, tmp_path: Path
) -> None:
    """For as long as it does: ``mv gw.jsonl gw.jsonl.1; touch gw.jsonl``, and no postrotate."""
    log, follower = rotated(tmp_path)
    with log.path.open("a", encoding="utf-8", buffering=1) as gateway:
        log.rename()
        log.path.touch()
        for number in range(1, 30):
            gateway.write(line(str(number)))
            assert follower.read(number * pause) == [str(number)]
    assert follower.rejected() == {}


def test_it_is_followed_over_further_rotations(tmp_path: Path) -> None:
    """The empty files of the rotations that follow say nothing of where the gateway writes."""
    log, follower = rotated(tmp_path)
    with log.path.open("a", encoding="utf-8", buffering=1) as gateway:
        for number in range(1, 30):
            log.rename()
            log.path.touch()
            assert follower.read(number * 300) == []
            gateway.write(line(str(number)))
            assert follower.read(number * 300 + 150) == [str(number)]


def test_it_is_followed_where_nobody_finds_its_file(tmp_path: Path) -> None:
    """A file that was compressed or moved away is held, as long as no other one is written to."""
    log, follower = rotated(tmp_path)
    with log.path.open("a", encoding="utf-8", buffering=1) as gateway:
        log.path.rename(tmp_path / "elsewhere")
        log.path.touch()
        for number in range(1, 10):
            assert follower.read(number * 300) == []
            gateway.write(line(str(number)))
            assert follower.read(number * 300 + 150) == [str(number)]


def test_a_worker_that_did_not_reopen_is_followed_beside_those_that_did(tmp_path: Path) -> None:
    """What it wrote after its file was let go of is read from where that stood."""
    log, follower = rotated(tmp_path)
    with log.path.open("a", encoding="utf-8", buffering=1) as left_behind:
        log.rename()
        log.write(line("new"))
        assert follower.read(5) == ["new"]
        assert follower.read(200) == []
        left_behind.write(line("a")[:10])
        assert follower.read(400) == []
        left_behind.write(line("a")[10:] + line("b"))
        assert follower.read(405) == ["a", "b"]
        assert follower.read(700) == []
        log.write(line("newer"))
        log.rename()
        log.write(line("newest"))
        left_behind.write(line("c"))
        assert follower.read(800) == ["c", "newer", "newest"]
    assert follower.rejected() == {}


def test_a_file_of_before_the_start_is_taken_up_when_it_grows(tmp_path: Path) -> None:
    """Also where nothing in it was of interest by then."""
    log = RotatedLog(tmp_path / "gw.jsonl")
    log.write(line("old", -90_000))
    with log.path.open("a", encoding="utf-8", buffering=1) as gateway:
        log.rename()
        log.path.touch()
        follower = Follower(log.path)
        follower.read(0)
        follower.met.clear()
        gateway.write(line("new"))
        follower.read(5)
        gateway.write(line("newer"))
        assert follower.read(300) == ["newer"]
    assert follower.met[-2:] == ["new", "newer"]


def test_quiet_files_are_let_go_of(tmp_path: Path) -> None:
    """Once the gateway writes to the new file; few are open while many of them grow."""
    gc.collect()  # of what other tests have left open
    before = open_files()
    with ExitStack() as stack:
        log, follower = rotated(tmp_path)
        workers = []
        for number in range(30):
            workers.append(stack.enter_context(log.path.open("a", encoding="utf-8", buffering=1)))
            workers[-1].write(line(f"of {number}"))
            log.rename()
            log.path.touch()
            follower.read(number)
        written = []
        for reading in range(1, 5):
            for number, worker in enumerate(workers):
                written.append(f"{reading} of {number}")
                worker.write(line(written[-1]))
            follower.read(reading * 100)
        gc.collect()
        assert open_files() - before - len(workers) <= 10
    assert sorted(map(str, follower.met[-len(written) :])) == sorted(written)
    log.write(line("last"))
    assert follower.read(1000) == ["last"]
    gc.collect()
    assert open_files() - before == 1


STEPS = st.one_of(
    st.tuples(st.just("write"), st.integers(0, 1), st.integers(1, 5)),
    st.tuples(st.just("begin"), st.integers(0, 1), st.floats(0, 1)),
    st.tuples(st.just("rename")),
    st.tuples(st.just("reopen"), st.integers(0, 1)),
    st.tuples(st.just("read")),
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEPS, max_size=40))
def test_each_line_is_read_once_whoever_writes_where(steps: list[tuple[object, ...]]) -> None:
    """With readings so far apart that each file that is quiet between two is let go of."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        writer = Writer(Path(folder), stack)
        follower = Follower(Path(folder) / "access.log")
        for number, (what, *how) in enumerate(steps):
            if what == "read":
                follower.read(number * 2 * FLUSH)
            else:
                getattr(writer, str(what))(*how)
            (Path(folder) / "access.log").touch()
        writer.end()
        follower.read(len(steps) * 2 * FLUSH)
        assert sorted(map(str, follower.met), key=int) == writer.written
