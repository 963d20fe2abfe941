"""Instants and durations in every stated form: alone, and through the columns of a real stack."""

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from stack_file import TABLES, ZERO, StackFile, charge, lease, sample, task

from orphanwatch.exporter.instants import (
    format_duration,
    format_instant,
    instant_of_datetime,
    parse_duration,
    parse_instant,
)

BERLIN = ZoneInfo("Europe/Berlin")
NEW_YORK = ZoneInfo("America/New_York")


@pytest.mark.parametrize(
    ("value", "micros"),
    [
        pytest.param("2027-01-15T08:00:00Z", 1_800_000_000_000_000, id="T and Z"),
        pytest.param("2027-01-15 08:00:00Z", 1_800_000_000_000_000, id="a blank and Z"),
        pytest.param("2027-01-15 08:00:00", 1_800_000_000_000_000, id="no zone is UTC"),
        pytest.param("2027-01-15T08:00", 1_800_000_000_000_000, id="no seconds"),
        pytest.param("2027-01-15", 1_799_971_200_000_000, id="a day is its midnight"),
        pytest.param("20270115T080000Z", 1_800_000_000_000_000, id="the basic form"),
        pytest.param("2027-01-15T10:00:00+02:00", 1_800_000_000_000_000, id="an offset"),
        pytest.param("2027-01-15T10:00:00+0200", 1_800_000_000_000_000, id="without a colon"),
        pytest.param("2027-01-15 10:00:00+02", 1_800_000_000_000_000, id="of hours alone"),
        pytest.param("2027-01-14T20:30:00-11:30", 1_800_000_000_000_000, id="of half hours west"),
        pytest.param("2027-01-15T08:00:00.5Z", 1_800_000_000_500_000, id="half a second"),
        pytest.param("2027-01-15T08:00:00,25Z", 1_800_000_000_250_000, id="a decimal comma"),
        pytest.param("2027-01-15T08:00:00.123456789Z", 1_800_000_000_123_456, id="nanoseconds"),
        pytest.param("  2027-01-15T08:00:00Z ", 1_800_000_000_000_000, id="blanks around"),
        pytest.param("1969-12-31T23:59:59Z", -1_000_000, id="before 1970"),
        pytest.param(1_800_000_000, 1_800_000_000_000_000, id="epoch seconds"),
        pytest.param(1_800_000_000.25, 1_800_000_000_250_000, id="epoch seconds, a fraction"),
        pytest.param(1_800_000_000_250, 1_800_000_000_250_000, id="epoch milliseconds"),
        pytest.param(1_800_000_000_250.0, 1_800_000_000_250_000, id="epoch milliseconds, float"),
        pytest.param(1_800_000_000_250_001, 1_800_000_000_250_001, id="epoch microseconds"),
        pytest.param(1_800_000_000_250_001_000, 1_800_000_000_250_001, id="epoch nanoseconds"),
        pytest.param("1800000000", 1_800_000_000_000_000, id="epoch seconds as text"),
        pytest.param(" 1800000000.25 ", 1_800_000_000_250_000, id="a fraction as text"),
        pytest.param("1800000000250", 1_800_000_000_250_000, id="milliseconds as text"),
        pytest.param("1800000000250001000", 1_800_000_000_250_001, id="nanoseconds as text"),
        pytest.param("1.8e9", 1_800_000_000_000_000, id="an exponent"),
        pytest.param(0, 0, id="the epoch itself"),
        pytest.param(-5, -5_000_000, id="five seconds before it"),
        pytest.param(99_999_999_999, 99_999_999_999_000_000, id="the largest seconds"),
        pytest.param(100_000_000_000, 100_000_000_000_000, id="the smallest milliseconds"),
        pytest.param(
            datetime(2027, 1, 15, 8, tzinfo=UTC), 1_800_000_000_000_000, id="a native stamp"
        ),
        pytest.param(
            datetime(2027, 1, 15, 8),  # noqa: DTZ001  (that is the case)
            1_800_000_000_000_000,
            id="a native stamp without a zone",
        ),
    ],
)
def test_every_stated_form_reads(value: object, micros: int) -> None:
    """An instant is the same whole number of microseconds in every form."""
    assert parse_instant(value) == micros


@pytest.mark.parametrize(
    ("text", "zone", "utc"),
    [
        ("2027-07-15 10:00:00", BERLIN, "2027-07-15T08:00:00Z"),
        ("2027-01-15 09:00:00", BERLIN, "2027-01-15T08:00:00Z"),
        ("2027-01-15T09:00:00Z", BERLIN, "2027-01-15T09:00:00Z"),
        ("2027-01-15 03:00:00", NEW_YORK, "2027-01-15T08:00:00Z"),
        # 2027-03-28 02:30 never was, and 2027-10-31 02:30 was twice: the first one counts.
        ("2027-03-28 02:30:00", BERLIN, "2027-03-28T01:30:00Z"),
        ("2027-03-28 03:00:00", BERLIN, "2027-03-28T01:00:00Z"),
        ("2027-10-31 02:30:00", BERLIN, "2027-10-31T00:30:00Z"),
        ("2027-10-31 03:00:00", BERLIN, "2027-10-31T02:00:00Z"),
    ],
)
def test_a_stamp_without_a_zone_is_in_the_stores(text: str, zone: ZoneInfo, utc: str) -> None:
    """The store's zone holds, summer time too; a zone of the stamp's own holds over it."""
    assert format_instant(parse_instant(text, zone)) == utc
    naive = datetime.fromisoformat(text)
    assert format_instant(instant_of_datetime(naive, zone)) == utc


def test_the_hosts_zone_never_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host on another continent reads the same instants."""
    import time  # noqa: PLC0415  (its zone is changed here)

    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    time.tzset()
    try:
        assert parse_instant("2027-01-15 08:00:00") == ZERO * 1_000_000
        assert parse_instant(datetime(2027, 1, 15, 8)) == ZERO * 1_000_000  # noqa: DTZ001  (that is the case)
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    "value",
    [
        None, True, False, b"1800000000", [], "", "   ", "soon", "12:30", "2027", "nan", "inf",
        "-", "2027-13-01T00:00:00Z", "2027-02-30", "2027-01-15T25:00:00Z", "0000-00-00 00:00:00",
        "2027-01-15T08:00:00+99:00", "2027-01-15T08:00:00 nonsense", math.nan, math.inf, -math.inf,
        1e300, -1e300,
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_no_instant_is_refused(value: object) -> None:
    """Garbage raises ``ValueError``, whatever it is, and never reads as some instant."""
    if value == "2027":
        # A bare number is epoch seconds, never a year.
        assert parse_instant(value) == 2027 * 1_000_000
        return
    with pytest.raises(ValueError):  # noqa: PT011  (the kind is the promise)
        parse_instant(value)


@pytest.mark.parametrize("text", ["1e300", "9" * 40, "-" + "9" * 30], ids=lambda text: text[:8])
def test_an_absurd_number_is_refused_as_text_as_it_is_as_a_number(text: str) -> None:
    """A number that no clock will ever show is no instant, in whichever form it comes."""
    with pytest.raises(ValueError):  # noqa: PT011  (the kind is the promise)
        parse_instant(text)


@pytest.mark.parametrize(
    ("text", "micros", "written"),
    [
        ("60s", 60_000_000, "1m"),
        ("5m", 300_000_000, "5m"),
        ("1h30m", 5_400_000_000, "1h30m"),
        ("250ms", 250_000, "250ms"),
        ("1.5s", 1_500_000, "1s500ms"),
        ("0s", 0, "0s"),
        ("2w", 14 * 86_400_000_000, "14d"),
    ],
)
def test_durations_read_and_write(text: str, micros: int, written: str) -> None:
    """Durations are Prometheus' own, also with a fraction."""
    assert parse_duration(text) == micros
    assert format_duration(micros) == written


@pytest.mark.parametrize("text", ["", "60", "s", "5 m", "-5m", "5m!", "1h-30m", "five"])
def test_what_is_no_duration_is_refused_with_examples(text: str) -> None:
    """The error says what to write."""
    with pytest.raises(ValueError, match=re.escape(f"{text!r} is no duration; write for example")):
        parse_duration(text)


# The same stack, its instants written in each form


def _utc(offset: float) -> datetime:
    return datetime(2027, 1, 15, 8, tzinfo=UTC) + timedelta(seconds=offset)


def _in_zone(hours: float) -> Callable[[float], object]:
    zone = timezone(timedelta(hours=hours))
    return lambda offset: _utc(offset).astimezone(zone).isoformat()


FORMS: dict[str, Callable[[float], object]] = {
    "epoch seconds as integers": lambda offset: int(ZERO + offset),
    "epoch seconds as floats": lambda offset: float(ZERO + offset),
    "epoch seconds as text": lambda offset: str(ZERO + offset),
    "epoch milliseconds": lambda offset: int((ZERO + offset) * 1000),
    "epoch milliseconds as floats": lambda offset: (ZERO + offset) * 1000.0,
    "epoch milliseconds as text": lambda offset: str(int((ZERO + offset) * 1000)),
    "epoch microseconds": lambda offset: int((ZERO + offset) * 10**6),
    "epoch nanoseconds": lambda offset: int((ZERO + offset) * 10**9),
    "epoch nanoseconds as text": lambda offset: str(int((ZERO + offset) * 10**9)),
    "ISO with T and Z": lambda offset: f"{_utc(offset):%Y-%m-%dT%H:%M:%SZ}",
    "ISO with a blank and no zone": lambda offset: f"{_utc(offset):%Y-%m-%d %H:%M:%S}",
    "ISO with nine digits": lambda offset: f"{_utc(offset):%Y-%m-%dT%H:%M:%S.%f}000Z",
    "ISO far east": _in_zone(14),
    "ISO far west": _in_zone(-12),
    "ISO of half an hour": _in_zone(5.5),
    "ISO basic": lambda offset: f"{_utc(offset):%Y%m%dT%H%M%SZ}",
}
DECLARED = ("REAL", "TEXT")


def written(folder: Path, form: Callable[[float], object], declared: str, **more: Any) -> StackFile:
    """Return a stack with a bit of everything, its instants in one form and column type."""
    tables = {
        name: re.sub(r"(\w+_at) REAL", rf"\1 {declared}", columns)
        for name, columns in TABLES.items()
    }
    stack = StackFile(folder, tables=tables, write=form, **more)
    stack.add(
        "tasks",
        task("x", cancelled_at=3, retry_id="r"),
        task("y", submitted_at=2, retry_id="r", attempt=2, finished_at=20),
        task("late", deadline_at=12),
        task("open", deadline_at=90),
        task("old", submitted_at=-5000, cancelled_at=-4000),
    )
    stack.add(
        "leases",
        lease("x", "w1", heartbeat_at=29),
        lease("late", "w2", heartbeat_at=13, released_at=14),
        lease("open", "w3", acquired_at=5, heartbeat_at=25),
        lease("old", "w4", acquired_at=-4999, heartbeat_at=28),
    )
    stack.add(
        "ledger",
        *(charge("x", 10, at) for at in (2, 4, 5, 20)),
        charge("y", 5, 25),
        charge("open", 7, -100),
        charge("old", 3, 30),
        charge("old", 100, 31),
    )
    stack.add("queue", sample(-10, depth=9), sample(20, depth=2, in_flight=3), sample(31, depth=4))
    return stack


def told(stack: StackFile) -> dict[str, Any]:
    """Return the document at +30, without the clocks of this machine."""
    document = stack.document(30)
    del document["metrics"]["orphan_store_clock_skew_seconds"]
    return document


@pytest.fixture(scope="module")
def embedded_default(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what the stack says when it is written as the embedded default is."""
    stack = written(tmp_path_factory.mktemp("default"), lambda offset: ZERO + offset, "REAL")
    document = told(stack)
    metrics = document["metrics"]
    # Not vacuous: past the cutoff of +4 x adds 10 + 10; old adds 3, and y 5 after its finish.
    assert sum(item["value"] for item in metrics["orphan_token_delta"]) == 28
    assert sum(item["value"] for item in metrics["orphan_leases"]) == 2
    assert metrics["orphan_queue_depth"][0]["value"] == 2
    assert sum(item["value"] for item in metrics["orphan_rows_rejected_total"]) == 0
    return document


@pytest.mark.parametrize("declared", DECLARED, ids=lambda name: f"in a column of {name or 'none'}")
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_one_stack_reads_the_same_in_every_form(
    form: Callable[[float], object],
    declared: str,
    embedded_default: dict[str, Any],
    tmp_path: Path,
) -> None:
    """How a store writes its instants changes nothing of the document."""
    assert told(written(tmp_path, form, declared)) == embedded_default


@pytest.mark.parametrize("declared", ["TEXT", "DATETIME"])
def test_stamps_without_a_zone_are_read_in_the_stores_zone(
    declared: str, embedded_default: dict[str, Any], tmp_path: Path
) -> None:
    """Local wall time reads the same once the store says its zone, and not before."""
    local = {
        name: {"timezone": "Europe/Berlin"} for name in ("gateway", "leases", "ledger", "queue")
    }

    def wall(offset: float) -> object:
        return f"{_utc(offset).astimezone(BERLIN):%Y-%m-%d %H:%M:%S}"

    stack = written(tmp_path, wall, declared, stores=local)
    assert told(stack) == embedded_default

    stack.configure()
    assert told(stack) != embedded_default


@pytest.mark.parametrize(
    ("offset", "slack"),
    [
        # 2027-10-31 03:00 CEST is 02:00 CET: the second pass through the hour is fold time.
        pytest.param("2027-10-31 03:30:00", 5400.0 + 3600.0, id="an hour longer in autumn"),
        pytest.param("2027-10-31 01:30:00", -1800.0 + 0.0, id="before the change"),
    ],
)
def test_a_deadline_across_the_change_of_clocks(offset: str, slack: float, tmp_path: Path) -> None:
    """Slack is real time: a deadline on the other side of the change is an hour further."""
    stack = StackFile(
        tmp_path,
        tables={**TABLES, "tasks": TABLES["tasks"].replace("deadline_at REAL", "deadline_at TEXT")},
        stores={"gateway": {"timezone": "Europe/Berlin", "deadline": "soft"}},
    )
    # 2027-10-31T00:00:00Z is 02:00 in Berlin, still summer time.
    at = int(datetime(2027, 10, 31, tzinfo=UTC).timestamp()) - ZERO
    stack.add("tasks", task("x", submitted_at=at - 10, deadline_at=offset))
    stack.add("leases", lease("x", acquired_at=at - 10, heartbeat_at=at - 1))

    (slack_now,) = stack.document(at)["metrics"]["orphan_deadline_slack_seconds_min"]

    assert slack_now["value"] == slack
