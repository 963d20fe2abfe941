"""The preset for RQ, on keys made up after RQ's: what a worker would take long to write."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis_stores import Store, client, leases, sample, tasks

from orphanwatch.exporter.clock import wall_clock
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import SECOND, instant_of_epoch
from orphanwatch.exporter.names import RejectReason
from orphanwatch.exporter.stores.redis import rq_jobs

pytestmark = pytest.mark.servers

RQ: dict[str, Any] = {"preset": "rq"}
NOW = 1_800_000_100
JOB: dict[Any, Any] = {"origin": "gpu", "created_at": "2027-01-15T08:00:00.250000Z"}


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    """Return a client of an empty database, which speaks text."""
    with client(redis_url) as connected:
        yield connected


@pytest.mark.parametrize("role", ["gateway", "leases", "queue"])
def test_a_database_without_rq_is_no_idle_rq(role: str, redis_url: str, tmp_path: Path) -> None:
    """Else a wrong number of the database would look like peace."""
    with pytest.raises(StoreError, match="shows no sign of RQ; check prefix and the database"):
        Store(tmp_path, role, url=redis_url, **RQ).read()


def test_another_prefix_is_another_rq(redis: Redis, redis_url: str, tmp_path: Path) -> None:
    """RQ_KEY_PREFIX of its users; what is special in a pattern is not special there."""
    prefix = "{rq}.[1]"
    redis.sadd(f"{prefix}:workers", f"{prefix}:worker:w1")
    stamps: dict[Any, Any] = {"created_at": "1800000000", "last_heartbeat": "1800000030"}
    redis.hset(f"{prefix}:execution:task-1:e1", mapping=stamps)
    settings = {**RQ, "prefix": prefix}
    [lease] = leases(tmp_path, redis_url, lambda: instant_of_epoch(NOW), **settings)
    assert (lease.task_id, lease.heartbeat_at) == ("task-1", instant_of_epoch(1_800_000_030))


@pytest.mark.parametrize(
    ("job", "cancelled", "finished"),
    [
        pytest.param(
            {"status": "canceled", "enqueued_at": "2027-01-15T08:00:00.250000Z"}, 0.25, None,
            id="in the second of its submission: RQ has left the fraction off",
        ),
        pytest.param(
            {"status": "queued", "enqueued_at": "2027-01-15T08:00:00.750000Z"}, 0, None,
            id="and then enqueued anew, within that second: that cancel binds no more",
        ),
        pytest.param(
            {"status": "started", "enqueued_at": "2027-01-15T07:59:50Z",
             "started_at": "2027-01-15T08:00:30Z", "ended_at": "2027-01-15T07:59:58Z"}, 0, None,
            id="it runs again: the end of an earlier try is none",
        ),
        pytest.param(
            {"status": "finished", "enqueued_at": "2027-01-15T07:59:50Z",
             "started_at": "2027-01-15T07:59:55Z", "ended_at": "2027-01-15T08:00:40Z"}, 0, 40,
            id="it ran to its end after that",
        ),
        pytest.param(
            {"status": "canceled", "enqueued_at": "2027-01-15T07:59:50Z",
             "started_at": "2027-01-15T07:59:51Z", "ended_at": "2027-01-15T07:59:58Z"}, 0, -2,
            id="it had failed before that",
        ),
    ],
)  # fmt: skip
def test_a_cancel_is_read_with_the_job(  # noqa: PLR0917  (a table, and three fixtures)
    job: dict[Any, Any],
    cancelled: float,
    finished: float | None,
    redis: Redis,
    redis_url: str,
    tmp_path: Path,
) -> None:
    """What RQ writes of a job tells which submission a cancel is of, and whether it ended."""
    redis.sadd("rq:queues", "rq:queue:gpu")
    redis.hset("rq:job:task-1", mapping={**JOB, **job})
    redis.zadd("rq:canceled:gpu", {"task-1": NOW - 100})
    store = Store(tmp_path, "gateway", lambda: instant_of_epoch(NOW), url=redis_url, **RQ)
    [task] = store.read(named=["task-1"]).rows
    expected = None if finished is None else instant_of_epoch(NOW - 100 + finished)
    assert task.cancelled_at == instant_of_epoch(NOW - 100 + cancelled)
    assert task.finished_at == expected


def test_a_cancel_outlives_the_job(redis: Redis, redis_url: str, tmp_path: Path) -> None:
    """RQ forgets a job that has run some minutes later, and its cancel never."""
    now = wall_clock() // SECOND
    redis.sadd("rq:queues", "rq:queue:gpu")
    redis.zadd("rq:canceled:gpu", {"recent": now - 60, "ancient": now - 86_400, "odd": "inf"})
    read = Store(tmp_path, "gateway", url=redis_url, **RQ).read()
    assert [(it.task_id, it.pool) for it in read.rows] == [("recent", "gpu")]
    assert [(bad.reason, bad.key) for bad in read.rejected] == [
        (RejectReason.INVALID_INSTANT, "gpu odd: cancelled")
    ]


def test_a_job_that_was_cancelled_long_ago_and_still_runs_is_told(
    redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    """An orphan that lives does not age out."""
    long_ago = wall_clock() // SECOND - 86_400
    redis.sadd("rq:queues", "rq:queue:gpu")
    redis.sadd("rq:workers", "rq:worker:w1", "rq:worker:w2")
    redis.sadd("rq:worker:w1:executions", "task-1:e1", "gone:e2")
    redis.hset("rq:execution:task-1:e1", "job_id", "task-1")
    redis.hset("rq:worker:w2", "current_job", "of-rq-2")
    for job in ("task-1", "gone", "of-rq-2"):
        redis.hset(f"rq:job:{job}", mapping={**JOB, "status": "canceled"})
        redis.zadd("rq:canceled:gpu", {job: long_ago})
    assert set(tasks(tmp_path, redis_url, "task-1", "gone", "of-rq-2", **RQ)) == {
        "task-1",
        "of-rq-2",
    }
    assert sample(tmp_path, redis_url, **RQ).in_flight == 2


def test_a_bad_job_costs_only_itself(redis: Redis, redis_url: str, tmp_path: Path) -> None:
    """And it is counted at each reading, by its key."""
    redis.sadd("rq:queues", "rq:queue:gpu")
    redis.rpush("rq:queue:gpu", "good", "bad", "none", "forgotten")
    redis.hset("rq:job:good", mapping=JOB)
    redis.hset("rq:job:bad", mapping={**JOB, "enqueued_at": "yesterday"})
    redis.set("rq:job:none", "x")
    store = Store(tmp_path, "gateway", url=redis_url, **RQ)
    for _ in range(2):
        read = store.read(named=["good", "bad", "none", "forgotten"])
        assert sorted((str(bad.reason), bad.key) for bad in read.rejected) == [
            ("invalid_instant", "rq:job:bad: enqueued_at"),
            ("invalid_record", "rq:job:none: is no hash"),
        ]
        assert [task.task_id for task in read.rows] == ["good"]


def test_jobs_that_rest_are_read_once(
    redis: Redis, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long queue costs the list of its ids, and no more; what moves is read again."""
    redis.sadd("rq:queues", "rq:queue:gpu")
    jobs = [f"task-{number}" for number in range(5_000)]
    for job in jobs:
        redis.hset(f"rq:job:{job}", mapping=JOB)
    redis.rpush("rq:queue:gpu", *jobs)
    store = Store(tmp_path, "gateway", url=redis_url, **RQ)
    store.read()
    asked: list[int] = []
    source = store.gateway._mirror.source  # type: ignore[union-attr]  # a mirrored gateway
    ask = source._database.ask_each

    def count(keys: list[str], name: str, *words: str) -> Any:
        asked.append(len(keys) if name == "HMGET" else 0)
        return ask(keys, name, *words)

    monkeypatch.setattr(source._database, "ask_each", count)
    redis.lpop("rq:queue:gpu", 10)
    redis.zadd("rq:finished:gpu", {"task-0": NOW})
    redis.hset("rq:job:new", mapping=JOB)
    redis.rpush("rq:queue:gpu", "new")
    read = store.read(named=[*jobs, "new"])
    assert sum(asked) == 2
    assert len(read.rows) == 5_000 - 10 + 2


def test_of_jobs_that_ended_the_newest_are_looked_at(
    redis: Redis, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A registry may hold a year's failures; RQ sorts it by when they will be forgotten."""
    monkeypatch.setattr(rq_jobs, "BATCH", 2)
    monkeypatch.setattr(rq_jobs, "_ENDED_KEPT", 4)
    redis.sadd("rq:queues", "rq:queue:gpu")
    jobs = [f"task-{number}" for number in range(7)]
    for number, job in enumerate(jobs):
        redis.hset(f"rq:job:{job}", mapping={**JOB, "status": "failed"})
        redis.zadd("rq:failed:gpu", {job: NOW + number})
    found = tasks(tmp_path, redis_url, *jobs, **RQ)
    assert set(found) == set(jobs[3:])
    assert {it.finished_at for it in found.values()} == {None}  # nothing says when
