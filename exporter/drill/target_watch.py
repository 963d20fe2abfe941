"""Looks at the stores while a drill runs on a real gateway: by the exporter's own reading.

Each look is one evaluation as ``serve`` makes it, and the same stores asked for the drill's own
requests, with the cutoff that the drill knows: its clients know when they left.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from orphanwatch.exporter.channel import Channels
from orphanwatch.exporter.clock import Clock
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.drill.target_ids import Sent, TargetIds
from orphanwatch.exporter.drill.target_requests import Ask
from orphanwatch.exporter.evaluation import evaluate
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.model import (
    NOT_CONFIGURED,
    Charges,
    Cutoff,
    Evaluation,
    Lease,
    Propagation,
    Task,
)
from orphanwatch.exporter.names import ARM_STORES, StoreName
from orphanwatch.exporter.reading import read_stores
from orphanwatch.exporter.readings import Readings
from orphanwatch.exporter.state import CounterBook
from orphanwatch.exporter.state_memory import LeaseKey
from orphanwatch.exporter.stops import cutoff_of, first_lease, is_live, pool_of
from orphanwatch.exporter.stores.questions import Windows


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One attempt as the stores show it at one look. None is "not there"."""

    task: Task | None
    leases: tuple[Lease, ...]
    live: tuple[Lease, ...]
    cutoff: Instant | None
    """When its client had left for one grace; None while it waits."""
    charges: Charges | None
    """What it was charged past that, by the drill's knowledge."""
    exporter_tokens: float | None
    """Its orphan tokens by the exporter, which knows what the gateway's store says."""
    propagation: Propagation | None
    """The settled sample, by the exporter; None where it is open, or unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLook:
    """What the exporter saw at an instant, and what of it was the drill's own."""

    at: Instant
    evaluation: Evaluation
    blind: tuple[str, ...]
    """Each store of the two arms that could not be read, and why."""
    beats: bool
    """Whether the lease store states heartbeats."""
    skews: Mapping[StoreName, float]
    """Each store's clock less ours, in seconds; absent where it has no clock to ask."""
    seen: Mapping[Ask, Seen]


class _Rows(NamedTuple):
    """What gateway and leases show of one attempt, under the id that they know it by."""

    ask: Ask
    task_id: str
    task: Task | None
    leases: tuple[Lease, ...]
    cutoff: Instant | None

    def split(self, now: Instant) -> Cutoff:
        """Return where its charges are split; while its client waits, nothing of it is orphan."""
        first = first_lease(self.leases)
        start = first.acquired_at if first is not None else None
        if start is None and self.task is not None:
            start = self.task.submitted_at
        return Cutoff(self.task_id, self.cutoff or now, start)


class TargetWatch:
    """Reads the stores again and again, with a memory of its own that starts with the drill."""

    def __init__(self, config: Config, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._channels = Channels(config, clock)
        self._book = CounterBook.open(None, config, clock())
        self._ids = TargetIds(config)
        self._listed_at: dict[LeaseKey, Instant] = {}

    def stop(self) -> None:
        """Let go of the stores; none of them was written to."""
        self._channels.stop()
        self._book.close()

    def look(self, sent: Sequence[Sent]) -> TargetLook:
        """Return what is seen now; a store that can't be read makes the look blind, no more."""
        began, at = time.perf_counter(), self._clock()
        reading = read_stores(
            self._channels,
            self._config,
            at,
            memory=self._book.memory,
            counting_since=self._book.counting_since,
        )
        readings = reading.readings
        evaluation = evaluate(readings, self._config)
        self._book.apply(
            evaluation,
            self._config,
            refresh_seconds=time.perf_counter() - began,
            leases=reading.sight,
        )
        stores = evaluation.stores
        blind = [_unread(name, stores[name].problem) for name in ARM_STORES if not stores[name].up]
        if readings.is_unkeyed:
            blind.append(f"store {StoreName.LEDGER} does not say whom it charged")
        beats = readings.leases is None or readings.leases.beats
        seen = self._seen(sent, readings, evaluation, beats=beats) if sent and not blind else {}
        if sent and not blind:
            channels = self._channels
            blind = [
                _unread(channel.name, channel.problem)
                for channel in (channels.gateway, channels.leases, channels.ledger)
                if not channel.is_up
            ]
        return TargetLook(
            at=at,
            evaluation=evaluation,
            blind=tuple(blind),
            beats=beats,
            skews={
                name: skew
                for name in ARM_STORES
                if (skew := stores[name].clock_skew_seconds) is not None
            },
            seen=seen,
        )

    def _seen(
        self, sent: Sequence[Sent], readings: Readings, evaluation: Evaluation, *, beats: bool
    ) -> dict[Ask, Seen]:
        """Ask the same stores for the drill's own, whether or not the exporter watches it."""
        windows = Windows.ending(readings.at, self._config)
        self._channels.begin(windows)
        try:
            tasks = self._ids.find(self._channels.gateway, sent)
            ids = {self._ids.of(one.ask) for one in sent}
            leases = self._leases(ids, readings, windows)
            rows = [self._rows(one, tasks.get(one.ask), leases) for one in sent]
            charges = self._charges([each.split(windows.at) for each in rows], windows)
        finally:
            self._channels.end()
        return {
            each.ask: Seen(
                task=each.task,
                leases=each.leases,
                live=tuple(
                    lease
                    for lease in each.leases
                    if is_live(lease, self._config, beats=beats, at=readings.at)
                ),
                cutoff=each.cutoff,
                charges=charges.get(each.task_id),
                exporter_tokens=tokens_by_exporter(evaluation, each.task_id),
                propagation=_propagation(evaluation, each.task_id),
            )
            for each in rows
        }

    def _rows(self, one: Sent, task: Task | None, leases: Mapping[str, Sequence[Lease]]) -> "_Rows":
        task_id = self._ids.of(one.ask)
        own = tuple(leases.get(task_id, ()))
        pool = pool_of(task, own, self._config)
        cutoff = None if one.left_at is None else cutoff_of(one.left_at, pool, self._config)
        return _Rows(one.ask, task_id, task, own, cutoff)

    def _charges(self, cutoffs: Sequence[Cutoff], windows: Windows) -> Mapping[str, Charges]:
        answer = self._channels.ledger.ask(lambda ledger: ledger.charges(cutoffs, windows, None))
        return answer or {}

    def _leases(
        self, ids: Collection[str], readings: Readings, windows: Windows
    ) -> dict[str, list[Lease]]:
        """Return all leases of tasks: those listed, and those that are listed no more.

        One that vanished was let go after it was last listed: no later than we know.
        """
        listed = self._channels.leases.ask(lambda store: store.of_tasks(ids, windows)) or ()
        self._listed_at |= {_key(lease): readings.at for lease in listed}
        facts = readings.leases
        known = [] if facts is None else [it for key in ids for it in facts.by_task.get(key, ())]
        self._listed_at |= {_key(it): readings.at for it in known if it.released_at is None}
        found = {
            _key(lease): lease._replace(
                released_at=self._listed_at.get(_key(lease), lease.acquired_at)
            )
            for lease in known
        } | {_key(lease): lease for lease in listed}
        by_task: dict[str, list[Lease]] = {}
        for (task_id, _, _), lease in found.items():
            by_task.setdefault(task_id, []).append(lease)
        return by_task


def tokens_by_exporter(evaluation: Evaluation, task_id: str) -> float | None:
    """Return a task's orphan tokens by the exporter; None where it can't tell."""
    if evaluation.tallies is None:
        return None
    return sum(t.charged + t.prorated for t in evaluation.tallies if t.task_id == task_id)


def _propagation(evaluation: Evaluation, task_id: str) -> Propagation | None:
    samples = evaluation.propagations or ()
    return next((sample for sample in samples if sample.task_id == task_id), None)


def _unread(name: StoreName, problem: str) -> str:
    return f"store {name} " + (
        problem if problem == NOT_CONFIGURED else f"can't be read: {problem}"
    )


def _key(lease: Lease) -> LeaseKey:
    return (lease.task_id or "", lease.worker_id, lease.acquired_at)
