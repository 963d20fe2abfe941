"""Is it real? The checks of the alerts that say that orphans will come, or won't be seen."""

from orphanwatch.alerts.promql import equals, number, seconds, select
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.names import Condition, Join, KeyKind
from orphanwatch.exporter.signals.admission import HEARTBEAT_SLACK
from orphanwatch.runbooks.queries import Check, highest, lowest, on_overflow, page_queries


def duplicate_decoders(config: Config) -> tuple[Check, ...]:
    """Return what tells whether one request is decoded more than once."""
    query = page_queries(config)
    return (
        Check(
            "Does one request hold more than one live lease?",
            query["duplicates"],
            "== 0",
            "> 0",
            "the gateway or the lease store can't be read.",
        ),
        Check(
            "Is one of the copies an orphan already?",
            query["orphan_leases"],
            "== 0",
            "> 0",
            "the gateway or the lease store can't be read; the first answer is enough to act on.",
        ),
        Check(
            "Has overflow closed on it?",
            query[f"closed_by_{Condition.SECOND_DECODER}"],
            "== 0",
            "== 1",
            "there is no overflow pool, or it can't be told; the first answer decides.",
        ),
    )


def shed_overdue(config: Config) -> tuple[Check, ...]:
    """Return what tells whether leases stay that can't make their deadline."""
    query = page_queries(config)
    due, live = (
        highest(config, on_overflow(config, family))
        for family in (names.SHED_DUE_LEASES, names.LIVE_LEASES)
    )
    limit = number(config.thresholds.shed_overdue_ratio)
    grace = seconds(max(config.grace_of(pool) for pool in config.pool_names))
    return (
        Check(
            "Which part of the live overflow leases is due to be shed?",
            f"{due} / ({live} > 0)",
            f"<= {limit}",
            f"> {limit}",
            "no overflow lease is live, or the gateway or the lease store can't be read.",
        ),
        Check(
            "Is the least time to a deadline, in seconds, shorter than the grace?",
            query["slack"],
            f"> {grace}",
            f"<= {grace}",
            "no live lease has a deadline, or the gateway or the lease store can't be read.",
        ),
        Check(
            "How many leases are that?",
            query["shed_due"],
            "== 0",
            "> 0",
            "the gateway or the lease store can't be read.",
        ),
    )


def retry_without_retry_id(config: Config) -> tuple[Check, ...]:
    """Return what tells whether retries come that nothing joins to their first try."""
    query = page_queries(config)
    return (
        Check(
            "Do retries come whose id joins no first try?",
            query["retries_without_id"],
            "== 0",
            "> 0",
            "the gateway can't be read.",
        ),
        Check(
            "Has overflow closed on it?",
            query[f"closed_by_{Condition.RETRY_ID_MISSING}"],
            "== 0",
            "== 1",
            "there is no overflow pool, or it can't be told; the first answer decides.",
        ),
        Check(
            "Where ids do join: do copies run beside each other?",
            query["duplicates"],
            "== 0",
            "> 0",
            "the gateway or the lease store can't be read.",
        ),
    )


def ledger_miskeyed(config: Config) -> tuple[Check, ...]:
    """Return what tells whether tokens are charged to keys that are no task."""
    query = page_queries(config)
    keyless = equals(names.KEY, KeyKind.EMPTY, KeyKind.UNKNOWN)
    unmatched = highest(config, select(config, names.UNMATCHED_TOKENS, keyless))
    spend = highest(config, select(config, names.SPEND_TOKENS_PER_SECOND))
    spent = f"{seconds(config.delta_window)} * {spend}"
    limit = number(config.thresholds.unmatched_spend_ratio)
    without = select(config, names.JOIN_LEDGER_ROWS, equals(names.TASK, Join.WITHOUT))
    return (
        Check(
            "How many tokens went to a key that is no task, and what is the key instead?",
            query["unmatched_tokens"],
            "== 0",
            "> 0",
            "the ledger or the gateway can't be read, or the gateway has no row while a request "
            "runs.",
        ),
        Check(
            "Which part of the spend has an empty or unknown key?",
            f"sum without ({names.KEY}) ({unmatched}) / ({spent} > 0)",
            f"<= {limit}",
            f"> {limit}",
            "nothing was spent in the window, or the ledger can't be read.",
        ),
        Check(
            "How many ledger rows is that?",
            highest(config, without),
            "== 0",
            "> 0",
            "the ledger or the gateway can't be read.",
        ),
    )


def heartbeat_too_slow(config: Config) -> tuple[Check, ...]:
    """Return what tells whether heartbeats are too slow for the deadlines."""
    query = page_queries(config)
    period = highest(config, on_overflow(config, names.HEARTBEAT_PERIOD_SECONDS))
    budget = lowest(config, on_overflow(config, names.DEADLINE_BUDGET_SECONDS))
    return (
        Check(
            "Does the condition hold, and in which pool?",
            query[f"closed_by_{Condition.HEARTBEAT_TOO_SLOW}"],
            "== 0",
            "== 1",
            "there is no overflow pool, or it can't be told.",
        ),
        Check(
            "How much longer is the heartbeat period than a third of the deadline budget allows?",
            f"{period} / ({number(HEARTBEAT_SLACK)} / 3 * ({budget} > 0))",
            "<= 1",
            "> 1",
            "fewer than five overflow tasks came in the window, or a store can't be read.",
        ),
        Check(
            "Do leases run out before their worker beats again?",
            query["expired_leases"],
            "== 0",
            "> 0",
            "the lease store can't be read.",
        ),
    )
