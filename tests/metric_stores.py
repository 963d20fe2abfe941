"""Queues and ledgers by metrics, as the watch asks them; instants are seconds after ``ZERO``."""

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from servers import fetch, free_port, program, running, wait_until
from stack_file import ZERO

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.instants import Instant, instant_of_epoch
from orphanwatch.exporter.model import LedgerWindow, QueueSample, Rejected
from orphanwatch.exporter.stores.adapters import ledger_of, queue_of
from orphanwatch.exporter.stores.questions import Inspection, Windows

Settings = dict[str, Any]


def config_of(folder: Path, **stores: Settings) -> Config:
    """Return a config with these stores."""
    file = folder / "orphanwatch.yml"
    file.write_text(yaml.safe_dump({"stores": stores}), encoding="utf-8")
    return load_config(file)


def at(offset: float) -> Instant:
    """Return an instant."""
    return instant_of_epoch(ZERO + offset)


def since_zero() -> float:
    """Return the present instant."""
    return time.time() - ZERO


class QueueReader:
    """A queue, read as often as a test likes."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.config = config_of(folder, queue={"type": "prometheus", **settings})
        self.now = 0.0
        assert self.config.stores.queue is not None
        self._queue = queue_of(self.config.stores.queue, lambda: at(self.now))
        self.rejected: tuple[Rejected, ...] = ()
        self.inspection: Inspection | None = None
        self.skew: float | None = None

    def read(self, offset: float = 0.0, *, scraped: float | None = None) -> QueueSample | None:
        """Return the sample of a reading as of an instant, scraped then unless said otherwise."""
        self.now = offset if scraped is None else scraped
        windows = Windows.ending(at(offset), self.config)
        try:
            self._queue.open(windows)
            self.skew = self._queue.clock_skew_seconds()
            self.rejected = self._queue.rejected()
            self.inspection = self._queue.inspect()
            return self._queue.newest(windows)
        finally:
            self._queue.close()


class LedgerReader:
    """A ledger, read as often as a test likes."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.config = config_of(folder, ledger={"type": "prometheus", **settings})
        self.now = 0.0
        assert self.config.stores.ledger is not None
        self._ledger = ledger_of(self.config.stores.ledger, lambda: at(self.now))
        self.rejected: tuple[Rejected, ...] = ()

    def read(self, offset: float = 0.0, *, scraped: float | None = None) -> LedgerWindow:
        """Return the window of a reading as of an instant."""
        self.now = offset if scraped is None else scraped
        windows = Windows.ending(at(offset), self.config)
        try:
            self._ledger.open(windows)
            self.rejected = self._ledger.rejected()
            assert self._ledger.charges([], windows, None) is None
            return self._ledger.window(windows)
        finally:
            self._ledger.close()


def openmetrics(*families: tuple[str, str, Mapping[str, Callable[[float], float | None]]]) -> str:
    """Return the history of series from ten minutes before zero to a minute after it.

    A family is its sample name, its type, and for each set of labels the value at an instant;
    None is no sample. There is one every 10 s.
    """
    lines = []
    for name, kind, series in families:
        lines.append(f"# TYPE {name.removesuffix('_total') if kind == 'counter' else name} {kind}")
        for labels, value_at in series.items():
            for offset in range(-600, 61, 10):
                value = value_at(offset)
                if value is not None:
                    lines.append(f"{name}{{{labels}}} {value} {ZERO + offset}")
    return "\n".join((*lines, "# EOF", ""))


@contextmanager
def prometheus_with(folder: Path, history: str = "", scrape: int | None = None) -> Iterator[str]:
    """Run Prometheus on a history, or on what it scrapes from a port; yield its URL."""
    data = folder / "tsdb"
    if history:
        file = folder / "history.om"
        file.write_text(history, encoding="utf-8")
        command = [program("promtool"), "tsdb", "create-blocks-from", "openmetrics"]
        subprocess.run([*command, str(file), str(data)], check=True, capture_output=True)
    config: Settings = {"global": {"scrape_interval": "1s"}}
    if scrape is not None:
        targets = [{"targets": [f"127.0.0.1:{scrape}"]}]
        config["scrape_configs"] = [{"job_name": "engine", "static_configs": targets}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    port = free_port()
    command = [program("prometheus"), f"--config.file={folder / 'prometheus.yml'}"]
    command += [f"--storage.tsdb.path={data}", f"--web.listen-address=127.0.0.1:{port}"]
    # The history is of another time than the test's, whenever that is.
    command += ["--storage.tsdb.retention.time=100y"]
    with running(command, folder / "prometheus.log"):
        url = f"http://127.0.0.1:{port}"
        wait_until("Prometheus' start", lambda: fetch(f"{url}/-/ready")[0] == 200, 30)
        yield url
