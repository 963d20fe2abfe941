"""What Celery's workers are at, from made-up events: what is known, and what is not."""

from typing import Any

import pytest

from orphanwatch.exporter.instants import SECOND, Micros, instant_of_epoch
from orphanwatch.exporter.stores.redis.celery_running import Running, RunningTasks

ZERO = 1_800_000_000
BEFORE = "of Celery's tasks began before we listened"

LONGEST_SKEW = Micros(15 * SECOND)

Said = tuple[float, dict[str, Any]]


def beat(second: float, active: int, processed: int, *, worker: str = "w1", pid: int = 7) -> Said:
    """Return a worker's beat."""
    return second, {
        "type": "worker-heartbeat", "hostname": worker, "pid": pid, "timestamp": ZERO + second,
        "active": active, "processed": processed, "freq": 2.0,
    }  # fmt: skip


def comes(second: float, *, pid: int = 7, active: int = 0) -> Said:
    """Return the first thing a worker says."""
    said = beat(second, active, active, pid=pid)
    return second, {**said[1], "type": "worker-online"}


def goes(second: float, active: int = 0) -> Said:
    """Return the last thing a worker says."""
    return second, {**beat(second, active, 0)[1], "type": "worker-offline"}


def task(second: float, kind: str, uuid: str, *, worker: str = "w1", pid: int = 7) -> Said:
    """Return what a worker says of a task."""
    return second, {
        "type": f"task-{kind}", "uuid": uuid, "hostname": worker, "pid": pid,
        "timestamp": ZERO + second,
    }  # fmt: skip


def told(*events: Said, at: float = 10.0) -> RunningTasks:
    """Return what is known of these events at a second, heard as they were said."""
    tasks = RunningTasks(LONGEST_SKEW)
    for second, event in events:
        tasks.judge(second)
        hear(tasks, event, second)
    tasks.judge(at)
    return tasks


def hear(tasks: RunningTasks, event: dict[str, Any], second: float) -> None:
    """Let an event be heard at a second."""
    tasks.take_in(event, second, instant_of_epoch(ZERO + second))


def running(tasks: RunningTasks) -> list[str]:
    """Return the ids of the tasks that run."""
    return [it.task_id for it in tasks.running()]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([comes(0), task(1, "started", "a")], ["a"], id="it has started"),
        pytest.param([comes(0), task(1, "received", "a")], [], id="a worker only keeps it"),
        *(
            pytest.param(
                [comes(0), task(1, "started", "a"), task(2, how, "a")], [], id=f"it is {how}"
            )
            for how in ("succeeded", "failed", "retried", "revoked", "rejected", "cancelled")
        ),
        pytest.param(
            [comes(0), task(1, "started", "a"), task(2, "started", "b"), task(3, "failed", "a")],
            ["b"],
            id="of two one ended",
        ),
        pytest.param(
            [comes(0), task(1, "started", "a"), comes(5, pid=8)], [],
            id="its worker is another process by now",
        ),
        pytest.param(
            [comes(0), task(1, "started", "a"), comes(5, active=1)], ["a"],
            id="its worker lost the server for a while",
        ),
        pytest.param(
            [comes(0), task(1, "started", "a"), beat(4, 0, 1)], [],
            id="its end was told by no event: the worker is at nothing",
        ),
        pytest.param(
            [comes(0), beat(2, 0, 0), task(2, "started", "a")], ["a"],
            id="it started as the worker said that it is at nothing",
        ),
        pytest.param([comes(0), task(1, "started", "a"), goes(5)], [], id="its worker left idle"),
        pytest.param(
            [comes(0), task(1, "started", "a"), goes(5, active=1)], ["a"],
            id="its worker goes once it has ended",
        ),
        pytest.param([task(1, "sent", "a", worker="client")], [], id="a client has sent it"),
    ],
)  # fmt: skip
def test_a_task_runs_from_its_start_to_its_end(events: list[Said], expected: list[str]) -> None:
    """Told by its worker's events, and nothing else of it is unknown."""
    tasks = told(*events)
    assert running(tasks) == expected
    assert tasks.problem(10.0) is None


@pytest.mark.parametrize(
    ("events", "problem"),
    [
        pytest.param([beat(1, 2, 9)], f"2 {BEFORE}", id="two before we listened"),
        pytest.param(
            [beat(1, 2, 9), task(2, "started", "c"), beat(3, 3, 10)], f"2 {BEFORE}",
            id="one more since",
        ),
        pytest.param(
            [beat(1, 2, 9), task(2, "succeeded", "a"), beat(3, 1, 9)], f"1 {BEFORE}",
            id="one of two has ended",
        ),
        pytest.param([beat(1, 2, 9), beat(3, 0, 9)], None, id="both have ended"),
        pytest.param(
            [beat(1, 1, 9), task(1.5, "succeeded", "a"), task(1.6, "started", "b"), beat(3, 1, 10)],
            None,
            id="the one before ended, and one has begun since",
        ),
        pytest.param(
            [beat(1, 1, 9), task(1.05, "started", "a"), beat(3, 2, 10)], f"1 {BEFORE}",
            id="a start after the beat is another task",
        ),
        pytest.param(
            [(1.1, {**beat(1, 1, 9)[1]}), (1.2, {**task(0.9, "started", "a")[1]})], None,
            id="a start before the beat that is sent after it",
        ),
        pytest.param(
            [beat(1, 1, 9), (3.1, beat(3, 0, 9)[1]), (3.2, task(2.9, "succeeded", "a")[1])], None,
            id="an end before the beat that is sent after it",
        ),
        pytest.param(
            [comes(0), beat(2, 0, 0), beat(4, 1, 1), beat(6, 1, 1)],
            "w1 sends no events of its tasks; start it with -E",
            id="it is at a task and says nothing of it",
        ),
        pytest.param(
            [task(1, "started", "a")],
            "w1 has not beaten yet; it must run without --without-heartbeat",
            id="it says when it starts a task, and never beats",
        ),
        pytest.param(
            [beat(1, 1, 9), beat(1, 0, 0, worker="w2")], f"1 {BEFORE}", id="one of two workers"
        ),
    ],
)  # fmt: skip
def test_what_is_not_known_is_said(events: list[Said], problem: str | None) -> None:
    """Each beat counts the tasks that its worker is at: more than we saw begin are unknown."""
    said = told(*events).problem(10.0)
    assert (said is None) is (problem is None)
    assert (problem or "") in (said or "")


def test_a_beat_is_judged_once_the_events_from_before_it_have_come() -> None:
    """Else a worker that has just begun a task would make the store blind for a moment."""
    tasks = told(comes(0), beat(4.0, 1, 1), at=4.1)
    assert tasks.problem(4.1) is None
    hear(tasks, task(3.99, "started", "a")[1], 4.2)
    tasks.judge(4.4)
    assert tasks.problem(4.4) is None


def test_a_worker_that_fell_silent_is_at_nothing_that_we_miss() -> None:
    """What it ran has expired by then, seen or unseen; what was seen stays listed as such."""
    tasks = told(comes(0, active=0), task(1, "started", "a"), beat(2, 2, 2), at=3)
    assert tasks.problem(10.0) is None  # one that we saw, one that began while we listened
    blind = told(beat(0, 3, 9), at=3)
    assert blind.problem(29.0) is not None
    assert blind.problem(31.0) is None
    [left] = tasks.running()
    assert left.beat_at == instant_of_epoch(ZERO + 2)


@pytest.mark.parametrize(
    ("off", "problem"),
    [
        pytest.param(-3600, "w1 is -3600 s off ours", id="an hour behind"),
        pytest.param(-16, "w1 is -16 s off ours", id="behind by more than half a lease"),
        pytest.param(-15, None, id="behind by half a lease"),
        pytest.param(15, None, id="ahead by half a lease"),
        pytest.param(3600, "w1 is +3600 s off ours", id="an hour ahead"),
    ],
)
def test_a_worker_whose_clock_is_off_is_no_silent_one(off: float, problem: str | None) -> None:
    """By its beats a lease would have expired that is held, or be held when nobody holds it."""
    said = told(
        (0, comes(off)[1]), (1, task(1 + off, "started", "a")[1]), (2, beat(2 + off, 1, 1)[1])
    ).problem(4.0)
    assert (said is None) is (problem is None)
    assert (problem or "") in (said or "")
    assert said is None or said.endswith("; set both by NTP")


def test_a_clock_that_was_set_right_is_believed_again() -> None:
    """With the next beat; one that stopped beating is not asked for its clock any more."""
    off = (0.0, comes(-60)[1])
    assert told(off, at=1).problem(1.0) is not None
    assert told(off, (2, comes(2)[1]), at=3).problem(3.0) is None
    assert told(off, at=31).problem(31.0) is None


def test_a_worker_is_forgotten_after_a_day() -> None:
    """Containers have a new name each time."""
    tasks = told(comes(0), task(1, "started", "a"), at=86_000)
    assert running(tasks) == ["a"]
    tasks.judge(87_000)
    assert running(tasks) == []
    assert tasks.has_heard


def test_a_task_beats_with_its_worker() -> None:
    """Since it has started; before, it has no beat."""
    expected = {
        1.5: None,
        3.0: instant_of_epoch(ZERO + 3),
    }
    for second, at in expected.items():
        tasks = told(comes(0), beat(1, 0, 0), task(1.2, "started", "a"), beat(second, 1, 1))
        if at is None:
            tasks = told(comes(0), beat(1, 0, 0), task(1.2, "started", "a"))
        assert list(tasks.running()) == [Running("a", "w1", instant_of_epoch(ZERO + 1.2), at)]


@pytest.mark.parametrize(
    "event",
    [
        {"type": "worker-heartbeat"},
        {**beat(1, 1, 1)[1], "active": None},
        {**beat(1, 1, 1)[1], "timestamp": "soon"},
        {**beat(1, 1, 1)[1], "timestamp": float("nan")},
        {**task(1, "started", "a")[1], "uuid": None},
    ],
    ids=["nothing in it", "no count", "no instant", "not a number", "no task"],
)
def test_an_event_without_what_it_needs_is_refused(event: dict[str, Any]) -> None:
    """It is counted by whoever reads it, and costs only itself."""
    with pytest.raises(ValueError, match=r"names|counts|number|ISO"):
        hear(RunningTasks(LONGEST_SKEW), event, 1.0)


@pytest.mark.parametrize("event", [{}, {"type": "task-progress"}, {"type": 7}])
def test_events_of_others_are_passed_by(event: dict[str, Any]) -> None:
    """Applications may publish their own."""
    tasks = RunningTasks(LONGEST_SKEW)
    hear(tasks, event, 1.0)
    assert not tasks.has_heard
