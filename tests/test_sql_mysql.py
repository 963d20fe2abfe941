"""MariaDB as a store: ids in its collations, stamps, numbers, relations, faults and indexes."""

import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from database_servers import MariaDB, guarded
from plain_stack import GOOD_ROWS, READS, plain
from servers import free_port
from sql_tables import Writer, epochs, in_zone, typed, utc, wall
from sqlalchemy import NullPool, Text, create_engine, literal, make_url, select, text
from stack_file import Row, StackFile, assert_reads, charge, lease, rejections, store_problem, task
from test_sql_postgresql_instants import TEXTS, at_the_border

from orphanwatch.exporter.channel import Channels
from orphanwatch.exporter.check import run_check
from orphanwatch.exporter.instants import Instant, instant_of_epoch
from orphanwatch.exporter.reading import read_stores
from orphanwatch.exporter.stores.sql.dialect_mysql import MySql
from orphanwatch.exporter.stores.sql.dialect_zones import wall_clock_of

pytestmark = pytest.mark.servers

ZERO = 1_800_000_000
FORMS: dict[str, tuple[str, Writer]] = {
    "timestamps": ("timestamp(6) NULL", wall("UTC")),
    "datetimes": ("datetime(6)", wall("UTC")),
    "doubles of seconds": ("double", lambda offset: ZERO + offset),
    "decimals of seconds": ("decimal(20, 6)", lambda offset: Decimal(str(ZERO + offset))),
    "integers of milliseconds": ("bigint unsigned", epochs(1000)),
    "integers of microseconds": ("bigint", epochs(10**6)),
    "integers of nanoseconds": ("bigint", epochs(10**9)),
    "text with a zone": ("text", lambda offset: utc(offset).isoformat()),
    "text without a zone": ("varchar(40)", lambda offset: f"{utc(offset):%Y-%m-%d %H:%M:%S.%f}"),
    "text of seconds": ("text", lambda offset: str(ZERO + offset)),
}


def run(url: str, *statements: str) -> list[Any]:
    """Run statements, each committed at once, and return the rows of the last one."""
    rows: list[Any] = []
    engine = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as server:
        for statement in statements:
            result = server.execute(text(statement))
            rows = list(result) if result.returns_rows else []
    return rows


@pytest.mark.parametrize(("declared", "write"), FORMS.values(), ids=FORMS)
def test_a_stack_reads_the_same_in_every_form(
    declared: str, write: Writer, mariadb_url: str, tmp_path: Path
) -> None:
    """How a column writes its instants changes nothing."""
    stack = plain(tmp_path, tables=typed("double", declared), write=write, url=mariadb_url)

    document = stack.document(30)

    assert_reads(document, READS)
    assert rejections(document) == {}


def test_the_servers_zone_never_matters(mariadb: MariaDB, mariadb_url: str, tmp_path: Path) -> None:
    """Stamps read the same whatever zone the server shows them in."""
    tables = typed("double", "timestamp NULL", ledger__charged_at="datetime")
    stack = plain(tmp_path, tables=tables, write=wall("UTC"), url=mariadb_url)
    mariadb.execute("SET GLOBAL time_zone = '-05:00'")
    try:
        # Written by sessions in UTC above; a session shows them five hours earlier from now on.
        assert run(mariadb_url, "SELECT @@time_zone") == [("-05:00",)]
        written_in_utc = READS
        document = stack.document(30)
    finally:
        mariadb.execute("SET GLOBAL time_zone = 'SYSTEM'")

    assert_reads(document, written_in_utc)


def test_wall_time_is_read_in_the_stores_zone(mariadb_url: str, tmp_path: Path) -> None:
    """Stamps without a zone are local ones once the store says so, without the server's tables."""
    tables = typed("double", "datetime(3)")
    stack = plain(tmp_path, tables=tables, write=wall("Europe/Berlin"), url=mariadb_url)
    assert stack.document(30)["orphans"] == []

    stack.configure(stores=in_zone("Europe/Berlin"))

    assert_reads(stack.document(30), READS)


@pytest.mark.parametrize(
    ("declared", "write"),
    [FORMS[name] for name in ("timestamps", "datetimes", "integers of nanoseconds")],
)
def test_a_charge_is_orphan_from_the_first_microsecond_past_the_cutoff(
    declared: str, write: Writer, mariadb_url: str, tmp_path: Path
) -> None:
    """At the cutoff itself a charge is in time; a microsecond later it is not."""
    stack = StackFile(tmp_path, tables=typed("double", declared), write=write, url=mariadb_url)
    stack.add("tasks", task("x", cancelled_at=3))
    stack.add("ledger", charge("x", 1, 3.999999), charge("x", 10, 4), charge("x", 100, 4.000001))

    assert_reads(stack.document(30), {"orphan_tokens_total": 100})


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_sql_reads_text_as_the_border_does(zone: str, mariadb_url: str) -> None:
    """Every stated form reads as the same instant; what is none is null, and raises nothing."""
    clock, dialect = wall_clock_of(ZoneInfo(zone), Instant(ZERO * 1_000_000)), MySql()
    with create_engine(mariadb_url, poolclass=NullPool).connect() as connection:
        read = {
            written: connection.execute(
                select(dialect.instant_of_text(dialect.text_of(literal(written, Text())), clock))
            ).scalar()
            for written in TEXTS
        }

    assert read == {written: at_the_border(written, zone) for written in TEXTS}


BAD_INSTANT = {"gateway invalid_instant": 1}


@pytest.mark.parametrize(
    ("declared", "cell", "counted"),
    [
        pytest.param("datetime", "'0000-00-00 00:00:00'", {}, id="the zero date"),
        pytest.param("timestamp NULL", "'0000-00-00 00:00:00'", {}, id="the zero timestamp"),
        pytest.param(
            "datetime", "'2027-00-15 00:00:00'", BAD_INSTANT, id="no month"
        ),
        pytest.param("bigint", "9223372036854775807", BAD_INSTANT, id="too large"),
        pytest.param("text", "'soon'", BAD_INSTANT, id="no stamp"),
        pytest.param("text", "'2027-02-30'", BAD_INSTANT, id="no such day"),
    ],
)  # fmt: skip
def test_a_cell_that_is_no_instant_costs_only_its_row(
    declared: str, cell: str, counted: dict[str, int], mariadb_url: str, tmp_path: Path
) -> None:
    """It is counted, and nothing raises; a zero date says "not yet", as older schemas have it."""
    write = {"datetime": wall("UTC"), "timestamp NULL": wall("UTC"), "bigint": epochs(1000)}.get(
        declared, lambda offset: utc(offset).isoformat()
    )
    stack = plain(tmp_path, tables=typed("double", declared), write=write, url=mariadb_url)
    stack.add("tasks", GOOD_ROWS["tasks"])
    run(
        mariadb_url,
        "SET sql_mode = ''",
        f"UPDATE tasks SET cancelled_at = {cell} WHERE task_id = 'bad'",  # noqa: S608  (values of ours)
    )

    document = stack.document(30)

    assert_reads(document, {"orphan_token_delta": 10, "orphan_store_up": 4})
    assert rejections(document) == counted


def identified(folder: Path, ids: tuple[object, object, object], **settings: Any) -> StackFile:
    """Return the plain stack, its orphan's id written as the gateway, leases and ledger do."""
    stack = StackFile(folder, **settings)
    stack.add("tasks", task(ids[0], cancelled_at=3))
    stack.add("leases", lease(ids[1], heartbeat_at=30))
    stack.add("ledger", charge(ids[2], 10, 20))
    return stack


JOINED = {"orphan_token_delta": 10, "orphan_leases": 1, "orphan_unmatched_tokens key=unknown": 0}
APART = {"orphan_token_delta": 0, "orphan_leases": 0, "orphan_unmatched_tokens key=unknown": 10}

TEXT_KINDS = [
    "text", "varchar(99) COLLATE utf8mb4_general_ci", "varchar(99) COLLATE utf8mb4_bin",
    "varchar(99) CHARACTER SET latin1", "char(40)",
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        *((kind, "increments") for kind in TEXT_KINDS),
        (TEXT_KINDS[1], "cumulative"),
        (TEXT_KINDS[1], "final"),
    ],
)
@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param("a", "a", JOINED, id="the same id"),
        pytest.param("a", "A", APART, id="another case"),
        pytest.param("resume", "résumé", APART, id="accents"),
        pytest.param("é", "é", JOINED, id="the same accent"),
    ],
)
def test_ids_match_exactly_whatever_the_collation(  # noqa: PLR0917  (one table test)
    one: str,
    other: str,
    expected: dict[str, float],
    kind: str,
    shape: str,
    mariadb_url: str,
    tmp_path: Path,
) -> None:
    """The server's own comparison knows no case, no accents and no blanks; ours does."""
    columns = {f"{table}__task_id": kind for table in ("tasks", "leases", "ledger")}
    stack = identified(
        tmp_path,
        (one, other, other),
        tables=typed("double", **columns),
        url=mariadb_url,
        stores={"ledger": {"shape": shape}},
    )
    stack.run_sql("UPDATE ledger SET started_at = charged_at - 1")

    assert_reads(stack.document(30), expected)


def test_ids_that_only_look_alike_are_tasks_of_their_own(mariadb_url: str, tmp_path: Path) -> None:
    """Two spellings in one table are two tasks and two keys: neither doubles the other."""
    stack = StackFile(tmp_path, tables=typed("double"), url=mariadb_url)
    for name in ("a", "A", "a ", "á"):
        stack.add("tasks", task(name, retry_id=name, cancelled_at=3))
        stack.add("ledger", charge(name, 10, 20, entry_id=name))

    document = stack.document(30)

    assert_reads(document, {"orphan_token_delta": 40, "orphan_abandoned_tasks": 4})
    assert rejections(document) == {}


@pytest.mark.parametrize(
    ("kind", "one", "other", "expected"),
    [
        pytest.param("bigint", 7, "7", JOINED, id="a number and its text"),
        pytest.param("int unsigned", 7, "07", APART, id="a leading zero"),
        pytest.param("bigint", 7, "7 apples", APART, id="a text that begins with it"),
        pytest.param("bigint", 0, "none of them", APART, id="a text where there is zero"),
        pytest.param("bigint", 7, "9" * 30, APART, id="a number that fits no column"),
        pytest.param("decimal(20)", 7, "7", JOINED, id="a decimal and its text"),
        pytest.param("enum('a', 'b')", "a", "a", JOINED, id="an enum and its text"),
        pytest.param("enum('a', 'b')", "a", "c", APART, id="none of the enum"),
        pytest.param("text", "💥", "💥", JOINED, id="beyond the basic plane"),
        pytest.param("text", "a'b\"c\\%s:x", "a'b\"c\\%s:x", JOINED, id="quotes and signs"),
    ],
)
def test_an_id_joins_by_its_text(  # noqa: PLR0917  (one table test)
    kind: str, one: object, other: str, expected: dict[str, float], mariadb_url: str, tmp_path: Path
) -> None:
    """A number is its digits and nothing that merely begins with them."""
    stack = StackFile(tmp_path, tables=typed("double", tasks__task_id=kind), url=mariadb_url)
    for table in ("leases", "ledger"):
        stack.run_sql(f"ALTER TABLE {table} MODIFY task_id text CHARACTER SET utf8mb4")
    if kind == "text":
        stack.run_sql("ALTER TABLE tasks MODIFY task_id text CHARACTER SET utf8mb4")
    stack.add("tasks", task(one, cancelled_at=3))
    stack.add("leases", lease(other, heartbeat_at=30))
    stack.add("ledger", charge(other, 10, 20))

    assert_reads(stack.document(30), expected)


@pytest.mark.parametrize(
    ("kind", "no", "yes"),
    [
        ("boolean", "FALSE", "TRUE"),
        ("bit(1)", "b'0'", "b'1'"),
        ("enum('on', 'off')", "'off'", "'on'"),
        ("varchar(9)", "'No'", "'Yes'"),
    ],
)
def test_flags_are_of_any_type(
    kind: str, no: str, yes: str, mariadb_url: str, tmp_path: Path
) -> None:
    """What may not be cancelled is no orphan, however the column says so; null may be."""
    stack = StackFile(tmp_path, tables=typed("double"), url=mariadb_url)
    stack.run_sql(f"ALTER TABLE tasks MODIFY cancellable {kind}")
    for name, flag in (("no", no), ("yes", yes), ("unset", "NULL")):
        stack.run_sql(
            "INSERT INTO tasks (task_id, pool, submitted_at, cancelled_at, cancellable)"  # noqa: S608  (values of ours)
            f" VALUES ('{name}', 'overflow', 1800000000, 1800000003, {flag}),"
            f" ('{name}2', 'overflow', 1800000000, NULL, {flag})"
        )
        stack.add("ledger", charge(name, 10, 20))

    assert_reads(
        stack.document(30), {"orphan_token_delta": 20, "orphan_uncancellable_on_overflow": 1}
    )


@pytest.mark.parametrize(
    ("kind", "cell", "reason"),
    [
        ("text", "'many'", "ledger invalid_tokens"),
        ("text", "'7 apples'", "ledger invalid_tokens"),
        ("bigint", "9223372036854775807", "ledger invalid_tokens"),
        ("double", "1e300", "ledger invalid_tokens"),
        ("double", "NULL", "ledger unknown_tokens"),
        ("decimal(10)", "-5", "ledger adjustment"),
    ],
)
def test_tokens_that_are_no_number_cost_only_their_row(
    kind: str, cell: str, reason: str, mariadb_url: str, tmp_path: Path
) -> None:
    """Such a row is counted once, by its reason, and enters no sum."""
    stack = plain(tmp_path, tables=typed("double", ledger__tokens=kind), url=mariadb_url)
    stack.run_sql(
        f"INSERT INTO ledger (task_id, tokens, charged_at) VALUES ('h', {cell}, 1800000019)"  # noqa: S608  (values of ours)
    )

    document = stack.document(30)

    assert_reads(document, READS)
    assert rejections(document) == {reason: 1}


@pytest.mark.parametrize(
    ("sql", "ledger"),
    [
        pytest.param((), {"relation": "`ledger`"}, id="a name in backticks"),
        pytest.param(
            ("CREATE VIEW `My.Ledger` AS SELECT * FROM ledger",),
            {"relation": "`My.Ledger`"},
            id="a view with a dot in its name",
        ),
        pytest.param(
            (),
            {"relation": "(SELECT * FROM ledger WHERE task_id LIKE '%' AND ':x' <> '%s' -- all\n)"},
            id="a SELECT with percent signs, colons and a comment",
        ),
        pytest.param(
            (),
            {
                "relation": "(SELECT task_id, tokens, FROM_UNIXTIME(charged_at) AS charged_at"
                " FROM ledger)"
            },
            id="a stamp that is computed in the session's zone",
        ),
    ],
)
def test_a_relation_is_a_table_a_view_or_a_select(
    sql: tuple[str, ...], ledger: Row, mariadb_url: str, tmp_path: Path
) -> None:
    """However the ledger is named, it reads the same."""
    stack = plain(tmp_path, tables=typed("double"), url=mariadb_url, stores={"ledger": ledger})
    stack.run_sql(*sql)

    assert_reads(stack.document(30), READS)


def changed(url: str, **parts: Any) -> str:
    """Return a URL with other parts."""
    return make_url(url).set(**parts).render_as_string(hide_password=False)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        pytest.param(
            lambda _: {"relation": "nowhere"},
            "Table 'nowhere' doesn't exist; check relation: in the config",
            id="a table that is not there",
        ),
        pytest.param(
            lambda _: {"relation": "(SELECT nothing FROM ledger)"},
            "Unknown column 'nothing' in 'SELECT'; check the columns in the SELECT of relation:",
            id="a column that its SELECT lacks",
        ),
        pytest.param(
            lambda _: {"relation": "(SELECT * FROM ledger WHERE SLEEP(60))", "timeout": "1s"},
            "the server ended the query; "
            "the query ran past the store's timeout; look for a missing index with check",
            id="a query that hangs",
        ),
        pytest.param(
            lambda _: {"relation": "(SELECT writes() AS task_id, 1 AS tokens, 1 AS charged_at)"},
            "it would write; relation: must not write",
            id="a function that writes",
        ),
        pytest.param(
            lambda url: {"url": changed(url, port=free_port())},
            "nobody answers; check that the server runs, and host and port in the url",
            id="a server that is down",
        ),
        pytest.param(
            lambda url: {"url": guarded(url, password="hunter2-wrong")},  # noqa: S106  (a made-up one)
            "the server refuses the user or the password; check both in the url; "
            "an @ in a password is written %40",
            id="a wrong password",
        ),
        pytest.param(
            lambda url: {"url": changed(url, database="no_such_database")},
            "there is no such database, or the user may not use it; "
            "check the name at the end of the url",
            id="a database that is not there",
        ),
    ],
)
def test_a_ledger_that_can_not_be_read_is_told_with_the_remedy(
    settings: Callable[[str], Row], problem: str, mariadb_url: str, tmp_path: Path
) -> None:
    """The problem holds neither host, user, database nor secret, and nothing is written."""
    stack = plain(tmp_path, tables=typed("double"), url=mariadb_url)
    stack.run_sql(
        "CREATE FUNCTION writes() RETURNS text MODIFIES SQL DATA"
        " BEGIN INSERT INTO ledger (task_id) VALUES ('w'); RETURN 'w'; END"
    )
    stack.configure(stores={"ledger": settings(mariadb_url)})

    evaluation = stack.evaluate(30)

    assert store_problem(evaluation, "ledger") == problem
    assert run(mariadb_url, "SELECT count(*) FROM ledger") == [(2,)]
    running = run(mariadb_url, "SELECT info FROM information_schema.processlist")
    assert not any("SLEEP" in str(row[0]) for row in running if row[0])


@pytest.mark.parametrize("scheme", ["mysql", "mariadb", "mysql+pymysql"])
def test_a_password_and_any_scheme_open_the_store(
    scheme: str, mariadb_url: str, tmp_path: Path
) -> None:
    """Every way of writing the URL means PyMySQL."""
    stack = plain(tmp_path, tables=typed("double"), url=mariadb_url)
    stack.url = guarded(mariadb_url).replace("mysql+pymysql", scheme)
    stack.configure()

    assert_reads(stack.document(30), READS)


def test_the_first_reading_after_a_restart_succeeds(
    mariadb: MariaDB, mariadb_url: str, tmp_path: Path
) -> None:
    """A server that was restarted costs no reading, and no transaction stays open between them."""
    stack = plain(tmp_path, tables=typed("double"), url=mariadb_url)
    config = stack.config
    channels = Channels(config)

    def problems() -> set[str]:
        readings = read_stores(channels, config, instant_of_epoch(ZERO + 30)).readings
        return {health.problem for health in readings.stores.values()}

    assert problems() == {""}
    assert run(mariadb_url, "SELECT count(*) FROM information_schema.innodb_trx") == [(0,)]
    mariadb.stop()
    mariadb.start()
    assert problems() == {""}
    channels.stop()


def test_missing_indexes_are_advised_and_then_found(mariadb_url: str, tmp_path: Path) -> None:
    """Each statement that is advised runs as it stands, long text included."""
    stack = plain(tmp_path, tables=typed("double"), url=mariadb_url)

    advised = _advised(stack)
    assert "CREATE INDEX ledger_task_id ON ledger (task_id(191))" in advised
    run(mariadb_url, *advised)

    assert len(advised) == 6 + 3 + 2 + 1
    assert _advised(stack) == []


def test_the_clock_difference_is_measured(mariadb_url: str, tmp_path: Path) -> None:
    """The server's clock is compared with ours, to well within a second."""
    stack = plain(tmp_path, tables=typed("double"), url=mariadb_url)

    begun = time.time()
    (*skews,) = stack.document(30)["metrics"]["orphan_store_clock_skew_seconds"]

    assert len(skews) == 4
    assert all(abs(skew["value"]) < 0.5 + time.time() - begun for skew in skews)


def _advised(stack: StackFile) -> list[str]:
    sign = "an index is missing; "
    found = [finding.said for finding in run_check(stack.config, instant_of_epoch(ZERO + 30))]
    return [said.removeprefix(sign).rstrip(";") for said in found if said.startswith(sign)]
