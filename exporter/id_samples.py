"""Samples of the ids that the stores hold now: what ``check`` judges spellings by."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from orphanwatch.exporter.channel import Channels
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.id_advice import Samples
from orphanwatch.exporter.ids import NO_RULE
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.model import KeySpend
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.reading import read_stores
from orphanwatch.exporter.readings import Readings
from orphanwatch.exporter.stores.questions import Windows

_MOST_KEYS: Final = 2_000
_MOST_TASKS: Final = 10_000


def stored_ids(config: Config, at: Instant, channels: Channels, readings: Readings) -> Samples:
    """Return ids as the stores hold them, before any rule; asks stores anew where one has one.

    The ledger's are those charged last, the leases' are unreleased, the gateway's are those
    submitted last and those that the other two name. A store that can't be read has none.
    """
    windows = Windows.ending(at, config)
    plain = _without_rules(config)
    if plain == config:
        return _sample(channels, windows, readings)
    channels = Channels(plain)
    try:
        return _sample(channels, windows, read_stores(channels, plain, at).readings)
    finally:
        channels.stop()


def _without_rules(config: Config) -> Config:
    stores = {
        str(name): store.model_copy(update=NO_RULE._asdict())
        for name in StoreName
        if (store := getattr(config.stores, name)) is not None
    }
    return config.model_copy(update={"stores": config.stores.model_copy(update=stores)})


def _sample(channels: Channels, windows: Windows, readings: Readings) -> Samples:
    samples: dict[StoreName, list[str]] = {}
    if readings.gateway is not None:
        newest = _newest_tasks(channels, windows)
        samples[StoreName.GATEWAY] = _first((*newest, *readings.gateway.tasks), _MOST_TASKS)
    if readings.leases is not None:
        held = (lease.task_id for lease in readings.leases.unreleased)
        samples[StoreName.LEASES] = _first(held, _MOST_KEYS)
    if readings.ledger is not None:
        by_key = readings.ledger.window.by_key
        keys = sorted(by_key, key=lambda key: _charged_at(by_key[key]), reverse=True)
        samples[StoreName.LEDGER] = _first(keys, _MOST_KEYS)
    return samples


def _newest_tasks(channels: Channels, windows: Windows) -> Iterable[str]:
    channel = channels.gateway
    channel.begin(windows)
    try:
        return channel.ask(lambda gateway: gateway.newest_ids(windows, _MOST_KEYS)) or ()
    finally:
        channel.end()


def _charged_at(spend: KeySpend) -> int:
    return spend.last_charge or 0


def _first(ids: Iterable[str | None], most: int) -> list[str]:
    return list(islice(dict.fromkeys(one for one in ids if one is not None), most))
