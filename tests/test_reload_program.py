"""Reloads of the real program: by signal and over HTTP, under load, beside a store that hangs."""

import http.client
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, Self

import pytest
import yaml
from cli_session import PROGRAM
from pages import Reply, hangs, serving
from servers import fetch, free_port, running, wait_until
from sqlalchemy import NullPool, create_engine
from stack_file import StackFile

HIDDEN: Final = "hunter2-of-the-ledger"
RELOADS: Final = 20
IN_FORCE: Final = 'event="config in force"'


class Program:
    """A running ``orphanwatch serve``."""

    def __init__(self, process: subprocess.Popen[bytes], url: str, log: Path) -> None:
        self.process, self.url, self._log = process, url, log

    def hang_up(self) -> None:
        """Send SIGHUP."""
        self.process.send_signal(signal.SIGHUP)

    def ask(self, path: str, method: str = "GET") -> tuple[int, dict[str, str], str]:
        """Return status, headers and body."""
        address = self.url.removeprefix("http://")
        with closing(http.client.HTTPConnection(address, timeout=20)) as client:
            client.request(method, path)
            response = client.getresponse()
            return response.status, dict(response.headers.items()), response.read().decode()

    def reload(self) -> tuple[int, str]:
        """Post a reload; return status and body."""
        status, _, body = self.ask("/-/reload", "POST")
        return status, body

    def reload_into_force(self) -> None:
        """Post a reload, and return once a refresh goes by it."""
        before = self.log.count(IN_FORCE)
        assert self.reload()[0] == 200
        wait_until("the config", lambda: self.log.count(IN_FORCE) > before, 60)

    def value(self, series: str) -> float | None:
        """Return the value of a series, None where it is absent."""
        for line in self.ask("/metrics")[2].splitlines():
            if line.startswith(f"{series} "):
                return float(line.rsplit(" ", 1)[1])
        return None

    def has(self, series: str) -> Callable[[], bool]:
        """Return whether a series is there."""
        return lambda: self.value(series) is not None

    def was_taken(self) -> float | None:
        """Return 1 if the last load succeeded, else 0."""
        return self.value("orphanwatch_config_last_reload_successful")

    @property
    def log(self) -> str:
        """What it has logged."""
        return self._log.read_text(encoding="utf-8")

    def holds(self) -> tuple[int, int]:
        """Return how many threads and open files it has."""
        place = Path(f"/proc/{self.process.pid}")
        return len(list((place / "task").iterdir())), len(list((place / "fd").iterdir()))


@contextmanager
def served(config: Path, *options: str) -> Iterator[Program]:
    """Run the program until the block ends."""
    port, log = free_port(), config.with_name("exporter.log")
    command = [str(PROGRAM), "serve", "--config.file", str(config)]
    command += ["--web.listen-address", f"127.0.0.1:{port}", *options]
    url = f"http://127.0.0.1:{port}"
    with running(command, log) as process:
        wait_until("the first evaluation", lambda: fetch(f"{url}/-/ready")[0] == 200, 30)
        yield Program(process, url, log)


@contextmanager
def served_with_lifecycle(config: Path) -> Iterator[Program]:
    """Run the program so that HTTP may reload it."""
    with served(config, "--web.enable-lifecycle") as program:
        yield program


@pytest.fixture
def stack(tmp_path: Path) -> StackFile:
    """Return a calm stack."""
    made = StackFile(tmp_path, write=lambda offset: time.time() + offset, refresh_interval="200ms")
    made.add("queue", {"sampled_at": -1, "depth": 0, "age_seconds": 0, "in_flight": 0})
    return made


def pools(*overflow: str) -> dict[str, Any]:
    """Return pools with these of role overflow."""
    return {"paid": {"role": "paid"}, **{name: {"role": "overflow"} for name in overflow}}


BATCH = 'orphan_overflow_admission_allowed{pool="batch"}'


def test_a_signal_loads_the_config_anew(stack: StackFile) -> None:
    """Pools, pages and gate follow; the log and a metric say it."""
    with served(stack.config_file) as program:
        assert program.was_taken() == 1
        before = program.value("orphanwatch_config_last_reload_success_timestamp_seconds")
        assert program.ask("/gate?pool=batch")[0] == 503
        stack.configure(pools=pools("batch"), refresh_interval="200ms", grace_seconds="7s")
        program.hang_up()
        wait_until("the new pool", program.has(BATCH), 10)
        after = program.value("orphanwatch_config_last_reload_success_timestamp_seconds")
        assert program.was_taken() == 1
        assert before is not None
        assert after is not None
        assert after > before
        assert program.ask("/gate?pool=batch")[0] == 200
        assert program.value('orphan_grace_seconds{pool="batch",source="proposal"}') == 7
        assert "lease_age + 7s" in program.ask("/runbook/service-page.md")[2]
        assert 'event="config reloaded"' in program.log
        assert IN_FORCE in program.log


def test_an_end_does_not_wait_for_reloads_that_wait(stack: StackFile) -> None:
    """Of sixty signals in a row few are reloads, and the end after them comes at once."""
    with served(stack.config_file) as program:
        for _ in range(60):
            program.hang_up()
            time.sleep(0.005)
        program.process.send_signal(signal.SIGTERM)
        assert program.process.wait(15) == 0
        assert 1 <= program.log.count('event="config reloaded"') < 30


def test_a_bad_config_keeps_the_old_one_running(stack: StackFile) -> None:
    """By signal and over HTTP alike; a good one mends it, and no secret shows anywhere."""
    good = stack.config_file.read_text()
    bad = good.replace("sqlite:///stack.db", f"nonsense {HIDDEN}", 1)
    with served_with_lifecycle(stack.config_file) as program:
        stack.config_file.write_text(bad)
        program.hang_up()
        wait_until("the metric", lambda: program.was_taken() == 0, 10)
        status, body = program.reload()
        assert status == 500
        assert "stores.gateway.url: is no database URL" in body
        assert program.ask("/-/ready")[0] == 200
        assert program.value('orphan_store_up{store="gateway"}') == 1
        stack.config_file.write_text(good)
        assert program.reload()[0] == 200
        assert program.was_taken() == 1
        assert program.log.count("config not reloaded, the one before runs on") == 2
        assert HIDDEN not in program.log + body


def test_secret_files_are_read_again(stack: StackFile, tmp_path: Path) -> None:
    """The store's settings are what the file says now."""
    secret = tmp_path / "url"
    secret.write_text(f"sqlite:///{tmp_path / 'stack.db'}")
    document = yaml.safe_load(stack.config_file.read_text())
    for store in document["stores"].values():
        del store["url"]
        store["url_file"] = "url"
    stack.config_file.write_text(yaml.safe_dump(document))
    with served_with_lifecycle(stack.config_file) as program:
        secret.write_text(f"sqlite:///{tmp_path / 'gone.db'}")
        assert program.reload()[0] == 200
        gone = lambda: program.value('orphan_store_up{store="gateway"}') == 0  # noqa: E731
        wait_until("the store that is not there", gone, 10)


@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS"])
def test_only_post_and_put_reload(stack: StackFile, method: str) -> None:
    """A link that somebody follows must change nothing."""
    with served_with_lifecycle(stack.config_file) as program:
        status, headers, body = program.ask("/-/reload", method)
        assert (status, headers["Allow"]) == (405, "POST, PUT")
        assert body == ("" if method == "HEAD" else "405 Method Not Allowed: ask by POST or PUT\n")
        assert "reloaded" not in program.log
        assert program.ask("/-/reload", "PUT")[0] == 200


def test_it_is_off_unless_enabled(stack: StackFile) -> None:
    """The answer says how to enable it."""
    with served(stack.config_file) as program:
        status, body = program.reload()
        assert status == 403
        assert "--web.enable-lifecycle" in body
        assert "reloaded" not in program.log


class Hammer:
    """Threads that ask for pages all the time, and keep what was not as it should be."""

    def __init__(self, program: Program) -> None:
        self.faults: list[str] = []
        self.answers = 0
        self.counted: list[float] = []
        self._program, self._over = program, threading.Event()
        self._threads = [
            threading.Thread(target=self._ask, args=(path,))
            for path in ("/metrics", "/gate?pool=overflow", "/", "/runbook/service-page")
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, path: str) -> None:
        while not self._over.is_set():
            try:
                status, _, body = self._program.ask(path)
            except OSError as error:
                self.faults.append(f"{path}: {error}")
                continue
            self.answers += 1
            if status != 200:
                self.faults.append(f"{path}: {status} {body[:200]}")
            if path == "/metrics":
                self.counted.append(
                    sum(
                        float(line.rsplit(" ", 1)[1])
                        for line in body.splitlines()
                        if line.startswith("orphan_tokens_total{")
                    )
                )


def test_no_request_fails_and_no_count_is_lost_while_it_reloads(stack: StackFile) -> None:
    """Twenty reloads, each with other pools, while four clients ask without a pause."""
    settings: dict[str, Any] = {
        "refresh_interval": "200ms",
        "state_file": "state.db",
        "reopen_hold": "0s",
    }
    stack.configure(pools=pools("overflow"), **settings)
    with served_with_lifecycle(stack.config_file) as program:
        stack.add("tasks", {"task_id": "t1", "retry_id": "r1", "pool": "paid",
                            "submitted_at": -400, "cancelled_at": -350})  # fmt: skip
        with Hammer(program) as hammer:
            for number in range(RELOADS):
                extra = ("batch",) if number % 2 else ()
                url = f"sqlite:///stack.db?timeout={number + 1}"
                stack.configure(
                    pools=pools("overflow", *extra), stores={"ledger": {"url": url}}, **settings
                )
                assert program.reload()[0] == 200
                time.sleep(0.2)
            wait_until("the last config", program.has(BATCH), 20)
        assert hammer.faults == []
        assert hammer.answers > RELOADS
        assert hammer.counted == sorted(hammer.counted)
        stack.add("ledger", {"task_id": "t1", "tokens": 40, "charged_at": 0})
        wait_until("the tokens", lambda: program.value(TOKENS) == 40, 20)
        assert program.reload()[0] == 200
        time.sleep(1)
        assert program.value(TOKENS) == 40
        assert program.log.count('event="config reloaded"') == RELOADS + 1


TOKENS = 'orphan_tokens_total{basis="charged",cause="client_cancel",pool="paid"}'


def test_old_stores_are_let_go(stack: StackFile, tmp_path: Path) -> None:
    """Neither threads nor open files pile up over ten reloads of every store.

    Opening the stores takes a thread for each, for a moment; ten times as many would be a leak.
    """
    log = tmp_path / "access.log"
    log.write_text("")

    def configure(number: int) -> None:
        stack.configure(refresh_interval="200ms")
        document = yaml.safe_load(stack.config_file.read_text())
        document["stores"]["gateway"] = {
            "type": "jsonl", "path": str(log), "timeout": f"{2000 + number}ms",
            "columns": {"task_id": "id", "finished_at": "at"},
        }  # fmt: skip
        for name in ("leases", "ledger", "queue"):
            document["stores"][name]["timeout"] = f"{2000 + number}ms"
        stack.config_file.write_text(yaml.safe_dump(document))

    configure(0)
    with served_with_lifecycle(stack.config_file) as program:
        for number in range(1, 4):
            configure(number)
            program.reload_into_force()
        threads, files = program.holds()
        for number in range(4, 4 + RELOADS // 2):
            configure(number)
            program.reload_into_force()
        wait_until("the end of the last ones", lambda: program.holds()[0] <= threads + 4, 30)
        assert program.holds()[1] <= files + 4


@pytest.mark.servers
def test_a_server_has_no_more_connections_than_stores(tmp_path: Path, postgresql_url: str) -> None:
    """Those of the configs before are closed: a server has only so many."""
    stack = StackFile(tmp_path, url=postgresql_url, refresh_interval="200ms")

    def connections() -> int:
        engine = create_engine(postgresql_url, poolclass=NullPool)
        with engine.connect() as server:
            found = server.exec_driver_sql(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            return int(found.scalar_one())

    with served_with_lifecycle(stack.config_file) as program:
        for number in range(10):
            timeout = {"timeout": f"{2000 + number}ms"}
            stores = dict.fromkeys(("gateway", "leases", "ledger", "queue"), timeout)
            stack.configure(refresh_interval="200ms", stores=stores)
            program.reload_into_force()
        assert program.value('orphan_store_up{store="ledger"}') == 1
        wait_until("the end of the last ones", lambda: connections() <= 4, 20)


def test_a_store_that_hangs_does_not_hold_up_a_reload(stack: StackFile) -> None:
    """The answer comes at once, and the config is in force once the store's time is up."""
    with serving({"/queue": Reply(raw=hangs)}) as site:
        document = yaml.safe_load(stack.config_file.read_text())
        document["stores"]["queue"] = {
            "type": "http_json", "url": site.url("/queue"), "timeout": "4s",
            "columns": {"depth": "waiting"},
        }  # fmt: skip
        stack.config_file.write_text(yaml.safe_dump(document))
        with served_with_lifecycle(stack.config_file) as program:
            asked = len(site.asked)
            wait_until("a question that hangs", lambda: len(site.asked) > asked, 10)
            stack.configure(pools=pools("batch"), refresh_interval="200ms")
            began = time.monotonic()
            assert program.reload()[0] == 200
            assert time.monotonic() - began < 3
            assert program.ask("/-/ready")[0] == 200
            wait_until("the new pool", program.has(BATCH), 15)


def test_a_signal_before_the_first_evaluation_is_no_end(stack: StackFile) -> None:
    """It is kept until there is something to reload."""
    stack.configure(pools=pools("batch"), refresh_interval="200ms")
    port, log = free_port(), stack.config_file.with_name("exporter.log")
    command = [str(PROGRAM), "serve", "--config.file", str(stack.config_file)]
    command += ["--web.listen-address", f"127.0.0.1:{port}"]
    with running(command, log) as process:
        listening = f"http://127.0.0.1:{port}/-/healthy"
        wait_until("its start", lambda: fetch(listening)[0] == 200, 30)
        for _ in range(3):
            process.send_signal(signal.SIGHUP)
        wait_until("the reload", lambda: "config reloaded" in log.read_text(), 30)
        assert process.poll() is None
