"""BullMQ itself, for tests: its packages installed outside of the tree, a queue and workers."""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from servers import program, running, wait_until

PACKAGES = Path(__file__).parent / "bullmq"
QUEUE = "generate"


def installed() -> Path:
    """Return a folder with the locked packages; they are fetched once for each lock file."""
    npm = program("npm")
    lock = (PACKAGES / "package-lock.json").read_bytes()
    place = Path(tempfile.gettempdir()) / f"orphanwatch-bullmq-{os.getuid()}"
    folder = place / hashlib.sha256(lock).hexdigest()[:16]
    if folder.is_dir():
        return folder
    place.mkdir(mode=0o700, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=place))
    for file in ("package.json", "package-lock.json"):
        shutil.copy(PACKAGES / file, fresh)
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    done = subprocess.run(command, cwd=fresh, capture_output=True, text=True, check=False)
    if done.returncode:
        shutil.rmtree(fresh)
        pytest.fail(
            "npm could not fetch BullMQ; make sure that it reaches its registry, and see:\n"
            + done.stderr[-2000:]
        )
    try:
        fresh.rename(folder)  # whole, or not at all
    except OSError:  # another run was faster
        shutil.rmtree(fresh)
    return folder


class BullMq:
    """A queue of BullMQ's own."""

    def __init__(self, folder: Path, url: str) -> None:
        """Take a folder for logs, and the URL of a database."""
        self.url = url
        self._folder = folder
        self._modules = installed() / "node_modules"

    def add(self, job: str, queue: str = QUEUE, **options: Any) -> None:
        """Add a job of this id."""
        command = self._command("add", queue, job, json.dumps(options))
        subprocess.run(command, check=True, timeout=60)

    @contextmanager
    def worker(self, queue: str = QUEUE, **environ: str) -> Iterator[None]:
        """Run a worker until the block ends; yield once it works."""
        log = self._folder / "worker.log"
        with running(self._command("work", queue, **environ), log):
            wait_until("the worker's start", lambda: "ready" in log.read_text(), 30)
            yield

    def _command(self, doing: str, *words: str, **environ: str) -> list[str]:
        settings = {"NODE_PATH": str(self._modules), **environ}
        command = ["env", *(f"{name}={value}" for name, value in settings.items())]
        return [*command, program("node"), str(PACKAGES / "queue.js"), doing, self.url, *words]
