"""The preset for BullMQ, on what a real BullMQ writes: its queue, and workers of Node."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bullmq_programs import QUEUE, BullMq
from held_jobs import let_go
from redis import Redis
from redis_stack import RedisStack
from redis_stores import Store, client, clock_at, leases, sample
from servers import wait_until
from stack_file import ZERO

from orphanwatch.exporter.clock import wall_clock
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import SECOND, instant_of_epoch
from orphanwatch.exporter.names import RejectReason

pytestmark = pytest.mark.servers

BULLMQ: dict[str, Any] = {"preset": "bullmq", "queues": [QUEUE]}
CLOCK = clock_at(ZERO + 100.0)


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    """Return a client of an empty database, which speaks text."""
    with client(redis_url) as connected:
        yield connected


@pytest.fixture
def bullmq(redis_url: str, tmp_path: Path) -> BullMq:
    """Return a queue by BullMQ itself."""
    return BullMq(tmp_path, redis_url)


def taken(redis: Redis, *jobs: str) -> bool:
    """Tell whether these jobs, and no others, are at work."""
    return set(redis.lrange(f"bull:{QUEUE}:active", 0, -1)) == set(jobs)


def test_a_job_whose_client_left_is_an_orphan_until_it_ends(
    bullmq: BullMq, redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    """The cancel is the gateway's: BullMQ keeps none in Redis."""
    store = {**BULLMQ, "url": redis_url}
    stack = RedisStack(tmp_path, QUEUE, leases=store, queue=store)
    stack.submit("first", "second", "waits")
    for job in ("first", "second", "waits"):
        bullmq.add(job)
    with bullmq.worker():
        wait_until("two jobs' start", lambda: taken(redis, "first", "second"), 30)
        calm = stack.snapshot()
        assert calm.orphans == []
        assert calm.value("orphan_live_leases", pool=QUEUE) == 2
        assert calm.value("orphan_queue_depth") == 1
        assert calm.value("orphan_queue_in_flight") == 2

        stack.cancel("first")
        orphaned = stack.snapshot()
        assert orphaned.orphans == [("first", "client_cancel", True)]
        assert orphaned.action == "shed"

        let_go(redis_url, "first")
        wait_until("the next job's start", lambda: taken(redis, "second", "waits"), 30)
        over = stack.snapshot()
        assert over.orphans == []
        assert over.action != "shed"
        for job in ("second", "waits"):
            let_go(redis_url, job)
        wait_until("the end of all", lambda: taken(redis), 30)


def test_an_active_job_is_a_lease_of_its_worker(
    bullmq: BullMq, redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    """Its lock is renewed each half of its duration, and so tells the last beat."""
    bullmq.add("named")
    before = wall_clock()
    settings = {**BULLMQ, "ttl": "2s"}
    with bullmq.worker(LOCK_DURATION="2000", WORKER_NAME="node-7"):
        wait_until("the job's start", lambda: taken(redis, "named"), 30)
        [lease] = leases(tmp_path, redis_url, **settings)
        assert (lease.task_id, lease.worker_id, lease.pool) == ("named", "node-7", QUEUE)
        assert lease.acquired_at is not None
        assert lease.heartbeat_at is not None
        assert before - SECOND < lease.acquired_at <= wall_clock()
        time.sleep(3)
        [later] = leases(tmp_path, redis_url, **settings)
        assert later.acquired_at == lease.acquired_at
        assert later.heartbeat_at is not None
        assert wall_clock() - later.heartbeat_at < 2 * SECOND
        let_go(redis_url, "named")
        wait_until("its end", lambda: taken(redis), 30)


def test_a_job_whose_lock_has_expired_is_an_expired_lease(
    bullmq: BullMq, redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    """Its worker hangs or is gone: such a lease has no beat, and is as old as its start."""
    settings = {**BULLMQ, "ttl": "1s", "url": redis_url}
    stack = RedisStack(tmp_path, QUEUE, leases=settings, queue={**BULLMQ, "url": redis_url})
    stack.submit("deaf")
    with bullmq.worker(LOCK_DURATION="1000"):
        bullmq.add("deaf")
        wait_until("the job's start", lambda: taken(redis, "deaf"), 30)
        wait_until("the lock's end", lambda: not redis.exists(f"bull:{QUEUE}:deaf:lock"), 30)
        shown = stack.snapshot()
    assert shown.value("orphan_store_up", store="leases") == 1, shown.reasons
    assert shown.value("orphan_live_leases") == 0
    assert shown.value("orphan_expired_leases") == 1


def test_a_queue_is_what_waits_however_it_was_added(
    bullmq: BullMq, redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    """A job of a priority waits beside the others; a delayed one not yet."""
    bullmq.add("plain")
    bullmq.add("urgent", priority=5)
    bullmq.add("later", delay=60_000)
    bullmq.add("elsewhere", queue="other")
    read = sample(tmp_path, redis_url, **BULLMQ)
    assert (read.depth, read.in_flight) == (2, 0)
    assert read.age_seconds is not None
    assert 0 < read.age_seconds < 60
    oldest = redis.hget(f"bull:{QUEUE}:plain", "timestamp")
    now = clock_at(int(str(oldest)) / 1000 + 7)
    assert sample(tmp_path, redis_url, now, **BULLMQ).age_seconds == pytest.approx(7)
    both = {**BULLMQ, "queues": [QUEUE, "other"]}
    assert sample(tmp_path, redis_url, **both).depth == 3


def test_a_queue_that_is_not_there_is_no_idle_one(redis_url: str, tmp_path: Path) -> None:
    """Else a slip of the keyboard would look like peace."""
    for role in ("leases", "queue"):
        with pytest.raises(StoreError, match="shows no sign of BullMQ's queue generate; check"):
            Store(tmp_path, role, url=redis_url, **BULLMQ).read()


def test_an_idle_queue_is_zero(
    bullmq: BullMq, redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    """BullMQ has been there, and says so."""
    bullmq.add("gone")
    redis.delete(f"bull:{QUEUE}:wait", f"bull:{QUEUE}:gone")
    assert leases(tmp_path, redis_url, **BULLMQ) == []
    assert sample(tmp_path, redis_url, **BULLMQ)[1:4] == (0, 0, 0)


def test_one_bad_job_costs_only_itself(redis: Redis, redis_url: str, tmp_path: Path) -> None:
    """Each is counted by its key; a job that is gone while its lock lives is a lease still."""
    redis.lpush("{b}:generate:active", "good", "forever", "odd", "gone", "list")
    for job in ("good", "odd", "gone", "list"):
        redis.set(f"{{b}}:generate:{job}:lock", "token-of-w1:3", px=20_000)
    redis.set("{b}:generate:forever:lock", "token-of-w1:4")
    redis.hset("{b}:generate:good", mapping={"processedOn": f"{ZERO}000", "pb": "w1"})
    redis.hset("{b}:generate:odd", mapping={"processedOn": "today", "pb": "w1"})
    redis.lpush("{b}:generate:list", "x")
    store = Store(tmp_path, "leases", CLOCK, url=redis_url, **BULLMQ, prefix="{b}")
    read = store.read()
    assert {(it.task_id, it.worker_id, it.acquired_at) for it in read.rows} == {
        ("good", "w1", instant_of_epoch(ZERO)),
        ("gone", "token-of-w1", None),
        ("list", "token-of-w1", None),
    }
    for lease in read.rows:
        since = instant_of_epoch(ZERO + 100) - lease.heartbeat_at
        assert since == pytest.approx(10 * SECOND, abs=SECOND)
    assert sorted((str(bad.reason), bad.key) for bad in read.rejected) == [
        (str(RejectReason.INVALID_INSTANT), "generate odd: processedOn"),
        (str(RejectReason.INVALID_INSTANT), "{b}:generate:forever:lock: has no expiry"),
    ]
