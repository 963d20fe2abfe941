"""The preset ``procrastinate``: gateway, leases and queue, with its real worker."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from database_servers import PostgreSQL
from procrastinate_jobs import Jobs, orphans, procrastinate_jobs
from servers import wait_until
from stack_file import action, read

pytestmark = pytest.mark.servers


@pytest.fixture
def jobs(postgresql: PostgreSQL, tmp_path: Path) -> Iterator[Jobs]:
    """Return an empty queue, with the ledger, the index and the role of the page."""
    with procrastinate_jobs(postgresql, tmp_path) as made:
        yield made


def test_a_job_that_ignores_the_abort_is_an_orphan_lease_until_it_really_ends(jobs: Jobs) -> None:
    """One that heeds it is none: neither a thread that asks, nor an async job."""
    with jobs.worker():
        ignoring, calm = jobs.defer("ignoring"), jobs.defer("ignoring")
        heeding, cancellable = jobs.defer("heeding"), jobs.defer("cancellable")
        jobs.wait_for("doing", ignoring, calm, heeding, cancellable)
        jobs.abort(ignoring, heeding, cancellable)
        jobs.wait_for("aborted", heeding, cancellable)
        time.sleep(2.5)  # the grace of 1 s, and a heartbeat after it

        document = jobs.snapshot()

        assert list(orphans(document)) == [ignoring]
        orphan = orphans(document)[ignoring]
        assert (orphan["pool"], orphan["cause"]) == ("overflow", "client_cancel")
        assert orphan["lease_live"] is True
        assert orphan["worker_id"] is not None
        assert orphan["orphan_tokens"] > 0
        assert action(document) == "shed"
        assert read(document, "orphan_leases cause=client_cancel") == 1
        assert read(document, "orphan_leases_confirmed") == 1
        assert read(document, "orphan_live_leases") == 2
        assert read(document, "orphan_cancel_propagation_open pool=overflow") == 1
        assert read(document, "orphan_abandoned_tasks cause=client_cancel") == 3
        assert read(document, "orphan_unmatched_tokens") == 0

        jobs.let_end(ignoring, calm)
        jobs.wait_for("succeeded", ignoring, calm)

    # The job has forgotten that it was cancelled; the events have not.
    assert not jobs.database.value("SELECT bool_or(abort_requested) FROM procrastinate_jobs")
    document = jobs.snapshot()
    assert list(orphans(document)) == [ignoring]
    assert orphans(document)[ignoring]["lease_live"] is False
    assert read(document, "orphan_leases") == 0
    assert read(document, "orphan_cancel_propagation_open") == 0
    assert read(document, "orphan_cancel_propagation_seconds_count pool=overflow") == 3
    assert read(document, "orphan_cancel_propagation_seconds_bucket le=2.0") == 2
    assert read(document, "orphan_live_leases") == 0
    assert read(document, "orphan_attached_tasks") is not None


def test_a_job_that_is_cancelled_while_it_waits_is_abandoned_and_no_orphan(jobs: Jobs) -> None:
    """It never held a lease, and is waited for no more."""
    waiting, cancelled = jobs.defer("heeding"), jobs.defer("heeding")
    assert jobs.app.job_manager.cancel_job_by_id(cancelled)  # without abort: it need not run

    document = jobs.snapshot()

    assert (jobs.status(waiting), jobs.status(cancelled)) == ("todo", "cancelled")
    assert document["orphans"] == []
    assert read(document, "orphan_abandoned_tasks cause=client_cancel") == 1
    assert read(document, "orphan_queue_depth") == 1
    assert read(document, "orphan_queue_in_flight") == 0
    assert read(document, "orphan_in_flight_gap") == 0
    assert 0 <= (read(document, "orphan_queue_age_seconds") or 0) < 30


def test_a_cancel_that_is_asked_for_twice_counts_from_the_first_time(jobs: Jobs) -> None:
    """Each request leaves an event; the task is still one."""
    with jobs.worker():
        job = jobs.defer("ignoring")
        jobs.wait_for("doing", job)
        jobs.abort(job)
        time.sleep(1.5)
        jobs.abort(job)

        document = jobs.snapshot()

    [(count, first)] = jobs.database.rows(
        "SELECT count(*), CAST(extract(epoch FROM min(at)) AS float) FROM procrastinate_events"
        " WHERE type = 'abort_requested'"
    )
    assert count == 2
    assert orphans(document)[job]["abandoned_at"] == pytest.approx(first, abs=1e-3)
    assert read(document, "orphan_rows_rejected_total") == 0


def test_a_job_for_later_is_nobodys_task_until_it_is_due(jobs: Jobs) -> None:
    """Neither queue nor gateway counts it, and its due time is its submission."""
    jobs.defer("heeding", schedule_in={"hours": 1})
    soon = jobs.defer("heeding", schedule_in={"seconds": 6})
    due = jobs.database.value(
        "SELECT scheduled_at FROM procrastinate_jobs WHERE id = :job", job=soon
    )

    early = jobs.snapshot()
    wait_until("the job's time", lambda: bool(datetime.now(UTC) > due), 10)
    late = jobs.snapshot()

    most = (datetime.now(UTC) - due).total_seconds()
    assert read(early, "orphan_queue_depth") == 0
    assert read(late, "orphan_queue_depth") == 1
    assert read(late, "orphan_in_flight_gap") == 0
    assert 0 < (read(late, "orphan_queue_age_seconds") or 0) < most
    # The mean over the last minute: for so many seconds of it, one task was attached.
    assert 0 < (read(late, "orphan_attached_tasks") or 0) < most / 60


def test_a_job_that_is_tried_again_is_one_task_with_a_lease_for_each_run(jobs: Jobs) -> None:
    """A cancel in its second run makes an orphan like any other."""
    with jobs.worker():
        job = jobs.defer("failing_once")
        jobs.wait_for("doing", job)
        wait_until(
            "the second try",
            lambda: jobs.database.value(
                "SELECT count(*) = 2 FROM procrastinate_events WHERE type = 'started'"
            ),
            20,
        )
        jobs.abort(job)
        time.sleep(1.5)
        document = jobs.snapshot()

    assert list(orphans(document)) == [job]
    assert read(document, "orphan_live_leases") == 1
    assert read(document, "orphan_duplicate_in_flight") == 0
    assert read(document, "orphan_retries_without_retry_id") == 0
    assert read(document, "orphan_rows_rejected_total") == 0


def test_waiting_for_the_next_try_counts_as_depth_and_as_attached(jobs: Jobs) -> None:
    """So that the gap between the two stays what it is."""
    with jobs.worker():
        job = jobs.defer("failing")
        jobs.let_end(job)
        jobs.wait_for("failed", job)
    later = datetime.now(UTC) + timedelta(hours=1)
    jobs.app.job_manager.retry_job_by_id(job, retry_at=later)

    document = jobs.snapshot()

    assert jobs.status(job) == "todo"
    assert read(document, "orphan_queue_depth") == 1
    assert read(document, "orphan_queue_age_seconds") == 0
    assert read(document, "orphan_in_flight_gap") == 0
    assert read(document, "orphan_unmatched_tokens") == 0


def test_a_cancel_binds_no_later_try_by_hand(jobs: Jobs) -> None:
    """Retried after it was aborted and failed, the job is submitted anew, and not cancelled."""
    with jobs.worker():
        job = jobs.defer("failing")
        jobs.wait_for("doing", job)
        jobs.abort(job)
        time.sleep(1.5)
        assert list(orphans(jobs.snapshot())) == [job]
        jobs.let_end(job)
        jobs.wait_for("failed", job)
        jobs.database.run("DELETE FROM may_end")
        jobs.app.job_manager.retry_job_by_id(job, retry_at=datetime.now(UTC))
        jobs.wait_for("doing", job)
        time.sleep(1.5)

        document = jobs.snapshot()

    assert document["orphans"] == []
    assert read(document, "orphan_live_leases") == 1
    assert read(document, "orphan_abandoned_tasks") == 0
    assert read(document, "orphan_leaked_leases") == 0


def test_a_job_of_a_dead_worker_is_no_orphan(jobs: Jobs) -> None:
    """Its lease expires with the last heartbeat, and stays so when the worker's row is pruned."""
    with jobs.worker() as process:
        job = jobs.defer("ignoring")
        jobs.wait_for("doing", job)
        process.kill()
        process.wait()
    jobs.abort(job)
    # As if it had been killed forty seconds ago.
    jobs.database.run(
        "UPDATE procrastinate_workers SET last_heartbeat = last_heartbeat - interval '40 s'",
        "UPDATE procrastinate_events SET at = at - interval '50 s' WHERE type != 'abort_requested'",
        "DELETE FROM token_usage",
    )
    time.sleep(1.2)

    expired = jobs.snapshot()
    jobs.database.run("DELETE FROM procrastinate_workers")
    pruned = jobs.snapshot()

    assert jobs.status(job) == "doing"
    for document in (expired, pruned):
        assert read(document, "orphan_expired_leases") == 1
        assert read(document, "orphan_live_leases") == 0
        assert read(document, "orphan_leases") == 0
    assert expired["orphans"] == pruned["orphans"] == []


def test_a_job_that_was_deleted_leaves_no_trace(jobs: Jobs) -> None:
    """Which is why the page says to keep ended jobs: nothing fails, and nothing is known."""
    cancelled = jobs.defer("heeding")
    assert jobs.app.job_manager.cancel_job_by_id(cancelled, delete_job=True)
    assert read(jobs.snapshot(), "orphan_abandoned_tasks") == 0
