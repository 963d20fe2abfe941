"""Celery's results in Redis as a gateway: what ended, and which tasks were revoked.

A result holds what the task returned, which may be long and is nobody's business here: of each,
only the first and the last few characters are read, and once.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from orphanwatch.exporter.clock import Clock
from orphanwatch.exporter.config_redis import RedisSource
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.key_patterns import KeyPattern
from orphanwatch.exporter.names import RejectReason, StoreName
from orphanwatch.exporter.stores.questions import Windows
from orphanwatch.exporter.stores.redis.cells import instants_of, task_ids_of
from orphanwatch.exporter.stores.redis.source import RedisRows
from orphanwatch.exporter.stores.redis.wire import WRONG_TYPE
from orphanwatch.exporter.stores.rows import Row

_STATUS: Final = re.compile(r'\{"status": ?"([A-Z]+)"')
_DONE: Final = re.compile(r'"date_done": ?"([^"]+)"')

_HEAD: Final = ("0", "63")
_TAIL: Final = ("-400", "-1")
"""A result ends with when it was done, unless it is an extended one."""

_OUTCOMES: Final = {"SUCCESS": "ok", "FAILURE": "error", "REVOKED": None}
"""How a task ended, by its status; with another one it has not."""

_BOUND: Final = ("celery", "celery.pidbox", "celeryev")
"""What a broker that workers or clients have met binds queues to, whatever its queues are."""

_REMEDY: Final = (
    "check that the database is the one of result_backend, check prefix, and that tasks keep "
    "their results; where those have all expired, raise result_expires in Celery"
)


class Result(NamedTuple):
    """What one result says of its task."""

    cancelled_at: Instant | None
    finished_at: Instant | None
    outcome: str | None


class CeleryGateway(RedisRows):
    """Tasks that have a result. One that was revoked was cancelled when its result says."""

    columns = ("task_id", "cancelled_at", "finished_at", "outcome")

    def __init__(self, config: RedisSource, clock: Clock) -> None:
        super().__init__(StoreName.GATEWAY, config, clock)
        self._pattern = KeyPattern.parse(
            f"{KeyPattern.literal(config.prefix)}celery-task-meta-{{task_id}}"
        )
        self._results: dict[str, Result] = {}
        """By key, those of tasks that have ended: each is read once."""
        self._met = self._unreadable = 0
        """How many the last read met, and how many of them were no result as JSON."""
        self._has_read = False
        """Whether any was, ever: that they have all expired since is no fault."""

    def rows(self, windows: Windows) -> Sequence[Row]:  # noqa: ARG002  (all there are)
        """Return the tasks that have ended, and are not forgotten yet.

        Raises ``StoreError`` where nothing tells that results are kept here, or in what form.
        """
        results: dict[str, Result] = {}
        self._met = self._unreadable = 0
        for keys in self._database.keys(self._pattern):
            known = {key: self._results[key] for key in keys if key in self._results}
            results |= known
            self._met += len(known)
            results |= self._fetch([key for key in keys if key not in known])
        self._results = results
        self._expect_signs()
        captured = self._pattern.read(results)
        ids = task_ids_of([it[0] if it else None for it in captured], self._config.id_rule)
        return [(task_id, *said) for task_id, said in zip(ids, results.values(), strict=True)]

    def notes(self) -> tuple[str, ...]:
        """Return what is not known while no task has left a result."""
        if self._has_read:
            return ()
        return ("no task has left a result yet: " + _REMEDY,)

    def _expect_signs(self) -> None:
        """Raise where no result could be read, and it is not an idle Celery that has none."""
        if self._met > self._unreadable:
            self._has_read = True
        elif self._unreadable:
            raise StoreError(
                StoreName.GATEWAY,
                f"none of the {self._unreadable} results at {self._pattern.glob} is JSON, and "
                "nothing else is ever read; set result_serializer to json in Celery",
            )
        elif not self._has_read:
            names = dict.fromkeys((*self._config.queues, *_BOUND))
            bindings = [f"{self._config.prefix}_kombu.binding.{name}" for name in names]
            if not self._database.ask("EXISTS", *bindings):
                raise self._database.missing("Celery's results", _REMEDY)

    def _fetch(self, keys: Sequence[str]) -> dict[str, Result]:
        heads = self._database.ask_each(keys, "GETRANGE", *_HEAD)
        ended: dict[str, str] = {}
        for key, head in zip(keys, heads, strict=True):
            found = None if head is WRONG_TYPE else _STATUS.match(head)
            self._met += bool(head)
            if found is not None:
                if found[1] in _OUTCOMES:
                    ended[key] = found[1]
            elif head:
                self._unreadable += 1
                self.reject(RejectReason.INVALID_RECORD, f"{key}: is no result as JSON")
        stamps, bad = instants_of(self._stamps(list(ended)), "iso", self._config.zone)
        keys = list(ended)
        for place in bad:
            self.reject(RejectReason.INVALID_INSTANT, f"{keys[place]}: date_done")
        return {
            key: _result_of(status, stamp)
            for place, ((key, status), stamp) in enumerate(zip(ended.items(), stamps, strict=True))
            if place not in bad
        }

    def _stamps(self, keys: Sequence[str]) -> list[str | None]:
        """Return when each task was done, as it is written."""
        tails = self._database.ask_each(keys, "GETRANGE", *_TAIL)
        stamps: list[str | None] = []
        for key, tail in zip(keys, tails, strict=True):
            found = _DONE.findall(tail)
            stamps.append(found[-1] if found else self._stamp_within(key))
        return stamps

    def _stamp_within(self, key: str) -> str | None:
        """Return it from a result that has more to say after it."""
        try:
            result: Mapping[str, Any] = json.loads(self._database.ask("GET", key) or "{}")
            done = result.get("date_done")
        except (ValueError, AttributeError):
            return None
        return done if isinstance(done, str) else None


def _result_of(status: str, done: Instant | None) -> Result:
    if status == "REVOKED":
        return Result(done, None, None)
    return Result(None, done, _OUTCOMES[status])
