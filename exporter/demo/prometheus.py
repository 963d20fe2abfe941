"""A Prometheus beside the demo: it scrapes the exporter and evaluates the generated rules."""

import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final, Self

import yaml

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.errors import OrphanwatchError
from orphanwatch.exporter.instants import format_duration

_READY_WITHIN_SECONDS: Final = 30
_STOP_WITHIN_SECONDS: Final = 10
_LOG_LINES_SHOWN: Final = 5


class PrometheusError(OrphanwatchError):
    """Prometheus is not installed, or does not start."""


class Prometheus:
    """A running Prometheus; ``address`` is where it listens."""

    def __init__(self, process: subprocess.Popen[bytes], address: str, log: Path) -> None:
        self._process = process
        self._log = log
        self.address = address

    @classmethod
    def start(cls, folder: Path, config: Config, target: str, rules: Path) -> Self:
        """Return a Prometheus that is ready, on a free port, with all of its files in ``folder``.

        ``target`` is the exporter's host and port. Raises ``PrometheusError``.
        """
        program = find_prometheus()
        settings = folder / "prometheus.yml"
        settings.write_text(_settings(config, target, rules), encoding="utf-8")
        address = f"127.0.0.1:{free_port()}"
        log = folder / "prometheus.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [
                    program,
                    f"--config.file={settings}",
                    f"--storage.tsdb.path={folder / 'prometheus'}",
                    f"--web.listen-address={address}",
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                # Ctrl-C reaches the demo alone, which then stops its Prometheus.
                start_new_session=True,
            )
        running = cls(process, address, log)
        try:
            running.wait_until_ready()
        except BaseException:
            running.stop()
            raise
        return running

    def wait_until_ready(self) -> None:
        """Return when queries are answered; raises ``PrometheusError`` with its log."""
        give_up_at = time.monotonic() + _READY_WITHIN_SECONDS
        while self._process.poll() is None and time.monotonic() < give_up_at:
            try:
                with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=1):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        words = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        raise PrometheusError(
            "Prometheus did not become ready. The end of its log:\n"
            + "\n".join(words[-_LOG_LINES_SHOWN:])
        )

    def stop(self) -> None:
        """Return when it has ended."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def find_prometheus() -> str:
    """Return the path of the program; raises ``PrometheusError`` with the remedy."""
    program = shutil.which("prometheus")
    if program is None:
        raise PrometheusError(
            "--with-prometheus needs the program prometheus on PATH; "
            "install the Debian package prometheus, or leave the option out"
        )
    return program


def free_port() -> int:
    """Return a port of the loopback interface that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _settings(config: Config, target: str, rules: Path) -> str:
    interval = format_duration(config.scrape_interval)
    return yaml.safe_dump(
        {
            "global": {"scrape_interval": interval, "evaluation_interval": interval},
            "rule_files": [str(rules)],
            "scrape_configs": [
                {"job_name": "orphanwatch", "static_configs": [{"targets": [target]}]}
            ],
        },
        sort_keys=False,
    )
