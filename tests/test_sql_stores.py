"""SQL stores: relations, columns, and faults of the database."""

import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from plain_stack import READS, plain
from stack_file import (
    ZERO,
    Row,
    StackFile,
    assert_reads,
    charge,
    read,
    store_problem,
)

from orphanwatch.exporter.instants import Instant, instant_of_epoch
from orphanwatch.exporter.refresh import Refresher
from orphanwatch.exporter.state import CounterBook

COLUMNS_OF_OURS = (
    "CREATE VIEW v AS SELECT *, 1 AS cutoff, 2 AS started, 3 AS entry_number, 4 AS step FROM ledger"
)
RESERVED_COLUMNS = (
    'CREATE VIEW v AS SELECT task_id AS "order", tokens AS "select", charged_at AS "from"'
    " FROM ledger"
)
ODD_COLUMNS = (
    'CREATE VIEW v AS SELECT task_id AS "task id", tokens AS "a""b", charged_at AS "c:d%e"'
    " FROM ledger"
)
CHANGED_PLACES = (
    "CREATE VIEW v AS SELECT task_id AS tokens, tokens AS task_id, charged_at FROM ledger"
)


@pytest.mark.parametrize(
    ("sql", "ledger"),
    [
        pytest.param((), {"relation": "ledger"}, id="a table"),
        pytest.param((), {"relation": "LEDGER"}, id="a table in capitals"),
        pytest.param((), {"relation": "main.ledger"}, id="a table of a schema"),
        pytest.param((), {"relation": "(SELECT * FROM ledger)"}, id="a SELECT"),
        pytest.param((), {"relation": "(SELECT * FROM ledger);"}, id="a SELECT and a semicolon"),
        pytest.param((), {"relation": "\n ( select *\n from ledger )\n"}, id="a SELECT on lines"),
        pytest.param(
            (), {"relation": "(SELECT * FROM ledger -- all of it\n)"}, id="a SELECT with a comment"
        ),
        pytest.param(
            (),
            {"relation": "(SELECT * FROM ledger WHERE '12:30' <> ':x' AND task_id <> 'a:b')"},
            id="a SELECT with colons in its literals",
        ),
        pytest.param(
            (),
            {"relation": r"(SELECT * FROM ledger WHERE 'a\:b' <> 'a:b' AND length('a\b') = 3)"},
            id="a SELECT with backslashes",
        ),
        pytest.param(
            (),
            {"relation": "(SELECT * FROM ledger WHERE 'a%sb' LIKE 'a%' AND '?' <> '%(x)s')"},
            id="a SELECT with percent and question marks",
        ),
        pytest.param(
            (),
            {"relation": "(WITH all_rows AS (SELECT * FROM ledger) SELECT * FROM all_rows)"},
            id="a SELECT with a common table expression",
        ),
        pytest.param(
            (),
            {
                "relation": "(SELECT * FROM ledger WHERE tokens > 15"
                " UNION ALL SELECT * FROM ledger WHERE tokens <= 15)"
            },
            id="a union",
        ),
        pytest.param(
            (),
            {"relation": "(SELECT * FROM ledger ORDER BY charged_at DESC LIMIT 9)"},
            id="an ordered SELECT with a limit",
        ),
        pytest.param((), {"relation": "(SELECT *, tokens FROM ledger)"}, id="a column twice"),
        pytest.param(
            ("CREATE VIEW charges AS SELECT * FROM ledger",), {"relation": "charges"}, id="a view"
        ),
        pytest.param(
            ('CREATE VIEW "My Ledger" AS SELECT * FROM ledger',),
            {"relation": "My Ledger"},
            id="a name with capitals and a blank",
        ),
        pytest.param(
            ('CREATE VIEW "order" AS SELECT * FROM ledger',),
            {"relation": "order"},
            id="a reserved word for a name",
        ),
        pytest.param(
            ('CREATE VIEW "my""ledger" AS SELECT * FROM ledger',),
            {"relation": 'my"ledger'},
            id="a name with a quote",
        ),
        pytest.param(
            ('CREATE VIEW "a:b%c" AS SELECT * FROM ledger',),
            {"relation": "a:b%c"},
            id="a name with a colon and a percent sign",
        ),
        pytest.param(
            ("CREATE VIEW rel AS SELECT * FROM ledger",),
            {"relation": "rel"},
            id="a name that the product uses inside",
        ),
        pytest.param(
            (COLUMNS_OF_OURS,),
            {"relation": "v"},
            id="columns that the product uses inside",
        ),
        pytest.param(
            (RESERVED_COLUMNS,),
            {
                "relation": "v",
                "columns": {"task_id": "order", "tokens": "select", "charged_at": "from"},
            },
            id="reserved words for columns",
        ),
        pytest.param(
            (ODD_COLUMNS,),
            {
                "relation": "v",
                "columns": {"task_id": "task id", "tokens": 'a"b', "charged_at": "c:d%e"},
            },
            id="blanks, quotes, colons and percent signs in columns",
        ),
        pytest.param(
            (CHANGED_PLACES,),
            {"relation": "v", "columns": {"task_id": "tokens", "tokens": "task_id"}},
            id="two canonical names that changed places",
        ),
    ],
)
def test_a_relation_is_a_table_a_view_or_a_select(
    sql: tuple[str, ...], ledger: Row, tmp_path: Path
) -> None:
    """However the ledger is named, it reads the same, and nothing in a name is run as SQL."""
    stack = plain(tmp_path, stores={"ledger": ledger})
    stack.run_sql(*sql)

    assert_reads(stack.document(30), READS)


@pytest.mark.parametrize(
    ("ledger", "problem"),
    [
        pytest.param(
            {"relation": "nowhere"},
            "no such table: nowhere; check relation: in the config",
            id="a table that is not there",
        ),
        pytest.param(
            {"relation": "(SELECT task_id, tokens AS n FROM ledger)"},
            "its relation has no column 'tokens' (for tokens); it has task_id, n; "
            "map the name under columns:",
            id="a required column that is not there",
        ),
        pytest.param(
            {"relation": "ledger", "columns": {"entry_id": "row_id"}},
            "its relation has no column 'row_id' (for entry_id); it has task_id, tokens, "
            "charged_at, prompt_tokens, started_at, entry_id; map the name under columns:",
            id="a mapped column that is not there",
        ),
        pytest.param(
            {"relation": "ledger", "columns": {"tokens": "tokens) FROM ledger; DROP TABLE x; --"}},
            "its relation has no column 'tokens) FROM ledger; DROP TABLE x; --' (for tokens); "
            "it has task_id, tokens, charged_at, prompt_tokens, started_at, entry_id; "
            "map the name under columns:",
            id="SQL in the place of a column",
        ),
        pytest.param(
            {"relation": 'ledger"; DROP TABLE ledger; --'},
            'no such table: ledger"; DROP TABLE ledger; --; check relation: in the config',
            id="SQL in the place of a name",
        ),
        pytest.param(
            {"relation": "(SELECT 1); DROP TABLE ledger; (SELECT 2)"},
            "You can only execute one statement at a time.; check the store",
            id="more statements than one",
        ),
        pytest.param(
            {"relation": "(DELETE FROM ledger RETURNING *)"},
            'near "DELETE": syntax error; check the store',
            id="a statement that writes",
        ),
    ],
)
def test_a_relation_that_can_not_be_read_costs_its_store_alone(
    ledger: Row, problem: str, tmp_path: Path
) -> None:
    """The problem names what is wrong and the remedy; the other arm goes on, nothing is written."""
    stack = plain(tmp_path, stores={"ledger": ledger})

    evaluation = stack.evaluate(30)

    assert store_problem(evaluation, "ledger") == problem
    assert_reads(
        stack.document(30),
        {
            "orphan_store_up store=ledger": 0,
            "orphan_store_up": 3,
            "orphan_token_delta": None,
            "orphan_tokens_total": None,
            "orphan_spend_tokens_per_second": None,
            "orphan_unmatched_tokens": None,
            "orphan_leases": 1,
            "orphan_queue_depth": 1,
            "action": "shed",
        },
    )
    with closing(sqlite3.connect(stack.database)) as connection:
        assert connection.execute("SELECT count(*) FROM ledger").fetchone() == (2,)


def test_the_starred_columns_are_enough(tmp_path: Path) -> None:
    """Columns other than the starred ones may be missing: what rests on them is absent or plain."""
    stack = StackFile(
        tmp_path,
        tables={
            "tasks": "task_id TEXT",
            "leases": "task_id TEXT",
            "ledger": "task_id TEXT, tokens REAL, charged_at REAL",
            "queue": "depth REAL",
        },
    )
    stack.add("tasks", {"task_id": "x"})
    stack.add("leases", {"task_id": "x"})
    stack.add("ledger", charge("x", 6, 20), charge("y", 3, 20))
    stack.add("queue", {"depth": 3})

    assert_reads(
        stack.document(30),
        {
            "orphan_store_up": 4,
            "orphan_token_delta": 0,
            "orphan_live_leases pool=other": 1,
            "orphan_spend_tokens_per_second": 0.15,
            "orphan_unmatched_tokens key=unknown": 3,
            "orphan_queue_depth": 3,
            "orphan_attached_tasks": None,
            "orphan_in_flight_gap": None,
            "orphan_deadline_slack_seconds_min": None,
            "action": "scale",
        },
    )


@pytest.mark.parametrize("store", ["gateway", "leases", "ledger", "queue"])
def test_a_store_that_is_not_configured_is_unknown_not_zero(store: str, tmp_path: Path) -> None:
    """Any store may be missing: it is down, what depends on it is absent, and the JSON says so."""
    document = plain(tmp_path, stores={store: None}).document(30)

    depends = {
        "gateway": ("orphan_token_delta", "orphan_leases", "orphan_attached_tasks"),
        "leases": ("orphan_leases", "orphan_live_leases", "orphan_duplicate_in_flight"),
        "ledger": ("orphan_token_delta", "orphan_tokens_total", "orphan_spend_tokens_per_second"),
        "queue": ("orphan_queue_depth", "orphan_in_flight_gap", "orphan_split_signal"),
    }
    assert read(document, f"orphan_store_up store={store}") == 0
    assert {name: read(document, name) for name in depends[store]} == dict.fromkeys(depends[store])
    assert any(note.startswith(f"store {store} is not configured: ") for note in document["notes"])


# The database itself


def _take_away(file: Path) -> None:
    file.unlink()


def _make_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def _cut_off(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:5000])


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        pytest.param(
            _take_away,
            "unable to open database file {file}; "
            "check that the file is where the url says, and readable",
            id="a file that is not there",
        ),
        pytest.param(
            lambda file: file.write_bytes(b""),
            "no such table: {table}; check relation: in the config",
            id="an empty file",
        ),
        pytest.param(
            lambda file: file.write_bytes(b"hello" * 2000),
            "file is not a database; check the store",
            id="a file that is no database",
        ),
        pytest.param(_cut_off, "database disk image is malformed; check the store", id="a torso"),
        pytest.param(_make_folder, "disk I/O error; check the store", id="a folder"),
    ],
)
def test_a_damaged_database_is_blind_with_a_reason(
    damage: Callable[[Path], object], problem: str, tmp_path: Path
) -> None:
    """Every store says what is wrong with it, nothing is made, and the verdict is blind."""
    stack = plain(tmp_path)
    damage(stack.database)
    files = sorted(path.name for path in tmp_path.iterdir())

    evaluation = stack.evaluate(30)

    tables = {"gateway": "tasks", "leases": "leases", "ledger": "ledger", "queue": "queue"}
    for store, table in tables.items():
        assert store_problem(evaluation, store) == problem.format(table=table, file=stack.database)
    assert evaluation.verdict.action == "blind"
    assert sorted(path.name for path in tmp_path.iterdir()) == files


def test_a_file_that_a_uri_names_is_not_made_where_it_is_missing(tmp_path: Path) -> None:
    """It is read only, as by its path; an empty one would tell of a missing table instead."""
    url = f"sqlite:///file:{tmp_path}/gone.db?uri=true"
    evaluation = plain(tmp_path, stores={"gateway": {"url": url}}).evaluate(30)
    problem = store_problem(evaluation, "gateway")
    assert problem.startswith(f"unable to open database file {tmp_path}/gone.db; check")
    assert not (tmp_path / "gone.db").exists()


QUICK: dict[str, Row | None] = {
    store: {"timeout": "300ms"} for store in ("gateway", "leases", "ledger", "queue")
}


def test_a_locked_database_is_told_and_read_again_after(tmp_path: Path) -> None:
    """A writer that holds the file costs the timeout; nothing has to be restarted."""
    stack = plain(tmp_path, stores=QUICK)
    with closing(sqlite3.connect(stack.database, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        locked = stack.evaluate(30)
        writer.execute("ROLLBACK")

    assert store_problem(locked, "ledger") == (
        "database is locked; another process holds it; see which, or raise the store's timeout"
    )
    assert_reads(stack.document(30), READS)


def test_a_writer_in_the_log_hides_nothing_and_is_not_seen(tmp_path: Path) -> None:
    """With write-ahead logging a reader sees the last committed state beside a writer."""
    stack = plain(tmp_path, stores=QUICK)
    with closing(sqlite3.connect(stack.database, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM ledger")
        document = stack.document(30)
        writer.execute("ROLLBACK")

    assert_reads(document, READS)


ENDLESS = "(WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT {} FROM r)"


@pytest.mark.parametrize(
    ("store", "columns", "still"),
    [
        ("gateway", "'x' AS task_id, n AS submitted_at", {"orphan_live_leases": 2}),
        ("leases", "'x' AS task_id, n AS heartbeat_at", {"orphan_token_delta": 10}),
        ("ledger", "'x' AS task_id, sum(n) AS tokens, 1 AS charged_at", {"orphan_leases": 1}),
        ("queue", "n AS depth, n AS sampled_at", {"orphan_token_delta": 10, "orphan_leases": 1}),
    ],
)
def test_a_store_that_hangs_does_not_hide_the_others(
    store: str, columns: str, still: dict[str, float], tmp_path: Path
) -> None:
    """A query that never ends is given up after the store's timeout, and costs that store alone."""
    stack = plain(
        tmp_path, stores={store: {"relation": ENDLESS.format(columns), "timeout": "300ms"}}
    )
    # Stacks of earlier tests may have left theirs, which wait for a question.
    others = set(threading.enumerate())

    evaluation = stack.evaluate(30)

    assert store_problem(evaluation, store) == (
        "interrupted; the query ran past the store's timeout; look for a missing index with check"
    )
    assert_reads(stack.document(30), {"orphan_store_up": 3, **still})
    for thread in set(threading.enumerate()) - others:
        if thread.name == f"store-{store}":
            thread.join(timeout=5)
            assert not thread.is_alive()


def test_sight_comes_back_without_a_restart(tmp_path: Path) -> None:
    """A file that is moved away and back is absent, then read; its age is told meanwhile."""
    stack = plain(tmp_path)
    config = stack.config
    now = [ZERO + 30.0]

    def clock() -> Instant:
        return instant_of_epoch(now[0])

    refresher = Refresher(config, clock, CounterBook.open(None, config, clock()))
    assert refresher.refresh().verdict.action == "shed"
    away = stack.database.rename(tmp_path / "away.db")
    now[0] += 5
    blind = refresher.refresh()
    away.rename(stack.database)
    now[0] += 5
    back = refresher.refresh()
    refresher.stop()

    assert blind.verdict.action == "blind"
    assert {str(name): health.up for name, health in blind.stores.items()} == dict.fromkeys(
        ("gateway", "leases", "ledger", "queue"), False
    )
    assert {health.last_success for health in blind.stores.values()} == {
        instant_of_epoch(ZERO + 30)
    }
    assert back.verdict.action == "shed"
    assert all(health.up for health in back.stores.values())


def test_reading_changes_nothing(tmp_path: Path) -> None:
    """The file is the same to the byte, and no file appears beside it."""
    stack = plain(tmp_path)
    before = stack.database.read_bytes()

    stack.document(30)

    assert stack.database.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["orphanwatch.yml", "stack.db"]


@pytest.mark.parametrize("name", ["my stacks", "ü", "a%20b", "a?b", "a#b", "a+b", "a'b", "a:b@c"])
def test_a_folder_of_any_name_is_found(name: str, tmp_path: Path) -> None:
    """A path is a path: no sign in it has another meaning on the way through the url."""
    folder = tmp_path / name
    folder.mkdir()

    assert_reads(plain(folder).document(30), READS)


def test_a_problem_never_shows_a_password(tmp_path: Path) -> None:
    """What a driver says of a failure names the file, and nothing else that the url says."""
    stack = plain(tmp_path, stores={"ledger": {"url": "sqlite:///gone.db?password=hunter2"}})

    problem = store_problem(stack.evaluate(30), "ledger")

    assert f"database file {tmp_path / 'gone.db'};" in problem
    assert "hunter2" not in problem
