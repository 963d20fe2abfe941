"""Celery's unacknowledged messages as leases.

They are what runs where tasks are acknowledged late and workers prefetch one at a time, and only
there. Nothing renews them: such a lease lives until its message is acknowledged.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from orphanwatch.exporter.clock import Clock
from orphanwatch.exporter.config_redis import RedisSource
from orphanwatch.exporter.names import RejectReason, StoreName
from orphanwatch.exporter.stores.questions import Windows
from orphanwatch.exporter.stores.redis.cells import instants_of, task_ids_of, texts_of
from orphanwatch.exporter.stores.redis.connection import Reply
from orphanwatch.exporter.stores.redis.source import RedisRows
from orphanwatch.exporter.stores.redis.wire import BATCH
from orphanwatch.exporter.stores.rows import Row

# Messages hold what a task is called with: a whole prompt, each. So fewer go at once.
_MESSAGES_AT_ONCE = BATCH // 20


class Delivery(NamedTuple):
    """What one message says: nothing of it changes."""

    task_id: str | None
    queue: str | None
    """The routing key, which is the name of the queue where nobody routes otherwise."""


class CeleryUnacked(RedisRows):
    """Messages that a worker has taken, each from its delivery on."""

    columns = ("task_id", "pool", "acquired_at")

    def __init__(self, config: RedisSource, clock: Clock) -> None:
        super().__init__(StoreName.LEASES, config, clock)
        self._deliveries: dict[str, Delivery] = {}
        """By delivery tag: each message is read once."""

    def rows(self, windows: Windows) -> Sequence[Row]:  # noqa: ARG002  (the list is as of now)
        """Return the messages that are not acknowledged yet."""
        prefix = self._config.prefix
        taken = self._database.members(f"{prefix}unacked_index")
        if not taken:
            self._expect_signs(prefix)
        self._read_messages(f"{prefix}unacked", taken)
        queues = self._config.queues
        tags = [
            tag
            for tag, delivery in self._deliveries.items()
            if not queues or delivery.queue in queues
        ]
        acquired, bad = instants_of([taken[tag] for tag in tags], "s", self._config.zone)
        for place in bad:
            self.reject(RejectReason.INVALID_INSTANT, f"unacked_index {tags[place]}")
        deliveries = [self._deliveries[tag] for tag in tags]
        ids = task_ids_of([it.task_id for it in deliveries], self._config.id_rule)
        pools = texts_of([it.queue for it in deliveries])
        rows = list(zip(ids, pools, acquired, strict=True))
        return [row for place, row in enumerate(rows) if place not in set(bad)]

    def _read_messages(self, key: str, taken: Mapping[str, str]) -> None:
        """Read the messages that are new; one that was acknowledged meanwhile is none."""
        self._deliveries = {tag: it for tag, it in self._deliveries.items() if tag in taken}
        fresh = [tag for tag in taken if tag not in self._deliveries]
        for start in range(0, len(fresh), _MESSAGES_AT_ONCE):
            tags = fresh[start : start + _MESSAGES_AT_ONCE]
            messages: Sequence[Reply] = self._database.ask("HMGET", key, *tags)
            for tag, message in zip(tags, messages, strict=True):
                if message is None:
                    continue
                try:
                    self._deliveries[tag] = _delivery_of(message)
                except (ValueError, TypeError, KeyError, AttributeError):
                    self.reject(RejectReason.INVALID_RECORD, f"unacked {tag}: is no message")

    def _expect_signs(self, prefix: str) -> None:
        """Raise where nothing here is Celery's: it would look like an idle one."""
        queues = ("celery", "celery.pidbox", *self._config.queues)
        if not self._database.ask("EXISTS", *(f"{prefix}_kombu.binding.{it}" for it in queues)):
            raise self._database.missing(
                "Celery", "check the database number, prefix (Celery's global_keyprefix) and queues"
            )


def _delivery_of(text: str) -> Delivery:
    """Return what a message says; raises where it is none of Celery's."""
    message, _, routing_key = json.loads(text)
    headers: Mapping[str, Any] = message.get("headers") or {}
    task_id = headers.get("id") or message["properties"]["correlation_id"]
    return Delivery(
        task_id if isinstance(task_id, str) else None,
        routing_key if isinstance(routing_key, str) else None,
    )
