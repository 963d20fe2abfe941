"""One database of a Redis server while it is read: pipelines of bounded size, read commands only.

This owns the connection itself: nothing reconnects behind our back, where a scan would have holes
or a subscription would have missed something.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from redis import exceptions

from orphanwatch.exporter.clock import Clock
from orphanwatch.exporter.config_redis import RedisSource
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import SECOND, seconds
from orphanwatch.exporter.key_patterns import KeyPattern
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.redis.connection import Reply, Wire, bulk, connection_of, packed
from orphanwatch.exporter.stores.redis.problems import code_of, problem_of

BATCH: Final = 2_000
"""How many commands go out at once, and how many keys a scan looks at: a few milliseconds."""

_BATCHES_AT_ONCE: Final = 3
"""How many batches of keys are handed on together: what one needs of memory, all others don't."""

Answer = TypeVar("Answer")


class WrongType:
    """The reply for a key that holds another kind of value than was asked for."""


WRONG_TYPE: Final = WrongType()


class RedisDatabase:
    """Asks one database; each reading is bounded by the store's timeout as a whole."""

    def __init__(self, store: StoreName, config: RedisSource) -> None:
        self._store = store
        self._config = config
        self._place = config.place
        self._connection: Wire | None = None
        self._until = 0.0
        self._is_cluster: bool | None = None

    def reading(self, read: Callable[[], Answer]) -> Answer:
        """Return what ``read`` returns; raises ``StoreError`` with what is wrong.

        A connection that broke since the last reading costs nothing: all is read once more.
        """
        self._until = time.monotonic() + seconds(self._config.timeout)
        try:
            try:
                return read()
            except exceptions.ConnectionError as error:
                if isinstance(error, _FINAL):
                    raise
                self.disconnect()
                return read()
        except StoreError:
            raise
        except exceptions.RedisError as error:
            self.disconnect()
            raise self.problem(error) from None  # its text may hold what nobody should see
        except BaseException:
            self.disconnect()  # replies may still be on their way
            raise

    def problem(self, error: Exception) -> StoreError:
        """Return the error of ours for one of the driver's."""
        return StoreError(self._store, problem_of(error, self._place))

    def missing(self, what: str, remedy: str) -> StoreError:
        """Return the error for a system of which this database shows no sign."""
        return StoreError(
            self._store, f"the Redis at {self._place} shows no sign of {what}; {remedy}"
        )

    def ask(self, *words: str) -> Reply:
        """Return the reply to one command."""
        return self.ask_all([words])[0]

    def ask_all(self, commands: Iterable[Sequence[str]]) -> list[Reply]:
        """Return the replies to many commands, in their order."""
        replies = self._in_batches([packed(*words) for words in commands])
        if WRONG_TYPE in replies:
            raise exceptions.ResponseError("WRONGTYPE")  # the code is all that is heeded
        return replies

    def ask_each(self, keys: Sequence[str], name: str, *words: str) -> list[Reply]:
        """Return the replies to one command for each key: ``name key words...``.

        Where a key holds another kind of value, that is the reply: it costs no other key.
        """
        head = b"*%d\r\n%s" % (len(words) + 2, bulk(name))
        tail = b"".join(map(bulk, words))
        return self._in_batches([b"%s%s%s" % (head, bulk(key), tail) for key in keys])

    def keys(self, pattern: KeyPattern) -> Iterator[list[str]]:
        """Yield the keys that a pattern may mean, some batches at a time, each key once."""
        if pattern.only_key is not None:
            yield [pattern.only_key]
            return
        self._refuse_cluster()
        seen: set[str] = set()
        fresh: dict[str, None] = {}
        cursor = ""
        while cursor != "0":
            cursor, found = self.ask(
                "SCAN", cursor or "0", "MATCH", pattern.glob, "COUNT", str(BATCH)
            )
            # A scan may come by the same key twice.
            fresh.update(dict.fromkeys(key for key in found if key not in seen))
            if fresh and (cursor == "0" or len(fresh) >= _BATCHES_AT_ONCE * BATCH):
                seen.update(fresh)
                yield list(fresh)
                fresh = {}

    def members(self, key: str) -> dict[str, str]:
        """Return the members of a sorted set with their scores; an absent key has none.

        By ZSCAN, for going by ranks would miss members whose scores change meanwhile.
        """
        scores: dict[str, str] = {}
        cursor = "0"
        while True:
            cursor, flat = self.ask("ZSCAN", key, cursor, "COUNT", str(BATCH))
            scores.update(zip(flat[::2], flat[1::2], strict=True))
            if cursor == "0":
                return scores

    def clock_skew_seconds(self, clock: Clock) -> float | None:
        """Return the server's clock less ours; None where the user may not ask for it."""
        before = clock()
        try:
            whole, micros = self.ask("TIME")
        except exceptions.NoPermissionError:
            return None
        middle = (before + clock()) / 2
        return (int(whole) * SECOND + int(micros) - middle) / SECOND

    def connect(self) -> Wire:
        """Return a new connection of its own, open."""
        connection = connection_of(self._config)
        connection.connect()
        return connection

    @property
    def seconds_left(self) -> float:
        """How long the present reading may still take."""
        return self._until - time.monotonic()

    def disconnect(self) -> None:
        """Let go of the connection."""
        connection, self._connection = self._connection, None
        self._is_cluster = None
        if connection is not None:
            connection.disconnect()

    def _refuse_cluster(self) -> None:
        """Raise where a scan would show one node's part of the keys and look whole."""
        if self._is_cluster is None:
            self._is_cluster = "cluster" in _mode_of(self)
        if self._is_cluster:
            raise StoreError(
                self._store,
                f"the Redis at {self._place} is a node of a Redis Cluster, and a scan shows only "
                "its own keys; keep leases in one sorted set (member:), or outside of the cluster",
            )

    def _in_batches(self, commands: Sequence[bytes]) -> list[Reply]:
        """Return the replies to commands, of which two batches at most are on their way.

        The server works on the next batch while we read what it said to the last.
        """
        batches = [commands[at : at + BATCH] for at in range(0, len(commands), BATCH)]
        replies: list[Reply] = []
        for place, batch in enumerate(batches):
            self._send(batch)
            if place:
                replies += self._receive(len(batches[place - 1]))
        if batches:
            replies += self._receive(len(batches[-1]))
        return replies

    def _send(self, commands: Sequence[bytes]) -> None:
        if self.seconds_left < 0:
            raise exceptions.TimeoutError
        self._open().send_packed_command([b"".join(commands)], check_health=False)

    def _open(self) -> Wire:
        if self._connection is None:
            self._connection = self.connect()
        return self._connection

    def _receive(self, count: int) -> list[Reply]:
        """Return the next replies; raises the first error among them but those of one key."""
        connection = self._open()
        replies: list[Reply] = []
        refused: exceptions.ResponseError | None = None
        for _ in range(count):
            try:
                replies.append(connection.read_response())
            except exceptions.ResponseError as error:
                is_of_key = code_of(error) == "WRONGTYPE"
                refused = refused or (None if is_of_key else error)
                replies.append(WRONG_TYPE)
        if refused is not None:
            raise refused
        return replies


# Errors of a connection that a second try would only meet again.
_FINAL: Final = (
    exceptions.AuthenticationError,
    exceptions.AuthorizationError,
    exceptions.BusyLoadingError,
)


def _mode_of(database: RedisDatabase) -> Sequence[object]:
    """Return what the server says of itself, nothing where it is too old to."""
    try:
        said: Sequence[object] = database.ask("HELLO")
    except exceptions.ResponseError:
        return ()
    return said
