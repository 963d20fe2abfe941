"""``longest_request``: a promise that lets an index on beginnings serve, and changes no number."""

from pathlib import Path

import pytest
from stack_file import Row, StackFile, assert_reads, charge, rejections, task

LONG: Row = {"gateway": {"longest_request": "100s"}, "ledger": {"longest_request": "100s"}}

TASKS = (
    task("ran-on", cancelled_at=10),
    task("late-start", submitted_at=5, cancelled_at=10),
    task("old", submitted_at=-4000, cancelled_at=-3990),
    task("calm", submitted_at=-80, finished_at=20),
    task("never-submitted", submitted_at=None, cancelled_at=12),
)
CHARGES = (
    charge("ran-on", 90, 40, started_at=-50),
    charge("late-start", 30, 45, started_at=20),
    charge("old", 50, 30, started_at=-20),
    charge("calm", 70, 20, started_at=-80),
    charge("calm", None, 25, started_at=10),
    charge("never-submitted", 8, 50, started_at=None),
    charge("unreadable-start", 5, 50, started_at="soon"),
    charge("no-end", 5, None, started_at=10),
)


@pytest.mark.parametrize("shape", ["final", "increments", "cumulative"])
def test_the_promise_changes_no_number(shape: str, tmp_path: Path) -> None:
    """Rows that state no beginning, or one that can't be read, are kept by it as well."""
    stack = StackFile(tmp_path, stores={"ledger": {"shape": shape}})
    stack.add("tasks", *TASKS)
    stack.add("ledger", *CHARGES)
    without = stack.document(60)
    stack.configure(
        stores={**LONG, "ledger": {"shape": shape, **LONG["ledger"]}},
    )
    promised = stack.document(60)
    skew = "orphan_store_clock_skew_seconds"
    for document in (without, promised):
        document["metrics"].pop(skew)
    assert promised == without
    assert rejections(promised)["ledger unknown_tokens"] == 1
    assert rejections(promised)["ledger missing_instant"] == 1


def test_what_breaks_the_promise_is_not_seen(tmp_path: Path) -> None:
    """Why it is a promise: a request of fifty times the length is looked for no more."""
    stack = StackFile(tmp_path, stores={"ledger": {"shape": "final"}})
    stack.add("tasks", task("x", submitted_at=-500, cancelled_at=50))
    stack.add("ledger", charge("x", 120, 59, started_at=-500))
    assert_reads(stack.document(60), {"orphan_spend_tokens_per_second": 2})
    stack.configure(stores={"ledger": {"shape": "final", "longest_request": "10s"}})
    assert_reads(stack.document(60), {"orphan_spend_tokens_per_second": 0})


def test_a_gateways_promise_spans_submission_and_end(tmp_path: Path) -> None:
    """A task that is cancelled within it is found, however old its submission."""
    stack = StackFile(tmp_path, stores={"gateway": {"longest_request": "3h"}})
    stack.add("tasks", task("x", submitted_at=-9000, cancelled_at=50))
    assert_reads(stack.document(60), {"orphan_abandoned_tasks": 1})
