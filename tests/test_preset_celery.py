"""The preset for Celery, on what a real Celery writes: its library, and workers that fork."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from celery import Celery  # type: ignore[import-untyped]  # ships no types
from celery_app import app_on
from database_servers import RedisServer
from held_jobs import let_go
from redis_stack import RedisStack
from redis_stores import Store, client, leases, sample, tasks
from servers import fetch, free_port, running, running_exporter, wait_until

from orphanwatch.exporter.clock import wall_clock
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import SECOND, Instant

pytestmark = pytest.mark.servers

HERE = Path(__file__).parent
CELERY: dict[str, Any] = {"preset": "celery"}
LATE: dict[str, Any] = {**CELERY, "acks_late": True}


@contextmanager
def running_worker(folder: Path, url: str, *options: str, name: str = "w1") -> Iterator[None]:
    """Run a real worker that forks, until the block ends; yield once it takes tasks."""
    command = ["env", f"PYTHONPATH={HERE}", f"ORPHANWATCH_TEST_BROKER={url}"]
    command += [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "--pool", "prefork"]
    command += ["--concurrency", "2", "--hostname", f"{name}@%h", "--loglevel", "INFO", *options]
    log = folder / f"{name}.log"
    with running(command, log):
        wait_until(f"{name}'s start", lambda: " ready." in log.read_text(), 60)
        yield


@pytest.fixture(scope="module")
def worked_url(
    redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """Return the URL of a broker with a worker that sends events."""
    url = redis_server.new_database()
    with running_worker(tmp_path_factory.mktemp("celery"), url, "-E"):
        yield url


@pytest.fixture
def app(worked_url: str) -> Iterator[Celery]:
    """Return the application on that broker, at which nothing runs by the end."""
    with app_on(worked_url) as made:
        yield made
    wait_until("the end of all tasks", lambda: unacked(worked_url) == 0, 30)


def unacked(url: str) -> int:
    """Return how many messages are not acknowledged."""
    with client(url) as redis:
        return int(redis.hlen("unacked"))


def send(app: Celery, url: str, task: str) -> None:
    """Send a task that runs until it is let go."""
    app.send_task("hold", (url, task), task_id=task)


def stack_on(folder: Path, url: str, **settings: Any) -> RedisStack:
    """Return a stack whose leases and queue are those of a broker."""
    store = {"preset": "celery", "url": url, **settings}
    return RedisStack(folder, "celery", leases=store, queue=store)


def value(page: str, name: str) -> float | None:
    """Return the sum of a family's samples on a page, None where it is absent."""
    found = [
        float(line.rsplit(" ", 1)[1])
        for line in page.splitlines()
        if line.startswith((f"{name} ", f"{name}{{"))
    ]
    return sum(found) if found else None


def test_a_task_cancelled_while_it_runs_is_an_orphan_until_it_ends(
    app: Celery, worked_url: str, tmp_path: Path
) -> None:
    """Acknowledged late, one at a time: one look at the keys tells what runs."""
    stack = stack_on(tmp_path, worked_url, acks_late=True)
    stack.submit("done", "first", "second", "waits")
    send(app, worked_url, "done")
    let_go(worked_url, "done")
    app.AsyncResult("done").get(timeout=30)
    for task in ("first", "second", "waits"):
        send(app, worked_url, task)
    wait_until("two tasks' start", lambda: unacked(worked_url) == 2, 30)

    calm = stack.snapshot()
    assert calm.orphans == []
    assert calm.value("orphan_live_leases") == 2
    assert calm.value("orphan_queue_depth") == 1
    assert calm.value("orphan_queue_in_flight") == 2

    stack.cancel("first")
    app.control.revoke("first")  # which does not stop what runs, and leaves no trace
    orphaned = stack.snapshot()
    assert orphaned.orphans == [("first", "client_cancel", True)]
    assert orphaned.action == "shed"

    let_go(worked_url, "first")
    app.AsyncResult("first").get(timeout=30)
    wait_until("the next task's start", lambda: unacked(worked_url) == 2, 30)
    over = stack.snapshot()
    assert over.orphans == []
    assert over.action != "shed"
    for task in ("second", "waits"):
        let_go(worked_url, task)


def test_serve_follows_the_workers_events(app: Celery, worked_url: str, tmp_path: Path) -> None:
    """The same by events, with the beats of the worker: it is told on the page as it goes."""
    stack = stack_on(tmp_path, worked_url)
    stack.submit("followed")
    with running_exporter(stack.file, free_port()) as url:

        def shown(name: str) -> float | None:
            return value(fetch(f"{url}/metrics")[1], name)

        wait_until("sight of an idle worker", lambda: shown("orphan_live_leases") == 0, 30)
        send(app, worked_url, "followed")
        wait_until("sight of the task", lambda: shown("orphan_live_leases") == 1, 30)
        assert shown("orphan_leases") == 0
        stack.cancel("followed")
        wait_until("sight of the orphan", lambda: shown("orphan_leases") == 1, 30)
        wait_until("a beat past the cutoff", lambda: shown("orphan_leases_confirmed") == 1, 30)
        let_go(worked_url, "followed")
        wait_until("the orphan's end", lambda: shown("orphan_leases") == 0, 30)
        assert shown("orphan_live_leases") == 0
        assert shown("orphan_cancel_propagation_open") == 0


def test_a_worker_whose_clock_is_an_hour_off_is_not_taken_for_a_silent_one(
    worked_url: str, tmp_path: Path
) -> None:
    """All that it holds would look expired: that is blind, and not calm."""

    def ahead() -> Instant:
        return Instant(wall_clock() + 3600 * SECOND)

    with pytest.raises(StoreError, match=r"the clock of Celery's worker w1@.* is -360[0-3] s off"):
        leases(tmp_path, worked_url, ahead, **CELERY)


def test_what_ran_before_we_listened_is_unknown_until_it_has_ended(
    app: Celery, worked_url: str, tmp_path: Path
) -> None:
    """Never nothing: a restart of the exporter must not make orphans vanish."""
    stack = stack_on(tmp_path, worked_url)
    stack.submit("earlier")
    send(app, worked_url, "earlier")
    wait_until("the task's start", lambda: unacked(worked_url) == 1, 30)
    stack.cancel("earlier")
    blind = stack.snapshot()
    assert blind.action == "blind"
    assert blind.value("orphan_leases") is None
    assert "1 of Celery's tasks began before we listened" in blind.reasons
    store = Store(tmp_path, "leases", url=worked_url, **CELERY)
    with pytest.raises(StoreError, match="began before we listened"):
        store.read()
    let_go(worked_url, "earlier")
    app.AsyncResult("earlier").get(timeout=30)
    time.sleep(2.5)  # the worker's next beat
    assert store.read().rows == []


def test_a_running_task_is_a_lease_of_its_worker(
    app: Celery, worked_url: str, tmp_path: Path
) -> None:
    """By its events: who runs it, since when, and when that worker last beat."""
    store = Store(tmp_path, "leases", url=worked_url, **CELERY)
    assert store.read().rows == []
    before = wall_clock()
    send(app, worked_url, "leased")
    time.sleep(2.5)  # the worker's next beat
    [lease] = store.read().rows
    assert lease.task_id == "leased"
    assert lease.worker_id.startswith("w1@")
    assert before <= lease.acquired_at <= lease.heartbeat_at <= wall_clock()
    assert lease.pool is None
    app.control.revoke("leased", terminate=True)
    wait_until("its end", lambda: store.read().rows == [], 30)


def test_a_connection_that_breaks_is_listened_on_anew(
    app: Celery, worked_url: str, tmp_path: Path
) -> None:
    """What was said meanwhile is lost, so nothing from before is believed."""
    store = Store(tmp_path, "leases", url=worked_url, **CELERY)
    assert store.read().rows == []
    send(app, worked_url, "seen")
    wait_until("sight of the task", lambda: len(store.read().rows) == 1, 30)
    cut_off(store, worked_url)
    let_go(worked_url, "seen")
    app.AsyncResult("seen").get(timeout=30)
    time.sleep(2.5)  # the worker's next beat
    assert store.read().rows == []
    cut_off(store, worked_url)
    send(app, worked_url, "unseen")
    wait_until("the task's delivery", lambda: unacked(worked_url) == 1, 30)
    time.sleep(1.0)  # it has started by then, and its event has been sent
    with pytest.raises(StoreError, match="began before we listened"):
        store.read()
    let_go(worked_url, "unseen")


def cut_off(store: Store, url: str) -> None:
    """Close a store's subscription from the server's side, as it does with who falls behind."""
    source = store.leases._source  # type: ignore[union-attr]  # a listed store
    _, port = source._stream._connection._sock.getsockname()
    with client(url) as redis:
        assert redis.client_kill_filter(addr=f"127.0.0.1:{port}") == 1


def test_a_worker_without_events_is_told_from_an_idle_one(redis_url: str, tmp_path: Path) -> None:
    """It beats, and says nothing of its tasks: that is blind, and -E is the remedy."""
    store = Store(tmp_path, "leases", url=redis_url, **CELERY)
    with running_worker(tmp_path, redis_url), app_on(redis_url) as app:
        assert store.read().rows == []
        send(app, redis_url, "untold")
        wait_until("the task's start", lambda: unacked(redis_url) == 1, 30)
        time.sleep(2.5)  # the worker's next beat
        assert store.read().rows == []
        time.sleep(0.5)  # what it may have said of its tasks has come by now
        with pytest.raises(StoreError, match="sends no events of its tasks; start it with -E"):
            store.read()
        let_go(redis_url, "untold")
        wait_until("its end", lambda: unacked(redis_url) == 0, 30)


def test_a_terminated_revoke_is_a_cancel(app: Celery, worked_url: str, tmp_path: Path) -> None:
    """Of the results, which are all that Celery keeps; how a task ended is told too."""
    before = wall_clock()
    send(app, worked_url, "revoked")
    wait_until("the task's start", lambda: unacked(worked_url) == 1, 30)
    app.control.revoke("revoked", terminate=True)
    app.send_task("fail", ("badly",), task_id="failed")
    send(app, worked_url, "well")
    let_go(worked_url, "well")
    for task in ("revoked", "failed", "well"):
        app.AsyncResult(task).get(timeout=30, propagate=False)
    found = tasks(tmp_path, worked_url, "revoked", "failed", "well", **CELERY)
    cancelled = found["revoked"].cancelled_at
    assert cancelled is not None
    assert before <= cancelled <= wall_clock()
    assert found["revoked"].finished_at is None
    for task, ok in (("failed", False), ("well", True)):
        assert found[task].ok is ok
        assert found[task].cancelled_at is None
        assert found[task].finished_at is not None


def test_an_idle_celery_is_zero(worked_url: str, tmp_path: Path) -> None:
    """It is there, and says so."""
    assert leases(tmp_path, worked_url, **LATE) == []
    assert sample(tmp_path, worked_url, **LATE)[1:4] == (0, None, 0)


def test_a_short_timeout_needs_several_readings(worked_url: str, tmp_path: Path) -> None:
    """Listening takes as long as it takes; each reading is bounded all the same."""
    store = Store(tmp_path, "leases", url=worked_url, timeout="1s", **CELERY)
    with pytest.raises(StoreError, match="has not listened to Celery's workers for long enough"):
        store.read()
    time.sleep(2.5)
    assert store.read().rows == []
