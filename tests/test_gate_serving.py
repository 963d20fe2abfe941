"""``/gate`` of the real program: closed by an orphan, held, opened; and before a real nginx."""

import http.client
import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import bcrypt
import pytest
import yaml
from cli_session import PROGRAM
from documentation import DOCS, blocks, section
from nginx_server import Nginx, running_nginx
from pages import Reply, serving
from servers import fetch, free_port, running, running_exporter, wait_until
from stack_file import StackFile

PAGE = (DOCS / "gate.md").read_text(encoding="utf-8")
HOLD = 4.0
LONG_HOLD = 15.0
"""Longer than a restart takes on a busy machine."""


def calm_stack(folder: Path, **settings: Any) -> StackFile:
    """Return a stack with a fresh queue sample, in which nothing happens."""
    stack = StackFile(
        folder,
        write=lambda offset: time.time() + offset,
        **{"refresh_interval": "200ms", "reopen_hold": f"{HOLD:g}s", **settings},
    )
    stack.add("queue", {"sampled_at": -1, "depth": 0, "age_seconds": 0, "in_flight": 0})
    return stack


def orphan(stack: StackFile) -> None:
    """Let a worker hold on to a task whose client left."""
    stack.add("tasks", {"task_id": "t1", "retry_id": "r1", "pool": "overflow",
                        "submitted_at": -30, "cancelled_at": -20})  # fmt: skip
    stack.add("leases", {"task_id": "t1", "worker_id": "w1", "pool": "overflow",
                         "acquired_at": -29, "heartbeat_at": -1})  # fmt: skip


def let_go(stack: StackFile) -> float:
    """Let the worker release its lease; return when."""
    now = time.time()
    stack.run_sql(f"UPDATE leases SET released_at = {now}")  # noqa: S608  (a number of ours)
    return now


def ask(url: str, path: str = "/gate", method: str = "GET") -> tuple[int, dict[str, str], str]:
    """Return status, headers and body."""
    with closing(http.client.HTTPConnection(url.removeprefix("http://"), timeout=10)) as client:
        client.request(method, path)
        response = client.getresponse()
        return response.status, dict(response.headers.items()), response.read().decode()


def is_open(url: str) -> bool:
    """Return whether the gate answers 200."""
    return ask(url)[0] == 200


def test_an_orphan_closes_it_and_the_hold_keeps_it_closed(tmp_path: Path) -> None:
    """It opens ``reopen_hold`` after the last sign, and a restart within the hold changes nothing.

    No state file is kept: the stores themselves say when the lease ended.
    """
    stack = calm_stack(tmp_path, reopen_hold=f"{LONG_HOLD:g}s")
    with running_exporter(stack.config_file, free_port()) as url:
        wait_until("the open gate", lambda: is_open(url), 10)
        orphan(stack)
        wait_until("the closed gate", lambda: not is_open(url), 10)
        document = json.loads(ask(url)[2])
        assert document["verdict"] == "shed"
        released = let_go(stack)
        time.sleep(0.5)
        assert not is_open(url)
    with running_exporter(stack.config_file, free_port()) as url:
        assert not is_open(url)
        wait_until("the open gate", lambda: is_open(url), LONG_HOLD + 10)
        assert time.time() - released >= LONG_HOLD


def test_how_it_is_asked(tmp_path: Path) -> None:
    """By any method, below its path for all pools, never from a cache."""
    stack = calm_stack(tmp_path)
    with running_exporter(stack.config_file, free_port()) as url:
        wait_until("the open gate", lambda: is_open(url), 10)
        status, headers, body = ask(url, method="HEAD")
        assert (status, body, headers["Cache-Control"]) == (200, "", "no-store")
        assert headers["Content-Type"] == "application/json"
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            assert ask(url, method=method)[0] == 200
        assert ask(url, "/gate?pool=overflow")[0] == 200
        assert ask(url, "/gate?pool=paid")[0] == 503
        # What a proxy appends of its client's own request must not choose a pool.
        assert ask(url, "/gate/batch?pool=paid")[0] == 200
        assert ask(url, "/gates")[0] == 404


def test_a_store_that_is_lost_closes_it(tmp_path: Path) -> None:
    """Blind is closed, and says so."""
    stack = calm_stack(tmp_path)
    with running_exporter(stack.config_file, free_port()) as url:
        wait_until("the open gate", lambda: is_open(url), 10)
        stack.run_sql("ALTER TABLE ledger RENAME TO elsewhere")
        wait_until("the closed gate", lambda: not is_open(url), 10)
        document = json.loads(ask(url)[2])
        assert document["verdict"] == "blind"
        assert document["pools"]["overflow"]["conditions"]["blind"]["value"] == 1.0
        assert document["pools"]["overflow"]["conditions"]["orphan_tokens"]["holds"] is None


def test_it_asks_for_a_login_like_every_page(tmp_path: Path) -> None:
    """Who may not read may not know either."""
    stack = calm_stack(tmp_path)
    web = tmp_path / "web.yml"
    known = bcrypt.hashpw(b"known", bcrypt.gensalt(4)).decode()
    web.write_text(yaml.safe_dump({"basic_auth_users": {"nginx": known}}))
    port = free_port()
    command = [str(PROGRAM), "serve", "--config.file", str(stack.config_file)]
    command += ["--web.listen-address", f"127.0.0.1:{port}", "--web.config.file", str(web)]
    command += ["--web.enable-lifecycle"]
    url = f"http://127.0.0.1:{port}"
    with running(command, tmp_path / "exporter.log"):
        wait_until("the first evaluation", lambda: fetch(f"{url}/-/ready")[0] == 200, 30)
        assert ask(url)[0] == 401
        assert ask(url, "/-/reload", "POST")[0] == 401


def _late(handler: Any) -> None:
    time.sleep(1)
    body = b'{"waiting": 0}'
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def test_a_slow_store_never_slows_it(tmp_path: Path) -> None:
    """A queue that takes a second for each answer, and a gate that takes none of it."""
    slow = Reply(raw=_late)
    with serving({"/queue": slow}) as site:
        queue = {"type": "http_json", "url": site.url("/queue"), "timeout": "5s",
                 "columns": {"depth": "waiting"}}  # fmt: skip
        stack = calm_stack(tmp_path)
        document = yaml.safe_load(stack.config_file.read_text())
        document["stores"]["queue"] = queue
        stack.config_file.write_text(yaml.safe_dump(document))
        with running_exporter(stack.config_file, free_port()) as url:
            asked_before, took = len(site.asked), []
            while len(site.asked) < asked_before + 2:
                began = time.perf_counter()
                ask(url)
                took.append(time.perf_counter() - began)
    assert len(took) > 20
    assert sorted(took)[len(took) * 9 // 10] < 0.5


@pytest.fixture
def overflow() -> Iterator[str]:
    """Return the address of servers that take overflow, and refuse some of it themselves."""
    replies = {
        "/batch/job": Reply(body=b"taken"),
        "/batch/refused": Reply(status=403, body=b"not yours"),
    }
    with serving(replies) as site:
        yield f"127.0.0.1:{site.port}"


def proxy(gate: str, overflow: str) -> str:
    """Return the block of the page, with the addresses of a test."""
    (block,) = blocks(section(PAGE, "In front of nginx"), "nginx")
    for theirs, ours in (
        ("127.0.0.1:9787", gate),
        ("127.0.0.1:8000", overflow),
        ("127.0.0.1:8080", "127.0.0.1:PORT"),
    ):
        assert block.count(theirs) == 1
        block = block.replace(theirs, ours)
    return block


def tell(nginx: Nginx, path: str = "/batch/job") -> tuple[int, str | None, str]:
    """Return what a client is told: status, when to come again, body."""
    status, headers, body = ask(nginx.url, path)
    return status, headers.get("Retry-After"), body


@pytest.mark.servers
def test_nginx_admits_while_it_is_open(tmp_path: Path, overflow: str) -> None:
    """The page's own block: open passes, closed is 503 with Retry-After, and so is no answer."""
    stack = calm_stack(tmp_path)
    port, folder = free_port(), tmp_path / "nginx"
    folder.mkdir()
    with running_nginx(folder, proxy(f"127.0.0.1:{port}", overflow)) as nginx:
        assert tell(nginx) == (503, "30", "overflow is closed\n")
        with running_exporter(stack.config_file, port):
            wait_until("the open gate", lambda: tell(nginx)[0] == 200, 10)
            assert tell(nginx) == (200, None, "taken")
            assert tell(nginx, "/batch/refused") == (403, None, "not yours")
            assert tell(nginx, "/overflow-gate")[0] == 403
            orphan(stack)
            wait_until("the closed gate", lambda: tell(nginx)[0] == 503, 10)
            status, again, body = tell(nginx)
            assert (status, body) == (503, "overflow is closed\n")
            assert again in {"3", "4"}
        assert tell(nginx)[:2] == (503, "30")


@pytest.mark.servers
def test_nginx_waits_for_a_second_and_no_longer(tmp_path: Path, overflow: str) -> None:
    """A gate that does not answer is closed."""
    with serving({"/gate": Reply(raw=lambda _: time.sleep(3))}) as site:
        folder = tmp_path / "nginx"
        folder.mkdir()
        with running_nginx(folder, proxy(f"127.0.0.1:{site.port}", overflow)) as nginx:
            began = time.monotonic()
            assert tell(nginx)[:2] == (503, "30")
            assert time.monotonic() - began < 2.5


def test_the_line_with_curl(tmp_path: Path) -> None:
    """It goes on by an open gate, and by no other answer or none."""
    _, line = blocks(section(PAGE, "In a shell"), "sh")
    assert line.startswith("curl ")
    stack, port = calm_stack(tmp_path), free_port()
    line = line.replace("127.0.0.1:9787", f"127.0.0.1:{port}")

    def said() -> str:
        shell = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
        return shell.stdout

    assert said() == ""
    with running_exporter(stack.config_file, port) as url:
        wait_until("the open gate", lambda: is_open(url), 10)
        assert said() == "submit the batch\n"
        orphan(stack)
        wait_until("the closed gate", lambda: not is_open(url), 10)
        assert said() == ""


def test_what_was_not_run_says_so() -> None:
    """Configuration that no test has tried is marked as that, and is at least YAML."""
    for title in ("Envoy", "KEDA, and a HorizontalPodAutoscaler"):
        text = section(PAGE, title)
        assert re.match(r"\s*> Not run: ", text)
        (block,) = blocks(text, "yaml")
        assert yaml.safe_load(block)
