"""With which rights Redis is read, and with which commands: every way, on a real server."""

from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis_stores import (
    FORM,
    READER,
    READS,
    SECRET,
    Store,
    as_reader,
    client,
    clock_at,
    problem_of,
    recorded,
    with_user,
)
from stack_file import ZERO

from orphanwatch.exporter.errors import StoreError

pytestmark = pytest.mark.servers

CLOCK = clock_at(ZERO + 100.0)

KEYS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("leases", FORM),
    ("leases", {"type": "redis", "key": "string:{task_id}", "value": "heartbeat_at", "unit": "s"}),
    ("leases", {"type": "redis", "key": "string:{task_id}", "ttl": "30s"}),
    ("leases", {"type": "redis", "key": "string:{task_id}"}),
    (
        "leases",
        {
            "type": "redis", "key": "running", "member": "{task_id}", "score": "heartbeat_at",
            "unit": "s",
        },
    ),
    ("gateway", {"preset": "rq"}),
    ("leases", {"preset": "rq"}),
    ("leases", {"preset": "rq", "queues": ["gpu"]}),
    ("queue", {"preset": "rq"}),
    ("gateway", {"preset": "celery"}),
    ("leases", {"preset": "celery"}),
    ("leases", {"preset": "celery", "acks_late": True}),
    ("queue", {"preset": "celery"}),
    ("leases", {"preset": "bullmq", "queues": ["gpu"]}),
    ("queue", {"preset": "bullmq", "queues": ["gpu"]}),
)  # fmt: skip
"""Every way in which Redis is read."""


def fill(redis: Redis) -> None:
    """Write keys of every system, such that nothing that is read is left out."""
    redis.hset("lease:t1", "beat", ZERO)
    redis.hset("lease:empty", "other", ZERO)
    redis.set("string:t1", ZERO, px=30_000)
    redis.lpush("string:bad", "x")
    redis.zadd("running", {"t1": ZERO})
    redis.sadd("rq:queues", "rq:queue:gpu")
    redis.sadd("rq:workers", "rq:worker:w1")
    redis.sadd("rq:worker:w1:executions", "t1:e1")
    redis.hset("rq:worker:w1", mapping={"state": "busy", "current_job": "t1"})
    stamps: dict[Any, Any] = {
        "created_at": str(ZERO),
        "last_heartbeat": str(ZERO),
        "worker_name": "w1",
    }
    redis.hset("rq:execution:t1:e1", mapping=stamps)
    redis.hset("rq:job:t1", mapping={"origin": "gpu", "created_at": "2027-01-15T08:00:00Z"})
    redis.rpush("rq:queue:gpu", "t2")
    redis.zadd("rq:canceled:gpu", {"t1": ZERO})
    redis.zadd("rq:finished:gpu", {"t3": ZERO})
    redis.hset("rq:job:t3", mapping={"status": "stopped", "created_at": "2027-01-15T08:00:00Z"})
    redis.xadd("rq:results:t3", {"type": "3"})
    redis.set("celery-task-meta-t1", '{"status": "REVOKED", "result": null}')
    redis.zadd("unacked_index", {"tag": ZERO})
    redis.hset("unacked", "tag", "[]")
    redis.lpush("celery", "{}")
    redis.hset("bull:gpu:meta", "x", "y")
    redis.lpush("bull:gpu:active", "t1")
    redis.lpush("bull:gpu:wait", "t2")


@pytest.mark.parametrize(("role", "settings"), KEYS)
def test_a_user_who_may_only_read_is_enough(
    role: str, settings: dict[str, Any], redis_url: str, tmp_path: Path
) -> None:
    """The rights are those that the docs say; a password in the URL is taken."""
    with client(redis_url) as redis:
        fill(redis)
    store = Store(tmp_path, role, CLOCK, url=as_reader(redis_url), **settings)
    if "celery" in settings.values() and role == "leases" and not settings.get("acks_late"):
        with pytest.raises(StoreError, match="no Celery worker is heard"):
            store.read()
    else:
        assert store.read().skew is not None


def test_nothing_but_reads_is_ever_sent(redis_url: str, tmp_path: Path) -> None:
    """As the server itself has heard it: no write, and no KEYS, which stops it for all others."""
    with client(redis_url) as redis:
        fill(redis)
    before = dump(redis_url)
    with recorded(redis_url) as names:
        for role, settings in KEYS:
            store = Store(tmp_path, role, CLOCK, url=redis_url, **settings)
            try:
                store.read()
            except StoreError as error:
                assert "no Celery worker is heard" in error.problem  # noqa: PT017  (one of many)
        sent = names()
    assert sent <= READS
    assert {"SCAN", "ZSCAN", "HMGET", "MGET", "PTTL", "PSUBSCRIBE", "TIME", "XREVRANGE"} <= sent
    assert dump(redis_url) == before


def dump(url: str) -> dict[bytes, bytes]:
    """Return the whole database."""
    with Redis.from_url(url) as redis:
        return {key: redis.dump(key) for key in redis.scan_iter()}


def test_the_servers_clock_is_compared_with_ours(redis_url: str, tmp_path: Path) -> None:
    """A skew moves every age; a user who may not ask for the time leaves it unknown."""
    with client(redis_url) as redis:
        redis.hset("lease:t1", "beat", ZERO)
    assert abs(Store(tmp_path, "leases", url=redis_url, **FORM).read().skew or 9) < 1
    ahead = Store(tmp_path, "leases", CLOCK, url=redis_url, **FORM).read().skew
    assert ahead is not None
    assert abs(ahead) > 86400
    untold = as_reader(redis_url, "~*", "+@read", "+@connection")
    read = Store(tmp_path, "leases", url=untold, **FORM).read()
    assert read.skew is None
    assert len(read.rows) == 1


@pytest.mark.parametrize(
    ("rights", "url_of", "said"),
    [
        pytest.param(
            ("~*", "+@all"), lambda url: with_user(url, READER, SECRET + "!"),
            "does not take this user and password; check both", id="a wrong password",
        ),
        pytest.param(
            ("~*", "+@connection"), lambda url: with_user(url, READER, SECRET),
            "does not let this user read what is needed; grant it +@read", id="too few rights",
        ),
        pytest.param(
            ("~other:*", "+@read", "+@connection"), lambda url: with_user(url, READER, SECRET),
            "does not let this user read what is needed; grant it +@read", id="other keys only",
        ),
    ],
)  # fmt: skip
def test_a_user_without_the_rights_is_told_what_to_grant(
    rights: tuple[str, ...], url_of: Any, said: str, redis_url: str, tmp_path: Path
) -> None:
    """Where the server is, and the remedy; not who asked, and not with which password."""
    with client(redis_url) as redis:
        redis.hset("lease:t1", "beat", ZERO)
    as_reader(redis_url, *rights)
    problem = problem_of(Store(tmp_path, "leases", CLOCK, url=url_of(redis_url), **FORM))
    assert problem.startswith("the Redis at 127.0.0.1:")
    assert said in problem
    assert READER not in problem


def test_an_old_server_that_does_not_know_hello_is_scanned(redis_url: str, tmp_path: Path) -> None:
    """Before Redis 6 nobody could ask whether it is a node of a cluster."""
    with client(redis_url) as redis:
        redis.hset("lease:t1", "beat", ZERO)
    url = as_reader(redis_url, "~*", "+@read", "+@connection", "-hello")
    store = Store(tmp_path, "leases", CLOCK, url=url, **FORM)
    assert [it.task_id for it in store.read().rows] == ["t1"]


def test_celerys_events_need_a_right_of_their_own(redis_url: str, tmp_path: Path) -> None:
    """To listen is no read; the remedy names it."""
    url = as_reader(redis_url, "~*", "+@read", "+@connection")
    problem = problem_of(Store(tmp_path, "leases", url=url, preset="celery"))
    assert "+psubscribe &*" in problem
