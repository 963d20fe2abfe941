"""A store while it is asked: in its lane, and once it fails, unreadable for the whole reading."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, Generic, TypeVar

import structlog

from orphanwatch.exporter.clock import Clock, wall_clock
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.config_source import Source
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import Micros
from orphanwatch.exporter.model import NOT_CONFIGURED, Rejected
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.adapters import gateway_of, leases_of, ledger_of, queue_of
from orphanwatch.exporter.stores.lane import Cuttable, Lane
from orphanwatch.exporter.stores.questions import Gateway, Leases, Ledger, Queue, Store, Windows

Asked = TypeVar("Asked", bound=Store)
Settings = TypeVar("Settings", bound=Source)
Answer = TypeVar("Answer")


class Channel(Generic[Asked]):
    """One configured store and its lane. An answer of None is "could not be read"."""

    def __init__(
        self,
        name: StoreName,
        store: Asked | None,
        lane: Lane | None,
        make: Callable[[], Asked] | None = None,
    ) -> None:
        """``make`` makes the store anew, where the present one never comes back."""
        self.name = name
        self._store = store
        self._lane = lane
        self._make = make
        self.problem = "" if store is not None else NOT_CONFIGURED
        self.clock_skew_seconds: float | None = None

    def begin(self, windows: Windows) -> None:
        """Open the store for one reading."""
        if self._store is not None:
            self.problem = ""
            self._free()
            self.ask(lambda store: store.open(windows))
            self.clock_skew_seconds = self.ask(lambda store: store.clock_skew_seconds())

    def end(self) -> None:
        """Close it, unless a question of it is still out: then the next opening does."""
        if self._lane is not None and not self._lane.is_busy():
            self._try(lambda store: store.close())

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
        return None if self.problem else self._try(question)

    def _free(self) -> None:
        """Break off a question of an earlier reading that never came back."""
        store, lane = self._store, self._lane
        if lane is None or not isinstance(store, Cuttable):
            return
        if lane.free(store) and self._make is not None:
            self._store = self._make()

    def _try(self, question: Callable[[Asked], Answer]) -> Answer | None:
        store, lane = self._store, self._lane
        if store is None or lane is None:
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
        self.config = config
        stores = config.stores
        self.gateway: Channel[Gateway] = _channel(
            StoreName.GATEWAY, stores.gateway, partial(gateway_of, clock=clock)
        )
        self.leases: Channel[Leases] = _channel(
            StoreName.LEASES, stores.leases, partial(leases_of, clock=clock)
        )
        self.ledger: Channel[Ledger] = _channel(
            StoreName.LEDGER, stores.ledger, partial(ledger_of, clock=clock)
        )
        self.queue: Channel[Queue] = _channel(
            StoreName.QUEUE, stores.queue, partial(queue_of, clock=clock)
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

    def take_over(self, before: "Channels") -> frozenset[StoreName]:
        """Go on with those of the channels before that are asked the same; return which.

        What they remember goes on with them: a log is not read again from its start. All others
        of before are ended.
        """
        kept = frozenset(name for name in StoreName if _is_same(name, before.config, self.config))
        for name in kept:
            setattr(self, str(name), getattr(before, str(name)))
        for channel in before.all():
            if channel.name not in kept:
                channel.stop()
        return kept

    def stop(self) -> None:
        """End all lanes."""
        for channel in self.all():
            channel.stop()


_REREAD: Final = ("ca_file", "cert_file", "key_file")
"""Files that a store reads itself, once: what is in them may have changed."""


def _is_same(name: StoreName, before: Config, now: Config) -> bool:
    """Return whether a store of one config would be asked just the same by another."""
    settings = getattr(now.stores, name)
    return (
        settings == getattr(before.stores, name)
        and _reach(now) == _reach(before)
        and not any(getattr(settings, key, None) for key in _REREAD)
    )


def _reach(config: Config) -> tuple[Micros, ...]:
    """Return how far back the stores are looked at: what a mirror keeps rests on it."""
    return (
        config.lag,
        config.delta_window,
        config.baseline_window,
        config.horizon,
        config.reopen_hold,
    )


def _channel(
    name: StoreName, config: Settings | None, make: Callable[[Settings], Asked]
) -> Channel[Asked]:
    if config is None:
        return Channel(name, None, None)
    lane = Lane(name, config.timeout)
    return Channel(name, make(config), lane, make=lambda: make(config))
