"""The preset for RQ, on what a real RQ writes: its library, and a worker that forks."""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_session import run
from held_jobs import hold, let_go
from redis import Redis
from redis_stack import Snapshot
from redis_stores import client, leases, sample, tasks
from rq import Queue
from rq.command import send_stop_job_command
from rq.job import Job
from servers import running, wait_until

from orphanwatch.exporter.clock import wall_clock
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import SECOND, instant_of_datetime, instant_of_epoch

pytestmark = pytest.mark.servers

HERE = Path(__file__).parent
RQ: dict[str, Any] = {"preset": "rq"}


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    """Return a client of an empty database, which speaks text."""
    with client(redis_url) as connected:
        yield connected


@pytest.fixture
def queue(redis_url: str) -> Iterator[Queue]:
    """Return a queue by RQ's own library."""
    with Redis.from_url(redis_url) as connection:
        yield Queue("gpu", connection=connection)


@pytest.fixture
def worker(redis_url: str, tmp_path: Path) -> Iterator[None]:
    """Run a real worker of that queue, which forks for each job."""
    command = ["env", f"PYTHONPATH={HERE}", sys.executable, "-m", "rq.cli", "worker", "gpu"]
    command += ["--url", redis_url, "--name", "w1"]
    with running(command, tmp_path / "worker.log"):
        yield


def enqueue(queue: Queue, url: str, task: str) -> Job:
    """Enqueue a job that runs until it is let go."""
    return queue.enqueue(hold, url, task, job_id=task)


def runs(redis: Redis, task: str) -> bool:
    """Tell whether a worker is at a job, by its execution."""
    return any(redis.scan_iter(f"rq:execution:{task}:*"))


def wait_for(redis: Redis, task: str, *, begun: bool) -> None:
    """Wait until a job has begun, or until it is over."""
    what = f"the {'start' if begun else 'end'} of {task}"
    wait_until(what, lambda: runs(redis, task) is begun, 30)


def shown(folder: Path, url: str) -> Snapshot:
    """Return what ``orphanwatch snapshot`` shows of a stack that is all RQ."""
    document = {
        "pools": {"gpu": {"role": "overflow"}},
        "grace_seconds": "200ms",
        "clock_skew_allowance": "1s",
        "stores": {
            "gateway": {**RQ, "url": url},
            "leases": {**RQ, "url": url},
            "queue": {**RQ, "url": url, "admission_cap": 4},
        },
    }
    (folder / "orphanwatch.yml").write_text(yaml.safe_dump(document), encoding="utf-8")
    answer = run(folder, "snapshot", "--config.file", "orphanwatch.yml", "--format", "json")
    assert answer.code == 0, answer.err
    return Snapshot(json.loads(answer.out))


@pytest.mark.usefixtures("worker")
def test_a_job_cancelled_while_it_runs_is_an_orphan_until_it_ends(
    queue: Queue, redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    """A cancel empties RQ's registry of started jobs at once; the worker goes on all the same."""
    enqueue(queue, redis_url, "done")
    let_go(redis_url, "done")
    wait_until("the first job's end", lambda: bool(redis.zcard("rq:finished:gpu")), 30)
    job = enqueue(queue, redis_url, "task-1")
    enqueue(queue, redis_url, "waits")
    wait_for(redis, "task-1", begun=True)

    calm = shown(tmp_path, redis_url)
    assert calm.orphans == []
    assert calm.value("orphan_live_leases", pool="gpu") == 1
    assert calm.value("orphan_queue_depth") == 1
    assert calm.value("orphan_queue_in_flight") == 1
    assert calm.value("orphan_in_flight_gap") == 0

    time.sleep(1)  # RQ stamps a cancel in whole seconds, so within one it may seem to come first
    job.cancel()
    time.sleep(1.4)  # grace and allowance
    assert redis.zcard("rq:wip:gpu") == 0
    orphaned = shown(tmp_path, redis_url)
    assert orphaned.orphans == [("task-1", "client_cancel", True)]
    assert orphaned.action == "shed"
    assert orphaned.value("orphan_leases", pool="gpu", cause="client_cancel") == 1
    assert orphaned.value("orphan_in_flight_gap") == 1
    assert orphaned.value("orphan_cancel_propagation_open", pool="gpu") == 1

    let_go(redis_url, "task-1")
    wait_for(redis, "waits", begun=True)
    over = shown(tmp_path, redis_url)
    assert over.orphans == []
    assert over.action != "shed"
    assert over.value("orphan_abandoned_tasks", pool="gpu", cause="client_cancel") == 1
    assert over.value("orphan_live_leases", pool="gpu") == 1
    let_go(redis_url, "waits")
    wait_for(redis, "waits", begun=False)
    assert shown(tmp_path, redis_url).value("orphan_live_leases") == 0


@pytest.mark.usefixtures("worker")
def test_a_job_that_is_stopped_with_its_cancel_is_no_orphan(
    queue: Queue, redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    """That is what the page tells to do: cancel, and send the worker a stop-job command."""
    job = enqueue(queue, redis_url, "task-1")
    wait_until("the job's start", lambda: bool(redis.hget("rq:job:task-1", "worker_name")), 30)
    before = wall_clock()
    job.cancel()
    send_stop_job_command(queue.connection, job.id)
    wait_for(redis, "task-1", begun=False)
    assert leases(tmp_path, redis_url, **RQ) == []
    task = tasks(tmp_path, redis_url, "task-1", **RQ)["task-1"]
    assert task.cancelled_at is not None
    # RQ does not say in the job when it was stopped.
    assert task.finished_at is not None
    assert before - SECOND <= task.cancelled_at <= task.finished_at <= wall_clock()
    assert not task.ok


@pytest.mark.usefixtures("worker")
def test_an_execution_is_a_lease(
    queue: Queue, redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    """With its worker, the queue as its pool, its start and its last beat."""
    before = wall_clock()
    enqueue(queue, redis_url, "task-1")
    wait_for(redis, "task-1", begun=True)
    [lease] = leases(tmp_path, redis_url, **RQ)
    assert (lease.task_id, lease.worker_id, lease.pool) == ("task-1", "w1", "gpu")
    assert lease.acquired_at is not None
    assert lease.heartbeat_at is not None
    assert before <= lease.acquired_at <= lease.heartbeat_at <= wall_clock()
    assert leases(tmp_path, redis_url, **RQ, queues=["gpu"]) == [lease]
    with pytest.raises(StoreError, match="shows no sign of RQ's queue cpu"):
        sample(tmp_path, redis_url, **RQ, queues=["cpu"])
    let_go(redis_url, "task-1")
    wait_for(redis, "task-1", begun=False)


def test_jobs_that_wait_are_tasks_and_the_queues_depth(
    queue: Queue, redis_url: str, tmp_path: Path
) -> None:
    """Of all queues together; the age is that of the one that has waited longest."""
    first = enqueue(queue, redis_url, "task-1")
    other = Queue("cpu", connection=queue.connection)
    enqueue(other, redis_url, "task-2")
    assert first.enqueued_at is not None
    enqueued = instant_of_datetime(first.enqueued_at)
    now = enqueued + 5 * SECOND
    read = sample(tmp_path, redis_url, lambda: instant_of_epoch(now / SECOND), **RQ)
    assert (read.sampled_at, read.depth, read.age_seconds, read.in_flight) == (now, 2, 5, 0)
    assert sample(tmp_path, redis_url, **RQ, queues=["cpu"]).depth == 1
    found = tasks(tmp_path, redis_url, "task-1", "task-2", **RQ)
    assert {task: it.pool for task, it in found.items()} == {"task-1": "gpu", "task-2": "cpu"}
    assert found["task-1"].submitted_at == enqueued
    assert found["task-1"].finished_at is None


def test_an_idle_queue_waits_for_nothing(queue: Queue, redis_url: str, tmp_path: Path) -> None:
    """Zero is a reading: RQ is there, and says so."""
    enqueue(queue, redis_url, "task-1").delete()
    read = sample(tmp_path, redis_url, **RQ)
    assert (read.depth, read.age_seconds, read.in_flight) == (0, 0, 0)
    assert leases(tmp_path, redis_url, **RQ) == []


@pytest.mark.usefixtures("worker")
def test_how_jobs_end_is_told(queue: Queue, redis: Redis, redis_url: str, tmp_path: Path) -> None:
    """Well or badly, and which were cancelled before a worker came to them."""
    enqueue(queue, redis_url, "held")
    enqueue(queue, redis_url, "cancelled").cancel()
    queue.enqueue("held_jobs.fail", "bad", job_id="bad")
    let_go(redis_url, "held")
    wait_until("the last job's end", lambda: bool(redis.zcard("rq:failed:gpu")), 30)
    found = tasks(tmp_path, redis_url, "held", "cancelled", "bad", **RQ)
    assert {task: (it.ok, it.finished_at is not None) for task, it in found.items()} == {
        "held": (True, True),
        "cancelled": (True, False),
        "bad": (False, True),
    }
    cancelled, submitted = found["cancelled"].cancelled_at, found["cancelled"].submitted_at
    assert cancelled is not None
    assert submitted is not None
    assert cancelled >= submitted
    assert found["held"].cancelled_at is None
