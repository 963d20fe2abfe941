"""Real servers on ports of their own: started by a test, stopped with it."""

import http.client
import json
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml


def program(*names: str) -> str:
    """Return the first of the programs that is here; a missing one is a failure, never a skip."""
    for name in names:
        found = shutil.which(name)
        if found:
            return found
    pytest.fail(f"{names[0]} is not installed; run make test, which installs it")


def free_port() -> int:
    """Return a port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def fetch(url: str) -> tuple[int, str]:
    """Return status and body of a GET; a server that does not answer raises ``OSError``."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=5)
    try:
        connection.request("GET", parts.path + (f"?{parts.query}" if parts.query else ""))
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def wait_until(what: str, happened: Callable[[], bool], seconds: float) -> None:
    """Return once something has happened, or fail the test saying what did not."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if happened():
                return
        except OSError:  # not up yet
            pass
        time.sleep(0.1)
    pytest.fail(f"{what} did not happen within {seconds:g} s")


@contextmanager
def running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the block ends; its output goes to a file."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)


class Webhook:
    """Where Alertmanager posts to: keeps every alert it is sent."""

    def __init__(self) -> None:
        self.alerts: list[dict[str, Any]] = []
        alerts = self.alerts

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                alerts.extend(json.loads(body)["alerts"])
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Keep the test's output clean."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The address to post to."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    def firing(self) -> set[str]:
        """Return the names of the alerts that have arrived firing."""
        return {a["labels"]["alertname"] for a in self.alerts if a["status"] == "firing"}

    def stop(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def running_exporter(config: Path, port: int) -> Iterator[str]:
    """Run the real ``orphanwatch serve``; yield its URL once it has evaluated."""
    orphanwatch = str(Path(sys.executable).with_name("orphanwatch"))
    command = [orphanwatch, "serve", "--config.file", str(config)]
    command += ["--web.listen-address", f"127.0.0.1:{port}"]
    url = f"http://127.0.0.1:{port}"
    with running(command, config.with_name("exporter.log")):
        wait_until("the first evaluation", lambda: fetch(f"{url}/-/ready")[0] == 200, 30)
        yield url


@contextmanager
def running_alertmanager(folder: Path, generated: str, webhook: str) -> Iterator[int]:
    """Run Alertmanager on the generated routes, every receiver posting to the webhook."""
    document = yaml.safe_load(generated)
    for receiver in document["receivers"]:
        receiver["webhook_configs"] = [{"url": webhook, "send_resolved": True}]
    config = folder / "alertmanager.yml"
    config.write_text(yaml.safe_dump(document))
    port = free_port()
    command = [program("prometheus-alertmanager", "alertmanager")]
    command += [f"--config.file={config}", f"--storage.path={folder / 'alertmanager'}"]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="]
    with running(command, folder / "alertmanager.log"):
        ready = f"http://127.0.0.1:{port}/-/ready"
        wait_until("Alertmanager's start", lambda: fetch(ready)[0] == 200, 30)
        yield port


@contextmanager
def running_prometheus(
    folder: Path, rules: Path, exporter: str, alertmanager: int
) -> Iterator[str]:
    """Run Prometheus on the rules, scraping the exporter each second; yield its URL."""
    config = folder / "prometheus.yml"
    config.write_text(
        yaml.safe_dump(
            {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": [str(rules)],
                "alerting": {
                    "alertmanagers": [
                        {"static_configs": [{"targets": [f"127.0.0.1:{alertmanager}"]}]}
                    ]
                },
                "scrape_configs": [
                    {
                        "job_name": "orphanwatch",
                        "static_configs": [{"targets": [urlsplit(exporter).netloc]}],
                    }
                ],
            }
        )
    )
    port = free_port()
    command = [program("prometheus"), f"--config.file={config}"]
    command += [f"--storage.tsdb.path={folder / 'tsdb'}", f"--web.listen-address=127.0.0.1:{port}"]
    command += ["--enable-feature=exemplar-storage"]
    with running(command, folder / "prometheus.log"):
        url = f"http://127.0.0.1:{port}"
        wait_until("Prometheus' start", lambda: fetch(f"{url}/-/ready")[0] == 200, 30)
        yield url
