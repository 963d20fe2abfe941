"""Field cases B: leases, heartbeats and redelivery."""

from pathlib import Path

import pytest
from stack_file import Row, StackFile, Story, assert_reads, assert_story, charge, lease, task

GRACE: Row = {"grace_seconds": 5}

DELIVERIES = (0, 3670, 7271, 10872)

NO_HEARTBEAT = Story(
    settings=GRACE,
    tasks=(task("x"),),
    leases=(lease("x", "w7"),),
    looks={
        # Before the first heartbeat a lease's age is the time since its acquisition.
        30: {
            "orphan_live_leases pool=overflow": 1,
            "orphan_expired_leases": 0,
            "orphan_lease_age_seconds_max": 30,
            "action": "scale",
        },
        60: {"orphan_live_leases": 1, "orphan_expired_leases": 0},
        # Past its TTL it is expired, not dropped, and its age is of no live lease.
        61: {
            "orphan_live_leases": 0,
            "orphan_expired_leases pool=overflow": 1,
            "orphan_lease_age_seconds_max": None,
            "orphan_token_delta": 0,
        },
    },
)

UNKNOWN_TASK = Story(
    settings=GRACE,
    leases=(lease("ghost", "w7", heartbeat_at=30),),
    looks={30: {"orphan_live_leases pool=overflow": 1, "orphan_leases": 0}},
)

NO_HEARTBEATS_STATED = Story(
    settings=GRACE,
    stores={"leases": {"relation": "(SELECT task_id, worker_id, acquired_at FROM leases)"}},
    tasks=(task("x", cancelled_at=1000),),
    leases=(lease("x"),),
    looks={
        # A store that maps no heartbeat has live leases until release, however old.
        3000: {
            "orphan_live_leases": 1,
            "orphan_expired_leases": 0,
            "orphan_leases": 1,
            "orphan_leases_confirmed": 0,
            "action": "shed",
        }
    },
)

CRASHED_WORKER = Story(
    settings=GRACE,
    tasks=(task("x", cancelled_at=10),),
    leases=(lease("x", heartbeat_at=12),),
    looks={
        60: {"orphan_leases": 1, "orphan_leases_confirmed": 0, "action": "shed"},
        # Its worker is gone: no orphan lease, and its propagation is open for ever.
        80: {
            "orphan_leases": 0,
            "orphan_expired_leases": 1,
            "orphan_cancel_propagation_open": 1,
            "orphan_cancel_propagation_seconds_count": 0,
        },
    },
)

NEAR_MISS = Story(
    settings=GRACE,
    stores={"leases": {"lease_ttl": "10s"}},
    tasks=(task("x"),),
    leases=(lease("x", heartbeat_at=6),),
    looks={
        15: {
            "orphan_live_leases": 1,
            "orphan_lease_age_seconds_max": 9,
            "orphan_heartbeat_period_seconds": 9,
            "orphan_duplicate_in_flight": 0,
        }
    },
)

REMOVED_LEASE = Story(
    settings=GRACE,
    tasks=(
        task("a1", retry_id="R", attempt=1, cancelled_at=600),
        task("a2", retry_id="R", attempt=2, submitted_at=601),
    ),
    leases=(lease("a2", "w2", acquired_at=601, heartbeat_at=700),),
    ledger=(
        charge("a1", 10, 610),
        charge("a1", 20, 700),
        charge("a2", 500, 650),
        charge("R", 7, 690),
    ),
    looks={
        701: {
            # Only the ledger shows it, and the old attempt's tokens are not the new one's.
            "orphan_token_delta": 20,
            "orphan_tokens_total cause=client_cancel": 30,
            "orphan_tokens_total": 30,
            "orphan_leases": 0,
            # A row without an attempt is given to nobody.
            "orphan_unmatched_tokens key=unknown": 7,
            "orphan_unmatched_tokens key=worker": 0,
            "action": "shed",
        }
    },
)

STOPPED_SINCE_THE_LOCK = Story(
    settings=GRACE,
    stores={"leases": {"lease_ttl": "600s"}},
    tasks=(task("x"),),
    leases=(
        lease("x", "w1", heartbeat_at=590),
        lease("x", "w2", acquired_at=601, heartbeat_at=601),
    ),
    looks={
        # A second lease counts only once it is older than a grace.
        606: {"orphan_duplicate_in_flight": 0},
        607: {"orphan_duplicate_in_flight": 1, "orphan_leases": 0, "action": "shed"},
    },
)


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(NO_HEARTBEAT, id="B2: a lease without a heartbeat is aged by its acquisition"),
        pytest.param(UNKNOWN_TASK, id="B2: a lease of a task that nobody knows is still a lease"),
        pytest.param(NO_HEARTBEATS_STATED, id="B2: a store without heartbeats keeps leases alive"),
        pytest.param(CRASHED_WORKER, id="B2: a crashed worker leaves an expired lease, not a live"),
        pytest.param(NEAR_MISS, id="B4: the worst heartbeat gap shows as a near miss"),
        pytest.param(REMOVED_LEASE, id="B5: only the ledger shows an attempt that was given up"),
        pytest.param(STOPPED_SINCE_THE_LOCK, id="a lock outlived by its retries has two owners"),
    ],
)
def test_leases_say_who_works_and_nothing_more(story: Story, tmp_path: Path) -> None:
    """Live, expired and doubled leases are told apart, and none is an orphan by itself."""
    assert_story(story, tmp_path)


def test_redelivery_is_duplicates_then_leaked_never_orphans(tmp_path: Path) -> None:
    """B1: four deliveries of one task are three extra copies; after its end, leaked leases."""
    stack = StackFile(tmp_path, **GRACE)
    stack.add("tasks", task("T"))
    stack.add(
        "leases",
        *(
            lease("T", f"w{number}", acquired_at=at, heartbeat_at=11000)
            for number, at in enumerate(DELIVERIES)
        ),
    )
    stack.add("ledger", *(charge("T", 100, 10990, entry_id=f"e{n}") for n in range(4)))

    assert_reads(
        stack.document(11000),
        {
            "orphan_duplicate_in_flight pool=overflow": 3,
            "orphan_live_leases": 4,
            "orphan_token_delta": 0,
            "orphan_leases": 0,
            # Four times one run: nothing is "fixed" by taking rows for copies.
            "orphan_spend_tokens_per_second": 400 / 60,
            "action": "shed",
        },
    )
    stack.run_sql(
        "UPDATE tasks SET finished_at = 1800012826",
        "UPDATE leases SET heartbeat_at = 1800012900",
        "UPDATE leases SET released_at = 1800012826 WHERE worker_id = 'w0'",
    )
    stack.add("ledger", charge("T", 10, 12831), charge("T", 30, 12832))

    assert_reads(
        stack.document(12900 - 10),
        {
            "orphan_leaked_leases pool=overflow": 3,
            "orphan_leases": 0,
            "orphan_duplicate_in_flight": 2,
            # Strictly after the finish and a grace: the row at +12831 is not.
            "orphan_token_delta": 30,
            "orphan_tokens_total cause=after_finish": 30,
            "orphan_abandoned_tasks": 0,
            "action": "shed",
        },
    )


def test_a_heartbeat_slower_than_the_ttl_brings_a_second_owner(tmp_path: Path) -> None:
    """B4: first one live and one expired, then, when the first beats again, a duplicate."""
    stack = StackFile(tmp_path, stores={"leases": {"lease_ttl": "30s"}}, **GRACE)
    stack.add("tasks", task("x"))
    stack.add(
        "leases",
        lease("x", "w1", heartbeat_at=0),
        lease("x", "w2", acquired_at=31, heartbeat_at=31),
    )
    stack.add("ledger", charge("x", 10, 45))

    assert_reads(
        stack.document(40),
        {
            "orphan_live_leases": 1,
            "orphan_expired_leases": 1,
            "orphan_duplicate_in_flight": 0,
            "action": "scale",
        },
    )
    assert_reads(stack.document(45), {"orphan_token_delta": 0, "orphan_tokens_total": 0})
    stack.run_sql(
        "UPDATE leases SET heartbeat_at = 1800000052 WHERE worker_id = 'w1'",
        "UPDATE leases SET heartbeat_at = 1800000051 WHERE worker_id = 'w2'",
    )
    assert_reads(
        stack.document(55),
        {
            "orphan_live_leases": 2,
            "orphan_expired_leases": 0,
            "orphan_duplicate_in_flight": 1,
            "orphan_leases": 0,
            "action": "shed",
        },
    )
