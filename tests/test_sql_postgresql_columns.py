"""Ids, numbers, flags and relations on PostgreSQL, in the types that people give them."""

from pathlib import Path
from typing import Any

import pytest
from plain_stack import GOOD_ROWS, READS, plain
from sql_tables import typed
from sqlalchemy import NullPool, create_engine
from stack_file import Row, StackFile, assert_reads, charge, lease, read, rejections, sample, task

pytestmark = pytest.mark.servers

DOUBLE = "double precision"
UUID = "6f2c1d9e-0000-4000-8000-00000000abcd"
STAMP = "to_timestamp(charged_at)"


def identified(folder: Path, ids: tuple[object, object, object], **settings: Any) -> StackFile:
    """Return the plain stack, its orphan's id written as the gateway, leases and ledger do."""
    stack = StackFile(folder, **settings)
    in_tasks, in_leases, in_ledger = ids
    stack.add("tasks", task(in_tasks, cancelled_at=3))
    stack.add("leases", lease(in_leases, heartbeat_at=30))
    stack.add("ledger", charge(in_ledger, 10, 20), charge(None, 20, 20))
    stack.add("queue", sample(29, depth=1, in_flight=2))
    return stack


JOINED = {
    "orphan_token_delta": 10,
    "orphan_leases": 1,
    "orphan_unmatched_tokens key=unknown": 0,
    "orphan_unmatched_tokens key=empty": 20,
}
APART = {
    "orphan_token_delta": 0,
    "orphan_leases": 0,
    "orphan_unmatched_tokens key=unknown": 10,
}


@pytest.mark.parametrize("shape", ["increments", "cumulative", "final"])
@pytest.mark.parametrize(
    ("kinds", "task_id"),
    [
        pytest.param(("text", "text", "text"), "a", id="text"),
        pytest.param(("varchar(40)", "text", "char(8)"), "a", id="varchar, text and char"),
        pytest.param(("bigint", "text", "numeric"), 7, id="bigint, text and numeric"),
        pytest.param(("integer", "smallint", "bigint"), -7, id="integers of every size"),
        pytest.param(("uuid", "text", "varchar(40)"), UUID, id="a UUID and its text"),
        pytest.param(("text", "uuid", "uuid"), UUID, id="text and UUIDs"),
        pytest.param(("kind", "text", "kind"), "a", id="an enum and its text"),
        pytest.param(("name", "text", "varchar"), "a", id="names"),
    ],
)
def test_an_id_joins_by_its_text(
    kinds: tuple[str, str, str],
    task_id: object,
    shape: str,
    postgresql_url: str,
    tmp_path: Path,
) -> None:
    """Whichever types the stores give one id, it is one id."""
    with create_engine(postgresql_url, poolclass=NullPool).begin() as server:
        server.exec_driver_sql("CREATE TYPE kind AS ENUM ('a', 'b')")
    columns = {
        f"{table}__task_id": kind
        for table, kind in zip(("tasks", "leases", "ledger"), kinds, strict=True)
    }
    texts = [
        str(task_id) if kind in {"text", "varchar", "varchar(40)"} else task_id for kind in kinds
    ]
    stack = identified(
        tmp_path,
        (texts[0], texts[1], texts[2]),
        tables=typed(DOUBLE, **columns),
        url=postgresql_url,
        stores={"ledger": {"shape": shape}},
    )
    if shape == "final":
        stack.run_sql("UPDATE ledger SET started_at = charged_at - 1")

    assert_reads(stack.document(30), JOINED)


@pytest.mark.parametrize(
    ("kind", "task_id", "other"),
    [
        pytest.param("text", "a", "A", id="another case"),
        pytest.param("text", "a", "a ", id="a blank at the end"),
        pytest.param("bigint", 7, "07", id="a leading zero"),
        pytest.param("bigint", 7, " 7", id="a blank before"),
        pytest.param("bigint", 7, "7.0", id="a fraction"),
        pytest.param("bigint", 7, "9" * 30, id="a number that fits no column"),
        pytest.param("bigint", 7, "nine", id="no number"),
        pytest.param("bigint", 7, "\u0667", id="another script's digit"),
        pytest.param("numeric", 7, "NaN", id="not a number"),
        pytest.param("uuid", UUID, UUID.upper(), id="a UUID in capitals"),
        pytest.param("uuid", UUID, UUID.replace("-", ""), id="a UUID without hyphens"),
        pytest.param("uuid", UUID, "no uuid", id="no UUID"),
        pytest.param("kind", "a", "c", id="none of the enum"),
    ],
)
def test_ids_that_only_look_alike_do_not_join(
    kind: str, task_id: object, other: str, postgresql_url: str, tmp_path: Path
) -> None:
    """Ids match exactly; one that a column can't hold is simply not found there."""
    with create_engine(postgresql_url, poolclass=NullPool).begin() as server:
        server.exec_driver_sql("CREATE TYPE kind AS ENUM ('a', 'b')")
    tables = typed(DOUBLE, tasks__task_id=kind)
    stack = identified(tmp_path, (task_id, other, other), tables=tables, url=postgresql_url)

    document = stack.document(30)

    assert_reads(document, APART)
    assert rejections(document) == {}


@pytest.mark.parametrize(
    "task_id",
    [
        "'", '"', "a'b\"c", "\\", "%s", "%(x)s", ":x", "?", "$1", "{}", "{a,b}", "x" * 100_000,
        "é", "e\u0301", "💥", "a\nb", "a\tb", "\ufeffx", " x ", "0", "true", "nullx",
    ],
    ids=lambda text: ascii(text)[:20],
)  # fmt: skip
def test_an_id_is_only_an_id(task_id: str, postgresql_url: str, tmp_path: Path) -> None:
    """Whatever clients choose for an id, it joins what has the same, and means nothing else."""
    tables = typed(DOUBLE)
    stack = identified(tmp_path, (task_id, task_id, task_id), tables=tables, url=postgresql_url)

    document = stack.document(30)

    assert_reads(document, JOINED)
    assert [orphan["task_id"] for orphan in document["orphans"]] == [task_id]


def test_an_id_stands_within_json(postgresql_url: str, tmp_path: Path) -> None:
    """An id out of a path of a JSON document joins, with the text operator and without."""
    stack = StackFile(tmp_path, tables=typed(DOUBLE, ledger__entry_id="jsonb"), url=postgresql_url)
    stack.add("tasks", task("a", cancelled_at=3))
    stack.add("ledger", charge(None, 10, 20, entry_id='{"call": {"id": "a"}, "tokens": "10"}'))
    for path in ("entry_id #>> '{call,id}'", "entry_id -> 'call' -> 'id'"):
        relation = (
            f"(SELECT {path} AS task_id, entry_id ->> 'tokens' AS tokens, charged_at FROM ledger)"  # noqa: S608  (paths of ours)
        )
        stack.configure(stores={"ledger": {"relation": relation}})
        assert_reads(stack.document(30), {"orphan_token_delta": 10})


@pytest.mark.parametrize("kind", ["double precision", "real"])
def test_fractions_are_no_ids(kind: str, postgresql_url: str, tmp_path: Path) -> None:
    """No store could be asked for those: their tokens are seen to be without an id."""
    tables = typed(DOUBLE, ledger__task_id=kind)
    stack = identified(tmp_path, ("7", "7", 7), tables=tables, url=postgresql_url)

    assert_reads(stack.document(30), {"orphan_unmatched_tokens key=empty": 30})


def test_a_database_of_another_encoding_is_asked_for_what_it_can_hold(
    postgresql_url: str, tmp_path: Path
) -> None:
    """A key of characters that a store's encoding lacks is not found there, and ends nothing."""
    database = postgresql_url.rpartition("/")[2] + "_latin1"
    latin = postgresql_url.rpartition("/")[0] + "/" + database
    admin = create_engine(postgresql_url, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with admin.connect() as server:
        server.exec_driver_sql(
            f"CREATE DATABASE {database} ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'"
        )
    try:
        stack = StackFile(tmp_path, tables=typed(DOUBLE), url=postgresql_url)
        StackFile(tmp_path, tables=typed(DOUBLE), url=latin).add("ledger", charge("é", 10, 20))
        stack.add("tasks", task("💥", cancelled_at=3), task("é", cancelled_at=3))
        stack.configure(stores={"ledger": {"url": latin}})
        assert_reads(stack.document(30), {"orphan_token_delta": 10, "orphan_store_up": 4})
    finally:
        with admin.connect() as server:
            server.exec_driver_sql(f"DROP DATABASE {database} WITH (FORCE)")


NUMBERS = ["smallint", "integer", "bigint", "numeric", "numeric(10, 2)", "real", DOUBLE, "text"]


@pytest.mark.parametrize("kind", NUMBERS)
def test_tokens_and_samples_are_numbers_of_any_type(
    kind: str, postgresql_url: str, tmp_path: Path
) -> None:
    """Tokens, prompts, depths and attempts read the same in every type of number."""
    tables = typed(kind, DOUBLE, tasks__attempt=kind)
    stack = StackFile(tmp_path, tables=tables, url=postgresql_url)
    text = str if kind == "text" else float
    stack.add("tasks", task("x", cancelled_at=3, attempt=text(1)), task("h", attempt=text(2)))
    stack.add("leases", lease("x", heartbeat_at=30), lease("h", "w2", heartbeat_at=30))
    stack.add("ledger", charge("x", text(10), 20), charge("h", text(20), 20))
    stack.run_sql(
        "INSERT INTO queue VALUES (1800000029, '1', '0', '2', '8')",
    )

    document = stack.document(30)

    assert_reads(document, READS)
    assert_reads(document, {"orphan_retries_without_retry_id": 1})


@pytest.mark.parametrize(
    ("kind", "cell", "reason"),
    [
        (DOUBLE, "'NaN'", "ledger invalid_tokens"),
        (DOUBLE, "'Infinity'", "ledger invalid_tokens"),
        (DOUBLE, "'-Infinity'", "ledger invalid_tokens"),
        (DOUBLE, "-5", "ledger adjustment"),
        (DOUBLE, "NULL", "ledger unknown_tokens"),
        ("numeric", "'NaN'", "ledger invalid_tokens"),
        ("numeric", "'Infinity'", "ledger invalid_tokens"),
        ("numeric", "1e400", "ledger invalid_tokens"),
        ("bigint", "9223372036854775807", "ledger invalid_tokens"),
        ("text", "'many'", "ledger invalid_tokens"),
        ("text", "'1e999999'", "ledger invalid_tokens"),
        ("text", "''", "ledger unknown_tokens"),
    ],
)
@pytest.mark.parametrize("shape", ["increments", "cumulative", "final"])
def test_tokens_that_are_no_number_cost_only_their_row(  # noqa: PLR0917  (one table test)
    kind: str, cell: str, reason: str, shape: str, postgresql_url: str, tmp_path: Path
) -> None:
    """Such a row is counted once, by its reason, and enters no sum."""
    stack = plain(
        tmp_path,
        tables=typed(DOUBLE, ledger__tokens=kind),
        url=postgresql_url,
        stores={"ledger": {"shape": shape}},
    )
    stack.run_sql(
        "UPDATE ledger SET started_at = charged_at - 1",
        f"INSERT INTO ledger (task_id, tokens, charged_at) VALUES ('h', {cell}, 1800000019)",  # noqa: S608  (values of ours)
    )

    document = stack.document(30)

    assert_reads(document, READS)
    assert rejections(document) == {reason: 1}


@pytest.mark.parametrize(
    ("table", "column", "kind", "cell", "reason"),
    [
        ("tasks", "attempt", "text", "'first'", "gateway invalid_number"),
        ("tasks", "attempt", DOUBLE, "'NaN'", "gateway invalid_number"),
        ("queue", "depth", DOUBLE, "'Infinity'", "queue invalid_number"),
        ("queue", "in_flight", "numeric", "'NaN'", "queue invalid_number"),
        ("queue", "admission_cap", "text", "'many'", "queue invalid_number"),
    ],
)
def test_other_numbers_that_are_none_cost_only_their_row(  # noqa: PLR0917  (one table test)
    table: str, column: str, kind: str, cell: str, reason: str, postgresql_url: str, tmp_path: Path
) -> None:
    """A sample or a task that can't be read is counted, and the next one is taken."""
    stack = plain(tmp_path, tables=typed(DOUBLE), url=postgresql_url)
    stack.run_sql(f"ALTER TABLE {table} ALTER {column} TYPE {kind}")
    stack.add(table, {k: v for k, v in GOOD_ROWS[table].items() if k != column})
    stack.run_sql(
        f"UPDATE {table} SET {column} = {cell} WHERE ctid = (SELECT max(ctid) FROM {table})"  # noqa: S608  (values of ours)
    )

    document = stack.document(30)

    assert_reads(document, READS)
    assert rejections(document) == {reason: 1}


@pytest.mark.parametrize(
    ("kind", "no", "yes"),
    [
        ("boolean", "false", "true"),
        ("smallint", "0", "1"),
        ("numeric", "0", "1"),
        ("text", "'no'", "'yes'"),
        ("char(5)", "'False'", "'True'"),
        ("flag", "'off'", "'on'"),
        ("jsonb", "'false'", "'true'"),
    ],
)
def test_flags_are_of_any_type(
    kind: str, no: str, yes: str, postgresql_url: str, tmp_path: Path
) -> None:
    """What may not be cancelled is no orphan, however the column says so; null may be."""
    with create_engine(postgresql_url, poolclass=NullPool).begin() as server:
        server.exec_driver_sql("CREATE TYPE flag AS ENUM ('on', 'off')")
    stack = StackFile(tmp_path, tables=typed(DOUBLE, tasks__cancellable=kind), url=postgresql_url)
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


def test_an_enum_says_the_outcome(postgresql_url: str, tmp_path: Path) -> None:
    """A sibling that finished with outcome ok stops its task; one that failed does not."""
    with create_engine(postgresql_url, poolclass=NullPool).begin() as server:
        server.exec_driver_sql("CREATE TYPE outcome AS ENUM ('ok', 'error')")
    tables = typed(DOUBLE, tasks__outcome="outcome")
    stack = StackFile(tmp_path, tables=tables, url=postgresql_url)
    for request, outcome in (("r", "ok"), ("s", "error")):
        stack.add("tasks", task(f"{request}1", retry_id=request))
        stack.run_sql(
            "INSERT INTO tasks (task_id, retry_id, pool, submitted_at, finished_at, outcome)"  # noqa: S608  (values of ours)
            f" VALUES ('{request}2', '{request}', 'overflow', 1800000001, 1800000005, '{outcome}')"
        )
        stack.add("ledger", charge(f"{request}1", 10, 20))

    assert_reads(stack.document(30), {"orphan_token_delta": 10})


@pytest.mark.parametrize(
    ("sql", "ledger"),
    [
        pytest.param((), {"relation": "ledger"}, id="a table"),
        pytest.param((), {"relation": "public.ledger"}, id="a table of a schema"),
        pytest.param((), {"relation": '"ledger"'}, id="a name in quotes"),
        pytest.param(
            ('ALTER TABLE ledger RENAME TO "LiteLLM_SpendLogs"',),
            {"relation": "LiteLLM_SpendLogs"},
            id="a name with capitals",
        ),
        pytest.param(
            ('ALTER TABLE ledger RENAME TO "LiteLLM_SpendLogs"',),
            {"relation": '"LiteLLM_SpendLogs"'},
            id="a name with capitals in its quotes",
        ),
        pytest.param(
            ('ALTER TABLE ledger RENAME TO "LiteLLM_SpendLogs"',),
            {"relation": 'public."LiteLLM_SpendLogs"'},
            id="a schema, and a name in its quotes",
        ),
        pytest.param(
            (
                'CREATE SCHEMA "My Schema"',
                'CREATE VIEW "My Schema"."my.""ledger""" AS SELECT * FROM ledger',
            ),
            {"relation": '"My Schema"."my.""ledger"""'},
            id="a dot and quotes within quotes",
        ),
        pytest.param(
            ('CREATE VIEW "order" AS SELECT * FROM ledger',),
            {"relation": "order"},
            id="a reserved word",
        ),
        pytest.param(
            ("CREATE MATERIALIZED VIEW m AS SELECT * FROM ledger",),
            {"relation": "m"},
            id="a materialized view",
        ),
        pytest.param(
            (
                "ALTER TABLE ledger RENAME TO old",
                "CREATE TABLE ledger (LIKE old) PARTITION BY RANGE (charged_at)",
                "CREATE TABLE part PARTITION OF ledger FOR VALUES FROM (0) TO (9e9)",
                "INSERT INTO ledger SELECT * FROM old",
            ),
            {"relation": "ledger"},
            id="a partitioned table",
        ),
        pytest.param(
            (),
            {"relation": "(SELECT * FROM ledger WHERE task_id LIKE '%' AND '%s' <> '%(x)s')"},
            id="percent signs",
        ),
        pytest.param(
            (),
            {
                "relation": "(SELECT task_id::text, tokens::numeric(10, 1), charged_at::float8"
                " FROM ledger WHERE '12:30'::time > '1:0' -- and: so on\n)"
            },
            id="casts with colons and a comment",
        ),
        pytest.param(
            (),
            {"relation": "(SELECT * FROM ledger /* all: of it */);"},
            id="a comment and a semicolon",
        ),
        pytest.param(
            (),
            {"relation": "(SELECT * FROM ledger WHERE '{\"a\": 1}'::jsonb ? 'a')"},
            id="a question mark for an operator",
        ),
        pytest.param(
            (),
            {"relation": f"(SELECT task_id, tokens, {STAMP} AS charged_at FROM ledger)"},  # noqa: S608  (ours)
            id="a stamp that is computed",
        ),
        pytest.param(
            (),
            {"relation": f"(SELECT task_id, tokens, {STAMP}::timestamp AS charged_at FROM ledger)"},  # noqa: S608  (ours)
            id="a stamp without a zone that is computed in the session's",
        ),
    ],
)  # fmt: skip
def test_a_relation_is_a_table_a_view_or_a_select(
    sql: tuple[str, ...], ledger: Row, postgresql_url: str, tmp_path: Path
) -> None:
    """However the ledger is named, it reads the same."""
    stack = plain(tmp_path, tables=typed(DOUBLE), url=postgresql_url, stores={"ledger": ledger})
    stack.run_sql("ALTER DATABASE " + postgresql_url.rpartition("/")[2] + " SET TimeZone = 'EST'")
    stack.run_sql(*sql)

    assert_reads(stack.document(30), READS)


def test_thousands_of_ids_are_asked_for_at_once(postgresql_url: str, tmp_path: Path) -> None:
    """A morning of abandoned tasks is read like one of them."""
    stack = StackFile(tmp_path, tables=typed(DOUBLE), url=postgresql_url)
    stack.run_sql(
        "INSERT INTO tasks (task_id, pool, submitted_at, cancelled_at)"
        " SELECT 't' || n, 'overflow', 1800000000, 1800000003 FROM generate_series(1, 12000) n",
        "INSERT INTO ledger (task_id, tokens, charged_at)"
        " SELECT 't' || n, 1, 1800000020 FROM generate_series(1, 12000) n",
    )

    assert read(stack.document(30), "orphan_token_delta") == 12_000
