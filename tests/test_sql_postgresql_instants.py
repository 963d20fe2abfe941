"""Instants on PostgreSQL: native stamps, epoch numbers and text, to the microsecond."""

from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import test_instants
from plain_stack import GOOD_ROWS, READS, plain
from sql_tables import Writer, epochs, in_zone, typed, utc, wall
from sqlalchemy import (
    TIMESTAMP,
    Connection,
    NullPool,
    Text,
    column,
    create_engine,
    literal,
    select,
    table,
)
from stack_file import ZERO, StackFile, assert_reads, charge, rejections, task

from orphanwatch.exporter.instants import Instant, instant_of_datetime, parse_instant
from orphanwatch.exporter.stores.sql.dialect_postgresql import Postgresql
from orphanwatch.exporter.stores.sql.dialect_server_instants import OrderedInstants
from orphanwatch.exporter.stores.sql.dialect_zones import wall_clock_of

pytestmark = pytest.mark.servers

FORMS: dict[str, tuple[str, Writer]] = {
    "timestamps with a zone": ("timestamptz", utc),
    "timestamps without a zone": ("timestamp", wall("UTC")),
    "doubles of seconds": ("double precision", lambda offset: ZERO + offset),
    "decimals of seconds": ("numeric(20, 6)", lambda offset: Decimal(str(ZERO + offset))),
    "integers of seconds": ("integer", lambda offset: int(ZERO + offset)),
    "integers of milliseconds": ("bigint", epochs(1000)),
    "integers of microseconds": ("bigint", epochs(10**6)),
    "integers of nanoseconds": ("bigint", epochs(10**9)),
    "decimals of nanoseconds": ("numeric", epochs(10**9)),
    "text with a zone": ("text", lambda offset: utc(offset).isoformat()),
    "text without a zone": ("varchar(40)", lambda offset: f"{utc(offset):%Y-%m-%d %H:%M:%S.%f}"),
    "text of a basic form": ("text", lambda offset: f"{utc(offset):%Y%m%dT%H%M%SZ}"),
    "text of seconds": ("text", lambda offset: str(ZERO + offset)),
    "JSON": ("jsonb", lambda offset: f'"{utc(offset).isoformat()}"'),
}


@pytest.mark.parametrize(("declared", "write"), FORMS.values(), ids=FORMS)
def test_a_stack_reads_the_same_in_every_form(
    declared: str, write: Writer, postgresql_url: str, tmp_path: Path
) -> None:
    """How a column writes its instants changes nothing, nor does the zone of the session."""
    tables = typed("double precision", declared)
    stack = plain(tmp_path, tables=tables, write=write, url=postgresql_url)
    stack.run_sql("ALTER DATABASE " + postgresql_url.rpartition("/")[2] + " SET TimeZone = 'EST'")

    document = stack.document(30)

    assert_reads(document, READS)
    assert rejections(document) == {}


EXACT = {
    name: FORMS[name]
    for name in (
        "timestamps with a zone",
        "timestamps without a zone",
        "decimals of seconds",
        "integers of microseconds",
        "integers of nanoseconds",
        "text without a zone",
    )
}


@pytest.mark.parametrize(("declared", "write"), EXACT.values(), ids=EXACT)
def test_a_charge_is_orphan_from_the_first_microsecond_past_the_cutoff(
    declared: str, write: Writer, postgresql_url: str, tmp_path: Path
) -> None:
    """At the cutoff itself a charge is in time; a microsecond later it is not."""

    def exactly(offset: float) -> object:
        # Seconds since 1970 as a double are exact to a quarter of a microsecond: enough for one.
        return write(round(offset, 6))

    tables = typed("double precision", declared)
    stack = StackFile(tmp_path, tables=tables, write=exactly, url=postgresql_url)
    stack.add("tasks", task("x", cancelled_at=3))
    stack.add("ledger", charge("x", 1, 3.999999), charge("x", 10, 4), charge("x", 100, 4.000001))

    assert_reads(stack.document(30), {"orphan_tokens_total": 100, "orphan_token_delta": 100})


def test_wall_time_is_read_in_the_stores_zone(postgresql_url: str, tmp_path: Path) -> None:
    """Stamps without a zone are local ones once the store says so, and UTC before."""
    tables = typed("double precision", "timestamp(3)")
    stack = plain(tmp_path, tables=tables, write=wall("Asia/Kolkata"), url=postgresql_url)
    assert stack.document(30)["orphans"] == []

    stack.configure(stores=in_zone("Asia/Kolkata"))

    assert_reads(stack.document(30), READS)


def test_days_are_their_midnight(postgresql_url: str, tmp_path: Path) -> None:
    """A column of days reads as the beginning of each."""
    tables = typed("double precision", "double precision", tasks__submitted_at="date")
    stack = StackFile(tmp_path, tables=tables, url=postgresql_url)
    stack.run_sql("INSERT INTO tasks (task_id, submitted_at) VALUES ('x', '2027-01-15')")

    assert_reads(stack.document(-28_800 + 6), {"orphan_attached_tasks": 0.1})
    assert_reads(stack.document(-28_800 - 1), {"orphan_attached_tasks": 0})


BERLIN = ZoneInfo("Europe/Berlin")
CHANGES = ("2027-03-28T01:00:00+00:00", "2027-10-31T01:00:00+00:00")


@pytest.fixture
def connection(postgresql_url: str) -> Any:
    """Return a connection to an empty database."""
    with create_engine(postgresql_url, poolclass=NullPool).connect() as connection:
        yield connection


@pytest.mark.parametrize("change", CHANGES)
def test_sql_reads_wall_time_as_the_border_does(change: str, connection: Connection) -> None:
    """Around a change of clocks every comparison agrees with the border's reading of each stamp."""
    moment = datetime.fromisoformat(change)
    steps = [moment + timedelta(minutes=minutes) for minutes in range(-120, 150, 15)]
    connection.exec_driver_sql("CREATE TEMP TABLE stamps (stamp timestamp)")
    walls = [(step.replace(tzinfo=None) + timedelta(hours=1),) for step in steps]
    connection.exec_driver_sql("INSERT INTO stamps VALUES (%s)", walls)
    stamps = table("stamps", column("stamp", TIMESTAMP(timezone=False)))
    for at in (instant_of_datetime(step) for step in steps):
        instants = Postgresql().instants(stamps.c.stamp, [], BERLIN, at)
        assert isinstance(instants, OrderedInstants)
        rows = connection.execute(
            select(
                stamps.c.stamp,
                instants.epoch_micros(),
                instants.after(at),
                instants.by(at),
                instants.within(Instant(at - 3_600_000_000), at),
            )
        )
        for stamp, micros, after, by, within in rows:
            border = instant_of_datetime(stamp, BERLIN)
            expected = (border, border > at, border <= at, at - 3_600_000_000 < border <= at)
            assert (micros, after, by, within) == expected, f"{stamp} at {at}"


def _cases(test: Any, position: int) -> list[str]:
    """Return the texts among the cases of a table test."""
    rows = test.pytestmark[0].args[position]
    values = [getattr(row, "values", (row,))[0] for row in rows]
    return [value for value in values if isinstance(value, str)]


MORE_TEXTS = [
    "2024-02-29", "2023-02-29", "2027-01-15T08:00:60Z", "2027-00-10", "2027-01-00", "0000-01-01",
    "2027-01-15T24:00:00Z", "2027-01-15T24:01:00Z", "9999-12-31T23:59:59.9999999Z", "1e300",
    "9" * 40, "-" + "9" * 30, "2027-01-15T08:00:00.5-03:30", "1800000000\n", "1e-99", "1e99",
    "2027-03-28 02:30:00", "2027-03-28 03:00:00", "2027-10-31 02:30:00", "2027-10-31 03:00:00",
    "2027-01-15T08:00:00+24:00", "2027-01-15T08:00:00-00:30",
]  # fmt: skip
TEXTS = [
    *_cases(test_instants.test_every_stated_form_reads, 1),
    *_cases(test_instants.test_what_is_no_instant_is_refused, 1),
    *MORE_TEXTS,
]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/St_Johns"])
def test_sql_reads_text_as_the_border_does(zone: str, connection: Connection) -> None:
    """Every stated form reads as the same instant; what is none is null, and raises nothing."""
    clock = wall_clock_of(ZoneInfo(zone), Instant(ZERO * 1_000_000))
    read = {
        text: connection.execute(
            select(Postgresql().instant_of_text(literal(text, Text()), clock))
        ).scalar()
        for text in TEXTS
    }

    assert read == {text: at_the_border(text, zone) for text in TEXTS}


def at_the_border(text: str, zone: str) -> int | None:
    """Return the instant of a text as the border reads it, None where it refuses it."""
    try:
        return parse_instant(text, ZoneInfo(zone))
    except ValueError:
        return None


BAD_CELLS = [
    # the type, how good cells are written, the bad cell in SQL
    *(("timestamptz", utc, f"'{cell}'") for cell in ("infinity", "-infinity", "11000-01-01 UTC")),
    *(("timestamp", wall("UTC"), f"'{cell}'") for cell in ("infinity", "4000-01-01 BC")),
    *(
        ("double precision", lambda offset: ZERO + offset, f"'{cell}'")
        for cell in ("NaN", "Infinity", "-Infinity", "1e300")
    ),
    *(
        ("numeric", lambda offset: Decimal(str(ZERO + offset)), cell)
        for cell in ("'NaN'", "'Infinity'", "1e400")
    ),
    ("bigint", epochs(1000), "9223372036854775807"),
    *(
        ("text", lambda offset: utc(offset).isoformat(), f"'{cell}'")
        for cell in ("soon", "2026-02-30", "2026-13-01T00:00:00Z", "NaN", "9" * 50, "1e400000")
    ),
]


@pytest.mark.parametrize(
    ("table", "column", "reason"),
    [
        ("tasks", "cancelled_at", "gateway invalid_instant"),
        ("leases", "heartbeat_at", "leases invalid_instant"),
    ],
)
@pytest.mark.parametrize(
    ("declared", "write", "cell"), BAD_CELLS, ids=[f"{kind} {cell}" for kind, _, cell in BAD_CELLS]
)
def test_a_cell_that_is_no_instant_costs_only_its_row(  # noqa: PLR0917  (one table test)
    declared: str,
    write: Writer,
    cell: str,
    table: str,
    column: str,
    reason: str,
    postgresql_url: str,
    tmp_path: Path,
) -> None:
    """It is counted once, nothing raises in the server, and all else is as if it were not there."""
    tables = typed("double precision", declared)
    stack = plain(tmp_path, tables=tables, write=write, url=postgresql_url)
    row = GOOD_ROWS[table] | ({"submitted_at": 1} if table == "tasks" else {})
    stack.add(table, row)
    stack.run_sql(
        f"UPDATE {table} SET {column} = {cell}"  # noqa: S608  (values of ours)
        f" WHERE ctid = (SELECT max(ctid) FROM {table})"
    )

    document = stack.document(30)

    assert_reads(document, READS)
    assert rejections(document) == {reason: 1}


@pytest.mark.parametrize(
    ("declared", "write", "cell"),
    # Of a text that states a day of last year, however impossible, that is all that is looked at.
    [case for case in BAD_CELLS if not (case[0] == "text" and "-" in case[2])],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_charge_at_no_instant_is_counted(
    declared: str, write: Writer, cell: str, postgresql_url: str, tmp_path: Path
) -> None:
    """A ledger row whose stamp is none is not lost in silence."""
    tables = typed("double precision", declared)
    stack = plain(tmp_path, tables=tables, write=write, url=postgresql_url)
    stack.run_sql(f"INSERT INTO ledger (task_id, tokens, charged_at) VALUES ('h', 1, {cell})")  # noqa: S608  (values of ours)

    document = stack.document(30)

    assert_reads(document, READS)
    assert rejections(document) == {"ledger invalid_instant": 1}


@pytest.mark.parametrize("declared", ["timestamptz", "timestamp", "date", "double precision"])
@pytest.mark.parametrize("shape", ["increments", "cumulative", "final"])
def test_charges_at_both_ends_of_time_are_two(
    shape: str, declared: str, postgresql_url: str, tmp_path: Path
) -> None:
    """What lies before all instants is as little lost in silence as what lies after them."""
    tables = typed("double precision", ledger__charged_at=declared)
    stack = StackFile(
        tmp_path, tables=tables, url=postgresql_url, stores={"ledger": {"shape": shape}}
    )
    stack.run_sql(
        "INSERT INTO ledger (task_id, tokens, charged_at)"
        " VALUES ('h', 1, 'infinity'), ('h', 1, '-infinity')"
    )

    assert rejections(stack.document(30)) == {"ledger invalid_instant": 2}


@pytest.mark.parametrize("at", [-62_135_596_800 - ZERO, 253_402_300_799 - ZERO])
@pytest.mark.parametrize("declared", ["timestamptz", "timestamp", "bigint", "numeric", "text"])
def test_any_instant_can_be_asked_for(
    declared: str, at: float, postgresql_url: str, tmp_path: Path
) -> None:
    """As of the year 1 and of the end of the year 9999 every store is read."""
    tables = typed("double precision", declared)
    writers = {"timestamptz": utc, "timestamp": wall("UTC"), "bigint": epochs(10**9)}
    write = writers.get(declared, lambda offset: str(ZERO + offset))
    stack = plain(tmp_path, tables=tables, write=write, url=postgresql_url)

    assert_reads(stack.document(at), {"orphan_store_up": 4, "orphan_token_delta": 0})
