"""Where the first reading of a log begins: years of history are skipped, the scope is not."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from log_follower import SCOPE, Follower, RotatedLog, line

# A log of so many lines of a few kilobytes is longer than what is read without a thought.
LINES = 4000
FILLER = "x" * 2000

HOUR = 3600


def history(ends: Sequence[float]) -> list[str]:
    """Return lines of requests that ended at these seconds, named by their place."""
    return [line(str(number), end, agent=FILLER) for number, end in enumerate(ends)]


def named(ends: Sequence[float], chosen: Callable[[float], bool]) -> set[str]:
    """Return the names of those whose end is chosen."""
    return {str(number) for number, end in enumerate(ends) if chosen(end)}


@pytest.fixture
def read_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the sizes of what is read from files, as it goes."""
    sizes = []
    pread = os.pread

    def counted(descriptor: int, size: int, offset: int) -> bytes:
        chunk = pread(descriptor, size, offset)
        sizes.append(len(chunk))
        return chunk

    monkeypatch.setattr(os, "pread", counted)
    return sizes


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the files that are opened, as it goes."""
    names = []
    open_file = os.open

    def noted(path: Path, flags: int) -> int:
        names.append(path.name)
        return open_file(path, flags)

    monkeypatch.setattr(os, "open", noted)
    return names


def test_years_of_history_cost_a_few_reads(tmp_path: Path, read_bytes: list[int]) -> None:
    """Of 80 megabytes a small part is read, and every row of the scope is found."""
    ends = [-HOUR * 24 * 365 * (1 - number / 40_000) for number in range(40_000)]
    log = tmp_path / "access.log"
    log.write_text("".join(history(ends)))
    found = Follower(log).read(0)

    assert set(map(str, found)) >= named(ends, lambda end: end > -SCOPE)
    assert len(found) < 600
    assert sum(read_bytes) < 5_000_000 < log.stat().st_size / 16


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda ends: ends, id="in order"),
        pytest.param(
            lambda ends: [end - 55 * (number % 2) for number, end in enumerate(ends)],
            id="with a writer that keeps its lines back for a minute",
        ),
        pytest.param(
            lambda ends: [-1e9 if number % 7 == 0 else end for number, end in enumerate(ends)],
            id="with stamps from long ago among them",
        ),
        pytest.param(
            lambda ends: [1e9 if number % 997 == 0 else end for number, end in enumerate(ends)],
            id="with stamps from the future among them",
        ),
    ],
)
def test_every_row_of_the_scope_is_found(
    spoil: Callable[[list[float]], list[float]], tmp_path: Path
) -> None:
    """Whatever disorder there is among the lines."""
    ends = spoil([4.0 * number - 4 * LINES for number in range(LINES)])
    log = tmp_path / "access.log"
    log.write_text("".join(history(ends)))

    found = set(map(str, Follower(log).read(0)))

    assert found >= named(ends, lambda end: end > -SCOPE)


def test_a_line_that_was_kept_back_hides_none_before_it(tmp_path: Path) -> None:
    """Be it the very line that is looked at first, in the middle of the log."""
    ends = [*[-1e5] * 50, 20.0 - SCOPE, -30.0 - SCOPE, *[0.0] * 49]
    log = tmp_path / "access.log"
    log.write_text("".join(line(str(n), end, agent=FILLER * 30) for n, end in enumerate(ends)))
    found = Follower(log).read(0)

    assert {"50", "51"} <= set(found)
    assert len(found) <= 72


def test_lines_of_nearly_a_mebibyte_are_told_too(tmp_path: Path) -> None:
    """As a log of whole prompts may have them."""
    ends = [-100.0 * (80 - number) for number in range(80)]
    long = FILLER * 450
    log = tmp_path / "access.log"
    log.write_text("".join(line(str(n), end, prompt=long) for n, end in enumerate(ends)))
    found = set(map(str, Follower(log).read(0)))

    assert found >= named(ends, lambda end: end > -SCOPE)
    assert len(found) <= 46


@pytest.mark.parametrize(
    ("begin", "place", "bad", "counted"),
    [
        pytest.param(-16_000, 0, 90_000, 0, id="a log whose head is of another format"),
        pytest.param(-3000, 0, 90_000, 0, id="one that is of its format since a while"),
        pytest.param(-16_000, 2000, 90_000, 0, id="a log that was of another format long ago"),
        pytest.param(-16_000, 3500, 15_000, 15_000, id="a log of which something broke of late"),
    ],
)
def test_lines_that_can_not_be_read_hide_no_row(
    begin: float, place: int, bad: int, counted: int, tmp_path: Path
) -> None:
    """Be they megabytes: rows before and after are found, and most bad ones of old are skipped."""
    ends = [begin * (1 - number / LINES) for number in range(LINES)]
    texts = history(ends)
    texts.insert(place, ("10.0.0.1 - - GET /" + "x" * 200 + "\n") * bad)
    log = tmp_path / "access.log"
    log.write_text("".join(texts))
    follower = Follower(log)

    assert set(map(str, follower.read(0))) >= named(ends, lambda end: end > -SCOPE)
    assert counted <= follower.rejected().get("invalid_record", 0) <= counted + 15_000


def test_zeros_at_the_head_of_a_log_hide_no_row(tmp_path: Path) -> None:
    """What a writer leaves that does not notice a truncation: a hole, and then lines."""
    log = tmp_path / "access.log"
    with log.open("w") as hole:
        hole.truncate(50_000_000)
    with log.open("a") as more:
        more.writelines(line(name) for name in "abc")

    assert Follower(log).read(0) == ["a", "b", "c"]


def test_the_scope_reaches_into_older_files_and_no_further(
    tmp_path: Path, opened: list[str]
) -> None:
    """Files that were written before it are not even opened, but for the first of them."""
    log = RotatedLog(tmp_path / "access.log")
    for number in range(9):
        log.write(line(str(number), 1800.0 * (number - 8)))
        os.utime(log.path, (0, 1_700_000_000 + 1800 * (number - 8)))
        if number < 8:
            log.rename()

    assert Follower(log.path).read(0) == ["6", "7", "8"]
    assert opened == ["access.log", "access.log.1", "access.log.2", "access.log.3"]


def test_a_file_that_was_written_of_late_is_looked_into_whatever_its_name(tmp_path: Path) -> None:
    """Where the naming changed, an old name may hold new lines."""
    log = tmp_path / "access.log"
    log.write_text(line("new"))
    (tmp_path / "access.log-20100101").write_text(line("old", -1e6))
    (tmp_path / "access.log.1").write_text(line("late", -60))

    assert Follower(log).read(0) == ["late", "new"]


@pytest.mark.parametrize(("flush", "found"), [("10s", ["b"]), ("2m", ["a", "b"])])
def test_the_flush_says_how_far_back_to_look(flush: str, found: list[str], tmp_path: Path) -> None:
    """A file that ends just before the scope may hold what was written before its time."""
    log = tmp_path / "access.log"
    log.write_text(line("b"))
    (tmp_path / "access.log.1").write_text(line("a", -SCOPE - 30))

    assert Follower(log, flush=flush).read(0) == found
