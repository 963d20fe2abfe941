"""One reading of the stores: who is asked what, in which order, and what comes of it.

A store that fails on the way is unreadable for the whole reading; the others go on. What is
asked grows with abandoned tasks, live leases and the tasks of the newest window.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from orphanwatch.exporter.channel import Channel, Channels
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import Instant, Micros
from orphanwatch.exporter.model import Charges, Lease, LedgerWindow, StoreHealth
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.reading_gateway import GatewayReader
from orphanwatch.exporter.reading_leases import LeaseReader
from orphanwatch.exporter.readings import GatewayFacts, LeaseFacts, LedgerFacts, Readings
from orphanwatch.exporter.state_memory import LeaseSight, Memory
from orphanwatch.exporter.stores.questions import Windows
from orphanwatch.exporter.watching import Watchman, pools_of

_NO_MEMORY = Memory()


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read, and what the next reading has to remember of the leases."""

    readings: Readings
    sight: LeaseSight | None
    """None where the leases could not be read."""


def read_stores(
    channels: Channels,
    config: Config,
    at: Instant,
    *,
    memory: Memory = _NO_MEMORY,
    counting_since: Instant | None = None,
    last_success: Mapping[StoreName, Instant] | None = None,
    silences: Mapping[str, Micros] | None = None,
) -> Reading:
    """Return what the stores state as of an instant; never raises for a store's sake."""
    config = config.as_of(at)
    windows = Windows.ending(at, config)
    channels.begin(windows)
    try:
        reader = _Reader(channels, config, windows, memory)
        reading = reader.read(counting_since, last_success or {})
    finally:
        channels.end()
    return replace(reading, readings=replace(reading.readings, silences=dict(silences or {})))


class _Reader:
    """The steps of one reading."""

    def __init__(
        self, channels: Channels, config: Config, windows: Windows, memory: Memory
    ) -> None:
        self._channels = channels
        self._config = config
        self._windows = windows
        self._memory = memory

    def read(
        self, counting_since: Instant | None, last_success: Mapping[StoreName, Instant]
    ) -> Reading:
        """Ask everything, in the order in which the answers need each other."""
        windows, channels, memory = self._windows, self._channels, self._memory
        leases = LeaseReader(channels.leases, windows, memory)
        spent = channels.ledger.ask(lambda ledger: ledger.window(windows))
        gateways = GatewayReader(channels.gateway, self._config, windows)
        gateway = gateways.read(leases.named | memory.open_tasks, spent)
        by_task = leases.by_task(gateway, spent)
        pools = pools_of(gateway, by_task, self._config)
        watchman = Watchman(
            self._config, windows, spent, beats=leases.beats, kept=memory.open_tasks
        )
        watchlist = watchman.watch(gateway, by_task, pools)
        cutoffs = watchlist.cutoffs()
        charges = channels.ledger.ask(
            lambda ledger: ledger.charges(cutoffs, windows, counting_since)
        )
        workers = self._read_workers(gateway, spent)
        sample = channels.queue.ask(lambda queue: queue.newest(windows))
        rejected = (*gateways.rejected, *channels.rejected())
        is_seen = channels.gateway.is_up
        readings = Readings(
            at=windows.at,
            stores={c.name: self._health(c, last_success) for c in channels.all()},
            gateway=gateway if is_seen else None,
            leases=self._lease_facts(leases, by_task, workers),
            ledger=self._ledger_facts(spent, charges),
            spent=spent if channels.ledger.is_up else None,
            queue=sample,
            watched=watchlist.watched if is_seen else (),
            older=watchlist.older if is_seen else (),
            pools=pools,
            rejected=rejected,
            last_evidence=memory.last_evidence,
        )
        sight = leases.sight(watchlist.ids) if channels.leases.is_up else None
        return Reading(readings, sight)

    def _lease_facts(
        self, leases: LeaseReader, by_task: Mapping[str, list[Lease]], workers: frozenset[str]
    ) -> LeaseFacts | None:
        if not self._channels.leases.is_up:
            return None
        return LeaseFacts(
            unreleased=leases.unreleased, by_task=by_task, workers=workers, beats=leases.beats
        )

    def _ledger_facts(
        self, spent: LedgerWindow | None, charges: Mapping[str, Charges] | None
    ) -> LedgerFacts | None:
        """Return what is known by task; None too where a ledger states no task."""
        if not self._channels.ledger.is_up or spent is None or charges is None:
            return None
        return LedgerFacts(window=spent, charges=charges)

    def _read_workers(
        self, gateway: GatewayFacts | None, spent: LedgerWindow | None
    ) -> frozenset[str]:
        """Return the ledger's keys that are no task but a worker's id.

        A store that lists only what is held no longer knows a worker whose lease has gone.
        """
        if gateway is None or spent is None:
            return frozenset()
        keys = {
            key
            for key, spend in spent.by_key.items()
            if key is not None and spend.spend > 0 and key not in gateway.tasks
        }
        if not keys:
            return frozenset()
        windows = self._windows
        answer = self._channels.leases.ask(lambda leases: leases.workers(keys, windows))
        return (answer or frozenset()) | self._memory.workers(keys)

    def _health(
        self, channel: Channel[Any], last_success: Mapping[StoreName, Instant]
    ) -> StoreHealth:
        return StoreHealth(
            up=channel.is_up,
            problem=channel.problem,
            last_success=self._windows.at if channel.is_up else last_success.get(channel.name),
            clock_skew_seconds=channel.clock_skew_seconds if channel.is_up else None,
        )
