"""Which hop lost the cancel: read off what the exporter shows, whoever hands it over.

Pure: from the gauges of one evaluation, or of the newest minutes in Prometheus, to a verdict, the
most likely hop, the evidence for it and against the others, and the next safe action.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from orphanwatch.exporter import names
from orphanwatch.exporter.drill.faults import HOP_WORDS, Hop
from orphanwatch.exporter.model import Sample
from orphanwatch.exporter.names import Action, Condition, Family, Join, KeyKind

Gauges = Mapping[Family, Sequence[Sample]]
"""What is shown; a family that is absent is unknown."""


@dataclass(frozen=True, slots=True)
class HopFinding:
    """What speaks for a hop, or against it, in a sentence. None is "can't be told"."""

    hop: Hop
    is_broken: bool | None
    said: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The answer to "which hop?"."""

    action: Action
    reasons: tuple[str, ...]
    hop: Hop | None
    """None where no hop shows itself broken."""
    findings: tuple[HopFinding, ...]
    """One for each hop, the most likely first."""
    next_step: str


@dataclass(frozen=True, slots=True)
class _Sight:
    """The numbers that the rules ask for; None is unknown."""

    gauges: Gauges

    def total(self, family: Family, *labels: str) -> float | None:
        """Return the sum of the samples whose labels include these; None where none is known."""
        samples = self.gauges.get(family)
        if samples is None:
            return None
        picked = [sample.value for sample in samples if set(labels) <= set(sample.labels)]
        return sum(picked) if picked or not labels else None


def diagnose(gauges: Gauges, action: Action, reasons: tuple[str, ...]) -> Diagnosis:
    """Return the diagnosis of what is shown, with the verdict that goes with it."""
    sight = _Sight(gauges)
    findings = [judge(sight) for judge in _JUDGES]
    broken = next((finding.hop for finding in findings if finding.is_broken), None)
    findings.sort(key=lambda finding: (finding.hop is not broken, not finding.is_broken))
    is_whole = all(finding.is_broken is not None for finding in findings)
    step = _next_step(action, broken, is_whole=is_whole)
    return Diagnosis(action, reasons, broken, tuple(findings), step)


def _ledger(sight: _Sight) -> HopFinding:
    charged = sight.total(names.UNMATCHED_TOKENS, str(KeyKind.WORKER))
    if charged is None:
        return _unknown(Hop.LEDGER, "whether the ledger's keys are tasks")
    if charged > 0:
        return _broken(
            Hop.LEDGER, f"{charged:g} tokens are charged under a worker's id, not a task's"
        )
    joined = sight.total(names.JOIN_ABANDONED_TASKS, str(Join.WITH))
    apart = sight.total(names.JOIN_ABANDONED_TASKS, str(Join.WITHOUT))
    if apart and not joined:
        said = f"none of {apart:g} abandoned tasks has a ledger row: do the ids join? see check"
        return HopFinding(Hop.LEDGER, is_broken=None, said=said)
    return _sound(Hop.LEDGER, "no token is charged under a worker's id")


def _retry(sight: _Sight) -> HopFinding:
    lost = sight.total(names.RETRIES_WITHOUT_RETRY_ID)
    if lost is None:
        return _unknown(Hop.RETRY, "whether retries keep their id")
    if lost > 0:
        return _broken(Hop.RETRY, f"{lost:g} retries came without a stable retry id")
    return _sound(Hop.RETRY, "no retry came without its id")


def _heartbeat(sight: _Sight) -> HopFinding:
    slow = sight.total(names.FAIL_CLOSED, str(Condition.HEARTBEAT_TOO_SLOW))
    periods = [sample.value for sample in sight.gauges.get(names.HEARTBEAT_PERIOD_SECONDS, ())]
    period = f"{max(periods):.3g} s" if periods else "unknown"
    if slow is None:
        return _unknown(Hop.HEARTBEAT, "whether heartbeats fit into the deadline budget")
    if slow > 0:
        return _broken(
            Hop.HEARTBEAT,
            f"a heartbeat takes up to {period}, more than a third of the deadline budget: "
            "a worker hears of a cancel too late",
        )
    if not periods:
        return HopFinding(Hop.HEARTBEAT, is_broken=None, said="no lease is held: none was heard")
    budgets = [sample.value for sample in sight.gauges.get(names.DEADLINE_BUDGET_SECONDS, ())]
    if not budgets:
        said = f"too few deadlines to judge heartbeats by (longest silence {period})"
        return HopFinding(Hop.HEARTBEAT, is_broken=None, said=said)
    return _sound(
        Hop.HEARTBEAT,
        f"heartbeats (longest silence {period}) fit into a budget of {min(budgets):.3g} s",
    )


def _worker(sight: _Sight) -> HopFinding:
    left = sight.total(names.SECOND_DECODER_LEASES)
    orphans, twins = sight.total(names.LEASES), sight.total(names.DUPLICATE_IN_FLIGHT)
    if left is None or orphans is None or twins is None:
        return _unknown(Hop.WORKER, "whether a task has two workers")
    if left > 0:
        return _broken(
            Hop.WORKER,
            f"of {left:g} orphan leases another worker let go after the stop: "
            "the cancel reached one decoder, a second one runs on",
        )
    if twins > 0 and orphans == 0:
        return _broken(Hop.WORKER, f"{twins:g} requests have a second decoder while a client waits")
    return _sound(Hop.WORKER, "no task that was stopped has a second worker left")


def _cancel_channel(sight: _Sight) -> HopFinding:
    leases, tokens = sight.total(names.LEASES), sight.total(names.TOKEN_DELTA)
    channel = sight.total(names.FAIL_CLOSED, str(Condition.NO_CANCEL_CHANNEL))
    alive = [f"{leases:g} leases live past the cutoff"] if leases else []
    spent = [f"{tokens:g} tokens were charged past it"] if tokens else []
    silent = ["no lease was released after a cancel"] if channel else []
    signs = [*alive, *spent, *silent]
    if signs:
        return _broken(Hop.CANCEL_CHANNEL, "; ".join(signs))
    if leases is None or tokens is None:
        return _unknown(Hop.CANCEL_CHANNEL, "whether cancels stop the work")
    return _sound(Hop.CANCEL_CHANNEL, "no lease and no charge past a cutoff")


_JUDGES: Final[tuple[Callable[[_Sight], HopFinding], ...]] = (
    _ledger, _retry, _heartbeat, _worker, _cancel_channel,
)  # fmt: skip
"""In the order in which they explain each other: a work that outlives its cancel shows in the last
one whatever the reason, so the reasons come before."""


def _broken(hop: Hop, said: str) -> HopFinding:
    return HopFinding(hop, is_broken=True, said=said)


def _sound(hop: Hop, said: str) -> HopFinding:
    return HopFinding(hop, is_broken=False, said=said)


def _unknown(hop: Hop, what: str) -> HopFinding:
    return HopFinding(hop, None, f"{what} can't be told: a store that it rests on is not readable")


HOP_STEPS: Final[Mapping[Hop, str]] = {
    Hop.CANCEL_CHANNEL: (
        "Stop overflow admission, release the orphan leases at the workers, and mend the way of "
        "the cancel from gateway to worker."
    ),
    Hop.HEARTBEAT: (
        "Stop overflow admission and let workers look for cancels at least three times within the "
        "deadline budget."
    ),
    Hop.RETRY: (
        "Stop overflow admission and make clients send the same retry id with each attempt."
    ),
    Hop.LEDGER: (
        "Do not trust a zero of the token arm: charge tokens under the task's id; go by the "
        "leases until then."
    ),
    Hop.WORKER: (
        "Stop overflow admission, end the second decoder, and give one request one lease."
    ),
}
"""What to do first where a hop is broken."""

_ACTION_STEPS: Final[Mapping[Action, str]] = {
    Action.SHED: "Shed the orphan work; do not scale.",
    Action.BLIND: "Restore sight of the stores that can't be read; change nothing else.",
    Action.HOLD: "Hold: reopen only after the signal has stayed at zero.",
    Action.SCALE: "No hop shows itself broken: capacity decisions are safe.",
}


def _next_step(action: Action, hop: Hop | None, *, is_whole: bool) -> str:
    if hop is not None:
        first = _ACTION_STEPS[action] if action is Action.SHED else ""
        return f"{first} {HOP_STEPS[hop]}".strip()
    if action is Action.SCALE and not is_whole:
        return "Nothing shows itself broken, and not every hop can be told: see what is unknown."
    return _ACTION_STEPS[action]


def words_of(hop: Hop) -> str:
    """Return what runs over a hop, for people."""
    return HOP_WORDS[hop]
