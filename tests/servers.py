"""Real servers on ports of their own: started by a test, stopped with it."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest
import yaml


def program(*names: str) -> str:
    """Return the first of the programs that is here; a missing one is a failure, never a skip."""
    places = [os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin"]
    places += sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    for name in names:
        found = shutil.which(name, path=os.pathsep.join(places))
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
def running(
    command: list[str], log: Path, *, stop: signal.Signals = signal.SIGTERM
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the block ends; its output goes to a file."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            process.send_signal(stop)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)


class Server(ABC):
    """A real server on a port of the loopback; a test may stop it and start it again.

    ``port`` and data stay the same over a stop. Each start writes a log of its own to ``folder``.
    """

    name: str
    user: str | None = None
    """Who runs it when the tests run as root; None where root may."""
    stop_signal = signal.SIGTERM
    start_seconds = 30.0

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._run = ExitStack()
        self._starts = 0

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command that serves in the foreground on ``port``."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Tell whether this very process answers; ``OSError`` means not yet.

        Another program may have taken the port, so an answer there proves nothing.
        """

    def start(self) -> None:
        """Return once the server answers; do nothing where it runs already."""
        if self.process is not None and self.process.poll() is None:
            return
        # Somebody may take a free port before the server does: try a second one.
        for port in [self.port] if self.port else [free_port(), free_port()]:
            self.port = port
            if self._comes_up():
                return
            self.stop()
            log = self._log().read_text(errors="replace")
        self.port = 0
        pytest.fail(f"{self.name} did not start, it says:\n{log[-2000:]}")

    def stop(self) -> None:
        """Return once the server is gone."""
        self._run.close()
        self.process = None

    def as_its_user(self, command: list[str]) -> list[str]:
        """Return the command, run by ``user`` and ended with the thread that starts it.

        So a killed run leaves no server behind; and a server is not to be started by a thread
        that ends before it.
        """
        words = [program("setpriv"), "--pdeathsig", self.stop_signal.name.removeprefix("SIG")]
        if self.user and os.geteuid() == 0:
            words += ["--reuid", self.user, "--regid", self.user, "--init-groups"]
        return [*words, "--", *command]

    def _log(self) -> Path:
        return self.folder / f"{self.name.lower()}-{self._starts}.log"

    def _comes_up(self) -> bool:
        self._starts += 1
        command = self.as_its_user(self.command())
        process = self._run.enter_context(running(command, self._log(), stop=self.stop_signal))
        self.process = process
        wait_until(
            f"{self.name}'s start",
            lambda: process.poll() is not None or self.is_ready(),
            self.start_seconds,
        )
        return process.poll() is None


S = TypeVar("S", bound=Server)


@contextmanager
def started(server: S) -> Iterator[S]:
    """Start a server and stop it when the block ends."""
    try:
        server.start()
        yield server
    finally:
        server.stop()


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

    def pages(self) -> set[str]:
        """Return the names of those that wake somebody up."""
        return {
            a["labels"]["alertname"]
            for a in self.alerts
            if a["status"] == "firing" and a["labels"]["severity"] == "critical"
        }

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
