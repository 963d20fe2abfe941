"""A real HTTP server whose answers a test writes: engines' pages, good ones and broken ones."""

import ssl
import subprocess
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from servers import program

TEXT = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What one path answers."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    raw: Callable[[BaseHTTPRequestHandler], None] | None = None
    """Writes to the socket as it likes, instead of all the above."""


def page(text: str, **headers: str) -> Reply:
    """Return a page of metrics."""
    return Reply(body=text.encode(), headers={"Content-Type": TEXT, **headers})


class Pages:
    """A server on a port of its own; ``replies`` may change while it runs."""

    def __init__(self, *, context: ssl.SSLContext | None = None) -> None:
        self.replies: dict[str, Reply] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        """Each path that was asked for, with the headers of the request."""
        self.key: str | None = None
        """The whole ``Authorization`` that is let in; None lets everybody in."""
        pages = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                pages.asked.append((self.path, dict(self.headers.items())))
                if pages.key is not None and self.headers["Authorization"] != pages.key:
                    reply = Reply(status=401, body=b"who are you?")
                else:
                    path = self.path.partition("?")[0]
                    reply = pages.replies.get(path, Reply(status=404, body=b"nothing here"))
                if reply.raw is not None:
                    reply.raw(self)
                    return
                self.send_response_only(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)

            def log_message(self, *_: object) -> None:
                """Keep the test's output clean."""

        class Quiet(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """A client that gives up is what some tests are about."""

        self._server = Quiet(("127.0.0.1", 0), Handler)
        self.scheme = "http"
        if context is not None:
            self.scheme = "https"
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    def url(self, path: str = "/metrics") -> str:
        """Return the address of a path."""
        return f"{self.scheme}://127.0.0.1:{self.port}{path}"

    def stop(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def serving(
    replies: dict[str, Reply] | None = None, *, context: ssl.SSLContext | None = None
) -> Iterator[Pages]:
    """Serve until the block ends."""
    pages = Pages(context=context)
    pages.replies = replies or {}
    try:
        yield pages
    finally:
        pages.stop()


def basic(username: str, password: str) -> str:
    """Return the ``Authorization`` of a name and a password."""
    return "Basic " + b64encode(f"{username}:{password}".encode()).decode()


def hangs(handler: BaseHTTPRequestHandler) -> None:  # noqa: ARG001  (it gives no answer)
    """Take the question, and never answer."""
    time.sleep(5)


def drips(handler: BaseHTTPRequestHandler) -> None:
    """Answer a few bytes at a time, each soon after the other, for ever."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    for _ in range(100):
        handler.wfile.write(b"# a comment\n")
        handler.wfile.flush()
        time.sleep(0.1)


def floods(handler: BaseHTTPRequestHandler) -> None:
    """Answer without an end."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    for _ in range(10_000):
        handler.wfile.write(b"# noise\n" * 8192)


def breaks_off(handler: BaseHTTPRequestHandler) -> None:
    """Promise more than is sent."""
    handler.wfile.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\n"
        b"vllm:num_requests_running 3\n"
    )


def speaks_no_http(handler: BaseHTTPRequestHandler) -> None:
    """Answer in another protocol."""
    handler.wfile.write(b"-ERR unknown command\r\n")


@dataclass(frozen=True)
class Certificate:
    """A key and the certificate that it signed itself."""

    cert: Path
    key: Path

    def server_context(self, *, trusted_client: Path | None = None) -> ssl.SSLContext:
        """Return what a server needs; it asks for a client's certificate where one is trusted."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.cert, self.key)
        if trusted_client is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(trusted_client)
        return context


def self_signed(folder: Path, name: str, *, address: str = "127.0.0.1") -> Certificate:
    """Make a certificate for an address."""
    made = Certificate(folder / f"{name}.crt", folder / f"{name}.key")
    command = [program("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-keyout", str(made.key), "-out", str(made.cert), "-subj", f"/CN={name}"]
    command += ["-addext", f"subjectAltName=IP:{address}"]
    subprocess.run(command, check=True, capture_output=True)
    return made
