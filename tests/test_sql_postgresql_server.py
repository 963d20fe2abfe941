"""PostgreSQL itself: faults with their remedies, limits, read-only, restarts, indexes, clocks."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from database_servers import GUARDED_PASSWORD, GUARDED_USER, PostgreSQL, guarded
from plain_stack import READS, plain
from servers import free_port
from sql_tables import typed
from sqlalchemy import NullPool, create_engine, make_url, text
from stack_file import Row, StackFile, assert_reads, read, store_problem

from orphanwatch.exporter.channel import Channels
from orphanwatch.exporter.check import run_check
from orphanwatch.exporter.config_stores import SqlLedgerStore
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import instant_of_epoch
from orphanwatch.exporter.reading import read_stores
from orphanwatch.exporter.stores.questions import Windows
from orphanwatch.exporter.stores.sql.ledger import SqlLedger

pytestmark = pytest.mark.servers

DOUBLE = "double precision"
QUICK: dict[str, Row | None] = {
    store: {"timeout": "300ms"} for store in ("gateway", "leases", "ledger", "queue")
}


def changed(url: str, **parts: Any) -> str:
    """Return a URL with other parts."""
    return make_url(url).set(**parts).render_as_string(hide_password=False)


def run(url: str, *statements: str) -> list[Any]:
    """Run statements, each committed at once, and return the rows of the last one."""
    engine = create_engine(url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    rows: list[Any] = []
    with engine.connect() as server:
        for statement in statements:
            result = server.execute(text(statement))
            rows = list(result) if result.returns_rows else []
    return rows


@pytest.mark.parametrize(
    ("ledger", "problem"),
    [
        pytest.param(
            {"relation": "nowhere"},
            'relation "nowhere" does not exist; '
            "check relation: in the config; a name with capitals is written as it is",
            id="a table that is not there",
        ),
        pytest.param(
            {"relation": "nowhere.ledger"},
            'relation "nowhere.ledger" does not exist; '
            "check relation: in the config; a name with capitals is written as it is",
            id="a schema that is not there",
        ),
        pytest.param(
            {"relation": 'ledger"; DROP TABLE ledger; --'},
            'relation "ledger"; DROP TABLE ledger; --" does not exist; '
            "check relation: in the config; a name with capitals is written as it is",
            id="SQL in the place of a name",
        ),
        pytest.param(
            {"relation": "(SELECT task_id, tokens AS n FROM ledger)"},
            "its relation has no column 'tokens' (for tokens); it has task_id, n; "
            "map the name under columns:",
            id="a required column that is not there",
        ),
        pytest.param(
            {"relation": "(SELECT nothing FROM ledger)"},
            'column "nothing" does not exist; check the columns in the SELECT of relation:',
            id="a column that its SELECT lacks",
        ),
        pytest.param(
            {"relation": "(SELECT FROM WHERE)"},
            'syntax error at or near "WHERE"; check the SELECT of relation:',
            id="a SELECT that is none",
        ),
        pytest.param(
            {"relation": "SELECT * FROM ledger"},
            'relation "SELECT * FROM ledger" does not exist; '
            "put the SELECT of relation: into parentheses",
            id="a SELECT without parentheses",
        ),
        pytest.param(
            {"relation": "(SELECT 1) AS a; DROP TABLE ledger; SELECT * FROM (SELECT 2)"},
            "cannot insert multiple commands into a prepared statement; "
            "check the SELECT of relation:",
            id="more statements than one",
        ),
        pytest.param(
            {"relation": "(WITH gone AS (DELETE FROM ledger RETURNING *) SELECT * FROM gone)"},
            "WITH clause containing a data-modifying statement must be at the top level; "
            "check the store",
            id="a statement that writes",
        ),
        pytest.param(
            {"relation": "(SELECT writes() AS task_id, 1 AS tokens, 1800000020 AS charged_at)"},
            "cannot execute INSERT in a read-only transaction; relation: must not write",
            id="a function that writes",
        ),
        pytest.param(
            {"relation": "(SELECT *, 1 / (tokens - tokens) AS n FROM ledger WHERE tokens / 0 > 1)"},
            "division by zero; check the store",
            id="a SELECT that fails at a row",
        ),
        pytest.param(
            {"relation": "secret"},
            "permission denied for table secret; let the user read it: "
            "GRANT SELECT on what relation: reads, USAGE on its schema",
            id="a table that the user may not read",
        ),
    ],
)  # fmt: skip
def test_a_relation_that_can_not_be_read_costs_its_store_alone(
    ledger: Row, problem: str, postgresql_url: str, tmp_path: Path
) -> None:
    """The problem names what is wrong and the remedy; the other arm goes on, nothing is written."""
    stack = plain(tmp_path, tables=typed(DOUBLE), url=postgresql_url)
    stack.run_sql(
        "CREATE FUNCTION writes() RETURNS text LANGUAGE sql VOLATILE"
        " AS 'INSERT INTO ledger (task_id) VALUES (''w'') RETURNING task_id'",
        "CREATE TABLE secret AS TABLE ledger",
        "DROP ROLE IF EXISTS modest",
        "CREATE ROLE modest LOGIN",
        "GRANT SELECT ON tasks, leases, ledger, queue TO modest",
        "GRANT INSERT ON ledger TO modest",
    )
    stack.url = changed(postgresql_url, username="modest")
    stack.configure(stores={"ledger": ledger})

    evaluation = stack.evaluate(30)

    stack.url = postgresql_url
    assert store_problem(evaluation, "ledger") == problem
    assert run(postgresql_url, "SELECT count(*) FROM ledger") == [(2,)]
    stack.run_sql("DROP OWNED BY modest", "DROP ROLE modest")


DOWN = (
    "nobody answers: connection refused; check that the server runs, and host and port in the url"
)
FAULTS: list[Any] = [
    pytest.param(
        lambda url: changed(url, port=free_port()),
        DOWN,
        id="a server that is down",
    ),
    pytest.param(
        lambda url: guarded(url, password="hunter2-wrong"),  # noqa: S106  (a made-up one)
        "the server refuses the user or the password; check both in the url; "
            "an @ in a password is written %40",
        id="a wrong password",
    ),
    pytest.param(
        lambda url: changed(url, username="who_is_this"),
        "the server does not know the user; check the user in the url",
        id="a user that is not known",
    ),
    pytest.param(
        lambda url: changed(url, database="no_such_database"),
        "there is no such database; check the name at the end of the url",
        id="a database that is not there",
    ),
    pytest.param(
        lambda url: changed(url, host="no-such-host.invalid"),
        "the name of its host is not known; check the host in the url; "
            "an @ in a password is written %40",
        id="a host that is not known",
    ),
    pytest.param(
        lambda url: url + "?nonsense=1",
        "an option of the url is not known; check what follows the ? in the url",
        id="an option that is not known",
    ),
    pytest.param(
        lambda url: url + "?sslmode=require",
        "encryption could not be agreed upon; check sslmode in the url",
        id="encryption that the server lacks",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("spoil", "problem"), FAULTS)
def test_a_server_that_can_not_be_reached_is_told_without_its_address(
    spoil: Callable[[str], str], problem: str, postgresql_url: str, tmp_path: Path
) -> None:
    """What is said holds the reason and the remedy, and neither host, user, database nor secret."""
    url = spoil(postgresql_url)
    stack = plain(tmp_path, tables=typed(DOUBLE), url=postgresql_url)
    stack.configure(stores={"ledger": {"url": url}})

    evaluation = stack.evaluate(30)

    said = store_problem(evaluation, "ledger")
    assert said == problem
    parts = make_url(url)
    for secret in (parts.host, parts.username, parts.database, parts.password, str(parts.port)):
        assert not secret or str(secret) not in said


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_a_password_and_any_scheme_open_the_store(
    scheme: str, postgresql_url: str, tmp_path: Path
) -> None:
    """Every way of writing the URL means psycopg 3, passwords of odd characters included."""
    stack = plain(tmp_path, tables=typed(DOUBLE), url=postgresql_url)
    assert GUARDED_USER in guarded(postgresql_url)
    assert GUARDED_PASSWORD not in guarded(postgresql_url)  # it is quoted
    stack.url = guarded(postgresql_url).replace("postgresql+psycopg", scheme)
    stack.configure()

    assert_reads(stack.document(30), READS)


def test_a_driver_that_is_missing_is_named(tmp_path: Path) -> None:
    """Without psycopg the store says what to install, and SQLite needs nothing of it."""
    stack = plain(tmp_path)
    stack.configure(stores={"ledger": {"url": "postgresql://me:secret@db/stack"}})
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from orphanwatch.exporter.cli import main\n"
        f"sys.argv = ['orphanwatch', 'snapshot', '--config.file', {str(stack.config_file)!r}]\n"
        "main()"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert "the driver for PostgreSQL is not installed; " in done.stderr
    assert "pip install 'orphanwatch[postgres]'" in done.stderr
    assert "secret" not in done.stderr

    stack.configure()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "orphan_store_up" in done.stdout


# What is asked of the server


@pytest.fixture
def windows(postgresql_url: str, tmp_path: Path) -> Windows:
    """Return the windows of a reading of the plain stack, which is there then."""
    stack = plain(tmp_path, tables=typed(DOUBLE), url=postgresql_url)
    return Windows.ending(instant_of_epoch(1_800_000_030), stack.config)


@pytest.fixture
def reader(postgresql_url: str, windows: Windows) -> Iterator[SqlLedger]:
    """Return the reader of a ledger while it is open."""
    settings = {"type": "sql", "url": postgresql_url, "shape": "increments"}
    reader = SqlLedger(SqlLedgerStore.model_validate(settings))
    reader.open(windows)
    yield reader
    reader.close()


def test_a_reading_is_one_transaction_that_only_reads(reader: SqlLedger) -> None:
    """It sees one state, is bounded in time, can't write, and leaves nothing in the session."""
    asked = (
        "transaction_read_only", "transaction_isolation", "statement_timeout", "lock_timeout",
        "application_name", "TimeZone", "idle_in_transaction_session_timeout",
    )  # fmt: skip

    def settings() -> dict[str, str]:
        return {
            name: reader.rows(text(f"SELECT current_setting('{name}')"))[0][0] for name in asked
        }

    within = settings()
    connection = reader.connection
    connection.rollback()
    after = {
        name: connection.exec_driver_sql(f"SHOW {name}").scalar()
        for name in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")
    }
    prepared = connection.exec_driver_sql("SELECT count(*) FROM pg_prepared_statements").scalar()

    assert within == {
        "transaction_read_only": "on",
        "transaction_isolation": "repeatable read",
        "statement_timeout": "5s",
        "lock_timeout": "2500ms",
        "application_name": "orphanwatch",
        "TimeZone": "UTC",
        "idle_in_transaction_session_timeout": "5min",
    }
    assert after == dict.fromkeys(after, "0")
    assert prepared == 0


OURS = (
    "SELECT state FROM pg_stat_activity WHERE application_name = 'orphanwatch'"
    " AND datname = current_database()"
)


def test_a_query_that_hangs_is_ended_by_the_server(postgresql_url: str, tmp_path: Path) -> None:
    """After the store's timeout nothing of it goes on running, and the other stores are read."""
    stack = plain(tmp_path, tables=typed(DOUBLE), url=postgresql_url)
    relation = "(SELECT *, pg_sleep(60) FROM ledger)"
    stack.configure(stores={"ledger": {"relation": relation, "timeout": "300ms"}})
    config = stack.config
    channels = Channels(config)
    begun = time.monotonic()

    reading = read_stores(channels, config, instant_of_epoch(1_800_000_030)).readings

    assert time.monotonic() - begun < 5
    states = [row[0] for row in run(postgresql_url, OURS)]
    channels.stop()
    assert reading.stores[SqlLedger.name].problem == (
        "canceling statement due to statement timeout; "
        "the query ran past the store's timeout; look for a missing index with check"
    )
    assert states
    assert set(states) == {"idle"}
    assert reading.gateway is not None


def test_a_lock_is_waited_for_no_longer_than_the_timeout(
    postgresql_url: str, tmp_path: Path
) -> None:
    """A table that a migration holds is told as locked, and read again after."""
    stack = plain(tmp_path, tables=typed(DOUBLE), url=postgresql_url, stores=QUICK)
    with create_engine(postgresql_url, poolclass=NullPool).begin() as migration:
        migration.exec_driver_sql("LOCK TABLE ledger IN ACCESS EXCLUSIVE MODE")
        evaluation = stack.evaluate(30)

    assert store_problem(evaluation, "ledger") == (
        "canceling statement due to lock timeout; another session holds a lock on it; "
        "see pg_locks, or raise the store's timeout"
    )
    assert_reads(stack.document(30), READS)


def test_the_first_reading_after_a_restart_succeeds(
    postgresql: PostgreSQL, postgresql_url: str, tmp_path: Path
) -> None:
    """A server that was restarted, or killed our sessions, costs no reading."""
    stack = plain(tmp_path, tables=typed(DOUBLE), url=postgresql_url)
    config = stack.config
    channels = Channels(config)

    def problems() -> set[str]:
        readings = read_stores(channels, config, instant_of_epoch(1_800_000_030)).readings
        return {health.problem for health in readings.stores.values()}

    assert problems() == {""}
    postgresql.stop()
    down = problems()
    postgresql.start()
    assert problems() == {""}
    run(
        postgresql_url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'orphanwatch'",
    )
    assert problems() == {""}
    channels.stop()

    # The last session may be ended just as it is tried.
    assert down
    assert down <= {DOWN, "the connection was lost; check that the server runs"}


def test_a_connection_that_breaks_within_a_reading_costs_that_reading(
    reader: SqlLedger, windows: Windows, postgresql_url: str
) -> None:
    """What broke is thrown away; the next reading opens anew."""
    run(
        postgresql_url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'orphanwatch'",
    )

    with pytest.raises(StoreError, match="the server is stopping, or someone ended the session"):
        reader.rows(text("SELECT 1"))
    reader.open(windows)
    assert reader.window(windows).spend_tokens == 30


# What check says


def test_missing_indexes_are_advised_and_then_found(postgresql_url: str, tmp_path: Path) -> None:
    """Each statement that is advised runs as it stands, beside writers, and is advised no more."""
    stack = plain(tmp_path, tables=typed(DOUBLE), url=postgresql_url)
    stack.run_sql('ALTER TABLE ledger RENAME TO "My Ledger"')
    stack.configure(stores={"ledger": {"relation": 'public."My Ledger"'}})

    advised = _advised(stack)
    assert (
        'CREATE INDEX CONCURRENTLY "My Ledger_task_id" ON public."My Ledger" (task_id)' in advised
    )
    assert len(advised) == 6 + 3 + 2 + 1
    run(postgresql_url, *advised)

    assert _advised(stack) == []


@pytest.mark.parametrize(
    ("sql", "helps"),
    [
        pytest.param("CREATE INDEX ON ledger (task_id)", True, id="an index"),
        pytest.param("CREATE INDEX ON ledger (task_id, tokens)", True, id="the first of two"),
        pytest.param("CREATE INDEX ON ledger (tokens, task_id)", False, id="the second of two"),
        pytest.param("CREATE UNIQUE INDEX ON ledger (task_id)", True, id="a unique index"),
        pytest.param("ALTER TABLE ledger ADD PRIMARY KEY (task_id)", True, id="a primary key"),
        pytest.param("CREATE INDEX ON ledger (task_id) WHERE tokens > 0", False, id="a part of it"),
        pytest.param("CREATE INDEX ON ledger (lower(task_id))", False, id="an expression"),
        pytest.param("CREATE INDEX ON ledger USING brin (task_id)", False, id="no B-tree"),
        pytest.param(
            "CREATE INDEX broken ON ledger (task_id);"
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'broken'::regclass",
            False,
            id="one that was not built to the end",
        ),
    ],
)  # fmt: skip
def test_an_index_counts_where_it_serves_a_look_up(
    sql: str,
    helps: bool,  # noqa: FBT001  (a column of the table)
    postgresql_url: str,
    tmp_path: Path,
) -> None:
    """Only a whole, valid B-tree that starts with the column promises anything."""
    stack = plain(tmp_path, tables=typed(DOUBLE), url=postgresql_url)
    run(postgresql_url, *sql.split(";"))

    assert (
        "CREATE INDEX CONCURRENTLY ledger_task_id ON ledger (task_id)" in _advised(stack)
    ) != helps


def test_a_partitioned_table_is_advised_what_it_can_do(postgresql_url: str, tmp_path: Path) -> None:
    """PostgreSQL builds no index of a partitioned table beside writers."""
    stack = StackFile(tmp_path, tables=typed(DOUBLE), url=postgresql_url)
    stack.run_sql(
        "DROP TABLE ledger",
        "CREATE TABLE ledger (task_id text, tokens bigint, charged_at timestamptz)"
        " PARTITION BY RANGE (charged_at)",
    )

    assert "CREATE INDEX ledger_task_id ON ledger (task_id)" in _advised(stack)


MANY = "generate_series(1, 30000) n"


def rows_scanned(url: str) -> dict[str, int]:
    """Return how many rows were read one after the other, by table.

    A session reports what it read some time after it did: the numbers count once they stand still.
    """
    asked = "SELECT relname, seq_tup_read FROM pg_stat_user_tables WHERE relname <> 'queue'"
    told: list[dict[str, int]] = []
    while len(told) < _STILL or any(each != told[-1] for each in told[-_STILL:]):
        told.append(dict(map(tuple, run(url, asked))))
        time.sleep(0.25)
    return told[-1]


_STILL = 4


@pytest.mark.parametrize("declared", ["timestamptz", DOUBLE, "bigint", "numeric"])
@pytest.mark.parametrize("shape", ["increments", "cumulative", "final"])
def test_a_look_up_is_served_by_its_index(
    shape: str, declared: str, postgresql_url: str, tmp_path: Path
) -> None:
    """With the advised indexes no refresh reads a large table from one end to the other."""
    tables = typed(DOUBLE, declared, ledger__task_id="bigint", tasks__task_id="varchar(40)")
    stamp = {"timestamptz": "to_timestamp({})"}.get(declared, "({})")
    stack = StackFile(
        tmp_path, tables=tables, url=postgresql_url, stores={"ledger": {"shape": shape}}
    )
    begun = stamp.format("1800000000 - n * 2 + {}")
    run(
        postgresql_url,
        f"INSERT INTO tasks (task_id, retry_id, pool, submitted_at, deadline_at, cancelled_at,"  # noqa: S608  (values of ours)
        f" finished_at) SELECT n, 'r' || n, 'overflow', {begun.format(0)}, {begun.format(9)},"
        f" CASE WHEN n % 50 = 0 THEN {begun.format(1)} END, {begun.format(2)} FROM {MANY}",
        f"INSERT INTO ledger (task_id, tokens, charged_at, started_at)"  # noqa: S608  (values of ours)
        f" SELECT nullif(n / 2, 5), 1, {begun.format(1)}, {begun.format(0)} FROM {MANY}",
        f"INSERT INTO leases (task_id, worker_id, acquired_at, heartbeat_at, released_at)"  # noqa: S608  (values of ours)
        f" SELECT n, 'w', {begun.format(0)}, {begun.format(1)}, {begun.format(2)} FROM {MANY}",
    )
    run(postgresql_url, *_advised(stack), "VACUUM ANALYZE")
    before = rows_scanned(postgresql_url)

    document = stack.document(30)

    assert read(document, "orphan_store_up") == 4
    after = rows_scanned(postgresql_url)
    few = {table: after[table] - before[table] for table in after}
    assert max(few.values()) <= 1000, few


def test_the_clock_difference_is_measured(reader: SqlLedger) -> None:
    """The server's clock as it stands is compared with ours, to well within a second."""
    skew = reader.clock_skew_seconds()

    assert skew is not None
    assert abs(skew) < 0.5


def _advised(stack: StackFile) -> list[str]:
    sign = "an index is missing; "
    found = [finding.said for finding in run_check(stack.config, instant_of_epoch(1_800_000_030))]
    return [said.removeprefix(sign).rstrip(";") for said in found if said.startswith(sign)]
