"""The preset for Celery, on keys and events of its own making or of ours: each in its form."""

import json
from pathlib import Path
from typing import Any

import pytest
from celery_app import app_on
from redis import Redis
from redis_stores import Store, client, leases, sample, tasks

from orphanwatch.exporter.clock import wall_clock
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import SECOND, instant_of_epoch
from orphanwatch.exporter.names import RejectReason
from orphanwatch.exporter.stores.questions import Windows

pytestmark = pytest.mark.servers

CELERY: dict[str, Any] = {"preset": "celery"}
LATE: dict[str, Any] = {**CELERY, "acks_late": True}

RESULT = '{"status": "%s", "result": "%s", "traceback": null, "children": [], "date_done": "%s"%s}'
DONE = "2026-05-01T12:00:00.250000+00:00"
AT = instant_of_epoch(1_777_636_800.25)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        pytest.param(RESULT % ("SUCCESS", "x" * 9_000, DONE, ""), [AT], id="a long result"),
        pytest.param(
            RESULT % ("SUCCESS", "x", DONE, ', "args": "%s"' % ("y" * 9_000)), [AT],
            id="an extended one, which has more after it",
        ),
        pytest.param(
            RESULT % ("SUCCESS", "x", "2026-05-01T12:00:00.250000", ""), [AT],
            id="of an older version, in UTC without saying so",
        ),
        pytest.param('{"status": "STARTED", "result": {"pid": 7}}', [], id="it still runs"),
    ],
)  # fmt: skip
def test_a_result_says_when_its_task_was_done(
    result: str, expected: list[object], redis_url: str, tmp_path: Path
) -> None:
    """Only its first and last few characters are looked at, for as long as that will do."""
    with client(redis_url) as redis:
        redis.set("celery-task-meta-task-1", result)
    found = tasks(tmp_path, redis_url, "task-1", **CELERY)
    assert [it.finished_at for it in found.values()] == expected


def test_what_is_no_json_is_not_read(redis_url: str, tmp_path: Path) -> None:
    """A pickle least of all: it is counted, and its task unknown."""
    with Redis.from_url(redis_url) as redis:
        redis.set("celery-task-meta-pickled", b"\x80\x04\x95...cos\nsystem")
        redis.lpush("celery-task-meta-list", "x")
        redis.set("celery-task-meta-torn", RESULT[:-40] % ("SUCCESS", "x" * 500))
        redis.set("celery-task-meta-odd", RESULT % ("SUCCESS", "x", "soon", ""))
        redis.set("celery-task-meta-good", RESULT % ("SUCCESS", "x", DONE, ""))
        redis.hset("unacked", mapping={"pickled": b"\x80\x04", "odd": "[1]", "good": MESSAGE})
        redis.zadd(
            "unacked_index", {"pickled": 1.79e9, "odd": 1.79e9, "good": 1.79e9, "gone": 1.79e9}
        )
        redis.zadd("unacked_index", {"ever": "inf"})
        redis.hset("unacked", "ever", MESSAGE)
    read = Store(tmp_path, "gateway", url=redis_url, **CELERY).read(
        named=["good", "pickled", "torn"]
    )
    assert {task.task_id: task.finished_at for task in read.rows} == {"good": AT, "torn": None}
    assert sorted((str(bad.reason), bad.key) for bad in read.rejected) == [
        ("invalid_instant", "celery-task-meta-odd: date_done"),
        ("invalid_record", "celery-task-meta-list: is no result as JSON"),
        ("invalid_record", "celery-task-meta-pickled: is no result as JSON"),
    ]
    read = Store(tmp_path, "leases", url=redis_url, **LATE).read()
    assert [(it.task_id, it.pool) for it in read.rows] == [("task-1", "gpu")]
    assert {bad.reason for bad in read.rejected} == {
        RejectReason.INVALID_RECORD, RejectReason.INVALID_INSTANT
    }  # fmt: skip
    assert len(read.rejected) == 3


MESSAGE = json.dumps(
    (
        {"body": "W10=", "headers": {"id": "task-1"}, "properties": {"correlation_id": "x"}},
        "",
        "gpu",
    )
)
OLD_MESSAGE = json.dumps(
    ({"body": "W10=", "headers": {}, "properties": {"correlation_id": "task-2"}}, "", "cpu")
)


def test_an_unacknowledged_message_is_a_lease_since_its_delivery(
    redis_url: str, tmp_path: Path
) -> None:
    """With its queue as its pool, and without any beat: it lives until it is acknowledged."""
    with client(redis_url) as redis:
        redis.hset("unacked", mapping={"a": MESSAGE, "b": OLD_MESSAGE})
        redis.zadd("unacked_index", {"a": 1_790_000_000.5, "b": 1_790_000_001})
    store = Store(tmp_path, "leases", url=redis_url, **LATE)
    assert store.leases is not None
    assert not store.leases.states_heartbeats
    for _ in range(2):
        found = {it.task_id: (it.pool, it.acquired_at) for it in store.read().rows}
        assert found == {
            "task-1": ("gpu", instant_of_epoch(1_790_000_000.5)),
            "task-2": ("cpu", instant_of_epoch(1_790_000_001)),
        }
    [lease] = leases(tmp_path, redis_url, **LATE, queues=["cpu"])
    assert lease.task_id == "task-2"


@pytest.mark.parametrize(
    ("settings", "depth", "in_flight"),
    [
        pytest.param(CELERY, 6, None, id="taken early, a message still waits"),
        pytest.param(LATE, 4, 2, id="taken late, it is in flight"),
    ],
)
def test_a_queue_is_the_lists_of_all_priorities(
    settings: dict[str, Any], depth: float, in_flight: float | None, redis_url: str, tmp_path: Path
) -> None:
    """Since when a message waits is unknown."""
    with app_on(redis_url, broker_transport_options={"queue_order_strategy": "priority"}) as app:
        for priority in (0, 3, 6, 9):
            app.send_task("hold", (), priority=priority)
    with client(redis_url) as redis:
        assert redis.llen("celery") == 1
        redis.hset("unacked", mapping={"a": MESSAGE, "b": OLD_MESSAGE})
    read = sample(tmp_path, redis_url, **settings)
    assert (read.depth, read.in_flight, read.age_seconds) == (depth, in_flight, None)


def test_a_prefix_is_before_every_key_and_channel(redis_url: str, tmp_path: Path) -> None:
    """Celery's global_keyprefix, for brokers that are shared."""
    options = {"global_keyprefix": "[app]:"}
    with app_on(redis_url, broker_transport_options=options) as app:
        app.send_task("hold", ())
        settings: dict[str, Any] = {"prefix": "[app]:"}
        assert sample(tmp_path, redis_url, **CELERY, **settings).depth == 1
        store = Store(tmp_path, "leases", url=redis_url, **CELERY, **settings)
        with app.events.default_dispatcher(hostname="w1@here") as dispatcher:
            source = store.leases._source  # type: ignore[union-attr]  # a listed store
            source._stream.open()
            dispatcher.send("worker-online", active=0, processed=0, freq=2.0)
            dispatcher.send("task-started", uuid="task-1")
            assert [it.task_id for it in store.read().rows] == ["task-1"]


@pytest.mark.parametrize("settings", [CELERY, LATE], ids=["events", "keys"])
def test_a_database_without_celery_is_no_idle_celery(
    settings: dict[str, Any], redis_url: str, tmp_path: Path
) -> None:
    """Else a wrong number of the database would look like peace."""
    with pytest.raises(StoreError, match=r"no Celery worker is heard|shows no sign of Celery"):
        Store(tmp_path, "leases", url=redis_url, **settings).read()
    with pytest.raises(StoreError, match="shows no sign of Celery's queue celery"):
        Store(tmp_path, "queue", url=redis_url, **settings).read()


def test_events_that_are_pickled_are_not_read(redis_url: str, tmp_path: Path) -> None:
    """They make the store blind, with the remedy; noise on the channel is only counted."""
    store = Store(tmp_path, "leases", url=redis_url, timeout="5s", **CELERY)
    source = store.leases._source  # type: ignore[union-attr]  # a listed store
    source._stream.open()
    database = redis_url.rsplit("/", 1)[1]
    online = {
        "type": "worker-online", "hostname": "w1", "pid": 1, "active": 0, "processed": 0,
        "timestamp": wall_clock() / SECOND,
    }  # fmt: skip
    plain = {"content-type": "application/json", "body": json.dumps(online), "properties": {}}
    pickled = {"content-type": "application/x-python-serialize", "body": "gAQ=", "properties": {}}
    with client(redis_url) as redis:
        vague = {**plain, "body": json.dumps([{**online, "hostname": None}, {}])}
        for message in ("noise", json.dumps(plain), json.dumps(vague)):
            redis.publish(f"/{database}.celeryev/worker.online", message)
        read = store.read()
        assert read.rows == []
        assert sorted(bad.key for bad in read.rejected) == [
            "event: can't be read (JSONDecodeError)",
            "event: names no worker",
        ]
        redis.publish(f"/{database}.celeryev/task.multi", json.dumps(pickled))
        with pytest.raises(StoreError, match="set event_serializer to json"):
            store.read()


@pytest.mark.parametrize(
    ("key", "role", "settings"),
    [("unacked_index", "leases", LATE), ("unacked", "leases", LATE), ("celery", "queue", CELERY)],
)
def test_a_key_of_celerys_that_is_somebody_elses_is_no_zero(
    key: str, role: str, settings: dict[str, Any], redis_url: str, tmp_path: Path
) -> None:
    """Without it nothing is known; that is blind."""
    with client(redis_url) as redis:
        redis.zadd("unacked_index", {"tag": 1})
        redis.set(key, "x")
    with pytest.raises(StoreError, match="keeps another kind of value at a key"):
        Store(tmp_path, role, url=redis_url, **settings).read()


PICKLED = b"\x80\x04\x95...cos\nsystem"


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        pytest.param({}, "shows no sign of Celery's results", id="an empty database"),
        pytest.param({"session:1": "x"}, "shows no sign of Celery's results", id="somebody else's"),
        pytest.param(
            {"celery-task-meta-a": PICKLED, "celery-task-meta-b": PICKLED},
            "none of the 2 results at celery-task-meta-\\* is JSON.*set result_serializer to json",
            id="nothing but pickles",
        ),
        pytest.param(
            {"celery-task-meta-a": PICKLED, "_kombu.binding.celery": "x"},
            "none of the 1 results",
            id="nothing but pickles beside a broker",
        ),
    ],
)
def test_a_database_without_a_result_is_no_gateway_at_peace(
    keys: dict[str, str | bytes], problem: str, redis_url: str, tmp_path: Path
) -> None:
    """A wrong number of the database, and results that can't be read: that is blind."""
    with Redis.from_url(redis_url) as redis:
        for key, value in keys.items():
            redis.set(key, value)
    with pytest.raises(StoreError, match=problem):
        Store(tmp_path, "gateway", url=redis_url, **CELERY).read()


@pytest.mark.parametrize("prefix", ["", "[app]:"])
def test_a_broker_in_the_same_database_is_a_sign_of_celery(
    prefix: str, redis_url: str, tmp_path: Path
) -> None:
    """No task has ended yet: that is zero, and ``check`` tells what is not known."""
    with app_on(redis_url, broker_transport_options={"global_keyprefix": prefix}) as app:
        app.send_task("hold", ())
    store = Store(tmp_path, "gateway", url=redis_url, **CELERY, prefix=prefix)
    assert store.read().rows == []
    assert store.gateway is not None
    store.gateway.open(Windows.ending(wall_clock(), store.config))
    [note] = store.gateway.inspect().notes
    store.gateway.close()
    assert note.startswith("no task has left a result yet: check that the database is the one of")


def test_results_that_have_all_expired_since_are_no_fault(redis_url: str, tmp_path: Path) -> None:
    """It was the right database; but what comes instead must be readable again."""
    store = Store(tmp_path, "gateway", url=redis_url, **CELERY)
    with Redis.from_url(redis_url) as redis:
        redis.set("celery-task-meta-a", RESULT % ("SUCCESS", "x", DONE, ""))
        assert len(store.read(named=["a"]).rows) == 1
        redis.delete("celery-task-meta-a")
        assert store.read(named=["a"]).rows == []
        redis.set("celery-task-meta-b", PICKLED)
        with pytest.raises(StoreError, match="none of the 1 results"):
            store.read()
