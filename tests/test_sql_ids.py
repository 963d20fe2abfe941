"""Ids in SQL stores: they match exactly as text, whatever they are and however declared."""

from pathlib import Path
from typing import Any

import pytest
from plain_stack import GOOD_ROWS, READS, plain
from stack_file import (
    TABLES,
    StackFile,
    assert_reads,
    charge,
    lease,
    rejections,
    sample,
    task,
)


def identified(folder: Path, task_id: object, other: object, **settings: Any) -> StackFile:
    """Return the plain stack with its orphan under an id, written in another way elsewhere."""
    stack = StackFile(folder, **settings)
    stack.add("tasks", task(task_id, cancelled_at=3), task("h"))
    stack.add("leases", lease(other, heartbeat_at=30), lease("h", "w2", heartbeat_at=30))
    stack.add("ledger", charge(other, 10, 20), charge("h", 20, 20))
    stack.add("queue", sample(29, depth=1, in_flight=2))
    return stack


@pytest.mark.parametrize(
    "task_id",
    [
        "'", '"', "a'b\"c", "\\", "%s", ":x", "?", "$1", "x" * 100_000, "é", "e\u0301", "💥",
        "a\nb", "a\tb", "\ufeffx", "\x1b[31m", " x ", "0", "true", "nullx", "DROP TABLE x",
    ],
    ids=lambda text: ascii(text)[:20],
)  # fmt: skip
def test_an_id_is_only_an_id(task_id: str, tmp_path: Path) -> None:
    """Whatever clients choose for an id, it joins what has the same, and means nothing else."""
    stack = identified(tmp_path, task_id, task_id)

    document = stack.document(30)

    assert_reads(document, READS)
    assert [orphan["task_id"] for orphan in document["orphans"]] == [task_id]


@pytest.mark.parametrize(
    "empty", [None, "", " ", "\t", "None", "null", "NULL", " none ", "a\0b"], ids=repr
)
def test_an_empty_id_joins_nothing(empty: str | None, tmp_path: Path) -> None:
    """No id is no id: its tokens are unmatched, and a cancelled task without one owns no lease."""
    assert_reads(
        identified(tmp_path, empty, empty).document(30),
        {
            "orphan_token_delta": 0,
            "orphan_leases": 0,
            "orphan_live_leases": 2,
            "orphan_unmatched_tokens key=empty": 10,
            "orphan_unmatched_tokens key=unknown": 0,
            "orphan_abandoned_tasks": 1,
            "orphan_duplicate_in_flight": 0,
        },
    )


@pytest.mark.parametrize("declared", ["TEXT", "INTEGER", ""])
@pytest.mark.parametrize("elsewhere", ["TEXT", "INTEGER", ""])
@pytest.mark.parametrize(("task_id", "other"), [(7, 7), (7, "7"), ("7", 7)], ids=repr)
def test_integer_ids_join_text_ids(
    declared: str, elsewhere: str, task_id: object, other: object, tmp_path: Path
) -> None:
    """An id is its text, however a column is declared and whichever way a driver hands it over."""
    tables = {
        **{
            name: TABLES[name].replace("task_id TEXT", f"task_id {elsewhere}")
            for name in ("leases", "ledger")
        },
        "tasks": TABLES["tasks"].replace("task_id TEXT", f"task_id {declared}"),
        "queue": TABLES["queue"],
    }

    assert_reads(identified(tmp_path, task_id, other, tables=tables).document(30), READS)


def test_an_id_computed_by_a_select_joins(tmp_path: Path) -> None:
    """The value of an expression has no declared type, and joins all the same."""
    relation = (
        "(SELECT CAST(substr(task_id, 2) AS INTEGER) AS task_id, tokens, charged_at FROM ledger)"
    )
    stack = StackFile(tmp_path, stores={"ledger": {"relation": relation}})
    stack.add("tasks", task("7", cancelled_at=3))
    stack.add("ledger", charge("t7", 10, 20))

    assert_reads(
        stack.document(30), {"orphan_token_delta": 10, "orphan_unmatched_tokens key=unknown": 0}
    )


@pytest.mark.parametrize("other", ["07", " 7", "7.0"])
def test_ids_that_only_look_alike_do_not_join(other: str, tmp_path: Path) -> None:
    """Ids match exactly as text: a number written in another way is another id."""
    tables = {**TABLES, "tasks": TABLES["tasks"].replace("task_id TEXT", "task_id INTEGER")}

    document = identified(tmp_path, 7, other, tables=tables).document(30)

    assert_reads(
        document,
        {"orphan_token_delta": 0, "orphan_leases": 0, "orphan_unmatched_tokens key=unknown": 10},
    )
    assert rejections(document) == {}


@pytest.mark.parametrize("table", ["tasks", "leases", "ledger"])
@pytest.mark.parametrize("raw", ["X'FF41'", "X'EDA080'"], ids=["a stray byte", "a lone surrogate"])
def test_text_that_is_not_utf_8_costs_no_store(table: str, raw: str, tmp_path: Path) -> None:
    """An id in another encoding is an odd id; it does not take the whole store out of sight."""
    stack = plain(tmp_path)
    stack.add(table, GOOD_ROWS[table] | ({"cancelled_at": 3} if table == "tasks" else {}))
    stack.run_sql(
        f"UPDATE {table} SET task_id = CAST({raw} AS TEXT)"  # noqa: S608  (names of ours)
        f" WHERE rowid = (SELECT max(rowid) FROM {table})"
    )

    assert_reads(
        stack.document(30),
        {"orphan_store_up": 4, "orphan_token_delta": 10, "orphan_leases": 1, "action": "shed"},
    )


@pytest.mark.parametrize("raw", [b"0123456789abcdef", b"", 7.5], ids=repr)
def test_an_id_that_no_store_can_be_asked_for_is_no_id(raw: object, tmp_path: Path) -> None:
    """Bytes and fractions join nothing, and their tokens are seen to be unmatched, not lost."""
    tables = {name: ddl.replace("task_id TEXT", "task_id") for name, ddl in TABLES.items()}

    assert_reads(
        identified(tmp_path, raw, raw, tables=tables).document(30),
        {"orphan_token_delta": 0, "orphan_leases": 0, "orphan_unmatched_tokens key=empty": 10},
    )
