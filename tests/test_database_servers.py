"""The servers that tests run on: real ones, each test's data its own, and gone afterwards."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import servers
from database_servers import (
    MariaDB,
    PostgreSQL,
    RedisServer,
    guarded,
    running_mariadb,
    running_postgresql,
    running_redis,
)
from nginx_server import Nginx, running_nginx
from redis import Redis
from redis.exceptions import AuthenticationError
from servers import Server, fetch, wait_until
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.exc import SQLAlchemyError

pytestmark = pytest.mark.servers

HELLO = """
    log_format page '$request_uri';
    access_log access.log page;
    server { listen 127.0.0.1:PORT; location / { return 200 "first"; } }
    server { listen 127.0.0.1:PORT2; location / { proxy_pass http://127.0.0.1:PORT; } }
"""

KINDS: dict[str, Callable[[Path], AbstractContextManager[Server]]] = {
    "PostgreSQL": running_postgresql,
    "MariaDB": running_mariadb,
    "Redis": running_redis,
    "nginx": lambda folder: running_nginx(folder, HELLO),
}


def run(url: str, *statements: str) -> list[object]:
    """Run statements, commit, and return the first value of each row of the last one."""
    with create_engine(url, poolclass=NullPool).begin() as connection:
        for statement in statements:
            result = connection.execute(text(statement))
        return list(result.scalars()) if result.returns_rows else []


def answers(port: int) -> bool:
    """Tell whether anybody listens on a port of the loopback."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("first", [True, False], ids=["one test", "the next test"])
@pytest.mark.parametrize(
    ("urls", "product"),
    [("postgresql_url", "PostgreSQL"), ("mariadb_url", "MariaDB")],
    ids=["PostgreSQL", "MariaDB"],
)
def test_a_database_is_empty(
    request: pytest.FixtureRequest, urls: str, product: str, *, first: bool
) -> None:
    """Each test gets a database without tables, whatever the one before made."""
    url = request.getfixturevalue(urls)
    assert product in str(run(url, "SELECT version()")), f"first: {first}"
    run(url, "CREATE TABLE tasks (task_id text)", "INSERT INTO tasks VALUES ('t')")
    assert run(url, "SELECT task_id FROM tasks") == ["t"]


@pytest.mark.parametrize("first", [True, False], ids=["one test", "the next test"])
def test_a_redis_database_is_empty(redis_url: str, *, first: bool) -> None:
    """Each test gets a database without keys, whatever the one before wrote."""
    with Redis.from_url(redis_url) as client:
        assert client.dbsize() == 0, f"first: {first}"
        client.set("key", "value")


@pytest.mark.parametrize("urls", ["postgresql_url", "mariadb_url"])
def test_the_guarded_user_needs_the_password_and_only_reads(
    request: pytest.FixtureRequest, urls: str
) -> None:
    """The user for tests of credentials reads with the password, and does no more."""
    url = request.getfixturevalue(urls)
    run(url, "CREATE TABLE tasks (task_id text)")
    assert run(guarded(url), "SELECT * FROM tasks") == []
    with pytest.raises(SQLAlchemyError):
        run(guarded(url), "INSERT INTO tasks VALUES ('t')")
    with pytest.raises(SQLAlchemyError):
        run(guarded(url, password="wrong"), "SELECT 1")  # noqa: S106  (that is the case)


def test_redis_with_a_password(tmp_path: Path) -> None:
    """A Redis with a password lets nobody in without it."""
    with running_redis(tmp_path, password="open/sesame") as server:  # noqa: S106  (made up)
        with Redis.from_url(server.url) as client:
            assert client.ping()
        with (
            Redis(port=server.port) as client,
            pytest.raises(AuthenticationError),
        ):
            client.ping()


@pytest.mark.parametrize("kind", KINDS)
def test_stopped_started_and_gone(tmp_path: Path, kind: str) -> None:
    """A server can be stopped and started on the same port, and is gone after its block."""
    with KINDS[kind](tmp_path) as server:
        port = server.port
        assert answers(port)
        server.stop()
        assert not answers(port)
        server.start()
        assert server.port == port
        assert answers(port)
    assert not answers(port)


@pytest.mark.parametrize("running", [running_postgresql, running_mariadb])
def test_data_outlive_a_stop(
    tmp_path: Path, running: Callable[[Path], AbstractContextManager[PostgreSQL | MariaDB]]
) -> None:
    """What was committed before a stop is there after the start, and no file after the block."""
    with running(tmp_path) as server:
        run(server.url, "CREATE TABLE tasks (task_id text)", "INSERT INTO tasks VALUES ('t')")
        server.stop()
        with server.new_database() as other:
            assert run(other, "SELECT 1") == [1]
        assert run(server.url, "SELECT task_id FROM tasks") == ["t"]
    assert not server.home.exists()


def test_a_taken_port_gives_way_to_another(
    tmp_path: Path, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where somebody took the port before the server did, another one is used."""
    for kind, running in KINDS.items():
        ports = iter([redis_server.port, servers.free_port()])
        monkeypatch.setattr(servers, "free_port", lambda ports=ports: next(ports))
        folder = tmp_path / kind
        folder.mkdir()
        with running(folder) as server:
            assert server.port != redis_server.port, kind
        monkeypatch.undo()


def test_nginx_serves_the_body_and_opens_its_logs_anew(tmp_path: Path) -> None:
    """The body's ports are free ones, and after a rotation lines go to the new file."""
    with running_nginx(tmp_path, HELLO) as nginx:
        assert fetch(f"http://127.0.0.1:{nginx.ports['PORT2']}/one") == (200, "first")
        log = tmp_path / "access.log"
        assert "/one" in log.read_text()
        log.rename(tmp_path / "access.log.1")
        nginx.reopen()
        wait_until("the new log", lambda: wrote_two(nginx, log), 10)


def wrote_two(nginx: Nginx, log: Path) -> bool:
    """Ask for a page and tell whether the new log has it."""
    fetch(f"{nginx.url}/two")
    return "/two" in log.read_text()


def test_a_missing_program_fails_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing program fails the test with the remedy; it never skips it."""
    monkeypatch.setattr("servers.shutil.which", lambda *_, **__: None)
    for running in KINDS.values():
        with pytest.raises(pytest.fail.Exception, match="run make test, which installs it"):
            running(tmp_path).__enter__()


KILLED = """
import sys, time
from contextlib import ExitStack
from pathlib import Path
from database_servers import running_mariadb, running_postgresql, running_redis
from nginx_server import running_nginx
with ExitStack() as stack:
    folder = Path(sys.argv[1])
    kinds = [running_postgresql, running_mariadb, running_redis]
    all = [stack.enter_context(kind(folder)) for kind in kinds]
    all.append(stack.enter_context(running_nginx(folder, sys.argv[2])))
    print(*(server.port for server in all), *(server.home for server in all[:2]), flush=True)
    time.sleep(600)
"""


def test_a_killed_run_leaves_no_server(tmp_path: Path) -> None:
    """When the tests are killed, the servers end by themselves."""
    command = [sys.executable, "-c", KILLED, str(tmp_path), HELLO]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as tests:
        assert tests.stdout is not None
        words = tests.stdout.readline().split()
        tests.kill()
    ports = [int(word) for word in words[:4]]
    homes = words[4:]
    assert len(words) == 6
    wait_until("the end of all servers", lambda: not any(map(answers, ports)), 20)
    for home in homes:  # the dead cannot tidy up
        shutil.rmtree(home)
