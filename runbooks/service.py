"""What the service page says of this configuration: hops, conditions, limits."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from orphanwatch.exporter.config import ACTION_WORDS, Config
from orphanwatch.exporter.diagnosis import HOP_STEPS
from orphanwatch.exporter.drill.faults import HOP_WORDS, Hop
from orphanwatch.exporter.instants import format_duration
from orphanwatch.exporter.names import Action, Condition, Role, StoreName
from orphanwatch.runbooks.checks import Asked, asked
from orphanwatch.runbooks.checks_service import condition_check, service_checks
from orphanwatch.runbooks.markdown import code, plain
from orphanwatch.runbooks.owners import owners_by_role


class HopRow(NamedTuple):
    """One hop of a request, and how a cancel gets lost there: finished Markdown."""

    name: str
    carries: str
    loses_a_cancel: str
    first_step: str
    owner: str


class WrongBet(NamedTuple):
    """A condition under which free overflow capacity costs more than it gives."""

    title: str
    why: str
    condition: Asked
    evidence: Asked


class VerdictRow(NamedTuple):
    """One verdict: when it holds and what it asks for."""

    action: str
    when: str
    words: str


_LOSES: Final[Mapping[Hop, str]] = {
    Hop.CANCEL_CHANNEL: "the abort is dropped, or never reaches the worker",
    Hop.HEARTBEAT: "the worker asks too seldom, and hears of the cancel too late",
    Hop.RETRY: "a retry under a new id leaves the old copy to nobody",
    Hop.LEDGER: "loses none, but hides the loss: tokens join no task",
    Hop.WORKER: "the cancel stops one decoder, and a second one runs on",
}


def hops(config: Config) -> tuple[HopRow, ...]:
    """Return the hops that ``diagnose`` and the drill name, each with its owner."""
    overflow = owners_by_role(config, Role.OVERFLOW)
    service = f"you, who are on call for {plain(config.service)}"
    return tuple(
        HopRow(
            code(hop),
            HOP_WORDS[hop],
            _LOSES[hop],
            HOP_STEPS[hop],
            service if hop in {Hop.RETRY, Hop.LEDGER} else overflow,
        )
        for hop in Hop
    )


def verdicts(config: Config) -> tuple[VerdictRow, ...]:
    """Return the verdicts in the order in which the first that holds decides."""
    hold = format_duration(config.reopen_hold)
    when = {
        Action.SHED: "orphan tokens, an orphan lease, or a duplicate in flight, by any store "
        "that can be read",
        Action.BLIND: "a store that the two arms need can't be read, or is stale",
        Action.HOLD: f"none now, but one within {hold}, or a fail-closed condition holds",
        Action.SCALE: "none of these",
    }
    return tuple(VerdictRow(str(action), when[action], ACTION_WORDS[action]) for action in Action)


_WRONG_BETS: Final[tuple[tuple[Condition, str, str], ...]] = (
    (
        Condition.CANCEL_SLOWER_THAN_SLACK,
        "The cancel is slower than the slack",
        "A cancel would arrive after the deadline it should beat: the task runs to its end.",
    ),
    (
        Condition.NO_CANCEL_CHANNEL,
        "There is no cancel channel",
        "Workers of the pool can't be told to stop; free capacity then only ends by itself.",
    ),
    (
        Condition.RETRY_ID_MISSING,
        "Retries carry no stable retry id",
        "Nobody can tell a retry from a new request, so the old copy is never stopped.",
    ),
    (
        Condition.LEDGER_KEYED_BY_HOST,
        "The ledger is keyed by worker",
        "Tokens that are charged to a machine join no task: the proof is gone.",
    ),
    (
        Condition.HEARTBEAT_TOO_SLOW,
        "The heartbeat is too slow",
        "Three heartbeats must fit into the deadline budget, or a lost worker is seen too late.",
    ),
    (
        Condition.SECOND_DECODER,
        "A second decoder is at work",
        "The same request is decoded twice: overflow then multiplies work instead of taking it.",
    ),
)


def wrong_bets(config: Config) -> tuple[WrongBet, ...]:
    """Return the six conditions, each with the query that shows it and the number behind it."""
    evidence = service_checks(config)
    return tuple(
        WrongBet(
            title,
            why,
            asked(condition_check(config, condition)),
            asked(evidence[condition]),
        )
        for condition, title, why in _WRONG_BETS
    )


_UNKNOWN_WITHOUT: Final[Mapping[StoreName, str]] = {
    StoreName.GATEWAY: "no stop is known, so neither arm works",
    StoreName.LEASES: "the lease arm, lease age, slack, duplicates and propagation are unknown",
    StoreName.LEDGER: "the token arm, spend and the split signal are unknown",
    StoreName.QUEUE: "depth, queue age and the split signal are unknown",
}


def limits(config: Config) -> tuple[str, ...]:
    """Return what this page and its numbers can't know, each as a sentence."""
    configured = config.stores.configured()
    found = [
        f"No {store} store is configured: {_UNKNOWN_WITHOUT[store]}."
        for store in StoreName
        if store not in configured
    ]
    gateway, leases, ledger = config.stores.gateway, config.stores.leases, config.stores.ledger
    if gateway is not None and gateway.rows == "at_end":
        found.append(
            "The gateway has no row while a request runs: attached tasks, the gap and the split "
            "signal are unknown."
        )
    if gateway is not None and gateway.deadline == "soft":
        found.append("Deadlines are soft here: a deadline that passes stops nothing.")
    if ledger is not None and ledger.shape == "final":
        found.append(
            "The ledger gets one row at the end of a request: while it is silent the lease arm is "
            "the live evidence, and tokens that straddle a cutoff are an even share, not a reading."
        )
    if ledger is not None and ledger.lag:
        found.append(
            f"Ledger rows may land {format_duration(ledger.lag)} late, and the token arm is that "
            "much behind."
        )
    if leases is not None:
        found.append(
            f"A worker that crashes keeps its lease for {format_duration(leases.lease_ttl)}; until "
            "then its lease counts as alive, but not as confirmed."
        )
    return tuple(found)
