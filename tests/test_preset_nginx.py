"""The preset ``nginx``: what a real nginx writes by the page's own blocks, and what it means."""

import http.client
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from cli_session import run
from documentation import DOCS, blocks, configs
from log_follower import ZERO, Follower
from nginx_server import Nginx, running_nginx
from servers import free_port, wait_until
from slow_upstream import SlowUpstream, running_upstream
from stack_file import ZERO as STACK_ZERO
from stack_file import StackFile, lease

from orphanwatch.exporter.config_stores import JsonlGatewayStore
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.presets import filled_in, preset_of
from orphanwatch.exporter.stores.documents import DocumentReader

pytestmark = pytest.mark.servers

PAGE: Final = (DOCS / "presets" / "nginx.md").read_text(encoding="utf-8")
LOG: Final = "/var/log/nginx/orphanwatch.log"

SERVERS: Final = """
upstream llm {{ server 127.0.0.1:{upstream}; }}
upstream two {{ server 127.0.0.1:{nobody}; server 127.0.0.1:{upstream}; }}
upstream none {{ server 127.0.0.1:{nobody}; }}
proxy_read_timeout 1s;
server {{
    listen 127.0.0.1:PORT;
    {location}
}}
server {{
    listen 127.0.0.1:PORT2;
    {location_of_two}
}}
server {{
    listen 127.0.0.1:PORT3;
    {location_of_none}
}}
"""


def body(upstream: int) -> str:
    """Return the page's blocks as nginx's config, with upstreams of the test's own."""
    formats, location = blocks(PAGE, "nginx")
    assert LOG in location
    location = location.replace(LOG, "orphanwatch.log")
    return formats + SERVERS.format(
        upstream=upstream,
        nobody=free_port(),
        location=location,
        location_of_two=location.replace("http://llm", "http://two"),
        location_of_none=location.replace("http://llm", "http://none"),
    )


@dataclass(frozen=True)
class Gateway:
    """A real nginx in front of a model server."""

    folder: Path
    nginx: Nginx
    upstream: SlowUpstream

    @property
    def log(self) -> Path:
        """The log of the page."""
        return self.folder / "orphanwatch.log"

    def ask(self, path: str, port: str = "PORT", **headers: str) -> http.client.HTTPConnection:
        """Send a request, and return the connection it was sent on."""
        connection = http.client.HTTPConnection("127.0.0.1", self.nginx.ports[port], timeout=10)
        connection.request("GET", path, headers=headers)
        return connection

    def lines(self) -> dict[str, dict[str, Any]]:
        """Return the lines of the log, by path."""
        documents = map(json.loads, self.log.read_text().splitlines())
        return {document["uri"]: document for document in documents}


def leave_before_the_first_byte(gateway: Gateway) -> None:
    """Wait until the upstream has the request, and go."""
    connection = gateway.ask("/v1/late-early", **{"X-Retry-Id": "r1", "X-Retry-Attempt": "2"})
    gateway.upstream.wait_for("/v1/late-early")
    connection.close()


def leave_in_the_middle(gateway: Gateway) -> None:
    """Read what has come first, and go."""
    connection = gateway.ask("/v1/endless-middle")
    answer = connection.getresponse()
    assert answer.read(9) == b"data: x\n\n"
    answer.close()
    connection.close()


def leave_after_the_last_byte(gateway: Gateway) -> None:
    """Read the answer to its end, and go without another word."""
    connection = gateway.ask("/v1/whole-left")
    assert connection.getresponse().read() == b"data: x\n\n" * 3
    connection.close()


def ask_twice(gateway: Gateway) -> None:
    """Read two answers on one connection."""
    connection = gateway.ask("/v1/whole-first")
    connection.getresponse().read()
    connection.request("GET", "/v1/whole-second")
    connection.getresponse().read()
    connection.close()


def wait_too_long(gateway: Gateway) -> None:
    """Wait until nginx gives up."""
    connection = gateway.ask("/v1/late-timeout")
    assert connection.getresponse().status == 504
    connection.close()


def see_it_break(gateway: Gateway) -> None:
    """Read an answer that breaks off."""
    connection = gateway.ask("/v1/broken-off")
    with pytest.raises(http.client.HTTPException):
        connection.getresponse().read()
    connection.close()


def read(path: str, port: str = "PORT") -> Callable[[Gateway], None]:
    """Return a client that reads one answer, whatever it is."""

    def client(gateway: Gateway) -> None:
        connection = gateway.ask(path, port)
        connection.getresponse().read()
        connection.close()

    return client


CLIENTS: Final[dict[str, Callable[[Gateway], None]]] = {
    "/v1/late-early": leave_before_the_first_byte,
    "/v1/endless-middle": leave_in_the_middle,
    "/v1/whole-left": leave_after_the_last_byte,
    "/v1/whole-second": ask_twice,
    "/v1/late-timeout": wait_too_long,
    "/v1/broken-off": see_it_break,
    "/v1/wrong": read("/v1/wrong"),
    "/v1/whole-two": read("/v1/whole-two", "PORT2"),
    "/v1/whole-none": read("/v1/whole-none", "PORT3"),
}
"""What clients do, by the path of the last line that comes of it."""


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """Return an nginx whose log tells of all the clients."""
    folder = tmp_path_factory.mktemp("nginx")
    with running_upstream() as upstream, running_nginx(folder, body(upstream.port)) as nginx:
        gateway = Gateway(folder, nginx, upstream)
        for path, client in CLIENTS.items():
            client(gateway)
            wait_until(f"the line of {path}", partial(has_line, gateway, path), 10)
        yield gateway


def has_line(gateway: Gateway, path: str) -> bool:
    """Return whether nginx has written the line of a request."""
    return path in gateway.lines()


def preset_reader() -> DocumentReader:
    """Return the reader of lines by the preset alone."""
    settings = filled_in({"path": "x"}, preset_of("nginx"), StoreName.GATEWAY)
    return DocumentReader(StoreName.GATEWAY, JsonlGatewayStore.model_validate(settings))


@pytest.mark.parametrize(
    ("path", "said", "end", "outcome"),
    [
        pytest.param(
            "/v1/late-early", ("499", ""), "cancelled_at", "error",
            id="a client that leaves before the first byte is a cancel of status 499",
        ),
        pytest.param(
            "/v1/endless-middle", ("200", ""), "cancelled_at", None,
            id="a client that leaves in the middle is a cancel of status 200",
        ),
        pytest.param(
            "/v1/whole-left", ("200", "OK"), "finished_at", None,
            id="a client that leaves after the last byte is no cancel",
        ),
        pytest.param(
            "/v1/whole-first", ("200", "OK"), "finished_at", None,
            id="nor is one that asks again",
        ),
        pytest.param(
            "/v1/late-timeout", ("504", "OK"), "cancelled_at", "error",
            id="what nginx waits for no longer is given up",
        ),
        pytest.param(
            "/v1/broken-off", ("200", "OK"), "finished_at", None,
            id="an upstream that breaks off in the middle looks like a good end",
        ),
        pytest.param(
            "/v1/wrong", ("500", "OK"), "finished_at", "error",
            id="an error of the upstream is a finish with an error",
        ),
        pytest.param(
            "/v1/whole-two", ("200", "OK"), "finished_at", None,
            id="a second upstream's answer is the request's",
        ),
        pytest.param(
            "/v1/whole-none", ("502", "OK"), "finished_at", "error",
            id="where there is no upstream the request finished with an error",
        ),
    ],
)  # fmt: skip
def test_what_a_line_means(
    path: str, said: tuple[str, str], end: str, outcome: str | None, gateway: Gateway
) -> None:
    """What nginx wrote, and the task that comes of it."""
    document = gateway.lines()[path]
    reader = preset_reader()
    row = reader.row(document)
    assert row is not None
    task = dict(zip(reader.columns, row, strict=True))

    assert (document["status"], document["request_completion"]) == said
    ended = round(float(document["msec"]) * 1e6)
    assert {name: task[name] for name in ("cancelled_at", "finished_at")} == {
        "cancelled_at": None,
        "finished_at": None,
        end: ended,
    }
    assert task["submitted_at"] == ended - round(float(document["request_time"]) * 1e6)
    assert task["outcome"] == outcome


def test_the_id_that_is_logged_is_the_one_that_was_sent_on(gateway: Gateway) -> None:
    """In both headers, and each request has its own."""
    logged = {path: document["request_id"] for path, document in gateway.lines().items()}

    assert all(re.fullmatch("[0-9a-f]{32}", task_id) for task_id in logged.values())
    assert len(set(logged.values())) == len(logged)
    for path, ids in gateway.upstream.ids.items():
        assert ids == (logged[path], logged[path]), path


def test_a_retry_is_told_by_the_clients_headers(gateway: Gateway) -> None:
    """The retry id and the number of the attempt are those that the client sent, if any."""
    lines = gateway.lines()
    sent, none = lines["/v1/late-early"], lines["/v1/endless-middle"]

    assert (sent["retry_id"], sent["attempt"]) == ("r1", "2")
    assert (none["retry_id"], none["attempt"]) == ("", "")


def test_two_upstreams_are_one_request(gateway: Gateway) -> None:
    """A second try of nginx's own is no attempt of the client: one line, one task."""
    document = gateway.lines()["/v1/whole-two"]

    assert document["upstream_status"] == "502, 200"
    assert gateway.log.read_text().count("/v1/whole-two") == 1


@pytest.fixture
def stack(gateway: Gateway, tmp_path: Path) -> tuple[Path, float]:
    """Return a folder with the page's config, and an instant at which all leases still live."""
    [text] = configs(PAGE)
    stack = StackFile(tmp_path)
    at = max(float(document["msec"]) for document in gateway.lines().values()) + 30
    for number, document in enumerate(gateway.lines().values()):
        beats = {"acquired_at": at - 60 - STACK_ZERO, "heartbeat_at": at - 1 - STACK_ZERO}
        stack.add("leases", lease(document["request_id"], f"w{number}", **beats))
    (tmp_path / "orphanwatch.yml").write_text(text.replace(LOG, str(gateway.log)))
    return tmp_path, at


def test_a_snapshot_by_the_pages_config(gateway: Gateway, stack: tuple[Path, float]) -> None:
    """Of workers that all go on, those are orphans whose client left or was given up."""
    folder, at = stack
    answer = run(folder, *f"snapshot --config.file orphanwatch.yml --at {at} --format json".split())
    assert answer.code == 0, answer.err
    document = json.loads(answer.out)
    lines = gateway.lines()
    left = ("/v1/late-early", "/v1/endless-middle", "/v1/late-timeout")

    assert {
        orphan["task_id"]: (orphan["cause"], orphan["abandoned_at"])
        for orphan in document["orphans"]
    } == {lines[path]["request_id"]: ("client_cancel", float(lines[path]["msec"])) for path in left}
    assert document["verdict"]["action"] == "shed"
    metrics = document["metrics"]
    assert {"labels": {"store": "gateway"}, "value": 1} in metrics["orphan_store_up"]
    # A log has no line of a request that runs.
    for name in ("orphan_attached_tasks", "orphan_in_flight_gap", "orphan_split_signal"):
        assert name not in metrics


def test_a_check_of_the_pages_config(stack: tuple[Path, float]) -> None:
    """The log is read, every field of the preset is in it, and all leases join."""
    folder, _ = stack
    answer = run(folder, "check", "--config.file", "orphanwatch.yml")

    assert answer.code == 0, answer.out
    told = [said for said in answer.out.splitlines() if "stores.gateway" in said]
    assert told[0].startswith("ok     stores.gateway: read as of ")
    assert [said.split(" is not stated")[0].rpartition(" ")[2] for said in told[1:]] == [
        "pool",
        "deadline_at",
    ]
    count = len(CLIENTS) + 1  # one of them asks twice
    assert (
        f"{count} of {count} task ids of unreleased leases are tasks of the gateway" in answer.out
    )


def test_rotation_under_load_loses_no_line(tmp_path: Path) -> None:
    """While clients come and go, the log is renamed and opened anew: each line is read once."""
    with running_upstream() as upstream, running_nginx(tmp_path, body(upstream.port)) as nginx:
        gateway = Gateway(tmp_path, nginx, upstream)
        follower = Follower(
            gateway.log, columns={"task_id": "request_id", "ended_at": "msec"}, cancelled_when=[]
        )
        read("/v1/whole-begin")(gateway)
        wait_until("the first line", gateway.log.exists, 10)
        is_over = threading.Event()
        clients = [
            threading.Thread(target=come_and_go, args=(gateway, is_over, name)) for name in "ab"
        ]
        for client in clients:
            client.start()
        for number in range(4):
            follower.read(now())
            gateway.log.rename(tmp_path / f"orphanwatch.log-2027010{number}")
            follower.read(now())
            nginx.reopen()
            wait_until("the new log", gateway.log.exists, 10)
        is_over.set()
        for client in clients:
            client.join()
        sent = {ids[0] for ids in upstream.ids.values()}
        wait_until("all lines", lambda: len(lines_of(tmp_path)) == len(sent), 10)
        follower.read(now())

    assert len(sent) > 20
    assert Counter(follower.met) == Counter(sent)
    assert follower.rejected() == {}


def come_and_go(gateway: Gateway, is_over: threading.Event, name: str) -> None:
    """Ask again and again, and leave each other time in the middle."""
    number = 0
    while not is_over.is_set() or number < 20:
        number += 1
        what = "whole" if number % 2 else "endless"
        connection = gateway.ask(f"/v1/{what}-{name}{number}")
        connection.getresponse().read(9)
        connection.close()


def now() -> float:
    """Return how many seconds after the zero of made-up logs it is."""
    return time.time() - ZERO


def lines_of(folder: Path) -> list[str]:
    """Return all lines of a log, whatever file they are in."""
    return [
        text for file in folder.glob("orphanwatch.log*") for text in file.read_text().splitlines()
    ]
