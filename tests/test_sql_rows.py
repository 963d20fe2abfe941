"""Rows of SQL stores that can't be read: each costs only itself and is counted once."""

from pathlib import Path

import pytest
from plain_stack import GOOD_ROWS, READS, plain
from stack_file import (
    TABLES,
    ZERO,
    StackFile,
    action,
    assert_reads,
    charge,
    lease,
    read,
    rejections,
    task,
)

BAD_ROWS = [
    # table, canonical column, the cell, and why the row is refused
    ("tasks", "submitted_at", "'soon'", "gateway invalid_instant"),
    ("tasks", "submitted_at", "X'41'", "gateway invalid_instant"),
    ("tasks", "deadline_at", "'soon'", "gateway invalid_instant"),
    ("tasks", "deadline_at", "X'41'", "gateway invalid_instant"),
    ("tasks", "cancelled_at", "'12:30'", "gateway invalid_instant"),
    ("tasks", "cancelled_at", "'0000-00-00 00:00:00'", "gateway invalid_instant"),
    ("tasks", "finished_at", "'NaN'", "gateway invalid_instant"),
    ("tasks", "finished_at", "9e999", "gateway invalid_instant"),
    ("tasks", "attempt", "'first'", "gateway invalid_number"),
    ("tasks", "attempt", "9e999", "gateway invalid_number"),
    ("leases", "acquired_at", "'soon'", "leases invalid_instant"),
    ("leases", "acquired_at", "-9e999", "leases invalid_instant"),
    ("leases", "heartbeat_at", "'soon'", "leases invalid_instant"),
    ("leases", "heartbeat_at", "9e999", "leases invalid_instant"),
    ("leases", "heartbeat_at", "X'41'", "leases invalid_instant"),
    ("leases", "released_at", "'soon'", "leases invalid_instant"),
    ("ledger", "charged_at", "'soon'", "ledger invalid_instant"),
    ("ledger", "charged_at", "X'41'", "ledger invalid_instant"),
    ("ledger", "charged_at", "NULL", "ledger missing_instant"),
    ("ledger", "charged_at", "9e999", "ledger invalid_instant"),
    ("ledger", "tokens", "'many'", "ledger invalid_tokens"),
    ("ledger", "tokens", "X'41'", "ledger invalid_tokens"),
    ("ledger", "tokens", "NULL", "ledger unknown_tokens"),
    ("ledger", "tokens", "-5", "ledger adjustment"),
    ("ledger", "tokens", "9e999", "ledger invalid_tokens"),
    ("queue", "sampled_at", "'soon'", "queue invalid_instant"),
    ("queue", "sampled_at", "X'41'", "queue invalid_instant"),
    ("queue", "depth", "'many'", "queue invalid_number"),
    ("queue", "depth", "9e999", "queue invalid_number"),
    ("queue", "in_flight", "X'41'", "queue invalid_number"),
    ("queue", "admission_cap", "'NaN'", "queue invalid_number"),
]


@pytest.mark.parametrize(
    ("table", "column", "cell", "reason"),
    BAD_ROWS,
    ids=[f"{table}.{column} is {cell}" for table, column, cell, _ in BAD_ROWS],
)
def test_a_row_that_can_not_be_read_costs_only_itself(
    table: str, column: str, cell: str, reason: str, tmp_path: Path
) -> None:
    """It is counted once, under its reason, and everything else is as if it were not there."""
    stack = plain(tmp_path)
    stack.add(table, GOOD_ROWS[table])
    stack.run_sql(
        f"UPDATE {table} SET {column} = {cell}"  # noqa: S608  (names of ours)
        f" WHERE rowid = (SELECT max(rowid) FROM {table})"
    )

    document = stack.document(30)

    assert_reads(document, READS)
    assert rejections(document) == {reason: 1}


BAD_STAMPS = (
    "soon", "2027-02-30T00:00:00Z", "0000-00-00 00:00:00", "2027-01-15T08:00:20+99:00", "9" * 40,
)  # fmt: skip


@pytest.mark.parametrize("stamp", BAD_STAMPS)
@pytest.mark.parametrize(
    ("table", "column", "reason"),
    [
        ("tasks", "cancelled_at", "gateway invalid_instant"),
        ("leases", "heartbeat_at", "leases invalid_instant"),
        ("ledger", "charged_at", "ledger invalid_instant"),
        ("queue", "sampled_at", "queue invalid_instant"),
    ],
)
def test_a_bad_stamp_among_text_stamps_costs_only_its_row(
    table: str, column: str, reason: str, stamp: str, tmp_path: Path
) -> None:
    """In a column of ISO text a stamp that is none is counted, and takes no store down."""
    tables = {name: columns.replace("_at REAL", "_at TEXT") for name, columns in TABLES.items()}
    stack = plain(tmp_path, tables=tables, write=lambda offset: f"2027-01-15T08:00:{offset:05.2f}Z")
    stack.add(table, GOOD_ROWS[table] | {column: stamp})

    document = stack.document(30)

    assert_reads(document, READS)
    assert rejections(document) == {reason: 1}


@pytest.mark.parametrize(
    ("usual", "odd"),
    [
        pytest.param("'2027-01-15T08:00:20Z'", "1800000021", id="a number among ISO text"),
        pytest.param("1800000020", "'2027-01-15T08:00:21Z'", id="ISO text among numbers"),
        pytest.param("1800000020", "'1800000021'", id="a number as text among numbers"),
    ],
)
def test_a_stamp_of_another_form_is_read_or_counted(usual: str, odd: str, tmp_path: Path) -> None:
    """One column holds one form; a cell of another is never dropped in silence."""
    tables = {**TABLES, "ledger": TABLES["ledger"].replace("charged_at REAL", "charged_at")}
    stack = plain(tmp_path, tables=tables)
    stack.run_sql(
        f"UPDATE ledger SET charged_at = {usual}",  # noqa: S608  (values of ours)
        f"INSERT INTO ledger (task_id, tokens, charged_at) VALUES ('h', 600, {odd})",  # noqa: S608  (likewise)
    )

    document = stack.document(30)

    counted = rejections(document).get("ledger invalid_instant", 0)
    spend = read(document, "orphan_spend_tokens_per_second")
    assert (counted, spend) in [(1, 30 / 60), (0, 630 / 60)]


def test_a_final_row_with_a_bad_prompt_is_refused_for_its_number(tmp_path: Path) -> None:
    """Prompt tokens are a number: a row whose are not is no fault of an instant."""
    stack = plain(tmp_path, stores={"ledger": {"shape": "final"}})
    stack.add("ledger", charge("x", 10, 21, started_at=0, prompt_tokens="many"))

    assert "ledger invalid_instant" not in rejections(stack.document(30))


def test_zeros_do_not_decide_the_unit_of_a_column(tmp_path: Path) -> None:
    """A column of milliseconds whose older rows say 0 for "never" is still one of milliseconds."""
    tables = {
        **TABLES,
        "tasks": TABLES["tasks"].replace("cancelled_at REAL", "cancelled_at INTEGER"),
    }
    stack = StackFile(tmp_path, tables=tables)
    stack.add(
        "tasks", *(task(f"old{number}", finished_at=1, cancelled_at=-ZERO) for number in range(60))
    )
    stack.run_sql(
        "INSERT INTO tasks (task_id, pool, submitted_at, cancelled_at)"
        " VALUES ('x', 'overflow', 1800000000, 1800000003000)"
    )
    stack.add("leases", lease("x", heartbeat_at=30))

    assert_reads(
        stack.document(30),
        {"orphan_leases": 1, "orphan_abandoned_tasks": 1, "action": "shed"},
    )


# Numbers and instants that no stack has


@pytest.mark.parametrize("shape", ["increments", "cumulative", "final"])
def test_tokens_beyond_all_bounds_take_no_store_down(shape: str, tmp_path: Path) -> None:
    """The largest integer, twice in a column of integers, is a sum, and not an overflow."""
    tables = {**TABLES, "ledger": TABLES["ledger"].replace("tokens REAL", "tokens INTEGER")}
    stack = plain(tmp_path, tables=tables, stores={"ledger": {"shape": shape}})
    largest = 2**63 - 1
    stack.add(
        "ledger",
        *(charge("h", largest, at, entry_id=f"e{at}") for at in (21, 22)),
        *(charge("h", largest, at, entry_id=f"e{at}") for at in (-100, -101)),
    )

    assert_reads(stack.document(30), {"orphan_store_up": 4, "orphan_leases": 1, "action": "shed"})


@pytest.mark.parametrize("shape", ["increments", "final"])
@pytest.mark.parametrize(
    "offset",
    [
        pytest.param(-ZERO, id="the epoch"),
        pytest.param(-ZERO - 5, id="before the epoch"),
        pytest.param(-62_135_596_800 - ZERO, id="the year 1"),
        pytest.param(253_402_300_799 - ZERO, id="the end of the year 9999"),
        pytest.param(10**9, id="a generation ahead"),
    ],
)
def test_any_instant_can_be_asked_for(offset: float, shape: str, tmp_path: Path) -> None:
    """As of any instant every store is read; long before the stack there is nothing at all."""
    stack = plain(tmp_path, stores={"ledger": {"shape": shape}})

    document = stack.document(offset)

    assert_reads(document, {"orphan_store_up": 4, "orphan_token_delta": 0, "orphan_leases": 0})
    assert action(document) == "scale"


@pytest.mark.parametrize("shape", ["increments", "cumulative", "final"])
def test_rows_of_nothing_but_null_are_no_work(shape: str, tmp_path: Path) -> None:
    """A row without any value changes no number; the ledger's is counted."""
    stack = plain(tmp_path, stores={"ledger": {"shape": shape}})
    whole = stack.document(30)["metrics"]
    for table in TABLES:
        stack.run_sql(f"INSERT INTO {table} DEFAULT VALUES")

    document = stack.document(30)

    assert rejections(document) == {"ledger missing_instant": 1}
    changed = {name for name, samples in document["metrics"].items() if samples != whole[name]}
    assert changed - {"orphan_store_clock_skew_seconds"} == {"orphan_rows_rejected_total"}
