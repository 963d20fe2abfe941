"""Ids that are held as bytes: two of them are never taken for one, nor a store for calm."""

from pathlib import Path
from typing import Any

import pytest
from sql_tables import typed
from stack_file import StackFile, assert_reads, charge, lease, store_problem, task

ABANDONED, HEALTHY = "a0112233445566778899aabbccddeeff", "b0112233445566778899aabbccddeeff"
TABLES = {"gateway": "tasks", "leases": "leases", "ledger": "ledger"}
PLACES = [
    *((store, "task_id") for store in TABLES),
    ("gateway", "retry_id"),
    ("gateway", "pool"),
    ("leases", "worker_id"),
    ("leases", "pool"),
    ("ledger", "entry_id"),
]
NUMBERS: dict[str, float | str | None] = {
    "orphan_token_delta": 500,
    "orphan_leases": 0,
    "orphan_live_leases": 1,
    "orphan_unmatched_tokens": 0,
    "action": "shed",
}
"""What the stack of two tasks says, read through hexadecimal digits."""


def two_tasks(
    folder: Path, write: str, tables: dict[str, str], url: str | None = None
) -> StackFile:
    """Return a stack of a task that was abandoned and charged, and one at work, ids as bytes."""
    stack = StackFile(folder, tables=tables, url=url)
    abandoned, healthy = (write.format(each) for each in (ABANDONED, HEALTHY))
    stack.run_sql(
        "INSERT INTO tasks (task_id, submitted_at, cancelled_at) VALUES"  # noqa: S608  (values of ours)
        f" ({abandoned}, 1800000000, 1800000003), ({healthy}, 1800000000, NULL)",
        "INSERT INTO ledger (task_id, tokens, charged_at) VALUES"  # noqa: S608  (likewise)
        f" ({abandoned}, 500, 1800000020)",
        "INSERT INTO leases (task_id, worker_id, acquired_at, heartbeat_at) VALUES"  # noqa: S608  (likewise)
        f" ({healthy}, 'w', 1800000000, 1800000030)",
    )
    return stack


def assert_refused_until_selected(stack: StackFile, remedy: str, digits: str) -> None:
    """Look at the stack as it is, and through the SELECTs that the problem asks for."""
    evaluation = stack.evaluate(30)
    for store in TABLES:
        assert store_problem(evaluation, store) == (
            f"task_id is binary, and bytes are no id; select {remedy} AS task_id "
            "through a parenthesised SELECT in relation:"
        )
    assert evaluation.verdict.action == "blind"

    others = {
        "gateway": "submitted_at, cancelled_at",
        "leases": "worker_id, acquired_at, heartbeat_at",
        "ledger": "tokens, charged_at",
    }
    stack.configure(
        stores={
            store: {"relation": f"(SELECT {digits} AS task_id, {others[store]} FROM {table})"}  # noqa: S608  (names of ours)
            for store, table in TABLES.items()
        }
    )

    document = stack.document(30)

    assert_reads(document, NUMBERS)
    assert [orphan["task_id"].lower() for orphan in document["orphans"]] == [ABANDONED]


@pytest.mark.servers
@pytest.mark.parametrize("kind", ["binary(16)", "varbinary(16)", "blob"])
def test_mariadb_refuses_bytes_and_reads_their_digits(
    kind: str, mariadb_url: str, tmp_path: Path
) -> None:
    """Converted to text, bytes that differ would all become the same question marks."""
    columns = {f"{table}__task_id": kind for table in TABLES.values()}
    stack = two_tasks(tmp_path, "x'{}'", typed("double", **columns), mariadb_url)

    assert_refused_until_selected(
        stack, "HEX(task_id), or BIN_TO_UUID(task_id),", digits="HEX(task_id)"
    )


@pytest.mark.servers
def test_postgresql_refuses_bytes_and_reads_their_digits(
    postgresql_url: str, tmp_path: Path
) -> None:
    """As no id they would all be unknown, and the verdict calm."""
    columns = {f"{table}__task_id": "bytea" for table in TABLES.values()}
    stack = two_tasks(tmp_path, r"'\x{}'", typed("double precision", **columns), postgresql_url)

    digits = "encode(task_id, 'hex')"
    assert_refused_until_selected(stack, digits, digits)


@pytest.mark.parametrize("kind", ["BLOB", "TEXT", ""], ids=["blob", "text", "undeclared"])
def test_sqlite_refuses_bytes_and_reads_their_digits(kind: str, tmp_path: Path) -> None:
    """Whatever a column is declared as, its cells are what they are."""
    tables = {
        name: columns.replace("task_id TEXT", f"task_id {kind}")
        for name, columns in typed("REAL").items()
    }

    assert_refused_until_selected(
        two_tasks(tmp_path, "x'{}'", tables), "hex(task_id)", digits="hex(task_id)"
    )


@pytest.mark.servers
@pytest.mark.parametrize(("store", "column"), PLACES, ids=[" ".join(place) for place in PLACES])
@pytest.mark.parametrize(
    ("server", "kind", "number"),
    [("mariadb_url", "varbinary(20)", "double"), ("postgresql_url", "bytea", "double precision")],
)
def test_every_id_of_bytes_costs_its_store(  # noqa: PLR0917  (one table test)
    store: str,
    column: str,
    server: str,
    kind: str,
    number: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    """A request, a worker, a pool or an entry that is unknown would be told as none at all."""
    tables = typed(number, **{f"{TABLES[store]}__{column}": kind})
    stack = StackFile(tmp_path, tables=tables, url=request.getfixturevalue(server))

    problem = store_problem(stack.evaluate(30), store)

    assert problem.startswith(f"{column} is binary, and bytes are no id; select ")


@pytest.mark.parametrize(("store", "column"), PLACES, ids=[" ".join(place) for place in PLACES])
def test_every_id_of_bytes_costs_its_store_on_sqlite(
    store: str, column: str, tmp_path: Path
) -> None:
    """Cells that are null say nothing either way."""
    stack = StackFile(tmp_path)
    table = TABLES[store]
    stack.run_sql(f"INSERT INTO {table} ({column}) VALUES (NULL), (x'01'), (x'02')")  # noqa: S608  (names of ours)

    problem = store_problem(stack.evaluate(30), store)

    assert problem.startswith(f"{column} is binary, and bytes are no id; select hex({column})")


def test_a_mapped_column_is_told_by_both_names(tmp_path: Path) -> None:
    """The column is named as it stands in the table, beside what it was mapped to."""
    stack = StackFile(tmp_path, stores={"ledger": {"columns": {"task_id": "entry_id"}}})
    stack.run_sql("INSERT INTO ledger (entry_id) VALUES (x'01')")

    assert store_problem(stack.evaluate(30), "ledger") == (
        "entry_id (for task_id) is binary, and bytes are no id; select hex(entry_id) AS task_id "
        "through a parenthesised SELECT in relation:"
    )


@pytest.mark.parametrize("bytes_first", [True, False], ids=["bytes first", "bytes last"])
def test_a_few_bytes_among_ids_cost_no_store_of_sqlite(bytes_first: bool, tmp_path: Path) -> None:  # noqa: FBT001  (a table test)
    """However many rows of bytes the table begins with, one readable id keeps it in sight."""
    stack = StackFile(tmp_path)
    many = (
        "INSERT INTO ledger (task_id, tokens, charged_at)"
        " WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100)"
        " SELECT CAST(i AS BLOB), 1, 1800000000 FROM n"
    )
    stack.add("tasks", task("x", cancelled_at=3))
    stack.run_sql(*([many] if bytes_first else []))
    stack.add("ledger", charge("x", 10, 20))
    stack.run_sql(*([] if bytes_first else [many]))

    assert_reads(stack.document(30), {"orphan_token_delta": 10, "orphan_store_up": 4})


MARIADB_KINDS: dict[str, tuple[str, Any]] = {
    "bigint": ("bigint", 7),
    "unsigned": ("int unsigned", 7),
    "tinyint": ("tinyint", 7),
    "decimal": ("decimal(20)", 7),
    "bit": ("bit(8)", 7),
    "uuid": ("uuid", "6f2c1d9e-0000-4000-8000-00000000abcd"),
    "inet6": ("inet6", "2001:db8::1"),
    "enum": ("enum('a', 'b')", "a"),
    "json": ("json", '"a"'),
    "binary collation": ("varchar(40) COLLATE utf8mb4_bin", "a"),
    "latin": ("varchar(40) CHARACTER SET latin1", "a"),
}


@pytest.mark.servers
@pytest.mark.parametrize(("kind", "written"), MARIADB_KINDS.values(), ids=MARIADB_KINDS)
def test_mariadb_still_reads_ids_of_every_other_type(
    kind: str, written: object, mariadb_url: str, tmp_path: Path
) -> None:
    """Numbers say "binary" of themselves as well, and are ids all the same."""
    columns = {f"{table}__task_id": kind for table in TABLES.values()}
    stack = StackFile(tmp_path, tables=typed("double", **columns), url=mariadb_url)
    stack.add("tasks", task(written, cancelled_at=3))
    stack.add("leases", lease(written, heartbeat_at=30))
    stack.add("ledger", charge(written, 10, 20))

    assert_reads(
        stack.document(30),
        {"orphan_token_delta": 10, "orphan_leases": 1, "orphan_unmatched_tokens": 0},
    )
