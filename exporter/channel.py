"""A store while it is asked: in its lane, and once it fails, unreadable for the whole reading."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

import structlog

from orphanwatch.exporter.clock import Clock, wall_clock
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.config_source import Source
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.model import NOT_CONFIGURED, Rejected
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.adapters import gateway_of, leases_of, ledger_of, queue_of
from orphanwatch.exporter.stores.lane import Lane
from orphanwatch.exporter.stores.questions import Gateway, Leases, Ledger, Queue, Store, Windows

Asked = TypeVar("Asked", bound=Store)
Answer = TypeVar("Answer")


class Channel(Generic[Asked]):
    """One configured store and its lane. An answer of None is "could not be read"."""

    def __init__(self, name: StoreName, store: Asked | None, lane: Lane | None) -> None:
        self.name = name
        self._store = store
        self._lane = lane
        self.problem = "" if store is not None else NOT_CONFIGURED
        self.clock_skew_seconds: float | None = None

    def begin(self, windows: Windows) -> None:
        """Open the store for one reading."""
        if self._store is not None:
            self.problem = ""
            self.ask(lambda store: store.open(windows))
            self.clock_skew_seconds = self.ask(lambda store: store.clock_skew_seconds())

    def end(self) -> None:
        """Close it, unless a question of it is still out: then the next opening does."""
        if self._store is not None and self._lane is not None and not self._lane.is_busy():
            self._lane.ask(self._store.close)

    def stop(self) -> None:
        """End the lane."""
        if self._lane is not None:
            self._lane.stop()

    @property
    def is_up(self) -> bool:
        """Return whether every question of this reading was answered so far."""
        return not self.problem

    def rejected(self) -> tuple[Rejected, ...]:
        """Return the rows of this reading that could not be used."""
        return self.ask(lambda store: store.rejected()) or ()

    def ask(self, question: Callable[[Asked], Answer]) -> Answer | None:
        """Return the answer; None once the store has failed in this reading."""
        store, lane = self._store, self._lane
        if self.problem or store is None or lane is None:
            return None
        try:
            return lane.ask(lambda: question(store))
        except StoreError as error:
            self.problem = error.problem
        except Exception as error:  # noqa: BLE001  (see below)
            # Whatever it was, it costs this store and nothing else; the trace goes to the log.
            structlog.get_logger().exception("store failed unexpectedly", store=str(self.name))
            self.problem = f"failed unexpectedly ({type(error).__name__}); see the log"
        return None


class Channels:
    """The four stores of a configuration."""

    def __init__(self, config: Config, clock: Clock = wall_clock) -> None:
        stores = config.stores
        self.gateway: Channel[Gateway] = _channel(
            StoreName.GATEWAY,
            stores.gateway,
            gateway_of(stores.gateway, clock) if stores.gateway is not None else None,
        )
        self.leases: Channel[Leases] = _channel(
            StoreName.LEASES,
            stores.leases,
            leases_of(stores.leases, clock) if stores.leases is not None else None,
        )
        self.ledger: Channel[Ledger] = _channel(
            StoreName.LEDGER,
            stores.ledger,
            ledger_of(stores.ledger, clock) if stores.ledger is not None else None,
        )
        self.queue: Channel[Queue] = _channel(
            StoreName.QUEUE,
            stores.queue,
            queue_of(stores.queue, clock) if stores.queue is not None else None,
        )

    def all(self) -> tuple[Channel[Gateway], Channel[Leases], Channel[Ledger], Channel[Queue]]:
        """Return the four channels."""
        return (self.gateway, self.leases, self.ledger, self.queue)

    def begin(self, windows: Windows) -> None:
        """Open all stores, side by side: those that hang cost one timeout, not one each."""
        with ThreadPoolExecutor(max_workers=len(self.all())) as pool:
            list(pool.map(lambda channel: channel.begin(windows), self.all()))

    def end(self) -> None:
        """Close all stores."""
        for channel in self.all():
            channel.end()

    def rejected(self) -> tuple[Rejected, ...]:
        """Return the rows that could not be used, of all stores that are up."""
        said: list[Rejected] = []
        for channel in self.all():
            said += channel.rejected()
        return tuple(said)

    def stop(self) -> None:
        """End all lanes."""
        for channel in self.all():
            channel.stop()


def _channel(name: StoreName, config: Source | None, store: Asked | None) -> Channel[Asked]:
    return Channel(name, store, None if config is None else Lane(name, config.timeout))
