"""Field cases A: a cancel that doesn't stop the work. Grace is 5 s, so a cutoff is the stop + 5."""

from pathlib import Path
from typing import Any

import pytest
from stack_file import (
    ZERO,
    Row,
    StackFile,
    Story,
    assert_reads,
    assert_story,
    charge,
    lease,
    read,
    task,
)

GRACE: Row = {"grace_seconds": 5}


def charges(task_id: str, tokens: float, *instants: float) -> tuple[Row, ...]:
    """Return a ledger row for each instant."""
    return tuple(charge(task_id, tokens, instant) for instant in instants)


DISCONNECTED = Story(
    settings=GRACE,
    tasks=(task("x", cancelled_at=3),),
    leases=(lease("x", heartbeat_at=74, released_at=74.4),),
    ledger=charges("x", 100, 1, 2, 3, 4, 8, 9, 40, 74),
    looks={
        # The cutoff is +8, and nothing lies strictly after it yet.
        8: {
            "orphan_token_delta": 0,
            "orphan_leases": 0,
            "orphan_tokens_total": 0,
            "orphan_abandoned_tasks cause=client_cancel": 1,
            "orphan_cancel_propagation_open": 1,
            "action": "scale",
        },
        30: {
            "orphan_token_delta pool=overflow": 100,
            "orphan_token_delta pool=paid": 0,
            "orphan_leases pool=overflow cause=client_cancel": 1,
            "orphan_leases": 1,
            "orphan_leases_confirmed": 1,
            "orphan_lease_oldest_seconds pool=overflow": 22,
            "orphan_tokens_total": 100,
            "orphan_cancel_propagation_open": 1,
            "orphan_cancel_propagation_seconds_count": 0,
            "action": "shed",
        },
        75: {
            "orphan_token_delta": 200,
            "orphan_leases": 0,
            "orphan_leases_confirmed": 0,
            "orphan_lease_oldest_seconds": 0,
            "orphan_tokens_total pool=overflow cause=client_cancel basis=charged": 300,
            "orphan_tokens_total": 300,
            "orphan_cancel_propagation_open": 0,
            "orphan_cancel_propagation_seconds_count": 1,
            "orphan_cancel_propagation_seconds_sum": 71.4,
            "orphan_cancel_propagation_seconds_bucket pool=overflow le=60.0": 0,
            "orphan_cancel_propagation_seconds_bucket pool=overflow le=120.0": 1,
            "action": "shed",
        },
        # The last sign is 126 s old, less than the hold of 5 m.
        200: {"orphan_token_delta": 0, "orphan_tokens_total": 300, "action": "hold"},
        500: {
            "orphan_token_delta": 0,
            "orphan_tokens_total": 300,
            "orphan_abandoned_tasks": 1,
            "action": "scale",
        },
    },
)

BEFORE_THE_FIRST_TOKEN = Story(
    settings=GRACE,
    tasks=(task("x", cancelled_at=1),),
    leases=(lease("x", heartbeat_at=55),),
    ledger=(charge("x", 131072, 55, prompt_tokens=131072),),
    looks={
        # No token moved: the lease arm alone says it.
        30: {
            "orphan_token_delta": 0,
            "orphan_leases cause=client_cancel": 1,
            "orphan_leases_confirmed": 1,
            "orphan_lease_oldest_seconds pool=overflow": 24,
            "action": "shed",
        },
        55: {"orphan_token_delta": 131072, "orphan_tokens_total": 131072, "action": "shed"},
    },
)

DEADLINE = Story(
    settings=GRACE,
    tasks=(task("x", deadline_at=10),),
    leases=(lease("x", heartbeat_at=60),),
    ledger=charges("x", 50, 12, 20, 60),
    looks={
        60: {
            "orphan_token_delta": 100,
            "orphan_tokens_total cause=deadline": 100,
            "orphan_tokens_total": 100,
            "orphan_leases cause=deadline": 1,
            "orphan_lease_oldest_seconds pool=overflow": 45,
            "orphan_deadline_slack_seconds_min pool=overflow": -50,
            "orphan_shed_due_leases pool=overflow": 1,
            "action": "shed",
        }
    },
)

NO_DEADLINE = Story(
    settings=GRACE,
    tasks=(task("x"),),
    leases=(lease("x", heartbeat_at=60),),
    ledger=charges("x", 50, 12, 20, 60),
    looks={
        60: {
            "orphan_token_delta": 0,
            "orphan_tokens_total": 0,
            "orphan_leases": 0,
            "orphan_abandoned_tasks": 0,
            "orphan_deadline_slack_seconds_min": None,
            "orphan_shed_due_leases": 0,
            "action": "scale",
        }
    },
)

SOFT_DEADLINE = Story(
    settings=GRACE,
    stores={"gateway": {"deadline": "soft"}},
    tasks=(task("x", deadline_at=10),),
    leases=(lease("x", heartbeat_at=60),),
    ledger=charges("x", 50, 12, 20, 60),
    looks={
        60: {
            "orphan_token_delta": 0,
            "orphan_leases": 0,
            "orphan_deadline_slack_seconds_min": -50,
            "action": "scale",
        }
    },
)

WRONG_TARGET = Story(
    settings=GRACE,
    tasks=(task("a"), task("b", submitted_at=1, cancelled_at=10)),
    leases=(lease("a", heartbeat_at=10, released_at=10.05),),
    ledger=charges("a", 20, 5, 9),
    looks={
        30: {
            # b never held a lease: it is abandoned, and has no propagation to measure.
            "orphan_abandoned_tasks": 1,
            "orphan_cancel_propagation_seconds_count": 0,
            "orphan_cancel_propagation_open": 0,
            "orphan_leases": 0,
            "orphan_live_leases": 0,
            "orphan_token_delta": 0,
            "action": "scale",
        }
    },
)

PREFIX = Story(
    settings=GRACE,
    tasks=(task("req-1", cancelled_at=0), task("req-10"), task("req-"), task("REQ-1")),
    leases=tuple(
        lease(name, f"worker-{name}", acquired_at=-1, heartbeat_at=30)
        for name in ("req-1", "req-10", "req-", "REQ-1")
    ),
    ledger=(*charges("req-1", 7, 20), *charges("req-10", 100, 20), *charges("REQ-1", 1000, 20)),
    looks={
        30: {
            "orphan_token_delta": 7,
            "orphan_leases": 1,
            "orphan_live_leases": 4,
            "orphan_abandoned_tasks": 1,
        }
    },
)

REUSED_IN_TWO_ROWS = Story(
    settings=GRACE,
    tasks=(task("x", cancelled_at=5), task("x", submitted_at=6, attempt=2)),
    leases=(lease("x", acquired_at=6, heartbeat_at=20),),
    ledger=charges("x", 20, *range(7, 21)),
    looks={
        21: {
            "orphan_token_delta": 0,
            "orphan_tokens_total": 0,
            "orphan_leases": 0,
            "orphan_abandoned_tasks": 0,
            "orphan_rows_rejected_total store=gateway reason=duplicate_task_id": 1,
        }
    },
)

REUSED_IN_ONE_ROW = Story(
    settings=GRACE,
    tasks=(task("x", submitted_at=6, cancelled_at=5, attempt=2),),
    leases=(lease("x", acquired_at=6, heartbeat_at=20),),
    ledger=charges("x", 20, *range(7, 21)),
    looks={
        21: {
            "orphan_token_delta": 0,
            "orphan_tokens_total": 0,
            "orphan_leases": 0,
            "orphan_abandoned_tasks": 0,
        }
    },
)


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(DISCONNECTED, id="A1: a client leaves and its stream decodes on to the end"),
        pytest.param(BEFORE_THE_FIRST_TOKEN, id="A4: a cancel before the first token shows leases"),
        pytest.param(REUSED_IN_TWO_ROWS, id="A6: a reused id is its newest submission"),
        pytest.param(REUSED_IN_ONE_ROW, id="A6: a cancel before the submission does not bind"),
        pytest.param(WRONG_TARGET, id="A6: a queued task that is cancelled has no propagation"),
        pytest.param(PREFIX, id="A6: ids match exactly, never by prefix or case"),
        pytest.param(DEADLINE, id="A8: a deadline stops a task though nobody says cancel"),
        pytest.param(NO_DEADLINE, id="A8: without a deadline there is no slack"),
        pytest.param(SOFT_DEADLINE, id="A8: a soft deadline stops nothing and still has slack"),
    ],
)
def test_work_past_a_stop_is_seen_and_nothing_else(story: Story, tmp_path: Path) -> None:
    """What goes on strictly past the cutoff of the right task is orphan, and only that."""
    assert_story(story, tmp_path)


def test_the_orphan_is_told_in_full(tmp_path: Path) -> None:
    """A1: the JSON names the task, when it was abandoned, and how far it is past the cutoff."""
    (orphan,) = DISCONNECTED.write(tmp_path).document(30)["orphans"]

    assert orphan == {
        "task_id": "x",
        "retry_id": None,
        "pool": "overflow",
        "worker_id": "w1",
        "cause": "client_cancel",
        "abandoned_at": ZERO + 3.0,
        "cutoff_at": ZERO + 8.0,
        "orphan_tokens": 100.0,
        "lease_live": True,
        "seconds_past_cutoff": 22.0,
    }


def series_count(stack: StackFile, offset: float) -> int:
    """Return how many samples a document holds."""
    return sum(len(samples) for samples in stack.document(offset)["metrics"].values())


def stuck_tasks(folder: Path, count: int) -> StackFile:
    """Return a stack of tasks that were cancelled at zero and whose leases beat until +600."""
    folder.mkdir()
    stack = StackFile(folder, **GRACE)
    names = [f"t{number}" for number in range(count)]
    stack.add("tasks", *(task(name, submitted_at=-20, cancelled_at=0) for name in names))
    stack.add(
        "leases",
        *(lease(name, f"w-{name}", acquired_at=-10, heartbeat_at=600) for name in names),
    )
    return stack


def test_182_aborts_that_stopped_nothing_are_one_number(tmp_path: Path) -> None:
    """A2: an acknowledged abort closes nothing, and 182 orphans need no more series than one."""
    many, one = stuck_tasks(tmp_path / "many", 182), stuck_tasks(tmp_path / "one", 1)

    document = many.document(600)

    assert_reads(
        document,
        {
            "orphan_leases cause=client_cancel": 182,
            "orphan_abandoned_tasks": 182,
            "orphan_cancel_propagation_open": 182,
            "orphan_lease_oldest_seconds pool=overflow": 595,
            "orphan_fail_closed condition=no_cancel_channel": 1,
            "action": "shed",
        },
    )
    assert len(document["orphans"]) == 182
    assert series_count(many, 600) == series_count(one, 600)


def test_three_lost_cancels_among_300_stay_open(tmp_path: Path) -> None:
    """A5: the 3 that never stopped are open, neither dropped nor counted among the fast ones."""
    stack = StackFile(tmp_path, **GRACE)
    names = [f"t{number}" for number in range(300)]
    stack.add("tasks", *(task(name, submitted_at=-20, cancelled_at=0) for name in names))
    stack.add(
        "leases",
        *(lease(name, f"w-{name}", acquired_at=-10, released_at=1) for name in names[3:]),
        *(lease(name, f"w-{name}", acquired_at=-10, heartbeat_at=600) for name in names[:3]),
    )

    assert_reads(
        stack.document(600),
        {
            "orphan_abandoned_tasks": 300,
            "orphan_cancel_propagation_seconds_count pool=overflow": 297,
            "orphan_cancel_propagation_seconds_bucket pool=overflow le=1.0": 297,
            "orphan_cancel_propagation_seconds_bucket pool=overflow le=0.75": 0,
            "orphan_cancel_propagation_seconds_sum": 297,
            "orphan_cancel_propagation_open": 3,
            "orphan_leases": 3,
            "orphan_lease_oldest_seconds pool=overflow": 595,
            # Others let go at their cancel, so there is a channel.
            "orphan_fail_closed condition=no_cancel_channel": 0,
            "action": "shed",
        },
    )


def lump(row: Row, prorated: str = "page", **cells: Any) -> Story:
    """Return the lump row of A7, charged at +40 after a cancel at +1, looked at at +41."""
    return Story(
        settings=GRACE,
        stores={"ledger": {"shape": "final", "prorated": prorated}},
        tasks=(task("x", cancelled_at=1),),
        leases=(lease("x", **{"acquired_at": 0, "heartbeat_at": 40, "released_at": 40} | cells),),
        ledger=(row,),
        looks={},
    )


@pytest.mark.parametrize(
    ("story", "expected"),
    [
        # The cutoff is +6; 34 of 40 seconds lie past it.
        pytest.param(
            lump(charge("x", 13000, 40, started_at=0)),
            {
                "orphan_token_delta": 11050,
                "orphan_tokens_total basis=prorated": 11050,
                "orphan_tokens_total basis=charged": 0,
                "orphan_straddling_tokens_total": 13000,
                "action": "shed",
            },
            id="a row that straddles the cutoff counts by its share and says so",
        ),
        pytest.param(
            lump(charge("x", 13000, 40, started_at=0, prompt_tokens=1000)),
            {
                "orphan_token_delta": 10200,
                "orphan_tokens_total basis=prorated": 10200,
                "orphan_straddling_tokens_total": 13000,
            },
            id="prompt tokens were spent at the start and are not spread",
        ),
        pytest.param(
            lump(charge("x", 13000, 40, started_at=0), "report"),
            {
                "orphan_token_delta": 0,
                "orphan_tokens_total basis=prorated": 11050,
                "orphan_straddling_tokens_total": 13000,
                # Its lease was alive past the cutoff until a second ago.
                "action": "hold",
            },
            id="a stack that drains on purpose keeps them out of the page",
        ),
        pytest.param(
            lump(charge("x", 13000, 40, started_at=7)),
            {
                "orphan_token_delta": 13000,
                "orphan_tokens_total basis=charged": 13000,
                "orphan_tokens_total basis=prorated": 0,
                "orphan_straddling_tokens_total": 0,
            },
            id="a row that started after the cutoff is orphan in full",
        ),
        pytest.param(
            lump(charge("x", 13000, 40, started_at=6)),
            {
                "orphan_tokens_total basis=charged": 0,
                "orphan_tokens_total basis=prorated": 13000,
                "orphan_straddling_tokens_total": 13000,
            },
            id="a row that started at the cutoff straddles it",
        ),
        pytest.param(
            lump(charge("x", 13000, 6, started_at=0)),
            {
                "orphan_token_delta": 0,
                "orphan_tokens_total": 0,
                "orphan_straddling_tokens_total": 0,
            },
            id="a row that ended at the cutoff is none",
        ),
        pytest.param(
            lump(charge("x", 13000, 40), acquired_at=-10),
            {
                "orphan_tokens_total basis=prorated": 13000 * 34 / 50,
                "orphan_straddling_tokens_total": 13000,
            },
            id="a row without a start began with the task's first lease",
        ),
    ],
)
def test_one_lump_row_long_after_the_cancel(
    story: Story, expected: dict[str, float | str | None], tmp_path: Path
) -> None:
    """A7: a final row is never silently 0 and never silently all orphan."""
    assert_reads(story.write(tmp_path).document(41), expected)


def test_a_silent_final_ledger_leaves_the_lease_arm_as_evidence(tmp_path: Path) -> None:
    """A7: until the lump row lands there are no tokens to see, and the orphan lease says it."""
    stack = lump(charge("x", 13000, 40, started_at=0)).write(tmp_path)

    assert_reads(
        stack.document(30),
        {
            "orphan_token_delta": 0,
            "orphan_straddling_tokens_total": 0,
            "orphan_leases": 1,
            "action": "shed",
        },
    )


def test_a_row_without_any_lease_began_with_the_submission(tmp_path: Path) -> None:
    """A7: where neither the row nor a lease says, the task's submission is the start."""
    stack = StackFile(tmp_path, stores={"ledger": {"shape": "final"}}, **GRACE)
    stack.add("tasks", task("x", submitted_at=-60, cancelled_at=1))
    stack.add("ledger", charge("x", 1000, 40))

    assert read(stack.document(41), "orphan_tokens_total basis=prorated") == pytest.approx(340)


def retried(first: object, second: object) -> Story:
    """Return A9: the first attempt timed out at +30 and goes on beside the second."""
    return Story(
        settings=GRACE,
        tasks=(
            task("a1", retry_id=first, attempt=1, cancelled_at=30),
            task("a2", retry_id=second, attempt=2, submitted_at=31),
        ),
        leases=(
            lease("a1", "w1", heartbeat_at=60),
            lease("a2", "w2", acquired_at=31, heartbeat_at=60),
        ),
        ledger=(*charges("a1", 10, 33, 50), *charges("a2", 100, 50)),
        looks={},
    )


@pytest.mark.parametrize(
    ("story", "duplicates", "retries_without"),
    [
        pytest.param(retried("R", "R"), 1, 0, id="one retry id: one extra copy"),
        pytest.param(retried("", ""), 0, 1, id="empty on both: no duplicate, one retry without id"),
        pytest.param(retried("None", "None"), 0, 1, id="the text None on both is empty too"),
        pytest.param(retried(" NULL ", " NULL "), 0, 1, id="the text null with blanks is empty"),
        pytest.param(retried(None, None), 0, 1, id="null on both is empty"),
        pytest.param(retried("R", "r"), 0, 1, id="another case is another id: it joins no first"),
    ],
)
def test_a_retry_beside_its_original(
    story: Story, duplicates: float, retries_without: float, tmp_path: Path
) -> None:
    """A9: copies are known by the retry id alone, and only the first attempt is an orphan."""
    assert_reads(
        story.write(tmp_path).document(60),
        {
            "orphan_duplicate_in_flight pool=overflow": duplicates,
            "orphan_retries_without_retry_id pool=overflow": retries_without,
            "orphan_leases": 1,
            "orphan_lease_oldest_seconds pool=overflow": 25,
            # The cutoff is +35; the second attempt's tokens are its own.
            "orphan_token_delta": 10,
            "orphan_tokens_total": 10,
            "orphan_fail_closed condition=second_decoder": duplicates,
            "orphan_fail_closed condition=retry_id_missing": retries_without,
        },
    )


def test_two_callers_without_a_retry_id_are_two_requests(tmp_path: Path) -> None:
    """A9: empty ids never group together."""
    stack = StackFile(tmp_path, **GRACE)
    stack.add("tasks", task("a", retry_id=""), task("b", retry_id=""))
    stack.add("leases", lease("a", "w1", heartbeat_at=30), lease("b", "w2", heartbeat_at=30))

    assert_reads(
        stack.document(30),
        {
            "orphan_duplicate_in_flight": 0,
            "orphan_retries_without_retry_id": 0,
            "action": "scale",
        },
    )
