"""The gate: may overflow be admitted now? Pure, from one evaluation and what closed it before.

A pool's gate is open where none of its fail-closed conditions holds or is unknown, nothing is to
be shed, and no sign of an orphan and nothing else has closed it within ``reopen_hold``. So it
does not flap, and whoever can't tell is told that it is closed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import SECOND, Instant, format_duration
from orphanwatch.exporter.model import Evaluation, Finding
from orphanwatch.exporter.names import ARM_STORES, Action, Condition
from orphanwatch.exporter.signals.verdict import CONDITION_WORDS

NO_OVERFLOW_POOL: Final = (
    "no pool has the role overflow, so there is nothing to admit to; give one that role under "
    "pools in the config"
)
NOT_NOW: Final = frozenset({Action.SHED, Action.BLIND})
"""Verdicts under which no pool is open, whatever its own conditions say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolGate:
    """Whether one overflow pool may be admitted to, and why."""

    is_open: bool
    reasons: tuple[str, ...]
    """Everything that closes it; what speaks for it where it is open."""
    conditions: Mapping[Condition, Finding]
    opens_at: Instant | None
    """When it may open at the earliest; None where it is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The answer for all overflow pools together, and for each."""

    at: Instant
    action: Action
    is_open: bool
    """Whether every overflow pool is; false where there is none."""
    reasons: tuple[str, ...]
    last_sign: Instant | None
    """The newest sign of an orphan that is known."""
    pools: Mapping[str, PoolGate]


@dataclass(slots=True)
class Closings:
    """When each overflow pool was last closed by anything but the hold itself.

    For one thread: that which refreshes.
    """

    _last: dict[str, Instant] = field(default_factory=dict)
    _seen: Mapping[str, Instant] = field(default_factory=dict)
    """When each pool was seen last: one that a reload brings was not seen before."""

    def note(self, evaluation: Evaluation, config: Config) -> Mapping[str, Instant]:
        """Take in one evaluation, and return when each pool was last closed by now.

        A stretch of which nothing is known counts as closed: one without evaluations, and, where
        a store lists only what is now, what was before the first of them.
        """
        at = evaluation.at
        for pool, conditions in evaluation.conditions.items():
            is_unseen = self._is_unseen(pool, at, config)
            is_closed = evaluation.verdict.action in NOT_NOW or not _admits(conditions)
            if is_closed or is_unseen:
                self._last[pool] = at
            elif pool in self._last:
                # One that lies ahead was noted by a wrong clock; it is not waited for.
                self._last[pool] = min(at, self._last[pool])
        self._seen = dict.fromkeys(evaluation.conditions, at)
        return dict(self._last)

    def _is_unseen(self, pool: str, at: Instant, config: Config) -> bool:
        before = self._seen.get(pool)
        if before is None:
            # A store that keeps its past tells it after a start too: the evidence is in its rows.
            return not keeps_its_past(config)
        # A clock that was set back hides what is stamped after the present that it shows.
        return abs(at - before) > config.stale_after

    def forget_sight(self) -> None:
        """Begin anew: a store that is needed has been replaced, and was not seen before."""
        self._seen = {}


def keeps_its_past(config: Config) -> bool:
    """Return whether every store that the arms need can tell what happened before we came."""
    stores = (getattr(config.stores, store) for store in ARM_STORES)
    return all(store is not None and store.type == "sql" for store in stores)


def gate_of(evaluation: Evaluation, config: Config, closed: Mapping[str, Instant]) -> Gate:
    """Return the gate of one evaluation; ``closed`` says when each pool was last closed."""
    pools = {
        pool: _pool_gate(evaluation, config, conditions, closed.get(pool))
        for pool, conditions in evaluation.conditions.items()
    }
    is_open = bool(pools) and all(gate.is_open for gate in pools.values())
    said = {
        f"pool {pool}: {reason}": None
        for pool, gate in pools.items()
        if gate.is_open is is_open
        for reason in gate.reasons
    }
    return Gate(
        at=evaluation.at,
        action=evaluation.verdict.action,
        is_open=is_open,
        reasons=tuple(said) or (NO_OVERFLOW_POOL,),
        last_sign=evaluation.last_evidence,
        pools=pools,
    )


def _pool_gate(
    evaluation: Evaluation,
    config: Config,
    conditions: Mapping[Condition, Finding],
    closed_at: Instant | None,
) -> PoolGate:
    at, hold = evaluation.at, config.reopen_hold
    closing = [*_closing(conditions), *_verdict_reasons(evaluation)]
    signs = [sign for sign in (evaluation.last_evidence, closed_at) if sign is not None]
    opens_at = Instant(max([*signs, *([at] if closing else [])], default=at - hold) + hold)
    if not closing and opens_at <= at:
        return PoolGate(
            is_open=True,
            reasons=(f"no condition closes it, nor did any sign within {format_duration(hold)}",),
            conditions=conditions,
            opens_at=None,
        )
    return PoolGate(
        is_open=False,
        reasons=(*closing, *_holding(evaluation, config, closed_at, is_closing=bool(closing))),
        conditions=conditions,
        opens_at=opens_at,
    )


def _admits(conditions: Mapping[Condition, Finding]) -> bool:
    return all(finding.holds is False for finding in conditions.values())


def _closing(conditions: Mapping[Condition, Finding]) -> list[str]:
    holding = [CONDITION_WORDS[name] for name, found in conditions.items() if found.holds]
    unknown = [CONDITION_WORDS[name] for name, found in conditions.items() if found.holds is None]
    return [*holding, *(f"unknown, which never opens: whether {words}" for words in unknown)]


def _verdict_reasons(evaluation: Evaluation) -> list[str]:
    if evaluation.verdict.action not in NOT_NOW:
        return []
    return [f"the verdict is {evaluation.verdict.action}: {evaluation.verdict.reasons[0]}"]


def _holding(
    evaluation: Evaluation, config: Config, closed_at: Instant | None, *, is_closing: bool
) -> list[str]:
    """Return what the hold waits for, beside what closes the pool right now."""
    at, hold = evaluation.at, config.reopen_hold
    within = f"within the hold of {format_duration(hold)}"
    sign, said = evaluation.last_evidence, []
    if sign is not None and sign + hold > at:
        said.append(f"the last sign of an orphan is {_age(at, sign)} old, {within}")
    if closed_at is None or closed_at + hold <= at or is_closing:
        return said
    ago = "just now" if closed_at == at else f"{_age(at, closed_at)} ago"
    return [*said, f"it was closed, or nothing was known of it, until {ago}, {within}"]


def _age(at: Instant, then: Instant) -> str:
    return format_duration(round((at - then) / SECOND) * SECOND)
