"""The pages over a real server: paths, methods, packing, headers, and what a bug looks like."""

import gzip
import http.client
import json
import queue
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import made_up_boards as made_up
import pytest
import structlog
from cheroot import errors
from structlog.testing import capture_logs

from orphanwatch.exporter.board import Board, Published
from orphanwatch.exporter.errors import ConfigError
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.web import WebApp
from orphanwatch.exporter.web_address import Address
from orphanwatch.exporter.web_config import WebConfig, WebConfigFile
from orphanwatch.exporter.web_guard import Guard
from orphanwatch.exporter.web_response import SECURITY_HEADERS, Handler, accepts_gzip
from orphanwatch.exporter.web_server import THREADS, WebServer, _Server, _TlsAdapter

LOOPBACK = Address("127.0.0.1", 0)
PAGES = {"service-page.html": b"<h1>Shed</h1>", "service-page.md": b"# Shed\n"}
PATHS = ("/", "/metrics", "/api/v1/snapshot", "/-/healthy", "/-/ready", "/runbook/service-page")


def document(published: Published) -> Mapping[str, Any]:
    """Return a small document."""
    assert published.evaluation is not None
    return {"verdict": {"action": published.evaluation.verdict.action}, "orphans": ["é"]}


def app(board: Board) -> WebApp:
    """Return the pages of a board."""
    return WebApp(
        board=board,
        config=made_up.config(),
        document=document,
        pages=PAGES,
        now=lambda: Instant(made_up.AT + 2_000_000),
    )


@contextmanager
def serving(handler: Handler, address: Address = LOOPBACK) -> Iterator[WebServer]:
    """Serve a handler for as long as the block lasts."""
    server = WebServer(handler, address, WebConfigFile(None))
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def server() -> Iterator[WebServer]:
    """Serve the pages of an incident, to every test that only reads them."""
    with serving(app(made_up.FakeBoard(made_up.shed()))) as running:
        yield running


class Answer:
    """What came back: status, headers, body."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()


def ask(server: WebServer, path: str, method: str = "GET", **headers: str) -> Answer:
    """Return the answer to one request; underscores in header names become dashes."""
    address = server.address
    with closing(http.client.HTTPConnection(address.host, address.port, timeout=10)) as client:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        client.request(method, path, headers=named)
        return Answer(client.getresponse())


@pytest.mark.parametrize(
    ("path", "content_type", "part"),
    [
        pytest.param("/", "text/html; charset=utf-8", b"Shed the orphan work", id="status page"),
        pytest.param(
            "/metrics", "text/plain; version=0.0.4; charset=utf-8", b"orphan_store_up", id="metrics"
        ),
        pytest.param("/api/v1/snapshot", "application/json", b'"shed"', id="the JSON view"),
        pytest.param("/-/healthy", "text/plain; charset=utf-8", b"200 OK\n", id="health"),
        pytest.param("/-/ready", "text/plain; charset=utf-8", b"200 OK\n", id="readiness"),
        pytest.param(
            "/runbook/service-page", "text/html; charset=utf-8", b"<h1>Shed", id="a page by name"
        ),
        pytest.param(
            "/runbook/service-page.html", "text/html; charset=utf-8", b"<h1>Shed", id="page as HTML"
        ),
        pytest.param(
            "/runbook/service-page.md", "text/plain; charset=utf-8", b"# Shed", id="as Markdown"
        ),
    ],
)
def test_paths(server: WebServer, path: str, content_type: str, part: bytes) -> None:
    """Each path answers with its content; HEAD gives the same headers and no body."""
    answer, head = ask(server, path), ask(server, path, "HEAD")
    assert (answer.status, answer.headers["Content-Type"]) == (200, content_type)
    assert part in answer.body
    assert (head.status, head.body) == (200, b"")
    assert head.headers["Content-Length"] == str(len(answer.body))


@pytest.mark.parametrize(
    "path",
    [
        "/metrics/",
        "/anything",
        "/runbook/Nothing",
        "/runbook/../service-page",
        "/runbook/%2e%2e/%2e%2e/etc/passwd",
        "/METRICS",
    ],
)
def test_other_paths_are_not_found(server: WebServer, path: str) -> None:
    """Only known paths answer: nothing else shows the metrics or a file."""
    answer = ask(server, path)
    assert (answer.status, answer.headers["Content-Type"]) == (404, "text/plain; charset=utf-8")
    assert answer.body.startswith(b"404 Not Found: the status page is at /, ")


@pytest.mark.parametrize(
    ("path", "root"),
    [
        pytest.param("/nope", b"./", id="at the top"),
        pytest.param("/runbook/OrphanGone", b"../", id="a page of another version"),
        pytest.param("/api/v1/", b"../../", id="further down"),
    ],
)
def test_a_browser_that_is_lost_gets_links_back(server: WebServer, path: str, root: bytes) -> None:
    """To the status page and to the list of pages, also below a path of a proxy's own."""
    answer = ask(server, path, Accept="text/html,*/*;q=0.8")
    assert (answer.status, answer.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert b'<a href="' + root + b'">' in answer.body
    assert b'<a href="' + root + b'runbook/service-page">' in answer.body
    assert b'<link rel="icon" href="data:,">' in answer.body


@pytest.mark.parametrize("path", ["/runbook", "/runbook/"])
def test_the_runbook_alone_leads_to_its_first_page(server: WebServer, path: str) -> None:
    """The base of all runbook links is a link too: it leads to the service page."""
    answer = ask(server, path)
    assert answer.status == 302
    assert ask(server, answer.headers["Location"]).body.startswith(b"<h1>Shed")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_other_methods_are_refused(server: WebServer, method: str) -> None:
    """Nothing can be changed from outside, and the answer says what is allowed."""
    for path in PATHS:
        answer = ask(server, path, method)
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
        assert answer.body == b"405 Method Not Allowed: ask by GET or HEAD\n"


def broken(environ: object) -> Any:  # noqa: ARG001  (a handler that does not look)
    """Fail, as a bug would."""
    raise RuntimeError("secret in a message")


def test_every_answer_carries_the_security_headers(server: WebServer) -> None:
    """Pages, errors and refusals alike; the server does not name its version."""
    answers = [ask(server, path) for path in (*PATHS, "/nowhere")]
    answers += [ask(server, "/metrics", "POST"), ask(server, "/" + "x" * 40_000)]
    assert [answer.status for answer in answers[-3:]] == [404, 405, 414]
    with serving(broken) as other, capture_logs():
        answers.append(ask(other, "/"))
    for answer in answers:
        assert {name: answer.headers[name] for name in SECURITY_HEADERS} == SECURITY_HEADERS
        assert answer.headers.get("Server", "orphanwatch") == "orphanwatch"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        pytest.param(b"nonsense\r\n\r\n", b"400", id="no HTTP at all"),
        pytest.param(b"GET / HTTP/1.1\r\nbad header\r\n\r\n", b"400", id="a broken header"),
        pytest.param(
            b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 40_000 + b"\r\n\r\n",
            b"413",
            id="headers without end",
        ),
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n\r\n", b"413", id="a big body"
        ),
    ],
)
def test_malformed_requests(server: WebServer, request_bytes: bytes, status: bytes) -> None:
    """What never reaches a handler is refused shortly, with our headers, and hangs up."""
    with closing(socket.create_connection(("127.0.0.1", server.address.port), 10)) as client:
        client.sendall(request_bytes)
        answer = b"".join(iter(lambda: client.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert b"X-Content-Type-Options: nosniff\r\n" in answer
    assert b"Traceback" not in answer


def test_a_bug_shows_nothing_outside_and_is_logged() -> None:
    """A handler that fails gives a bare 500; the log has the trace; the server goes on."""
    with serving(broken) as running, capture_logs() as logs:
        answer = ask(running, "/metrics")
        assert (answer.status, answer.body) == (500, b"500 Internal Server Error\n")
        assert ask(running, "/-/healthy").status == 500
    assert [log["path"] for log in logs] == ["/metrics", "/-/healthy"]
    assert all(log["exc_info"] for log in logs)


@pytest.mark.parametrize(
    ("published", "ready", "snapshot"),
    [
        pytest.param(made_up.nothing_yet(), 503, 503, id="before the first evaluation"),
        pytest.param(made_up.stale(), 503, 503, id="once the last one is too old"),
        pytest.param(made_up.blind(), 200, 200, id="blind is an evaluation too"),
    ],
)
def test_readiness(published: Published, ready: int, snapshot: int) -> None:
    """Ready means that an evaluation is current; alive and scrapable it is at any time."""
    with serving(app(made_up.FakeBoard(published))) as running:
        assert ask(running, "/-/healthy").status == 200
        assert ask(running, "/metrics").status == 200
        assert ask(running, "/").status == 200
        assert ask(running, "/-/ready").status == ready
        assert ask(running, "/api/v1/snapshot").status == snapshot


def test_openmetrics_is_negotiated(server: WebServer) -> None:
    """A scrape that asks for OpenMetrics gets it, without an echo of its words."""
    accept = "application/openmetrics-text;version=9.9.9;charset=evil"
    answer = ask(server, "/metrics", Accept=accept)
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0;")
    assert "evil" not in str(answer.headers)
    assert answer.body.endswith(b"# EOF\n")
    assert "Accept" in answer.headers["Vary"]


@pytest.mark.parametrize("path", ["/metrics", "/"])
def test_gzip_when_asked(server: WebServer, path: str) -> None:
    """The packed body unpacks to the plain one."""
    packed = ask(server, path, Accept_Encoding="gzip")
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.body) == ask(server, path).body


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip;q=0.000", False),
        ("identity", False),
        ("", False),
        ("xgzip", False),
    ],
)
def test_who_asks_for_gzip(*, header: str, expected: bool) -> None:
    """Only a header that names gzip with some weight asks for it."""
    assert accepts_gzip(header) is expected


def test_the_page_follows_the_board() -> None:
    """The next answer after a new evaluation is the new one, on every page."""
    board = made_up.FakeBoard(made_up.shed())
    with serving(app(board)) as running:
        assert json.loads(ask(running, "/api/v1/snapshot").body)["verdict"] == {"action": "shed"}
        board.published = made_up.scale()
        assert json.loads(ask(running, "/api/v1/snapshot").body)["verdict"] == {"action": "scale"}
        assert b"capacity decisions are safe" in ask(running, "/").body
        assert b"chatcmpl" not in ask(running, "/").body
        board.published = made_up.stale()
        assert b'orphan_store_up{store="ledger"} 0.0' in ask(running, "/metrics").body


def test_keep_alive(server: WebServer) -> None:
    """A scraper keeps its connection, across errors too."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.address.port)) as client:
        ports = set()
        for path in ("/metrics", "/nowhere", "/metrics"):
            client.request("GET", path)
            client.getresponse().read()
            ports.add(client.sock.getsockname())
    assert len(ports) == 1


def test_silent_clients_hold_up_nobody(server: WebServer) -> None:
    """More silent connections than threads leave the page answering."""
    silent = [
        socket.create_connection(("127.0.0.1", server.address.port)) for _ in range(4 * THREADS)
    ]
    try:
        assert ask(server, "/metrics").status == 200
    finally:
        for client in silent:
            client.close()


def test_parallel_scrapes_are_bounded() -> None:
    """No more requests than threads are inside at once; all of them get their answer."""
    inside, peak, lock = 0, 0, threading.Lock()
    pages, full = app(made_up.FakeBoard(made_up.scale())), threading.Barrier(THREADS)

    def counted(environ: Any) -> Any:
        nonlocal inside, peak
        with lock:
            inside, peak = inside + 1, max(peak, inside + 1)
        full.wait(timeout=10)
        with lock:
            inside -= 1
        return pages(environ)

    with serving(counted) as running, ThreadPoolExecutor(4 * THREADS) as pool:
        answers = list(pool.map(lambda _: ask(running, "/metrics").status, range(4 * THREADS)))
    assert answers == [200] * (4 * THREADS)
    assert peak == THREADS


def test_ipv6() -> None:
    """An IPv6 address works, and is written in brackets."""
    with serving(app(made_up.FakeBoard(made_up.scale())), Address("::1", 0)) as running:
        assert ask(running, "/-/healthy").status == 200
        assert running.url == f"http://[::1]:{running.address.port}"


def test_a_taken_port_is_explained(server: WebServer) -> None:
    """The error names the option and the address."""
    other = WebServer(broken, server.address, WebConfigFile(None))
    with pytest.raises(ConfigError, match=rf"--web.listen-address.*{server.address.port}"):
        other.start()


def test_stopping_twice_and_never_started() -> None:
    """Stopping is safe at any time, and afterwards nobody answers."""
    running = WebServer(broken, LOOPBACK, WebConfigFile(None))
    assert running.address == LOOPBACK
    running.stop()
    running.start()
    port = running.address.port
    running.stop()
    running.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


class FakeConnection:
    """A connection that was seen before, and may be closed."""

    last_used = 1.0
    closed = False

    def close(self) -> None:
        """Note it."""
        self.closed = True


def test_more_than_the_queue_holds_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond threads and queue a connection is closed at once, and the log says so."""
    running, connection = _Server(("127.0.0.1", 0), Guard(broken, WebConfig)), FakeConnection()

    def full(connection: object) -> None:  # noqa: ARG001  (the pool's signature)
        raise queue.Full

    monkeypatch.setattr(running.requests, "put", full)
    with capture_logs() as logs:
        running.process_conn(connection)
    assert connection.closed
    assert [log["event"] for log in logs] == ["too many requests, one dropped"]


@pytest.fixture
def every_level() -> None:
    """Let nothing be left out of the log, whatever a command run in this process has set."""
    structlog.reset_defaults()


@pytest.mark.usefixtures("every_level")
@pytest.mark.parametrize(("level", "name"), [(20, "debug"), (30, "warning"), (40, "error")])
def test_the_server_logs_where_we_log(level: int, name: str) -> None:
    """What cheroot has to say goes to our log, at its level."""
    with capture_logs() as logs:
        _Server(("127.0.0.1", 0), Guard(broken, WebConfig)).error_log("something", level)
    assert [(log["event"], log["log_level"]) for log in logs] == [("something", name)]


def test_a_client_that_left_costs_one_connection() -> None:
    """A socket that is gone before the TLS handshake is told to cheroot in its own words."""
    gone = socket.socket()
    gone.close()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with pytest.raises(errors.FatalSSLAlert):
        _TlsAdapter(lambda: context).wrap(gone)
