"""Redis servers that are read, each in its state: what is said where that can't be done."""

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_session import run
from database_servers import RedisServer, running_redis
from pages import Certificate, self_signed
from redis_stores import (
    FORM,
    READER,
    SECRET,
    ClusterRedis,
    Store,
    TlsRedis,
    client,
    clock_at,
    problem_of,
    with_user,
)
from servers import free_port, started
from stack_file import ZERO

from orphanwatch.exporter.stores.redis import wire

pytestmark = pytest.mark.servers

CLOCK = clock_at(ZERO + 100.0)


def test_a_server_that_wants_a_password_says_so(tmp_path: Path) -> None:
    """None was given."""
    with running_redis(tmp_path, password=SECRET) as server:
        url = f"redis://127.0.0.1:{server.port}/0"
        problem = problem_of(Store(tmp_path, "leases", CLOCK, url=url, **FORM))
    assert "does not take this user and password" in problem


def test_a_server_that_is_not_there_is_told_by_its_place(tmp_path: Path) -> None:
    """Host, port and database; nothing else of the URL."""
    port = free_port()
    for host, said in (
        ("127.0.0.1", "Connection refused; check host and port, and that it runs"),
        ("no-such-host.invalid", "its name is not known; check the host in the URL"),
    ):
        url = with_user(f"redis://{host}:{port}/3", READER, SECRET)
        problem = problem_of(Store(tmp_path, "leases", CLOCK, url=url, **FORM))
        assert problem == f"the Redis at {host}:{port}, database 3 can't be reached: {said}"


def test_a_server_that_hangs_costs_the_timeout(tmp_path: Path) -> None:
    """It took the connection and then stopped."""
    with running_redis(tmp_path) as server:
        store = Store(tmp_path, "leases", CLOCK, url=server.url, timeout="300ms", **FORM)
        assert store.read().rows == []
        assert server.process is not None
        server.process.send_signal(signal.SIGSTOP)
        try:
            assert "does not answer in time" in problem_of(store)
        finally:
            server.process.send_signal(signal.SIGCONT)
        assert store.read().rows == []


def test_a_restart_between_two_readings_costs_none(tmp_path: Path) -> None:
    """The connection that broke is opened again within the reading."""
    with running_redis(tmp_path) as server:
        store = Store(tmp_path, "leases", CLOCK, url=server.url, **FORM)
        for task in ("t1", "t2"):
            with client(server.url) as redis:
                redis.hset(f"lease:{task}", "beat", ZERO)
            assert [it.task_id for it in store.read().rows] == [task]
            server.stop()
            server.start()
        assert store.read().rows == []


@contextmanager
def answering(reply: bytes) -> Iterator[str]:
    """Yield the URL of a server that answers everything with one reply."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    while connection.recv(65536):
                        connection.sendall(reply)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"redis://127.0.0.1:{listener.getsockname()[1]}/0"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(5)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        pytest.param(
            b"-LOADING Redis is loading the dataset in memory\r\n",
            "is still loading its data; it answers once that is done", id="loading",
        ),
        pytest.param(
            b"-MASTERDOWN Link with MASTER is down\r\n", "is a replica without its master",
            id="a replica that is cut off",
        ),
        pytest.param(
            b"-MOVED 15495 10.0.0.2:6379\r\n", "the keys are on another one; name that node",
            id="the wrong node of a cluster",
        ),
        pytest.param(
            b"-ASK 15495 10.0.0.2:6379\r\n", "the keys are moving to another one; try again later",
            id="keys of a cluster on the move",
        ),
        pytest.param(
            f"-ERR unknown command, with args beginning with: {SECRET}\r\n".encode(),
            "refuses to be read; is it Redis, and new enough?",
            id="words of the server are not passed on",
        ),
        pytest.param(
            b"HTTP/1.1 400 Bad Request\r\n\r\n", "gives answers that can't be read",
            id="something else listens there",
        ),
    ],
)  # fmt: skip
def test_what_a_server_answers_instead_is_told_in_our_words(
    reply: bytes, said: str, tmp_path: Path
) -> None:
    """These states are made by a stand-in: a real server is in them for a moment only."""
    with answering(reply) as url:
        assert said in problem_of(Store(tmp_path, "leases", CLOCK, url=url, **FORM))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterRedis]:
    """Return a node of a cluster that holds the lower half of the slots."""
    with started(ClusterRedis(tmp_path_factory.mktemp("cluster"))) as node:
        node.take_slots(8191)
        yield node


def test_a_node_of_a_cluster_is_not_scanned(cluster: ClusterRedis, tmp_path: Path) -> None:
    """It would show its own keys only, and look whole."""
    problem = problem_of(Store(tmp_path, "leases", CLOCK, url=cluster.url, **FORM))
    assert "is a node of a Redis Cluster, and a scan shows only its own keys" in problem


def test_one_key_on_a_node_of_a_cluster_is_read(cluster: ClusterRedis, tmp_path: Path) -> None:
    """Where somebody has it; a key that nobody serves is not one without leases."""
    form = {"type": "redis", "member": "{task_id}", "score": "heartbeat_at", "unit": "s"}
    with client(cluster.url) as redis:
        redis.zadd("{c}running", {"t1": ZERO})  # slot 7365
    here = Store(tmp_path, "leases", CLOCK, url=cluster.url, key="{{c}}running", **form)
    assert [it.task_id for it in here.read().rows] == ["t1"]
    nowhere = Store(tmp_path, "leases", CLOCK, url=cluster.url, key="{{a}}running", **form)
    assert "in which nobody serves the keys; mend the cluster" in problem_of(nowhere)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TlsRedis, Certificate]]:
    """Return a server that speaks TLS only, and its certificate."""
    folder = tmp_path_factory.mktemp("tls")
    made = self_signed(folder, "redis")
    with started(TlsRedis(folder, made.cert, made.key)) as server:
        yield server, made


def test_a_server_is_asked_over_tls(secure: tuple[TlsRedis, Certificate], tmp_path: Path) -> None:
    """With the certificate that signs its own; or without a look at that, for a trial."""
    server, made = secure
    with client(server.url) as redis:
        redis.hset("lease:t1", "beat", ZERO)
    url = f"rediss://127.0.0.1:{server.port}/0"
    for trust in ({"ca_file": str(made.cert)}, {"insecure_skip_verify": True}):
        store = Store(tmp_path, "leases", CLOCK, url=url, **FORM, **trust)
        assert [it.task_id for it in store.read().rows] == ["t1"]


def test_a_server_that_is_not_trusted_is_not_asked(
    secure: tuple[TlsRedis, Certificate], redis_url: str, tmp_path: Path
) -> None:
    """Each way in which TLS fails has a remedy of its own."""
    server, _ = secure
    url = f"rediss://127.0.0.1:{server.port}/0"
    for given, settings, said in (
        (url, {}, "its certificate is not trusted (self-signed certificate); set ca_file"),
        (
            url,
            {"ca_file": str(tmp_path / "none.pem")},
            "check the paths of ca_file, cert_file and key_file",
        ),
        (
            redis_url.replace("redis:", "rediss:"),
            {"timeout": "500ms"},
            "see whether it speaks TLS there",
        ),
        (url.replace("rediss:", "redis:"), {}, "and that it speaks TLS only if we do"),
    ):
        problem = problem_of(Store(tmp_path, "leases", CLOCK, url=given, **FORM, **settings))
        assert said in problem


def test_a_unix_socket_is_a_place_too(tmp_path: Path) -> None:
    """Redis on the same host often listens on nothing else."""

    class SocketRedis(RedisServer):
        def command(self) -> list[str]:
            return [*super().command(), "--unixsocket", str(tmp_path / "redis.sock")]

    with started(SocketRedis(tmp_path)) as server:
        with client(server.url) as redis:
            redis.hset("lease:t1", "beat", ZERO)
        url = f"unix://{tmp_path}/redis.sock?db=0"
        store = Store(tmp_path, "leases", CLOCK, url=url, **FORM)
        assert [it.task_id for it in store.read().rows] == ["t1"]


def test_a_reading_as_a_whole_is_bounded(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many quick answers are not to take longer than one slow one may."""
    with client(redis_url) as redis:
        for number in range(64):
            redis.hset(f"lease:{number}", "beat", ZERO)
    monkeypatch.setattr(wire, "BATCH", 1)
    store = Store(tmp_path, "leases", CLOCK, url=redis_url, timeout="1ms", **FORM)
    assert "does not answer in time" in problem_of(store)


WITHOUT_REDIS = """
import sys
sys.modules["redis"] = None
from orphanwatch.exporter.cli import main
main()
"""


def test_without_the_driver_it_is_said_what_to_install(tmp_path: Path) -> None:
    """It costs the store, and not the others; nothing else of the program needs it."""
    document = {"stores": {"leases": {"url": "redis://127.0.0.1:1", **FORM}}}
    (tmp_path / "orphanwatch.yml").write_text(yaml.safe_dump(document))
    command = [sys.executable, "-c", WITHOUT_REDIS, "check", "--config.file", "orphanwatch.yml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "pip install 'orphanwatch[redis]'" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_password_shows_in_no_answer_of_the_program(tmp_path: Path) -> None:
    """Neither on the page nor in what check says, nor in the log of serve."""
    port = free_port()
    url = with_user(f"redis://127.0.0.1:{port}/0", READER, SECRET)
    document = {"stores": {"leases": {"url": url, **FORM}}}
    (tmp_path / "orphanwatch.yml").write_text(yaml.safe_dump(document))
    for command in ("check", "snapshot"):
        answer = run(tmp_path, command, "--config.file", "orphanwatch.yml")
        assert f"127.0.0.1:{port}" in answer.out + answer.err or command == "snapshot"
        for part in (SECRET, url, "s3cret", READER):
            assert part not in answer.out + answer.err


def test_a_reading_that_fails_in_the_middle_leaves_no_replies_behind(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next reading would take them for its own."""
    with client(redis_url) as redis:
        for number in range(5):
            redis.hset(f"lease:t{number}", "beat", ZERO)
    store = Store(tmp_path, "leases", CLOCK, url=redis_url, **FORM)
    assert len(store.read().rows) == 5
    monkeypatch.setattr(wire, "BATCH", 2)
    receive = wire.RedisDatabase._receive

    def fail_at_two(database: wire.RedisDatabase, count: int) -> list[Any]:
        if count == 2:
            raise RuntimeError("in the middle")
        return receive(database, count)

    with monkeypatch.context() as patch:
        patch.setattr(wire.RedisDatabase, "_receive", fail_at_two)
        with pytest.raises(RuntimeError, match="in the middle"):
            store.read()
    assert len(store.read().rows) == 5
