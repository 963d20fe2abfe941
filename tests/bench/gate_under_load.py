"""``/gate`` of a real ``orphanwatch serve`` at a steady rate, with quick stores and a slow one."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import yaml
from refreshes import config_document
from serving import ServeError, running_serve, wait_for_refreshes

RATE: Final = 500
"""Requests a second."""
SLOW_SECONDS: Final = 5.0
"""What the slow store takes for each question."""

_CLIENTS: Final = 4
_SLOW_TIMEOUT: Final = "8s"


@dataclass(frozen=True, kw_only=True)
class GateTimes:
    """What one run showed, in seconds from when a request was due: waiting for its turn counts."""

    asked: int
    taken: tuple[float, ...]
    """Sorted."""
    lasted: float

    def percentile(self, percent: int) -> float:
        """Return a percentile, nearest rank."""
        return self.taken[-(-percent * len(self.taken) // 100) - 1]

    @property
    def rate(self) -> float:
        """Requests a second that were answered."""
        return self.asked / self.lasted


def measure_gate(file: Path, folder: Path, seconds: float, *, slow: bool) -> GateTimes:
    """Return the times of a gate that is asked at the rate; with a slow queue, a refresh hangs.

    Raises ``ServeError`` where it is not answered as a gate.
    """
    document = config_document(file, refresh_interval="5s")
    with _slow_queue() as url:
        if slow:
            document["stores"]["queue"] = {
                "type": "http_json", "url": url, "timeout": _SLOW_TIMEOUT,
                "columns": {"depth": "waiting"},
            }  # fmt: skip
        config = folder / "gate.yml"
        config.write_text(yaml.safe_dump(document), encoding="utf-8")
        with running_serve(config) as (_, address):
            connection = HTTPConnection(address, timeout=60)
            wait_for_refreshes(connection, 1)
            connection.close()
            return _ask_steadily(address, seconds)


def _ask_steadily(address: str, seconds: float) -> GateTimes:
    """Ask by several clients that keep their connections, each when its next request is due."""
    each = round(RATE * seconds / _CLIENTS)
    start = time.perf_counter() + 0.1
    clients = [_Client(address, start, number, each) for number in range(_CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    statuses = {status for client in clients for status in client.statuses}
    if not statuses <= {200, 503}:
        raise ServeError(f"/gate answered {sorted(statuses)}")
    return GateTimes(
        asked=sum(len(client.taken) for client in clients),
        taken=tuple(sorted(taken for client in clients for taken in client.taken)),
        lasted=time.perf_counter() - start,
    )


class _Client(threading.Thread):
    """Asks at its share of the rate; one that is late catches up, and its lateness counts."""

    def __init__(self, address: str, start: float, number: int, asks: int) -> None:
        super().__init__(daemon=True)
        self.taken: list[float] = []
        self.statuses: set[int] = set()
        self._address, self._asks = address, asks
        self._due = [start + (ask * _CLIENTS + number) / RATE for ask in range(asks)]

    def run(self) -> None:
        """Ask them all."""
        connection = HTTPConnection(self._address, timeout=60)
        for due in self._due:
            time.sleep(max(0.0, due - time.perf_counter()))
            connection.request("GET", "/gate?pool=overflow")
            response = connection.getresponse()
            response.read()
            self.taken.append(time.perf_counter() - due)
            self.statuses.add(response.status)
        connection.close()


@contextmanager
def _slow_queue() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            time.sleep(SLOW_SECONDS)
            body = b'{"waiting": 0}'
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Keep the table clean."""

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """Say nothing of an exporter that was stopped while it waited."""

    server = Quiet(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/queue"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
