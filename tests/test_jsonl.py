"""Logs with one JSON object a line: which lines are records, and what becomes of the others."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from log_follower import ZERO, Follower, line, windows
from sqlalchemy import text

from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.logs.lines import LONGEST_LINE
from orphanwatch.exporter.stores.mirror import Mirror

GOOD = line("good").encode()


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(GOOD, id="a line with an object is"),
        pytest.param(b"\r\n" + GOOD.replace(b"\n", b"\r\n"), id="one that ends as Windows does is"),
        pytest.param(b"\xef\xbb\xbf" + GOOD, id="one after a byte order mark is"),
        pytest.param(b"\n \t\n" + GOOD + b"\n", id="blank lines are nothing at all"),
        pytest.param(
            b"<190>Jan 15 08:00:00 web nginx: " + GOOD, id="a header of syslog is skipped"
        ),
        pytest.param(b"nginx-{1} | " + GOOD, id="a prefix may have a brace"),
        pytest.param(
            b"2027-01-15T08:00:00.1Z stdout F " + GOOD, id="a prefix of a container is skipped"
        ),
        pytest.param(
            json.dumps({"log": GOOD.decode(), "stream": "stdout", "time": "2027"}).encode() + b"\n",
            id="what Docker wraps it in is skipped",
        ),
        pytest.param(b"\0\0\0\0" + GOOD, id="zeros before it are skipped"),
        pytest.param(b"\0" * (3 * LONGEST_LINE) + GOOD, id="however many they are"),
        pytest.param(
            GOOD.replace(b"}", b', "agent": "caf\xe9"}'),
            id="bytes that are no text elsewhere are no matter",
        ),
        pytest.param(
            GOOD.replace(b"}", b', "half": "\\ud800"}'), id="nor is half a character elsewhere"
        ),
        pytest.param(
            GOOD.replace(b"}", b', "n": ' + b"9" * 4000 + b"}"), id="nor a huge number elsewhere"
        ),
        pytest.param(
            GOOD.replace(b"}", b', "text": "' + b"x" * (LONGEST_LINE - 200) + b'"}'),
            id="a line may be nearly a mebibyte long",
        ),
    ],
)
def test_what_a_record_is(written: bytes, tmp_path: Path) -> None:
    """The one good line is found, and nothing is counted as bad."""
    log = tmp_path / "access.log"
    log.write_bytes(written)
    follower = Follower(log)

    assert follower.read() == ["good"]
    assert follower.rejected() == {}


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        pytest.param(b"127.0.0.1 - - [15/Jan/2027] GET /\n", "invalid_record", id="plain text"),
        pytest.param(b'["id"]\n', "invalid_record", id="a list"),
        pytest.param(b"17\n", "invalid_record", id="a number"),
        pytest.param(b'{"id": "x", "at"\n', "invalid_record", id="half an object"),
        pytest.param(b'{"id": "x"} {"id": "y"}\n', "invalid_record", id="two objects"),
        pytest.param(b'{"id": "x", "at": NaN}\n', "invalid_record", id="what JSON can't say"),
        pytest.param(
            b'{"id": "x", "at": ' + b"9" * 5000 + b"}\n", "invalid_record", id="an endless number"
        ),
        pytest.param(
            b'{"id": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
            "invalid_record",
            id="an object as deep as a well",
        ),
        pytest.param(
            GOOD.replace(b"good", b"caf\xe9"), "invalid_record", id="an id that is no text"
        ),
        pytest.param(
            GOOD.replace(b"good", b"\\ud800"), "invalid_record", id="an id of half a character"
        ),
        pytest.param(
            GOOD.replace(b'"good"', b'{"a": 1}'), "invalid_record", id="an id that is an object"
        ),
        pytest.param(b'{"id": "x"}\n', "invalid_instant", id="one that states no end"),
        pytest.param(b'{"id": "x", "at": "noon"}\n', "invalid_instant", id="an end that is none"),
        pytest.param(
            b'{"id": "x", "at": 1e300}\n', "invalid_instant", id="an end beyond all times"
        ),
        pytest.param(
            f'{{"id": "x", "at": {ZERO}, "took": "long"}}\n'.encode(),
            "invalid_number",
            id="a duration that is none",
        ),
        pytest.param(
            f'{{"id": "x", "at": {ZERO}, "took": -1}}\n'.encode(),
            "invalid_number",
            id="a duration below zero",
        ),
        pytest.param(
            b'{"text": "' + b"x" * 3 * LONGEST_LINE + b'"}\n',
            "invalid_record",
            id="a line that does not end for mebibytes",
        ),
    ],
)
def test_a_bad_line_costs_only_itself(written: bytes, reason: str, tmp_path: Path) -> None:
    """It is counted once, under its reason, and the lines around it are read."""
    log = tmp_path / "access.log"
    log.write_bytes(GOOD + written + line("next").encode())
    follower = Follower(log)

    assert follower.read() == ["good", "next"]
    assert follower.rejected() == {reason: 1}


def test_a_bad_line_is_counted_under_the_same_key_by_every_reader(tmp_path: Path) -> None:
    """So a restart, a rename and a later start of the scope don't count it again."""
    log = tmp_path / "access.log"
    log.write_text(line("one") + "bad\n" + line("two") + "bad\n" + line("three"))
    first, second = Follower(log), Follower(log)
    first.read()
    log.rename(tmp_path / "access.log.1")
    log.touch()
    second.read()

    assert first.source.rejected() == second.source.rejected()
    [row] = first.source.rejected()
    assert row.count == 2
    first.read()
    assert first.source.rejected() == (row,)


def test_bad_lines_are_counted_alike_wherever_a_reader_begins(tmp_path: Path) -> None:
    """Later readers begin further on; of what two have read they say the same."""
    log = tmp_path / "access.log"
    lines = [line(str(number), number - 8000, agent="x" * 1000) + "bad\n" for number in range(8000)]
    log.write_text("".join(lines))
    said = []
    for seconds in (0, 700, 1100, 1500):
        follower = Follower(log)
        follower.read(seconds)
        said.append({row.key: row.count for row in follower.source.rejected()})

    assert len({len(counts) for counts in said}) > 1
    for counts in said[1:]:
        assert counts.items() <= said[0].items()


def test_millions_of_bad_lines_make_few_counts(tmp_path: Path) -> None:
    """One a mebibyte, so that a log of another format does not fill the state file."""
    log = tmp_path / "access.log"
    log.write_text(line("good") + ("bad" * 100 + "\n") * 20_000)
    follower = Follower(log)

    follower.read()

    assert follower.rejected() == {"invalid_record": 20_000}
    assert len(follower.source.rejected()) == 6
    follower.read()
    assert len(follower.source.rejected()) == 1


@pytest.mark.parametrize("lines", [1, 30])
def test_a_log_without_any_record_can_not_be_read(lines: int, tmp_path: Path) -> None:
    """A log of another format is blind, not calm; the first record mends it."""
    log = tmp_path / "access.log"
    log.write_text("127.0.0.1 - - [15/Jan/2027] GET /\n" * lines)
    follower = Follower(log)

    with pytest.raises(StoreError, match=rf"none of the {lines} lines .* has no JSON obj"):
        follower.read()
    with log.open("a") as more:
        more.write(line("good"))
    assert follower.read() == ["good"]


def test_a_log_that_had_records_once_can_be_read(tmp_path: Path) -> None:
    """Noise at night, while nobody asks anything, is no reason to be blind."""
    log = tmp_path / "access.log"
    old = [line(str(number), -1e5, agent="x" * 1000) for number in range(5000)]
    log.write_text("".join(old) + "noise\n" * 100_000)
    follower = Follower(log)

    assert len(follower.read()) < 1000
    assert follower.rejected() == {"invalid_record": 100_000}


def test_a_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    """Byte by byte a line becomes one, and is read once."""
    log = tmp_path / "access.log"
    log.touch()
    follower = Follower(log)
    written = line("one") + line("two")
    for byte in written:
        with log.open("a") as more:
            more.write(byte)
        follower.read()

    assert follower.met == ["one", "two"]
    assert follower.rejected() == {}


def test_a_long_line_is_counted_once_however_slowly_it_comes(tmp_path: Path) -> None:
    """What comes of it later is skipped, up to its end."""
    log = tmp_path / "access.log"
    log.write_text(line("first"))
    follower = Follower(log)
    counted = []
    for written in [*["x" * (LONGEST_LINE // 2)] * 7, "\n" + line("next")]:
        with log.open("a") as more:
            more.write(written)
        follower.read()
        counted += [row.key for row in follower.source.rejected()]

    assert follower.met == ["first", "next"]
    assert len(set(counted)) == 1


@pytest.mark.parametrize("after", ["", "the rows were not taken"])
def test_a_reading_that_was_given_up_is_done_again(after: str, tmp_path: Path) -> None:
    """Rows that nobody took to the end are given again, and a bad line is not counted twice."""
    log = tmp_path / "access.log"
    log.write_text(line("one") + "bad\n" + line("two") + line("three"))
    follower = Follower(log)
    rows = iter(follower.source.read(windows(0)))
    next(rows)
    if after:
        next(rows)

    assert follower.read() == ["one", "two", "three"]
    assert follower.rejected() == {"invalid_record": 1}


def test_a_log_that_is_caught_up_with_is_down_until_it_is(tmp_path: Path) -> None:
    """Where time is up a reading says so, and the next ones go on; what was read is kept."""
    log = tmp_path / "access.log"
    names = [str(number) for number in range(20_000)]
    log.write_text("".join(line(name, agent="x" * 100) for name in names))
    mirror = Mirror(StoreName.GATEWAY, Follower(log, timeout="1ms").source)
    problems: list[str] = []
    while not problems or problems[-1]:
        problems.append(problem_of(mirror))

    assert 3 <= len(problems) < 50
    assert all("is still being caught up with, " in problem for problem in problems[:-1])
    assert re.search(r"3\.\d MB are left; .* raise the store's timeout", problems[0])
    with mirror.engine.connect() as connection:
        rows = connection.execute(text("SELECT task_id FROM rows")).scalars().all()
    assert sorted(rows, key=int) == names


def problem_of(mirror: Mirror) -> str:
    """Return what keeps a mirror from being filled, an empty text where nothing does."""
    try:
        mirror.fill(windows(0))
    except StoreError as error:
        return error.problem
    return ""


@pytest.mark.parametrize(
    ("make", "said"),
    [
        pytest.param(lambda _: None, "there is no file", id="a file that is not there"),
        pytest.param(Path.mkdir, "is no regular file", id="a folder"),
        pytest.param(
            lambda path: path.symlink_to("/dev/null"), "is no regular file", id="a device"
        ),
        pytest.param(os.mkfifo, "is no regular file", id="a pipe"),
    ],
)
def test_what_can_not_be_followed_is_said(
    make: Callable[[Path], object], said: str, tmp_path: Path
) -> None:
    """The error names the file, and what to do."""
    log = tmp_path / "access.log"
    make(log)

    with pytest.raises(StoreError, match=said) as caught:
        Follower(log).read()
    assert str(log) in str(caught.value)


def test_nothing_is_written_and_nothing_touched(tmp_path: Path) -> None:
    """Reading changes no file, and leaves none behind."""
    log = tmp_path / "access.log"
    log.write_text(line("one"))
    (tmp_path / "access.log.1").write_text(line("zero"))
    before = {f.name: (f.stat().st_mtime_ns, f.read_bytes()) for f in tmp_path.iterdir()}
    follower = Follower(log)
    follower.read()
    follower.read()

    assert {f.name: (f.stat().st_mtime_ns, f.read_bytes()) for f in tmp_path.iterdir()} == before
    assert json.loads(log.read_text())["id"] == "one"
