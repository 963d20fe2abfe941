"""A made-up past in a real Prometheus: samples written as blocks, and a server that reads them."""

import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import yaml
from servers import fetch, free_port, program, running, wait_until

SCRAPE = 15
TARGET = {"job": "orphanwatch", "instance": "127.0.0.1:9787"}

At = Callable[[int], float | None]
"""The value of a series at a second of the past; None is no sample."""


def series(name: str, **labels: str) -> str:
    """Return the text of one series of the exporter."""
    told = ",".join(f'{label}="{value}"' for label, value in sorted({**TARGET, **labels}.items()))
    return f"{name}{{{told}}}"


def write_past(folder: Path, start: int, length: int, past: Mapping[str, At]) -> None:
    """Write blocks of samples, one for each scrape in ``length`` seconds from ``start`` on."""
    text = folder / "past.om"
    with text.open("w", encoding="utf-8") as file:
        for name, value_at in past.items():
            for second in range(0, length + 1, SCRAPE):
                value = value_at(second)
                if value is not None:
                    file.write(f"{name} {value!r} {start + second}\n")
        file.write("# EOF\n")
    command = [program("promtool"), "tsdb", "create-blocks-from", "openmetrics", str(text)]
    subprocess.run([*command, str(folder / "tsdb")], check=True, capture_output=True)


@contextmanager
def running_past(folder: Path) -> Iterator[str]:
    """Run a Prometheus that scrapes nothing, on the blocks of a folder; yield its URL."""
    config = folder / "prometheus.yml"
    config.write_text(yaml.safe_dump({"global": {"scrape_interval": "1h"}}), encoding="utf-8")
    port = free_port()
    command = [program("prometheus"), f"--config.file={config}"]
    command += [f"--storage.tsdb.path={folder / 'tsdb'}", "--storage.tsdb.retention.time=100y"]
    command += [f"--web.listen-address=127.0.0.1:{port}"]
    with running(command, folder / "prometheus.log"):
        url = f"http://127.0.0.1:{port}"
        wait_until("Prometheus' start", lambda: fetch(f"{url}/-/ready")[0] == 200, 30)
        yield url
