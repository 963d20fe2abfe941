"""Looks at the stores while a drill runs on a real gateway: by the exporter's own reading.

Each look is one evaluation as ``serve`` makes it, and the same stores asked for the drill's own
requests, with the cutoff that the drill knows: its clients know when they left.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from orphanwatch.exporter.channel import Channels
from orphanwatch.exporter.clock import Clock
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.drill.target_ids import Sent, TargetIds
from orphanwatch.exporter.drill.target_requests import Ask
from orphanwatch.exporter.evaluation import evaluate
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.model import Charges, Cutoff, Evaluation, Lease, Task
from orphanwatch.exporter.names import ARM_STORES
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
    exporter_tokens: float
    """Its orphan tokens by the exporter, which knows what the gateway's store says."""
    propagation: float | None
    """Seconds, by the exporter; None where it is open, or unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetLook:
    """What the exporter saw at an instant, and what of it was the drill's own."""

    at: Instant
    evaluation: Evaluation
    blind: tuple[str, ...]
    """Each store of the two arms that could not be read, and why."""
    beats: bool
    """Whether the lease store states heartbeats."""
    seen: Mapping[Ask, Seen]


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
        blind = {
            str(name): evaluation.stores[name].problem
            for name in ARM_STORES
            if not evaluation.stores[name].up
        }
        if readings.is_unkeyed:
            blind["ledger"] = "does not say whom it charged"
        beats = readings.leases is None or readings.leases.beats
        seen = self._seen(sent, readings, evaluation, beats=beats) if sent and not blind else {}
        if sent and not blind:
            channels = self._channels
            blind = {
                str(channel.name): channel.problem
                for channel in (channels.gateway, channels.leases, channels.ledger)
                if not channel.is_up
            }
        return TargetLook(
            at=at,
            evaluation=evaluation,
            blind=tuple(f"store {name} {problem}" for name, problem in blind.items()),
            beats=beats,
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
            ids = {one.ask: self._ids.of(one.ask) for one in sent}
            leases = self._leases(set(ids.values()), readings, windows)
            cutoffs = {
                one.ask: self._cutoff(one, tasks.get(one.ask), leases.get(ids[one.ask], ()))
                for one in sent
            }
            charges = self._charges(
                [
                    # While its client waits, nothing of it is orphan.
                    Cutoff(
                        ids[ask],
                        cutoff or windows.at,
                        _start_of(tasks.get(ask), leases.get(ids[ask], ())),
                    )
                    for ask, cutoff in cutoffs.items()
                ],
                windows,
            )
        finally:
            self._channels.end()
        tokens = {t.task_id: t.charged + t.prorated for t in evaluation.tallies or ()}
        settled = {p.task_id: p.seconds for p in evaluation.propagations or ()}
        config, at = self._config, readings.at
        return {
            ask: Seen(
                task=tasks.get(ask),
                leases=tuple(leases.get(task_id, ())),
                live=tuple(
                    lease
                    for lease in leases.get(task_id, ())
                    if is_live(lease, config, beats=beats, at=at)
                ),
                cutoff=cutoffs[ask],
                charges=charges.get(task_id),
                exporter_tokens=tokens.get(task_id, 0.0),
                propagation=settled.get(task_id),
            )
            for ask, task_id in ids.items()
        }

    def _charges(self, cutoffs: Sequence[Cutoff], windows: Windows) -> Mapping[str, Charges]:
        answer = self._channels.ledger.ask(lambda ledger: ledger.charges(cutoffs, windows, None))
        return answer or {}

    def _cutoff(self, one: Sent, task: Task | None, leases: Sequence[Lease]) -> Instant | None:
        pool = pool_of(task, leases, self._config)
        return None if one.left_at is None else cutoff_of(one.left_at, pool, self._config)

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


def _start_of(task: Task | None, leases: Sequence[Lease]) -> Instant | None:
    first = first_lease(leases)
    if first is not None and first.acquired_at is not None:
        return first.acquired_at
    return None if task is None else task.submitted_at


def _key(lease: Lease) -> LeaseKey:
    return (lease.task_id or "", lease.worker_id, lease.acquired_at)
