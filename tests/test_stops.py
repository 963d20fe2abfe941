"""Stops: when nobody waits for a task any more, why, and from when on its work is orphan."""

from typing import Any

import pytest

from orphanwatch.exporter.config import Config, parse_config
from orphanwatch.exporter.instants import SECOND, Instant
from orphanwatch.exporter.model import Completion, Lease, Stop, Task
from orphanwatch.exporter.names import Cause
from orphanwatch.exporter.stops import (
    completion_of,
    completions_of,
    cutoff_of,
    newest_submissions,
    pool_of,
    stop_of,
)

NOW = Instant(100)

BLANK = Task("x", "r", 1, "overflow", Instant(0), None, None, None, ok=True, cancellable=True)


def task(**cells: Any) -> Task:
    """Return a task of request r, submitted at 0, with some cells of its own."""
    return BLANK._replace(**cells)


def sibling(finished_at: int) -> dict[str, list[Completion]]:
    """Return the completion of another task of request r."""
    return {"r": [Completion("r", "y", Instant(finished_at))]}


CANCEL, DEADLINE, SIBLING = Cause.CLIENT_CANCEL, Cause.DEADLINE, Cause.SIBLING_COMPLETED


@pytest.mark.parametrize(
    ("cells", "siblings", "expected"),
    [
        pytest.param({}, {}, None, id="nothing happened: somebody waits"),
        pytest.param({"cancelled_at": 50}, {}, (50, CANCEL), id="a client's cancel"),
        pytest.param({"deadline_at": 50}, {}, (50, DEADLINE), id="a deadline"),
        pytest.param({}, sibling(50), (50, SIBLING), id="a sibling's completion"),
        pytest.param(
            {"cancelled_at": 60, "deadline_at": 50}, {}, (50, DEADLINE), id="the earliest counts"
        ),
        pytest.param(
            {"cancelled_at": 50, "deadline_at": 50},
            sibling(50),
            (50, CANCEL),
            id="on a tie of three it is the cancel",
        ),
        pytest.param(
            {"deadline_at": 50}, sibling(50), (50, DEADLINE), id="on a tie of two the deadline"
        ),
        pytest.param({"cancelled_at": 101}, {}, None, id="a cancel that has not come yet"),
        pytest.param({"cancelled_at": 100}, {}, (100, CANCEL), id="a cancel that comes now"),
        pytest.param({"deadline_at": 101}, {}, None, id="a deadline that has not come yet"),
        pytest.param({"deadline_at": 100}, {}, (100, DEADLINE), id="a deadline that comes now"),
        pytest.param(
            {"submitted_at": 60, "cancelled_at": 50}, {}, None, id="a cancel before submission"
        ),
        pytest.param(
            {"submitted_at": 50, "cancelled_at": 50}, {}, (50, CANCEL), id="a cancel at submission"
        ),
        pytest.param(
            {"submitted_at": None, "cancelled_at": 50},
            {},
            (50, CANCEL),
            id="a cancel of a task whose submission is not stated",
        ),
        pytest.param({"submitted_at": 60}, sibling(50), None, id="a completion before submission"),
        pytest.param({"submitted_at": 50}, sibling(50), None, id="a completion at submission"),
        pytest.param(
            {"submitted_at": 49}, sibling(50), (50, SIBLING), id="a completion just after it"
        ),
        pytest.param(
            {"cancelled_at": 50, "finished_at": 49}, {}, None, id="finished before the cancel"
        ),
        pytest.param(
            {"cancelled_at": 50, "finished_at": 50},
            {},
            (50, CANCEL),
            id="finished at the cancel: the client had left",
        ),
        pytest.param(
            {"cancelled_at": 50, "finished_at": 51},
            {},
            (50, CANCEL),
            id="finished after the cancel",
        ),
        pytest.param(
            {"deadline_at": 50, "finished_at": 50}, {}, None, id="finished at the deadline: in time"
        ),
        pytest.param(
            {"deadline_at": 50, "finished_at": 51}, {}, (50, DEADLINE), id="finished too late"
        ),
        pytest.param({"finished_at": 50}, sibling(50), None, id="finished with its sibling"),
        pytest.param(
            {"cancelled_at": 50, "finished_at": 101}, {}, (50, CANCEL), id="will finish later"
        ),
        pytest.param({"retry_id": None}, sibling(50), None, id="no retry id has no sibling"),
        pytest.param({"task_id": "y"}, sibling(50), None, id="a task is not its own sibling"),
    ],
)
def test_a_stop_is_the_earliest_moment_that_binds(
    cells: dict[str, Any],
    siblings: dict[str, list[Completion]],
    expected: tuple[int, Cause] | None,
) -> None:
    """Cancel, deadline, sibling, in that order on a tie; what came too early or late binds not."""
    stop = stop_of(task(**cells), siblings, deadline_stops=True, at=NOW)

    assert stop == (None if expected is None else Stop(Instant(expected[0]), expected[1]))


def test_a_soft_deadline_stops_nothing() -> None:
    """Where the gateway says ``deadline: soft`` only cancel and sibling count."""
    late = task(deadline_at=50, cancelled_at=60)

    assert stop_of(late, {}, deadline_stops=False, at=NOW) == Stop(Instant(60), CANCEL)
    assert stop_of(task(deadline_at=50), {}, deadline_stops=False, at=NOW) is None


@pytest.mark.parametrize(
    ("cells", "completes"),
    [
        pytest.param({"finished_at": 50}, True, id="ok"),
        pytest.param({"finished_at": 50, "ok": False}, False, id="an error"),
        pytest.param({"finished_at": 101}, False, id="not yet"),
        pytest.param({"finished_at": 50, "cancelled_at": 51}, True, id="before its cancel"),
        pytest.param({"finished_at": 50, "cancelled_at": 50}, False, id="at its cancel"),
        pytest.param({"finished_at": 50, "cancelled_at": 49}, False, id="after its cancel"),
        pytest.param(
            {"finished_at": 50, "cancelled_at": 30, "submitted_at": 40},
            True,
            id="after a cancel that does not bind",
        ),
        pytest.param({"finished_at": 50, "deadline_at": 50}, True, id="at its deadline"),
        pytest.param({"finished_at": 50, "deadline_at": 49}, False, id="after its deadline"),
        pytest.param({"finished_at": 50, "retry_id": None}, False, id="of no request"),
    ],
)
def test_what_completes_a_request(cells: dict[str, Any], *, completes: bool) -> None:
    """A completion is ok, in time, and before any cancel of its own."""
    assert (completion_of(task(**cells), NOW) is not None) is completes


def test_completions_are_kept_by_request() -> None:
    """Two tasks that completed one request are both there; another request is apart."""
    done = [
        task(task_id="a", finished_at=10),
        task(task_id="b", finished_at=20),
        task(task_id="c", finished_at=30, retry_id="other"),
        task(task_id="d"),
    ]

    found = completions_of(done, NOW)

    assert {key: [one.task_id for one in listed] for key, listed in found.items()} == {
        "r": ["a", "b"],
        "other": ["c"],
    }


def config(**settings: Any) -> Config:
    """Return a config with two pools."""
    return parse_config(
        {
            "pools": {
                "paid": {"role": "paid", "grace_seconds": "3s"},
                "overflow": {"role": "overflow"},
            },
            "stores": {},
            **settings,
        }
    )


def lease(pool: str | None, acquired_at: int | None, worker_id: str = "w") -> Lease:
    """Return a lease of task x."""
    acquired = None if acquired_at is None else Instant(acquired_at)
    return Lease("x", worker_id, pool, acquired, None, None)


@pytest.mark.parametrize(
    ("own", "leases", "expected"),
    [
        pytest.param("paid", [lease("overflow", 1)], "paid", id="its own before its lease's"),
        pytest.param(None, [lease("overflow", 1)], "overflow", id="else its lease's"),
        pytest.param(
            None, [lease("paid", 5), lease("overflow", 1)], "overflow", id="of the first acquired"
        ),
        pytest.param(
            None,
            [lease("paid", None), lease("overflow", 9)],
            "overflow",
            id="of one that says when",
        ),
        pytest.param(None, [lease(None, 1), lease("paid", 2)], "other", id="a first lease of none"),
        pytest.param(None, [], "other", id="no lease at all"),
        pytest.param("gpu", [lease("paid", 1)], "other", id="one that is not configured"),
        pytest.param("Paid", [], "other", id="another case is another pool"),
    ],
)
def test_the_pool_of_a_task(own: str | None, leases: list[Lease], expected: str) -> None:
    """A task's pool is its own, else its first lease's; one that is not configured is other."""
    assert pool_of(task(pool=own), leases, config()) == expected


@pytest.mark.parametrize(
    ("pool", "settings", "seconds"),
    [
        pytest.param("overflow", {}, 1, id="the default grace is a second"),
        pytest.param("paid", {}, 3, id="a pool's own grace"),
        pytest.param("other", {"grace_seconds": 2}, 2, id="the grace of all"),
        pytest.param("paid", {"grace_seconds": 2}, 3, id="a pool's own before that of all"),
        pytest.param("overflow", {"clock_skew_allowance": "500ms"}, 1.5, id="skew is added"),
    ],
)
def test_a_cutoff_is_the_stop_and_the_grace(
    pool: str, settings: dict[str, Any], seconds: float
) -> None:
    """``C = A + g``, plus the allowance for clocks that differ."""
    assert cutoff_of(Instant(0), pool, config(**settings)) == seconds * SECOND


def test_of_one_id_the_newest_submission_holds() -> None:
    """The other rows are handed back to be counted; rows without an id are never one another."""
    rows = [
        task(submitted_at=Instant(1), attempt=1),
        task(submitted_at=Instant(3), attempt=3),
        task(submitted_at=Instant(2), attempt=2),
        task(submitted_at=None, attempt=9),
        task(task_id=None),
        task(task_id=None),
    ]

    held, rest = newest_submissions(rows)

    assert [row.attempt for row in held] == [3, 1, 1]
    assert sorted(row.attempt for row in rest) == [1, 2, 9]
