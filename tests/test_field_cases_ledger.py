"""Field cases C: what a ledger may look like, and what it proves. Grace is 5 s."""

from pathlib import Path

import pytest
from stack_file import (
    Row,
    StackFile,
    Story,
    assert_reads,
    assert_story,
    charge,
    lease,
    read,
    rejections,
    task,
)

GRACE: Row = {"grace_seconds": 5}
CANCELLED = (task("x", cancelled_at=3),)
GROWING = (charge("x", 1, 1), charge("x", 40, 4), charge("x", 89, 12))
REJECTED = "orphan_rows_rejected_total store=ledger reason"

SAME_ENTRY_TWICE = Story(
    settings=GRACE,
    tasks=CANCELLED,
    ledger=(
        charge("x", 400, 20, entry_id="e1"),
        charge("x", 400, 20, entry_id="e1"),
        charge("x", 5, 21, entry_id=""),
        charge("x", 5, 21, entry_id=""),
    ),
    looks={
        30: {
            # Rows without an entry id are never taken for one another.
            "orphan_token_delta": 410,
            "orphan_spend_tokens_per_second": 410 / 60,
            f"{REJECTED}=duplicate_entry_id": 1,
        }
    },
)

TWO_ENTRIES = Story(
    settings=GRACE,
    tasks=CANCELLED,
    ledger=(
        charge("x", 400, 20.0, entry_id="e1"),
        charge("x", 400, 20.012, entry_id="e2"),
    ),
    looks={30: {"orphan_token_delta": 800, f"{REJECTED}=duplicate_entry_id": 0}},
)

CUMULATIVE = Story(
    settings=GRACE,
    stores={"ledger": {"shape": "cumulative"}},
    tasks=CANCELLED,
    ledger=GROWING,
    looks={
        # 89 less the last total at or before the cutoff of +8.
        13: {
            "orphan_token_delta": 49,
            "orphan_tokens_total": 49,
            "orphan_spend_tokens_per_second": 89 / 60,
            f"{REJECTED}=regression": 0,
        }
    },
)

INCREMENTS = Story(
    settings=GRACE,
    tasks=CANCELLED,
    ledger=GROWING,
    looks={
        13: {
            "orphan_token_delta": 89,
            "orphan_tokens_total": 89,
            "orphan_spend_tokens_per_second": 130 / 60,
        }
    },
)

STEP_BACK = Story(
    settings=GRACE,
    stores={"ledger": {"shape": "cumulative"}},
    tasks=CANCELLED,
    ledger=(*GROWING, charge("x", 50, 13), charge("x", 90, 14)),
    looks={
        15: {
            "orphan_token_delta": 50,
            "orphan_tokens_total": 50,
            f"{REJECTED}=regression": 1,
        }
    },
)

ADJUSTMENT = Story(
    settings=GRACE,
    tasks=CANCELLED,
    ledger=(charge("x", 100, 20), charge("x", -40, 21)),
    looks={
        30: {
            "orphan_token_delta": 100,
            "orphan_spend_tokens_per_second": 100 / 60,
            f"{REJECTED}=adjustment": 1,
        }
    },
)


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(SAME_ENTRY_TWICE, id="C3a: one entry id twice is one charge"),
        pytest.param(TWO_ENTRIES, id="C3b: two entry ids are two charges, however alike"),
        pytest.param(CUMULATIVE, id="C4: running totals are not added up"),
        pytest.param(INCREMENTS, id="C4: increments are added up though they only grow"),
        pytest.param(STEP_BACK, id="C4: a total that steps back is counted, never negative"),
        pytest.param(ADJUSTMENT, id="a negative row enters no sum and is counted"),
    ],
)
def test_a_ledger_is_read_by_its_declared_shape(story: Story, tmp_path: Path) -> None:
    """The shape is declared and never guessed; odd rows are counted by reason."""
    assert_story(story, tmp_path)


@pytest.mark.parametrize(
    ("tokens", "orphan", "unknown"),
    [
        pytest.param(None, 0, 1, id="null tokens are unknown: nothing is added, and it is said"),
        pytest.param(0, 0, 0, id="a true zero is a zero, and nothing else is said"),
        pytest.param(70, 70, 0, id="an estimate counts"),
    ],
)
def test_unknown_usage_is_not_zero(
    tokens: float | None, orphan: float, unknown: float, tmp_path: Path
) -> None:
    """C8: null, 0 and a number are three different things."""
    stack = StackFile(tmp_path, **GRACE)
    stack.add("tasks", *CANCELLED)
    stack.add("ledger", charge("x", tokens, 20))

    document = stack.document(30)

    assert read(document, "orphan_token_delta") == orphan
    assert rejections(document) == ({"ledger unknown_tokens": 1} if unknown else {})


def test_rows_that_land_late_are_counted_when_they_land(tmp_path: Path) -> None:
    """C6: nothing is seen before they are visible, all of it after, and a pre-cutoff row adds 0."""
    stack = StackFile(tmp_path, stores={"ledger": {"lag": "70s"}}, **GRACE)
    stack.add("tasks", *CANCELLED)
    stack.add("leases", lease("x", acquired_at=0, heartbeat_at=80))

    assert_reads(
        stack.document(30),
        # The ledger is silent and the lease beats: the lease arm alone pages.
        {
            "orphan_token_delta": 0,
            "orphan_tokens_total": 0,
            "orphan_leases": 1,
            "orphan_leases_confirmed": 1,
            "action": "shed",
        },
    )
    stack.add("ledger", charge("x", 10, 6), charge("x", 20, 12), charge("x", 30, 20))
    late = {"orphan_token_delta": 50, "orphan_tokens_total": 50}
    assert_reads(stack.document(75), late)
    stack.add("ledger", charge("x", 1000, 1))
    assert_reads(stack.document(80), late)


def test_without_a_declared_lag_late_rows_still_reach_the_total(tmp_path: Path) -> None:
    """C6: a watched task's total is recomputed: what misses the delta window is not lost."""
    stack = StackFile(tmp_path, **GRACE)
    stack.add("tasks", *CANCELLED)
    stack.add("ledger", charge("x", 10, 6), charge("x", 20, 12), charge("x", 30, 20))

    # The delta window is (+15, +75].
    assert_reads(stack.document(75), {"orphan_token_delta": 30, "orphan_tokens_total": 50})
