"""A model server to stand behind a gateway: it streams slowly, or answers late, or breaks off."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


class SlowUpstream(ThreadingHTTPServer):
    """What it does with a request is the first word of the last part of its path."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.ids: dict[str, tuple[str, str]] = {}
        """By path: what came in ``X-Request-Id`` and in ``x-litellm-call-id``."""
        self.arrived = threading.Condition()
        self.is_over = threading.Event()
        """Set when nobody waits any longer."""

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.server_address[1])

    def wait_for(self, path: str) -> None:
        """Return once a request of a path has arrived."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: path in self.ids, 10), f"{path} never arrived"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: SlowUpstream

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        ids = (self.headers["X-Request-Id"] or "", self.headers["x-litellm-call-id"] or "")
        with self.server.arrived:
            self.server.ids[path] = ids
            self.server.arrived.notify_all()
        word = path.rpartition("/")[2].partition("-")[0]
        try:
            getattr(self, f"_answer_{word}")()
        except OSError:  # the gateway has gone
            self.close_connection = True

    def _answer_whole(self) -> None:
        self._begin()
        self._send_events(3)
        self.wfile.write(b"0\r\n\r\n")

    def _answer_endless(self) -> None:
        self._begin()
        while not self.server.is_over.wait(0.05):
            self._send_events(1)

    def _answer_broken(self) -> None:
        self._begin()
        self._send_events(3)
        self.close_connection = True

    def _answer_late(self) -> None:
        self.server.is_over.wait(30)
        self.close_connection = True

    def _answer_wrong(self) -> None:
        self.send_response(500)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _begin(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _send_events(self, count: int) -> None:
        for _ in range(count):
            self.wfile.write(b"9\r\ndata: x\n\n\r\n")

    def log_message(self, *_: Any) -> None:
        """Keep the test's output clean."""


@contextmanager
def running_upstream() -> Iterator[SlowUpstream]:
    """Run a model server until the block ends."""
    with SlowUpstream() as upstream:
        thread = threading.Thread(target=upstream.serve_forever, daemon=True)
        thread.start()
        try:
            yield upstream
        finally:
            upstream.is_over.set()
            upstream.shutdown()
            thread.join()
