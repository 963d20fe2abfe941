"""What every store in Redis has in common: how it is read, and what it says of a reading."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from orphanwatch.exporter.clock import Clock
from orphanwatch.exporter.config_redis import RedisSource
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import format_instant
from orphanwatch.exporter.model import Rejected
from orphanwatch.exporter.names import RejectReason, StoreName
from orphanwatch.exporter.stores.http.live import PRESENT
from orphanwatch.exporter.stores.questions import Windows
from orphanwatch.exporter.stores.redis.cells import readable
from orphanwatch.exporter.stores.redis.wire import RedisDatabase
from orphanwatch.exporter.stores.rows import Row


class RedisRows(ABC):
    """Rows of one logical store that lives in a Redis database."""

    keeps = False
    columns: tuple[str, ...]
    tells_only_of_now = False
    """Whether something that it states is as of the reading, and not written in a record."""

    def __init__(self, store: StoreName, config: RedisSource, clock: Clock) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._database = RedisDatabase(store, config)
        self._rejected: list[Rejected] = []
        self._skew: float | None = None

    def read(self, windows: Windows) -> Sequence[Row]:
        """Return all rows there are now; raises ``StoreError`` where they can't be had."""
        return self._database.reading(lambda: self._read_once(windows))

    def rejected(self) -> tuple[Rejected, ...]:
        """Return the records of the last read that could not be used."""
        return tuple(self._rejected)

    def clock_skew_seconds(self) -> float | None:
        """Return the server's clock less ours at the last read, None where it may not be asked."""
        return self._skew

    def close(self) -> None:  # noqa: B027  (most hold nothing)
        """Keep the connection: the next reading needs it again."""

    @abstractmethod
    def rows(self, windows: Windows) -> Sequence[Row]:
        """Return the rows; it may be called twice for one read."""

    def reject(self, reason: RejectReason, record: str) -> None:
        """Count a record that can't be used."""
        self._rejected.append(Rejected(self._store, reason, readable(record)))

    def _read_once(self, windows: Windows) -> Sequence[Row]:
        if self.tells_only_of_now and abs(self._clock() - windows.at) > PRESENT:
            raise StoreError(
                self._store,
                f"tells only of now, and is asked about {format_instant(windows.at)}; "
                "leave out --at",
            )
        self._rejected = []
        self._skew = self._database.clock_skew_seconds(self._clock)
        return self.rows(windows)
