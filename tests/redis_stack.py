"""A stack whose leases and queue are a job queue's in Redis, and whose gateway is a table."""

import json
import time
from pathlib import Path
from typing import Any

import yaml
from cli_session import run
from stack_file import ZERO, StackFile

GRACE_SECONDS = 0.2


class RedisStack:
    """Such a stack in a folder, with its config: clients come and leave, and one looks at it."""

    def __init__(
        self, folder: Path, pool: str, *, leases: dict[str, Any], queue: dict[str, Any]
    ) -> None:
        self.folder = folder
        self.file = folder / "orphanwatch.yml"
        self._pool = pool
        self._tables = StackFile(folder)
        document = {
            "pools": {pool: {"role": "overflow"}},
            "grace_seconds": GRACE_SECONDS,
            "refresh_interval": "1s",
            "stores": {
                "gateway": {"type": "sql", "url": "sqlite:///stack.db"},
                "leases": leases,
                "queue": {"admission_cap": 4, **queue},
            },
        }
        self.file.write_text(yaml.safe_dump(document), encoding="utf-8")

    def submit(self, *tasks: str) -> None:
        """Note that clients want tasks."""
        now = time.time() - ZERO
        self._tables.add(
            "tasks", *({"task_id": it, "pool": self._pool, "submitted_at": now} for it in tasks)
        )

    def cancel(self, task: str) -> None:
        """Note that the client has left, and wait for the grace to pass."""
        now = time.time()
        self._tables.run_sql(f"UPDATE tasks SET cancelled_at = {now} WHERE task_id = '{task}'")  # noqa: S608  (of a test)
        time.sleep(1.5 * GRACE_SECONDS)

    def snapshot(self) -> "Snapshot":
        """Return what ``orphanwatch snapshot`` shows."""
        answer = run(self.folder, "snapshot", "--config.file", self.file.name, "--format", "json")
        assert answer.code == 0, answer.err
        return Snapshot(json.loads(answer.out))


class Snapshot:
    """What a snapshot shows."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document

    @property
    def action(self) -> str:
        """The verdict."""
        return str(self.document["verdict"]["action"])

    @property
    def reasons(self) -> str:
        """Why."""
        return "\n".join(self.document["verdict"]["reasons"])

    @property
    def orphans(self) -> list[tuple[str, str, bool]]:
        """Each orphan's task, cause, and whether its lease lives."""
        return [(it["task_id"], it["cause"], it["lease_live"]) for it in self.document["orphans"]]

    def value(self, name: str, **labels: str) -> float | None:
        """Return the sum of a metric's samples that carry these labels, None where it is absent."""
        samples = self.document["metrics"].get(name)
        if samples is None:
            return None
        return float(sum(it["value"] for it in samples if labels.items() <= it["labels"].items()))
