"""A real ``orphanwatch serve``: its peak memory, and its scrapes while it refreshes."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import yaml
from refreshes import config_document

_ACCEPTS: Final = (
    "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5",
    "text/plain;version=0.0.4",
)
_PATIENCE_SECONDS: Final = 120.0
_LEAST_REFRESHES: Final = 3
"""A first one warms up, the next ones hold the memory of the ones before."""


class ServeError(Exception):
    """The server did not do what it is measured at."""


@dataclass(frozen=True, kw_only=True)
class Served:
    """What one run of ``serve`` showed."""

    peak_bytes: int
    scrape_seconds: tuple[float, ...]
    """Sorted."""
    refreshes: int
    """How many ended while the scrapes went on."""
    refreshing_share: float
    """The part of that time in which a refresh ran."""
    refresh_seconds: float
    """Their mean."""
    live_leases: float
    """What the last page said: the data set must not have aged away."""

    @property
    def p99_seconds(self) -> float:
        """The 99th percentile of the scrapes, nearest rank."""
        return self.scrape_seconds[-(-99 * len(self.scrape_seconds) // 100) - 1]


def measure_serve(file: Path, folder: Path, scrapes: int, pause: float) -> Served:
    """Return the figures of a server on the file that refreshes all the time."""
    config = folder / "serve.yml"
    state_file = str(folder / "state.db")
    document = config_document(file, refresh_interval="50ms", state_file=state_file)
    config.write_text(yaml.safe_dump(document), encoding="utf-8")
    with running_serve(config) as (process, address):
        connection = HTTPConnection(address, timeout=_PATIENCE_SECONDS)
        wait_for_refreshes(connection, _LEAST_REFRESHES)
        before, began = _scrape(connection, 1), time.monotonic()
        taken = []
        for number in range(scrapes):
            start = time.perf_counter()
            _scrape(connection, number)
            taken.append(time.perf_counter() - start)
            time.sleep(pause)
        after, lasted = _scrape(connection, 1), time.monotonic() - began
        for path in ("/", "/metrics"):
            _get(connection, path, _ACCEPTS[0])
        peak = _peak_bytes(process.pid)
        connection.close()
    ended = _value(after, _COUNT) - _value(before, _COUNT)
    busy = _value(after, _SUM) - _value(before, _SUM)
    return Served(
        peak_bytes=peak,
        scrape_seconds=tuple(sorted(taken)),
        refreshes=int(ended),
        refreshing_share=min(1.0, busy / lasted),
        refresh_seconds=busy / ended if ended else 0.0,
        live_leases=_value(after, "orphan_live_leases"),
    )


_COUNT: Final = "orphan_refresh_duration_seconds_count"
_SUM: Final = "orphan_refresh_duration_seconds_sum"


@contextmanager
def running_serve(config: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the program until the block ends; yield it and its address."""
    program = Path(sys.executable).with_name("orphanwatch")
    arguments = [str(program), "--log.level", "error", "serve", "--config.file", str(config)]
    log = config.with_suffix(".log")
    with (
        log.open("w", encoding="utf-8") as errors,
        subprocess.Popen(
            [*arguments, "--web.listen-address", "127.0.0.1:0"],
            stdout=subprocess.DEVNULL,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            yield process, _address_in(log, process)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(_PATIENCE_SECONDS)


def _address_in(log: Path, process: subprocess.Popen[str]) -> str:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        found = re.search(r"listening on (http://\S+)", log.read_text(encoding="utf-8"))
        if found:
            return urlsplit(found[1]).netloc
        time.sleep(0.02)
    raise ServeError(f"serve did not start: {log.read_text(encoding='utf-8').strip()}")


def wait_for_refreshes(connection: HTTPConnection, least: int) -> None:
    """Return once so many refreshes are through."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while _value(_scrape(connection, 1), _COUNT) < least:
        if time.monotonic() > deadline:
            raise ServeError(f"serve did not refresh {least} times in {_PATIENCE_SECONDS:g} s")
        time.sleep(0.05)


def _scrape(connection: HTTPConnection, number: int) -> str:
    return _get(connection, "/metrics", _ACCEPTS[number % len(_ACCEPTS)])


def _get(connection: HTTPConnection, path: str, accept: str) -> str:
    connection.request("GET", path, headers={"Accept": accept})
    response = connection.getresponse()
    body = response.read().decode()
    if response.status != 200:
        raise ServeError(f"{path} answered {response.status}: {body[:200]}")
    return body


def _value(page: str, name: str) -> float:
    """Return the sum of a family's samples, 0 where the page has none."""
    return sum(
        float(line.rsplit(" ", 1)[1])
        for line in page.splitlines()
        if line.startswith((f"{name} ", f"{name}{{"))
    )


def _peak_bytes(pid: int) -> int:
    """Return the most memory that the process ever held, as the kernel counted it."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    if found is None:
        raise ServeError("the kernel does not say how much memory a process held at most")
    return int(found[1]) * 1024
