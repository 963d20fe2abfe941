"""One process on four kinds of stores: an nginx log, RQ leases, a PostgreSQL ledger, vLLM metrics.

All but the engine are the real programs; the engine is a page of metrics in vLLM's words.
"""

import http.client
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
import rq
import yaml
from mixed_work import decode
from nginx_server import running_nginx
from servers import (
    Webhook,
    fetch,
    free_port,
    running,
    running_alertmanager,
    running_exporter,
    running_prometheus,
    wait_until,
)

from orphanwatch.alerts.artifacts import build
from orphanwatch.exporter.config_file import load_config

pytestmark = pytest.mark.servers

NGINX_PAGE = Path(__file__).parent.parent / "docs" / "presets" / "nginx.md"
TESTS = str(Path(__file__).parent)

LONG_SECONDS, SHORT_SECONDS = 90.0, 3.0
PAGE_SECONDS = 60.0

WORKER = """
import sys, redis, rq
connection = redis.Redis.from_url(sys.argv[1])
rq.Worker(["overflow"], connection=connection, job_monitoring_interval=1).work()
"""


class Engine(ThreadingHTTPServer):
    """The service behind nginx: enqueues each request as a job, and streams while it likes."""

    daemon_threads = True

    def __init__(self, redis_url: str, ledger: str) -> None:
        self.queue = rq.Queue("overflow", connection=redis.Redis.from_url(redis_url))
        self.ledger = ledger
        super().__init__(("127.0.0.1", 0), _Handler)

    def running(self) -> int:
        """Return how many jobs are being decoded, as the engine itself counts them."""
        return len(self.queue.started_job_registry.get_job_ids(cleanup=False))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer as vLLM's page of metrics does."""
        server: Any = self.server
        body = (
            "# TYPE vllm:num_requests_running gauge\n"
            f'vllm:num_requests_running{{model_name="m",engine="0"}} {server.running()}\n'
            "# TYPE vllm:num_requests_waiting gauge\n"
            f'vllm:num_requests_waiting{{model_name="m",engine="0"}} {server.queue.count}\n'
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        """Enqueue the request under the id that nginx forwards, and stream until it is done."""
        server: Any = self.server
        task_id, seconds = self.headers["X-Request-Id"], float(self.path.rpartition("/")[2])
        server.queue.enqueue(decode, task_id, seconds, server.ledger, job_id=task_id)
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        stopped = threading.Event()
        for _ in range(int(seconds / 0.2)):
            self.wfile.write(b"6\r\ntoken \r\n")
            stopped.wait(0.2)
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *_: Any) -> None:
        """Keep the test's output clean."""


def ask(nginx: str, seconds: float, *, leave_after: int | None = None) -> None:
    """Send a request; leave after so many bytes of the answer, or stay to its end."""
    connection = http.client.HTTPConnection(nginx.removeprefix("http://"), timeout=60)
    with closing(connection):
        connection.request("POST", f"/v1/{seconds}")
        connection.getresponse().read(leave_after)


def nginx_body(engine: str, log: Path) -> str:
    """Return the ``http`` block that the preset's page says to paste, on ports of the test's."""
    blocks = re.findall(r"```nginx\n(.*?)```", NGINX_PAGE.read_text(), flags=re.DOTALL)
    head, location = blocks[0], blocks[1].replace("/var/log/nginx/orphanwatch.log", str(log))
    return (
        f"{head}\nupstream llm {{ server {engine}; }}\n"
        f"server {{ listen 127.0.0.1:PORT; {location} }}"
    )


def stack_config(log: Path, redis_url: str, ledger: str, engine: str, port: int) -> dict[str, Any]:
    """Return the config of the whole stack, windows as short as a scrape of a second allows."""
    return {
        "pools": {"paid": {"role": "paid", "lease_cap": 2}, "overflow": {"role": "overflow"}},
        "stores": {
            "gateway": {"preset": "nginx", "path": str(log)},
            "leases": {"preset": "rq", "url": redis_url, "lease_ttl": "10s"},
            "ledger": {
                "type": "sql",
                "url": ledger,
                "relation": "charges",
                "columns": {"task_id": "request_id"},
                "shape": "increments",
            },
            "queue": {"preset": "vllm", "url": f"http://{engine}/metrics", "admission_cap": 8},
        },
        "scrape_interval": "1s",
        "refresh_interval": "1s",
        "delta_window": "4s",
        "baseline_window": "20s",
        "state_file": "state.db",
        "links": {"runbook_base_url": f"http://127.0.0.1:{port}/runbook"},
    }


@contextmanager
def running_engine(redis_url: str, ledger: str) -> Iterator[str]:
    """Run the service until the block ends; yield its address."""
    engine = Engine(redis_url, ledger)
    thread = threading.Thread(target=engine.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{engine.server_address[1]}"
    finally:
        engine.shutdown()
        engine.server_close()
        thread.join()


def test_an_orphan_of_a_mixed_stack_pages(
    tmp_path: Path, postgresql_url: str, redis_url: str
) -> None:
    """A client leaves mid-stream, RQ works on, PostgreSQL is charged: shed, and a page."""
    ledger = postgresql_url.replace("+psycopg", "")
    with psycopg.connect(ledger, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE charges (request_id text, tokens integer, charged_at timestamptz)"
        )
    port, log, webhook = free_port(), tmp_path / "orphanwatch.log", Webhook()
    front = tmp_path / "nginx"
    front.mkdir()
    worker = [sys.executable, "-c", WORKER, redis_url]
    with ExitStack() as stack:
        stack.callback(webhook.stop)
        engine = stack.enter_context(running_engine(redis_url, ledger))
        nginx = stack.enter_context(running_nginx(front, nginx_body(engine, log)))
        stack.enter_context(running(["env", f"PYTHONPATH={TESTS}", *worker], tmp_path / "rq.log"))
        config_file = tmp_path / "orphanwatch.yml"
        config = stack_config(log, redis_url, postgresql_url, engine, port)
        config_file.write_text(yaml.safe_dump(config))
        artifacts = build(load_config(config_file))
        rules = tmp_path / "orphanwatch.rules.yml"
        rules.write_text(artifacts["orphanwatch.rules.yml"])

        ask(nginx.url, SHORT_SECONDS)
        exporter = stack.enter_context(running_exporter(config_file, port))
        assert verdict(config_file)["verdict"]["action"] != "shed"
        pager = stack.enter_context(
            running_alertmanager(tmp_path, artifacts["orphanwatch.alertmanager.yml"], webhook.url)
        )
        stack.enter_context(running_prometheus(tmp_path, rules, exporter, pager))
        ask(nginx.url, LONG_SECONDS, leave_after=12)
        wait_until(
            "the page of both arms",
            lambda: {"OrphanTokensAccruing", "OrphanLeasesAlive"} <= webhook.firing(),
            PAGE_SECONDS,
        )

        lines = [json.loads(line) for line in log.read_text().splitlines()]
        stayed, left = lines
        assert (left["status"], left["request_completion"]) == ("200", "")
        seen = verdict(config_file)
        assert seen["verdict"]["action"] == "shed"
        assert [orphan["task_id"] for orphan in seen["orphans"]] == [left["request_id"]]
        assert stayed["request_id"] not in json.dumps(seen)
        metrics = fetch(f"{exporter}/metrics")[1]
        assert "\norphan_queue_in_flight 1.0" in metrics
        assert "\norphan_in_flight_gap" not in metrics  # an access log can't say who waits now


def verdict(config_file: Path) -> dict[str, Any]:
    """Return what the real command says now."""
    orphanwatch = str(Path(sys.executable).with_name("orphanwatch"))
    command = [orphanwatch, "snapshot", "--config.file", str(config_file), "--format", "json"]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    document: dict[str, Any] = json.loads(said.stdout)
    return document
