"""The events that Celery's workers publish: heard from when we listen on, and never again."""

import base64
import binascii
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

from orphanwatch.exporter.config_redis import RedisSource
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.key_patterns import KeyPattern
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.redis.connection import Wire, packed
from orphanwatch.exporter.stores.redis.wire import RedisDatabase

Event = dict[str, Any]
"""What a worker says: ``type``, ``hostname``, ``timestamp`` and more."""


@dataclass(frozen=True)
class Noise:
    """A message on the workers' channels that is no event, and what is wrong with it."""

    said: str


class EventStream:
    """A subscription that is kept between readings. What was missed is never made up for.

    So a connection that breaks is told, by the driver's ``ConnectionError``, and the next call
    begins anew: ``heard_for`` is 0 then. Redis itself cuts off who falls too far behind.
    """

    def __init__(self, store: StoreName, config: RedisSource, database: RedisDatabase) -> None:
        self._store = store
        self._database = database
        prefix = KeyPattern.literal(config.prefix)
        self._pattern = KeyPattern.parse(f"{prefix}/{config.place.database}.celeryev/*").glob
        self._connection: Wire | None = None
        self._since = 0.0
        self._numbers = count(1)

    @property
    def channels(self) -> str:
        """The pattern of the channels that are listened to."""
        return self._pattern

    @property
    def heard_for(self) -> float:
        """For how many seconds we have listened without a break."""
        return 0.0 if self._connection is None else time.monotonic() - self._since

    def open(self) -> bool:
        """Listen, and return whether that is new: nothing from before was heard."""
        if self._connection is not None:
            return False
        connection = self._database.connect()
        try:
            connection.send_packed_command(
                [packed("PSUBSCRIBE", self._pattern)], check_health=False
            )
            connection.read_response()
        except BaseException:
            connection.disconnect()
            raise
        self._connection, self._since = connection, time.monotonic()
        return True

    def close(self) -> None:
        """Listen no longer."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.disconnect()

    def hear(self) -> Iterator[list[Event] | Noise]:
        """Yield what was published by now, message by message; then nothing is left behind."""
        connection = self._connection
        if connection is None:
            raise RuntimeError("is not open")
        try:
            # The answer comes after all that was published before: that is how we know the end,
            # and that a silent connection is not a dead one.
            mark = str(next(self._numbers))
            connection.send_packed_command([packed("PING", mark)], check_health=False)
            while True:
                reply = connection.read_response()
                if reply == ["pong", mark]:
                    return
                if reply[0] == "pmessage":
                    yield self._read(reply[-1])
        except BaseException:
            self.close()
            raise

    def _read(self, message: str) -> list[Event] | Noise:
        try:
            envelope = json.loads(message)
            kind, body = envelope["content-type"], envelope["body"]
            if kind == "application/json":
                said = json.loads(base64.b64decode(body) if _is_base64(envelope) else body)
                events = said if isinstance(said, list) else [said]
                return [event for event in events if isinstance(event, dict)]
        except (ValueError, KeyError, TypeError, binascii.Error) as error:
            return Noise(f"can't be read ({type(error).__name__})")
        raise StoreError(
            self._store,
            "Celery's events are not written as JSON, and nothing else is read; "
            "set event_serializer to json",
        )


def _is_base64(envelope: Event) -> bool:
    return bool(envelope["properties"].get("body_encoding") == "base64")
