"""The whole path with real programs: stores, exporter, Prometheus, Alertmanager, a pager."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from servers import (
    Webhook,
    fetch,
    free_port,
    running_alertmanager,
    running_exporter,
    running_prometheus,
    wait_until,
)

from orphanwatch.alerts.artifacts import build
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.demo.tables import open_database

pytestmark = pytest.mark.servers

BEAT_SECONDS = 0.5
SHED_SECONDS = 0.4
"""How soon a worker that hears the cancel lets go: well within the grace of 1 s."""

PAGE_SECONDS = 60
"""Longest wait for a page; the rules promise less, a busy machine may need more."""


def stack_config(exporter_port: int) -> dict[str, object]:
    """Return a config whose windows are as short as a scrape of one second allows."""
    database = "sqlite:///stack.db"
    return {
        "pools": {"paid": {"role": "paid", "lease_cap": 2}, "overflow": {"role": "overflow"}},
        "stores": {
            "gateway": {"type": "sql", "url": database, "relation": "tasks"},
            "leases": {"type": "sql", "url": database, "relation": "leases", "lease_ttl": "10s"},
            "ledger": {"type": "sql", "url": database, "shape": "increments"},
            "queue": {"type": "sql", "url": database},
        },
        "scrape_interval": "1s",
        "refresh_interval": "500ms",
        "delta_window": "4s",
        "baseline_window": "20s",
        "state_file": "state.db",
        "links": {"runbook_base_url": f"http://127.0.0.1:{exporter_port}/runbook"},
    }


class Stack:
    """A small live stack in one SQLite file: a queue that is sampled, and workers."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        open_database(database).dispose()
        self._start(self._sample_queue)

    def run_task(self, task_id: str, *, sheds: bool) -> None:
        """Run a task whose client leaves after a second; the worker hears it, or decodes on."""
        self._start(lambda: self._work(task_id, sheds=sheds))

    def stop(self) -> None:
        """Stop every worker."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _start(self, work: object) -> None:
        thread = threading.Thread(target=work)  # type: ignore[arg-type]  # a callable without arguments
        thread.start()
        self._threads.append(thread)

    def _write(self, statement: str, *values: object) -> None:
        connection = sqlite3.connect(self._database, timeout=10)
        try:
            with connection:
                connection.execute(statement, values)
        finally:
            connection.close()

    def _sample_queue(self) -> None:
        while not self._stopping.wait(BEAT_SECONDS):
            self._write("INSERT INTO queue VALUES (?, 1, 0.5, 1, 40)", time.time())

    def _work(self, task_id: str, *, sheds: bool) -> None:
        start = time.time()
        self._write(
            "INSERT INTO tasks (task_id, retry_id, attempt, pool, submitted_at, deadline_at)"
            " VALUES (?, ?, 1, 'overflow', ?, ?)",
            task_id, f"retry-{task_id}", start, start + 600,
        )  # fmt: skip
        self._write(
            "INSERT INTO leases (task_id, worker_id, pool, acquired_at, heartbeat_at)"
            " VALUES (?, 'w1', 'overflow', ?, ?)",
            task_id, start, start,
        )  # fmt: skip
        cancelled = False
        while not self._stopping.wait(BEAT_SECONDS):
            now = time.time()
            self._write(
                "INSERT INTO ledger (task_id, tokens, charged_at) VALUES (?, 20, ?)", task_id, now
            )
            self._write("UPDATE leases SET heartbeat_at = ? WHERE task_id = ?", now, task_id)
            if not cancelled and now > start + 1:
                self._write("UPDATE tasks SET cancelled_at = ? WHERE task_id = ?", now, task_id)
                cancelled = True
                if sheds:
                    time.sleep(SHED_SECONDS)
                    released = time.time()
                    self._write(
                        "UPDATE leases SET released_at = ? WHERE task_id = ?", released, task_id
                    )
                    self._write(
                        "UPDATE tasks SET finished_at = ?, outcome = 'error' WHERE task_id = ?",
                        released, task_id,
                    )  # fmt: skip
                    return


@dataclass
class Watched:
    """A stack with everything around it."""

    folder: Path
    stack: Stack
    exporter: str
    prometheus: str
    webhook: Webhook


@contextmanager
def watched_stack(folder: Path) -> Iterator[Watched]:
    """Run stack, exporter, Prometheus with the generated rules, Alertmanager and the webhook."""
    port = free_port()
    config_file = folder / "orphanwatch.yml"
    config_file.write_text(yaml.safe_dump(stack_config(port)))
    artifacts = build(load_config(config_file))
    rules = folder / "orphanwatch.rules.yml"
    rules.write_text(artifacts["orphanwatch.rules.yml"])
    stack, webhook = Stack(folder / "stack.db"), Webhook()
    try:
        with (
            running_exporter(config_file, port) as exporter,
            running_alertmanager(
                folder, artifacts["orphanwatch.alertmanager.yml"], webhook.url
            ) as alertmanager,
            running_prometheus(folder, rules, exporter, alertmanager) as prometheus,
        ):
            yield Watched(folder, stack, exporter, prometheus, webhook)
    finally:
        stack.stop()
        webhook.stop()


def test_an_orphan_pages_and_work_shed_in_time_does_not(tmp_path: Path) -> None:
    """Shed in time: no page in the time in which an orphan pages; its link leads to a page."""
    with watched_stack(tmp_path) as watched:
        watched.stack.run_task("shed-in-time", sheds=True)
        quiet_until = time.monotonic() + 30
        while time.monotonic() < quiet_until:
            assert watched.webhook.pages() == set()
            time.sleep(0.5)

        watched.stack.run_task("orphan", sheds=False)
        wait_until(
            "the page of both arms",
            lambda: {"OrphanTokensAccruing", "OrphanLeasesAlive"} <= watched.webhook.firing(),
            PAGE_SECONDS,
        )

        for alert in watched.webhook.alerts:
            status, page = fetch(alert["annotations"]["runbook_url"])
            assert status == 200
            assert alert["labels"]["alertname"] in page
            assert "scale" in alert["annotations"]["description"]
        assert "orphan" not in {label for a in watched.webhook.alerts for label in a["labels"]}


def test_a_store_taken_away_pages_as_blind(tmp_path: Path) -> None:
    """Blind is not calm: the ledger's loss pages, names the store, and resolves when it is back."""
    with watched_stack(tmp_path) as watched:
        database = watched.folder / "stack.db"
        moved = watched.folder / "elsewhere.db"
        watched.stack.stop()
        database.rename(moved)
        wait_until(
            "the page of the blind detector",
            lambda: "OrphanDetectorBlind" in watched.webhook.firing(),
            PAGE_SECONDS,
        )
        lost = {
            alert["labels"]["store"]
            for alert in watched.webhook.alerts
            if alert["labels"]["alertname"] == "OrphanDetectorBlind"
        }
        assert lost == {"gateway", "leases", "ledger", "queue"}
        metrics = fetch(f"{watched.exporter}/metrics")[1]
        assert 'orphan_store_up{store="ledger"} 0.0' in metrics
        assert "\norphan_token_delta" not in metrics

        moved.rename(database)
        wait_until(
            "the end of the blindness",
            lambda: any(alert["status"] == "resolved" for alert in watched.webhook.alerts),
            PAGE_SECONDS,
        )
