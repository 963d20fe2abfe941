"""What the page of the preset ``procrastinate`` says, done: config, role, index, other ids."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from database_servers import PostgreSQL
from documentation import blocks
from preset_pages import Database, page_of, pools_of, write_config
from procrastinate_jobs import OWN_ID_CONFIG, PAGE_CONFIG, Jobs, orphans, procrastinate_jobs
from stack_file import read

pytestmark = pytest.mark.servers


@pytest.fixture
def jobs(postgresql: PostgreSQL, tmp_path: Path) -> Iterator[Jobs]:
    """Return an empty queue, with the ledger, the index and the role of the page."""
    with procrastinate_jobs(postgresql, tmp_path) as made:
        yield made


def test_the_program_itself_reads_the_page_and_finds_it_sound(jobs: Jobs) -> None:
    """Nothing is wrong, the ids join, and no index is missing."""
    with jobs.worker():
        job = jobs.defer("ignoring")
        jobs.wait_for("doing", job)
        time.sleep(0.5)
        checked = jobs.command("check")
        jobs.abort(job)
        time.sleep(1.5)
        told = json.loads(jobs.command("snapshot --format json"))
    assert "wrong" not in checked
    assert "an index is missing" not in checked
    assert "1 of 1 ledger keys" in checked
    assert "1 of 1 task ids of unreleased leases" in checked
    assert list(orphans(told)) == [job]
    assert read(told, "orphan_leases") == 1


def test_the_role_of_the_page_may_read_nothing_else(jobs: Jobs) -> None:
    """Of all columns of all tables, it may read those that the page grants."""
    allowed = jobs.database.rows(
        "SELECT table_name, column_name FROM information_schema.columns"
        " WHERE table_schema = 'public' AND has_column_privilege("
        "  'orphanwatch', quote_ident(table_name), column_name, 'SELECT')"
    )
    kept = {
        f"{table.removeprefix('procrastinate_')}.{column}"
        for table, column in allowed
        if table != "token_usage"
    }
    assert kept == {
        *("jobs.id", "jobs.queue_name", "jobs.status", "jobs.scheduled_at", "jobs.attempts"),
        *("jobs.worker_id", "events.id", "events.job_id", "events.type", "events.at"),
        *("workers.id", "workers.last_heartbeat"),
    }


def many_jobs(database: Database) -> None:
    """Add 100,000 jobs, one each ten seconds until now, without procrastinate's triggers."""
    database.run(
        """
        SET session_replication_role = replica;
        INSERT INTO procrastinate_jobs (queue_name, task_name, status, attempts)
        SELECT 'overflow', 'heeding', 'succeeded', 1 FROM generate_series(1, 100000);
        INSERT INTO procrastinate_events (job_id, type, at)
        SELECT id, type, now() - (100000 - id) * interval '10 s'
        FROM procrastinate_jobs,
          unnest('{deferred,started,succeeded}'::procrastinate_job_event_type[]) AS type;
        """
    )
    database.run("ANALYZE")


def test_with_the_index_of_the_page_a_reading_takes_only_the_newest_events(jobs: Jobs) -> None:
    """However many jobs there ever were, no table of procrastinate's is read whole."""
    many_jobs(jobs.database)
    tables = {"procrastinate_events": 300_000, "procrastinate_jobs": 100_000}
    read_whole = jobs.database.times_read_whole(tables, jobs.snapshot)
    assert read_whole == dict.fromkeys(tables, 0)


def test_a_ledger_keyed_by_an_argument_joins_as_the_page_says(jobs: Jobs) -> None:
    """The page's second config, on a table of the requests' own ids."""
    jobs.database.run(
        "CREATE TABLE request_usage (request_id text, tokens integer, charged_at timestamptz)",
        "GRANT SELECT ON request_usage TO orphanwatch",
        "GRANT SELECT (args) ON procrastinate_jobs TO orphanwatch",
    )
    write_config(jobs.folder, pools_of(PAGE_CONFIG) + OWN_ID_CONFIG)
    with jobs.worker():
        job = jobs.defer("ignoring", request_id="req-7")
        jobs.wait_for("doing", job)
        jobs.abort(job)
        time.sleep(1.5)
        jobs.database.run(
            "INSERT INTO request_usage VALUES ('req-7', 30, now()), ('elsewhere', 4, now())"
        )
        document = jobs.snapshot()
    assert orphans(document)[job]["orphan_tokens"] == 30
    assert read(document, "orphan_unmatched_tokens key=unknown") == 4


def test_the_relations_that_the_page_prints_speak_of_the_argument(jobs: Jobs) -> None:
    """Gateway and leases then know tasks by what the rest of the stack calls them."""
    jobs.database.run("GRANT SELECT (args) ON procrastinate_jobs TO orphanwatch")
    [command] = blocks(page_of("procrastinate"), "sh")
    printed = subprocess.run(
        ["sh", "-c", command],
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    # Each begins with a parenthesis on a line of its own.
    _, gateway, leases = re.split(r"^(?=\($)", printed, flags=re.MULTILINE)
    config = yaml.safe_load(PAGE_CONFIG)
    config["stores"]["gateway"]["relation"] = gateway
    config["stores"]["leases"]["relation"] = leases
    write_config(jobs.folder, yaml.safe_dump(config))
    with jobs.worker():
        job = jobs.defer("ignoring", request_id="req-7")
        jobs.wait_for("doing", job)
        jobs.abort(job)
        time.sleep(1.5)
        document = jobs.snapshot()
    [orphan] = document["orphans"]
    assert (orphan["task_id"], orphan["lease_live"]) == ("req-7", True)
