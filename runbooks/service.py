"""What the service page says of this configuration: hops, conditions, limits."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from orphanwatch.exporter.config import ACTION_WORDS, Config
from orphanwatch.exporter.instants import format_duration
from orphanwatch.exporter.names import Action, Condition, Role, StoreName
from orphanwatch.runbooks.markdown import block, cell, plain
from orphanwatch.runbooks.queries import fail_closed, page_queries


class Hop(NamedTuple):
    """One station of a request, and how a cancel gets lost there."""

    name: str
    does: str
    loses_a_cancel: str
    owner: str


class WrongBet(NamedTuple):
    """A condition under which free overflow capacity costs more than it gives."""

    title: str
    why: str
    condition: str
    evidence: str


class VerdictRow(NamedTuple):
    """One verdict: when it holds and what it asks for."""

    action: str
    when: str
    words: str


def hops(config: Config) -> tuple[Hop, ...]:
    """Return the five hops in the order of a request, each with its owner."""
    on_call = f"on-call of {plain(config.service)}"
    return (
        Hop(
            "Gateway",
            "takes the request, knows deadline and cancel",
            "drops it: forgets the request before its abort is sent, or drains the stream",
            on_call,
        ),
        Hop(
            "Admission queue",
            "holds requests under the admission cap",
            "hands out a task that was cancelled while it waited",
            on_call,
        ),
        Hop(
            "Paid workers",
            "serve hard deadlines, capped leases",
            "never hear it, or hear it between two batches",
            _owners(config, Role.PAID),
        ),
        Hop(
            "Overflow workers",
            "serve quiet-hour batch work, isolated from the paid pool",
            "are beyond the cancel channel, or beat too slowly to notice",
            _owners(config, Role.OVERFLOW),
        ),
        Hop(
            "Ledger",
            "charges tokens, keyed by task",
            "loses none, but hides the loss when rows carry another key or land late",
            on_call,
        ),
    )


def _owners(config: Config, role: Role) -> str:
    owners = [
        f"{plain(pool.owner)} ({cell(name)})"
        for name, pool in sorted(config.pools.items())
        if pool.role is role
    ]
    return ", ".join(owners) or "nobody: no such pool is configured"


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


_WRONG_BETS: Final[tuple[tuple[Condition, str, str, str], ...]] = (
    (
        Condition.CANCEL_SLOWER_THAN_SLACK,
        "The cancel is slower than the slack",
        "A cancel would arrive after the deadline it should beat: the task runs to its end.",
        "grace",
    ),
    (
        Condition.NO_CANCEL_CHANNEL,
        "There is no cancel channel",
        "Workers of the pool can't be told to stop; free capacity then only ends by itself.",
        "propagation_open",
    ),
    (
        Condition.RETRY_ID_MISSING,
        "Retries carry no stable retry id",
        "Nobody can tell a retry from a new request, so the old copy is never stopped.",
        "retries_without_id",
    ),
    (
        Condition.LEDGER_KEYED_BY_HOST,
        "The ledger is keyed by worker",
        "Tokens that are charged to a machine join no task: the proof is gone.",
        "unmatched_tokens",
    ),
    (
        Condition.HEARTBEAT_TOO_SLOW,
        "The heartbeat is too slow",
        "Three heartbeats must fit into the deadline budget, or a lost worker is seen too late.",
        "heartbeat_period",
    ),
    (
        Condition.SECOND_DECODER,
        "A second decoder is at work",
        "The same request is decoded twice: overflow then multiplies work instead of taking it.",
        "duplicates",
    ),
)


def wrong_bets(config: Config) -> tuple[WrongBet, ...]:
    """Return the six conditions, each with the query that shows it and the number behind it."""
    queries = page_queries(config)
    return tuple(
        WrongBet(
            title,
            why,
            block(f"{fail_closed(config, condition)} == 1", "promql"),
            block(queries[evidence], "promql"),
        )
        for condition, title, why, evidence in _WRONG_BETS
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
