"""Samples from the stores, and from what ``serve`` has kept of them before."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from orphanwatch.exporter.channel import Channels
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.grace.curve import Samples
from orphanwatch.exporter.grace.estimate import PoolSamples
from orphanwatch.exporter.grace.state import KeptSample, KeptSamples, SampleKey, kept_samples
from orphanwatch.exporter.instants import Instant, Micros, format_duration, micros
from orphanwatch.exporter.measurement import MeasuredFrom
from orphanwatch.exporter.names import ARM_STORES, Cause
from orphanwatch.exporter.reading import read_stores
from orphanwatch.exporter.readings import Readings
from orphanwatch.exporter.signals.propagation import open_watches, propagations
from orphanwatch.exporter.state_memory import Memory
from orphanwatch.exporter.state_rows import storable


@dataclass
class _Pool:
    settled: list[Micros] = field(default_factory=list)
    open: list[Micros] = field(default_factory=list)
    has_drills: bool = False


def samples_of_stores(
    config: Config, at: Instant, *, include_drill: bool, is_present: bool
) -> tuple[dict[str, PoolSamples], tuple[str, ...]]:
    """Return the samples of every pool at an instant, and what must be said of all of them.

    A stop within the grace window counts, and each task once: what the stores say now goes before
    what was kept of it. An open one's bound is the time since its stop: its last sign of work can't
    be before the release of its lease, which is yet to come. One whose stop the gateway has
    forgotten is taken for one that never stops. Unknown where a store that they rest on can't be
    read. ``is_present`` says whether the state file's memory is of this moment. Raises
    ``StateError`` for a state file that can't be read.
    """
    kept = kept_samples(config, at, include_drill=include_drill)
    memory = kept.memory if is_present else Memory()
    readings, notes = _read(config, at, memory)
    if not include_drill and kept.drills:
        notes = (*notes, f"{len(kept.drills)} samples of drills are left out (--include-drill)")
    unknown = _unknown(readings)
    forgotten = _forgotten(readings, memory)
    notes = (*notes, *_lost_note(readings, memory, forgotten, kept))
    found = _by_pool(config, readings, kept, forgotten)
    return {
        name: PoolSamples(
            samples=None if unknown else Samples(tuple(pool.settled), tuple(pool.open)),
            source=MeasuredFrom.STORES_AND_DRILLS if pool.has_drills else MeasuredFrom.STORES,
            settled=None if unknown else len(pool.settled),
            open=None if unknown else len(pool.open),
            unknown=unknown,
        )
        for name, pool in found.items()
    }, notes


def _read(config: Config, at: Instant, memory: Memory) -> tuple[Readings, tuple[str, ...]]:
    """Return what the stores say of all of the grace window or, where that is too much, of less."""
    if config.grace_window > config.horizon:
        whole = _read_over(config, config.grace_window, at, memory)
        if not _unknown(whole):
            return whole, ()
    part = _read_over(config, config.horizon, at, memory)
    if config.grace_window <= config.horizon or _unknown(part):
        return part, ()
    reach = format_duration(config.horizon)
    return part, (f"the stores could be read for the last {reach} only, the rest is as kept",)


def _read_over(config: Config, horizon: Micros, at: Instant, memory: Memory) -> Readings:
    longer = config.model_copy(update={"horizon": horizon})
    channels = Channels(longer)
    try:
        return read_stores(channels, longer, at, memory=memory).readings
    finally:
        channels.stop()


def _unknown(readings: Readings) -> str:
    """Return why propagation can't be known; empty where it can."""
    for name in ARM_STORES:
        health = readings.stores[name]
        if not health.up:
            return f"unknown: store {name} can't be read ({health.problem})"
    if readings.ledger is None:
        return "unknown: the ledger does not say whom it charged"
    return ""


def _forgotten(readings: Readings, memory: Memory) -> Mapping[str, str]:
    """Return the pools, by id, of open tasks that the gateway has no row of any more.

    ``serve`` remembers them, and a lease of theirs is still unreleased: so they are open.
    """
    if readings.gateway is None or readings.leases is None:
        return {}
    return {
        lease.task_id: readings.pools[lease.task_id]
        for lease in readings.leases.unreleased
        if lease.task_id in memory.open_tasks and lease.task_id not in readings.gateway.tasks
    }


def _lost_note(
    readings: Readings, memory: Memory, forgotten: Mapping[str, str], kept: KeptSamples
) -> Iterator[str]:
    """Yield that tasks are neither settled nor open, since no store knows them any more."""
    if readings.gateway is None or readings.leases is None:
        return
    known = {task_id for task_id, _ in (*kept.taken, *kept.drills)}
    lost = memory.open_tasks - readings.gateway.tasks.keys() - forgotten.keys() - known
    if lost:
        yield (
            f"{len(lost)} tasks whose stop was awaited are in no store any more, and count for "
            "nothing: let the gateway keep its rows until their work has ended"
        )


def _by_pool(
    config: Config, readings: Readings, kept: KeptSamples, forgotten: Mapping[str, str]
) -> Mapping[str, _Pool]:
    pools = {name: _Pool() for name in config.pool_names}
    for sample in _settled(readings, config, kept).values():
        pools[sample.pool].settled.append(sample.length)
        pools[sample.pool].has_drills |= sample.is_drill
    for watch in open_watches(readings):
        if _is_within(watch.stop.at, readings.at, config):
            pools[watch.pool].open.append(Micros(readings.at - watch.stop.at))
    for pool_name in forgotten.values():
        pools[pool_name].open.append(config.grace_window)
    for pool in pools.values():
        pool.settled.sort()
        pool.open.sort()
    return pools


def _settled(readings: Readings, config: Config, kept: KeptSamples) -> Mapping[str, KeptSample]:
    """Return each settled sample once, by task: the longest where several disagree.

    None of a task that is open now, or whose stop turned out to be another one than a client's
    cancel: a row that says so may land late, and may move the stop.
    """
    settled: dict[str, KeptSample] = {}
    of_drills = {task_id for task_id, _ in kept.drills}
    for (task_id, _), sample in (*kept.taken.items(), *_of_stores(readings, config)):
        before = settled.get(task_id)
        if task_id not in of_drills and (before is None or before.length < sample.length):
            settled[task_id] = sample
    others = (
        watch
        for watch in (*readings.watched, *readings.older)
        if watch.stop.cause is not Cause.CLIENT_CANCEL
    )
    for watch in (*open_watches(readings), *others):
        settled.pop(storable(watch.task.task_id or ""), None)
    return settled


def _of_stores(readings: Readings, config: Config) -> Iterator[tuple[SampleKey, KeptSample]]:
    for found in propagations(readings) or ():
        if _is_within(found.stopped_at, readings.at, config):
            key = (storable(found.task_id), found.stopped_at)
            yield key, KeptSample(config.label(found.pool), micros(found.seconds), is_drill=False)


def _is_within(stopped_at: Instant, at: Instant, config: Config) -> bool:
    return at - config.grace_window < stopped_at <= at
