"""The second opinion is right by hand-computed cases: its word may count against the product."""

from typing import Any

import pytest
import stack_healthy
import stack_strategies
from hypothesis import HealthCheck, given, settings
from second_opinion import evaluate
from stacks import AT, DEFAULTS, Stack

Row = dict[str, Any]

STEADY = settings(
    max_examples=150,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def look(
    at: float,
    *,
    tasks: list[Row] | None = None,
    leases: list[Row] | None = None,
    ledger: list[Row] | None = None,
    queue: list[Row] | None = None,
    **changed: Any,
) -> Row:
    """Evaluate at a second after a common zero; stores left out are empty."""
    stack: dict[str, list[Row] | None] = {
        "tasks": tasks or [],
        "leases": leases or [],
        "ledger": ledger or [],
        "queue": queue or [],
    }
    return evaluate(stack, {**DEFAULTS, "grace": 5.0, **changed}, at)


def samples(document: Row, name: str, **labels: str) -> list[float]:
    """Return the values of a metric's samples that carry these labels."""
    return [
        sample["value"]
        for sample in document["metrics"].get(name, [])
        if labels.items() <= sample["labels"].items()
    ]


def charge(at: float, tokens: float | None, **more: Any) -> Row:
    """Return a ledger row of the task t."""
    return {"task_id": "t", "charged_at": at, "tokens": tokens, **more}


def task(**columns: Any) -> Row:
    """Return the gateway row of the task t in the overflow pool."""
    return {"task_id": "t", "pool": "overflow", "submitted_at": 0.0, **columns}


def lease(**columns: Any) -> Row:
    """Return a lease of the task t."""
    return {"task_id": "t", "worker_id": "w1", "pool": "overflow", "acquired_at": 0.0, **columns}


LOST_CANCEL = [charge(at, 100) for at in (1.0, 2.0, 3.0, 4.0, 8.0, 9.0, 40.0, 74.0)]
RUNNING_TOTAL = [charge(1.0, 1), charge(4.0, 40), charge(12.0, 89)]
LUMP = [charge(41.0, 1000, started_at=1.0, prompt_tokens=200)]

TOTALS = [
    pytest.param(
        80.0, {"cancelled_at": 3.0}, LOST_CANCEL, {}, 300.0,
        id="a charge at the cutoff is none, those after it are orphan tokens",
    ),
    pytest.param(
        8.0, {"cancelled_at": 3.0}, LOST_CANCEL, {}, 0.0,
        id="what is charged later than the instant has not happened",
    ),
    pytest.param(
        60.0, {"deadline_at": 10.0}, [charge(at, 50) for at in (12.0, 20.0, 60.0)], {}, 100.0,
        id="a deadline stops a task without any cancel",
    ),
    pytest.param(
        60.0, {"deadline_at": 10.0}, [charge(20.0, 50)], {"deadline": "soft"}, 0.0,
        id="a soft deadline stops nothing",
    ),
    pytest.param(
        80.0, {"cancelled_at": 3.0, "cancellable": 0}, LOST_CANCEL, {}, 0.0,
        id="an uncancellable task is never an orphan",
    ),
    pytest.param(
        20.0, {"cancelled_at": 3.0}, RUNNING_TOTAL, {"shape": "cumulative"}, 49.0,
        id="of running totals only the growth after the cutoff counts",
    ),
    pytest.param(
        20.0, {"cancelled_at": 3.0}, RUNNING_TOTAL, {}, 89.0,
        id="of increments each row counts in full",
    ),
    pytest.param(
        20.0, {"cancelled_at": 3.0},
        [charge(4.0, 50), charge(10.0, 40), charge(12.0, 55)], {"shape": "cumulative"}, 5.0,
        id="a running total that steps back never subtracts",
    ),
    pytest.param(
        50.0, {"cancelled_at": 16.0}, LUMP, {"shape": "final"}, 400.0,
        id="a lump row is spread over its duration, less its prompt",
    ),
    pytest.param(
        50.0, {"cancelled_at": 3.0}, [charge(30.0, 70, started_at=9.0)], {"shape": "final"}, 70.0,
        id="a lump row that started after the cutoff is orphan in full",
    ),
    pytest.param(
        30.0, {"cancelled_at": 3.0}, [charge(20.0, None)], {}, 0.0,
        id="unknown tokens add nothing",
    ),
    pytest.param(
        30.0, {"cancelled_at": 3.0}, [charge(20.0, 9), charge(21.0, -4)], {}, 9.0,
        id="an adjustment enters no sum",
    ),
    pytest.param(
        30.0, {"submitted_at": 6.0, "cancelled_at": 5.0}, [charge(20.0, 9)], {}, 0.0,
        id="a cancel from before the submission was meant for somebody else",
    ),
    pytest.param(
        30.0, {"cancelled_at": 4.0, "finished_at": 4.0}, [charge(20.0, 9)], {}, 9.0,
        id="a task that finished in the moment of its cancel was cancelled",
    ),
    pytest.param(
        30.0, {"deadline_at": 4.0, "finished_at": 4.0}, [], {}, 0.0,
        id="a task that finished at its deadline was in time",
    ),
    pytest.param(
        30.0, {"finished_at": 4.0}, [charge(9.0, 5), charge(9.25, 7)], {}, 7.0,
        id="charges after the finish are orphan past its grace",
    ),
    pytest.param(
        90.0, {"finished_at": 4.0}, [charge(9.25, 7)], {}, 0.0,
        id="charges after the finish are forgotten once the delta window has passed them",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("at", "columns", "ledger", "changed", "expected"), TOTALS)
def test_orphan_tokens(
    at: float, columns: Row, ledger: list[Row], changed: Row, expected: float
) -> None:
    """The counter holds exactly what was charged strictly after the cutoff."""
    document = look(at, tasks=[task(**columns)], ledger=ledger, **changed)
    assert sum(samples(document, "orphan_tokens_total")) == pytest.approx(expected)
    assert sum(samples(document, "orphan_tokens_total", pool="overflow")) == pytest.approx(expected)


def test_lost_cancel_seen_whole() -> None:
    """Field case A1: 300 tokens, propagation 71.4 s; the window forgets, the counter keeps."""
    document = look(
        80.0,
        tasks=[task(cancelled_at=3.0)],
        leases=[lease(heartbeat_at=74.0, released_at=74.4)],
        ledger=LOST_CANCEL,
    )
    assert samples(document, "orphan_token_delta", pool="overflow") == [200.0]
    assert samples(document, "orphan_leases", pool="overflow") == [0.0] * 5
    family = "orphan_cancel_propagation_seconds"
    assert samples(document, f"{family}_sum", pool="overflow") == [pytest.approx(71.4)]
    assert samples(document, f"{family}_bucket", pool="overflow", le="60.0") == [0.0]
    assert samples(document, f"{family}_bucket", pool="overflow", le="120.0") == [1.0]
    assert document["verdict"]["action"] == "shed"
    assert document["orphans"][0]["orphan_tokens"] == 300.0
    assert document["orphans"][0]["cutoff_at"] == 8.0


def test_silent_prefill_seen_by_its_lease() -> None:
    """Field case A4: no token yet, but a lease alive 24 s past the cutoff."""
    document = look(30.0, tasks=[task(cancelled_at=1.0)], leases=[lease(heartbeat_at=29.0)])
    cause = {"pool": "overflow", "cause": "client_cancel"}
    assert samples(document, "orphan_leases", **cause) == [1.0]
    assert samples(document, "orphan_leases_confirmed", pool="overflow") == [1.0]
    assert samples(document, "orphan_lease_oldest_seconds", pool="overflow") == [24.0]
    assert samples(document, "orphan_cancel_propagation_open", pool="overflow") == [1.0]
    assert sum(samples(document, "orphan_tokens_total")) == 0


def test_retry_beside_its_original() -> None:
    """Field case A9: one extra copy for the request; without ids no copy is claimed."""
    tasks = [
        task(task_id="a1", retry_id="R", cancelled_at=30.0),
        task(task_id="a2", retry_id="R", submitted_at=31.0, attempt=2),
    ]
    leases = [
        lease(task_id="a1", heartbeat_at=59.0),
        lease(task_id="a2", acquired_at=31.0, heartbeat_at=59.0, worker_id="w2"),
    ]
    document = look(60.0, tasks=tasks, leases=leases)
    assert samples(document, "orphan_duplicate_in_flight", pool="overflow") == [1.0]
    assert samples(document, "orphan_retries_without_retry_id", pool="overflow") == [0.0]
    nameless = look(60.0, tasks=[{**row, "retry_id": ""} for row in tasks], leases=leases)
    assert samples(nameless, "orphan_duplicate_in_flight", pool="overflow") == [0.0]
    assert samples(nameless, "orphan_retries_without_retry_id", pool="overflow") == [1.0]


def test_one_task_handed_out_again_and_again() -> None:
    """Field case B1: four live copies are three extra ones, and no orphan; then they are leaked."""
    starts = (0.0, 3670.0, 7271.0, 10872.0)
    leases = [lease(worker_id=f"w{at}", acquired_at=at, heartbeat_at=10990.0) for at in starts]
    document = look(11000.0, tasks=[task()], leases=leases)
    assert samples(document, "orphan_duplicate_in_flight", pool="overflow") == [3.0]
    assert sum(samples(document, "orphan_leases")) == 0
    done = look(11000.0, tasks=[task(finished_at=10995.0)], leases=leases)
    assert samples(done, "orphan_leaked_leases", pool="overflow") == [4.0]


def test_sibling_completion_stops_the_other_attempts() -> None:
    """Who finished the request first leaves nobody waiting for its other attempts."""
    tasks = [
        task(task_id="a", retry_id="R", finished_at=10.0),
        task(task_id="t", retry_id="R", attempt=2),
        task(task_id="late", retry_id="R", submitted_at=10.0, attempt=3),
    ]
    document = look(30.0, tasks=tasks, ledger=[charge(15.0, 1), charge(16.0, 2)])
    cause = {"pool": "overflow", "cause": "sibling_completed"}
    assert samples(document, "orphan_tokens_total", **cause, basis="charged") == [2.0]
    assert samples(document, "orphan_abandoned_tasks", **cause) == [1.0]


def test_started_after_stop() -> None:
    """A lease first acquired after the stop has a cause of its own, and no propagation."""
    document = look(
        30.0, tasks=[task(cancelled_at=3.0)], leases=[lease(acquired_at=4.0, heartbeat_at=29.0)]
    )
    cause = {"pool": "overflow", "cause": "started_after_stop"}
    assert samples(document, "orphan_leases", **cause) == [1.0]
    assert samples(document, "orphan_cancel_propagation_open", pool="overflow") == [0.0]


def test_blind_is_not_calm() -> None:
    """A store that can't be read takes its numbers with it, and the other arm goes on."""
    rows: dict[str, list[Row] | None] = {
        "tasks": [task(cancelled_at=3.0)],
        "leases": [lease(heartbeat_at=29.0)],
        "ledger": None,
        "queue": None,
    }
    document = evaluate(rows, {**DEFAULTS, "grace": 5.0}, 30.0)
    metrics = document["metrics"]
    assert "orphan_token_delta" not in metrics
    assert "orphan_tokens_total" not in metrics
    assert "orphan_queue_depth" not in metrics
    assert samples(document, "orphan_store_up", store="ledger") == [0.0]
    assert sum(samples(document, "orphan_leases")) == 1
    assert document["verdict"]["action"] == "shed"
    rows["tasks"] = []
    assert evaluate(rows, {**DEFAULTS}, 30.0)["verdict"]["action"] == "blind"


def test_split_signal() -> None:
    """Calm depth, steady spend and clients that left are the picture of 02:17, at one instant."""
    tasks = [task(task_id=f"t{n}", submitted_at=0.0, cancelled_at=300.0) for n in range(4)]
    ledger = [charge(at, 10, task_id="elsewhere") for at in range(5, 365, 5)]
    queue = [{"sampled_at": 360.0, "depth": 1.0, "in_flight": 4.0, "admission_cap": 8.0}]
    document = look(360.0, tasks=tasks, ledger=ledger, queue=queue)
    assert samples(document, "orphan_spend_tokens_per_second") == [pytest.approx(2.0)]
    assert samples(document, "orphan_attached_tasks") == [0.0]
    assert samples(document, "orphan_attached_baseline_tasks") == [4.0]
    assert samples(document, "orphan_queue_calm") == [1.0]
    assert samples(document, "orphan_spend_rising") == [1.0]
    assert samples(document, "orphan_split_signal") == [1.0]
    assert samples(document, "orphan_in_flight_gap") == [5.0]
    assert samples(document, "orphan_unmatched_tokens", key="unknown") == [120.0]


def test_deadline_budget() -> None:
    """Five overflow deadlines of 4 s carry grace 5 no longer, and heartbeats of 4 s neither."""
    tasks = [task(task_id=f"t{n}", submitted_at=n, deadline_at=n + 4.0) for n in range(1, 6)]
    queue = [{"sampled_at": 6.0, "age_seconds": 0.0}]
    document = look(6.0, tasks=tasks, queue=queue, heartbeat=4.0)
    closed = {
        sample["labels"]["condition"]
        for sample in document["metrics"]["orphan_fail_closed"]
        if sample["value"] == 1
    }
    assert closed == {"cancel_slower_than_slack", "heartbeat_too_slow"}
    assert samples(document, "orphan_overflow_admission_allowed", pool="overflow") == [0.0]
    assert document["verdict"]["action"] == "hold"


@STEADY
@given(stack_healthy.healthy_stacks())
def test_healthy_stacks_read_zero(stack: Stack) -> None:
    """A stack in which every cancel arrives shows no orphan at all, whatever its shape."""
    document = evaluate(stack.readable(), stack.known_settings(), AT)
    for name in ("orphan_token_delta", "orphan_tokens_total", "orphan_leases"):
        assert not any(samples(document, name)), name
    assert not any(samples(document, "orphan_duplicate_in_flight"))
    assert document["orphans"] == []
    assert document["verdict"]["action"] not in ("shed", "blind")


@STEADY
@given(stack_strategies.stacks())
def test_random_stacks_are_within_reason(stack: Stack) -> None:
    """No sum is negative, no window exceeds its counter, no orphan lease exceeds the live ones."""
    document = evaluate(stack.readable(), stack.known_settings(), AT)
    for name, found in document["metrics"].items():
        if name != "orphan_deadline_slack_seconds_min":
            assert all(sample["value"] >= 0 for sample in found), name
    delta = sum(samples(document, "orphan_token_delta"))
    assert delta <= sum(samples(document, "orphan_tokens_total")) + 1e-6
    assert sum(samples(document, "orphan_leases")) <= sum(samples(document, "orphan_live_leases"))
