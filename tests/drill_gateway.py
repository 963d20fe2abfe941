"""A small real engine that streams as OpenAI's API does, and a real nginx in front of it.

It writes leases and a ledger into SQLite, as workers do; its tasks are what nginx logs.
"""

import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import yaml
from documentation import DOCS, blocks
from nginx_server import running_nginx
from stack_file import TABLES

READS_ON: Final = """
proxy_store store/$request_id;
proxy_ignore_client_abort on;
proxy_buffer_size 1k;
proxy_buffers 8 1k;
proxy_busy_buffers_size 2k;
"""
TOKENS_PER_SECOND: Final = 40
LOG: Final = "/var/log/nginx/orphanwatch.log"
EVENT: Final = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","model":"tiny","choices":'
    b'[{"index":0,"delta":{"content":" river"},"finish_reason":null}]}\n\n'
)
TOKEN: Final = "sk-hunter2"  # noqa: S105  (made up)


@dataclass
class Ways:
    """How an engine behaves."""

    honours: bool = True
    """Whether it stops when its client has gone."""
    keyed: bool = True
    """Whether the ledger is charged under the task's id; else under the worker's."""
    answer_tokens: int | None = None
    """How long answers are; None is as long as they may be."""
    silent: bool = False
    """Whether no worker ever takes a request."""
    behind: float = 0.0
    """By how many seconds the clock is late by which leases and ledger are stamped."""


@dataclass
class Arrived:
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    decoded: int = 0
    is_gone: bool = False


class Engine(ThreadingHTTPServer):
    """Decodes 40 tokens a second for each request, and writes down what it does."""

    daemon_threads = True

    def __init__(self, database: Path, ways: Ways) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.ways = ways
        self.database = database
        self.arrived: list[Arrived] = []
        self.is_over = threading.Event()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.server_address[1])

    def now(self) -> float:
        """Return the time by the clock that leases and ledger are stamped by."""
        return time.time() - self.ways.behind

    def write(self, statement: str, *cells: object) -> None:
        """Run one statement on the books."""
        with closing(sqlite3.connect(self.database, timeout=20)) as books, books:
            books.execute(statement, cells)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Engine

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        request = Arrived(self.path, dict(self.headers.items()), json.loads(raw))
        self.server.arrived.append(request)
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            self.send_response(401)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._decode(request, self.headers["X-Request-Id"])

    def _decode(self, request: Arrived, task_id: str) -> None:
        engine, worker = self.server, f"worker-{len(self.server.arrived)}"
        if engine.ways.silent:
            engine.is_over.wait(60)
            self.close_connection = True
            return
        engine.write(
            "INSERT INTO leases VALUES (?, ?, 'overflow', ?, NULL, NULL)",
            task_id,
            worker,
            engine.now(),
        )
        length = engine.ways.answer_tokens or request.body["max_tokens"]
        key = task_id if engine.ways.keyed else worker
        while request.decoded < length and not engine.is_over.wait(4 / TOKENS_PER_SECOND):
            self._send(request, [EVENT] * 4)
            if request.is_gone and engine.ways.honours:
                break
            request.decoded += 4
            now = engine.now()
            engine.write("INSERT INTO ledger VALUES (?, 4, ?, 0, NULL, NULL)", key, now)
            engine.write("UPDATE leases SET heartbeat_at = ? WHERE worker_id = ?", now, worker)
        self._send(request, [b"data: [DONE]\n\n"], end=b"0\r\n\r\n")
        engine.write("UPDATE leases SET released_at = ? WHERE worker_id = ?", engine.now(), worker)

    def _send(self, request: Arrived, events: list[bytes], end: bytes = b"") -> None:
        if request.is_gone:
            return
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(event), event) for event in events)
        try:
            self.wfile.write(chunks + end)
        except OSError:
            request.is_gone = True
            self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Keep the test's output clean."""


@dataclass(frozen=True)
class RealGateway:
    """Nginx, the engine behind it, and the config that names both."""

    folder: Path
    url: str
    engine: Engine

    def configure(self, **target: Any) -> None:
        """Write the config, with further settings of the target."""
        url = "sqlite:///stack.db"
        document = {
            "pools": {"paid": {"role": "paid"}, "overflow": {"role": "overflow"}},
            "stores": {
                "gateway": {"preset": "nginx", "path": "orphanwatch.log"},
                "leases": {"type": "sql", "url": url, "relation": "leases"},
                "ledger": {"type": "sql", "url": url, "shape": "increments"},
            },
            "state_file": "watch.state",
            "drill": {
                "targets": [
                    {
                        "url": self.url,
                        "model": "tiny",
                        "token": "${DRILL_TOKEN}",
                        "settle": "1s",
                        **target,
                    }
                ]
            },
        }
        (self.folder / "orphanwatch.yml").write_text(yaml.safe_dump(document), encoding="utf-8")


def body(upstream: int, *, keeps_id: bool, reads_on: bool) -> str:
    """Return the blocks of the preset's page as nginx's config."""
    page = (DOCS / "presets" / "nginx.md").read_text(encoding="utf-8")
    formats, location = blocks(page, "nginx")
    location = location.replace(LOG, "orphanwatch.log")
    if keeps_id:
        assert "default $request_id;" in formats
        formats = formats.replace("default $request_id;", "default $http_x_request_id;")
    if reads_on:
        assert "proxy_buffering off;" in location
        location = location.replace("proxy_buffering off;", READS_ON)
    server = f"upstream llm {{ server 127.0.0.1:{upstream}; }}\n"
    return f"{formats}{server}server {{ listen 127.0.0.1:PORT; {location} }}"


@contextmanager
def running_gateway(
    folder: Path, ways: Ways, *, keeps_id: bool = False, reads_on: bool = False
) -> Iterator[RealGateway]:
    """Run engine and nginx until the block ends.

    ``keeps_id`` has nginx take the client's id, ``reads_on`` has it read answers to their
    end, client or no client; without them it is as the preset's page says.
    """
    database = folder / "stack.db"
    with closing(sqlite3.connect(database)) as books, books:
        books.execute("PRAGMA journal_mode = WAL")
        for table in ("leases", "ledger"):
            books.execute(f"CREATE TABLE {table} ({TABLES[table]})")
    with Engine(database, ways) as engine:
        thread = threading.Thread(target=engine.serve_forever, daemon=True)
        thread.start()
        text = body(engine.port, keeps_id=keeps_id, reads_on=reads_on)
        try:
            # nginx takes it from where the tests run, not from its own folder.
            text = text.replace("proxy_store store/", f"proxy_store {folder}/store/")
            with running_nginx(folder, text) as nginx:
                gateway = RealGateway(folder, f"{nginx.url}/v1", engine)
                gateway.configure()
                yield gateway
        finally:
            engine.is_over.set()
            engine.shutdown()
            thread.join()
