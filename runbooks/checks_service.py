"""The checks of the service page: one for each number that it tells people to act on."""

from collections.abc import Mapping
from typing import Final

from orphanwatch.alerts.promql import equals, number, seconds, select, without_replicas
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.names import Condition, KeyKind
from orphanwatch.exporter.signals.admission import HEARTBEAT_SLACK
from orphanwatch.runbooks.queries import (
    Check,
    fail_closed,
    highest,
    lowest,
    on_overflow,
    page_queries,
)
from orphanwatch.runbooks.threshold import threshold_of

_NO_LEASE_ARM: Final = "the gateway or the lease store can't be read."


def service_checks(config: Config) -> Mapping[str, Check]:
    """Return the checks of the service page by the names that its template uses."""
    return {**_trusted(config), **_shed_rules(config), **_rollback(config), **_evidence(config)}


def condition_check(config: Config, condition: Condition) -> Check:
    """Return what tells whether one fail-closed condition holds, by overflow pool."""
    return Check(
        "Does it hold?",
        fail_closed(config, condition),
        "== 0",
        "== 1",
        "it can't be told, or there is no overflow pool; treat it as true.",
    )


def _trusted(config: Config) -> dict[str, Check]:
    query = page_queries(config)
    grace = seconds(threshold_of(config).grace)
    return {
        "slack": Check(
            "Is there time left to stop a lease before its deadline?",
            query["slack"],
            f"> {grace}",
            f"<= {grace}",
            "no live lease has a deadline, or the gateway or the lease store can't be read.",
        ),
        "queue_age": Check(
            "How much of its deadline budget does the oldest waiting task use up?",
            _queue_age_share(config),
            "< 1",
            ">= 1",
            "the queue or the gateway can't be read, or fewer than five tasks had a deadline.",
        ),
        "token_delta": Check(
            "Are tokens charged past a cutoff?",
            query["token_delta"],
            "== 0",
            "> 0",
            "the gateway or the ledger can't be read: that is not zero.",
        ),
        "utilization": Check(
            "Is a pool that has a cap full?",
            query["paid_utilization"],
            "< 1",
            ">= 1",
            "no pool has a cap, or the lease store can't be read.",
        ),
    }


def _shed_rules(config: Config) -> dict[str, Check]:
    query = page_queries(config)
    return {
        "shed_due": Check(
            "Does the threshold line hold for a lease?",
            query["shed_due"],
            "== 0",
            "> 0",
            _NO_LEASE_ARM,
        ),
        "admission": Check(
            "May overflow admit work?",
            query["admission"],
            "== 1",
            "== 0",
            "there is no exporter or no overflow pool; keep it closed.",
        ),
        "split_signal": Check(
            "Do depth and spend disagree?",
            query["split_signal"],
            "== 0",
            "== 1",
            "the queue, the gateway or the ledger can't be read.",
        ),
        "duplicates": Check(
            "Is one request decoded twice?",
            query["duplicates"],
            "== 0",
            "> 0",
            _NO_LEASE_ARM,
        ),
    }


def _rollback(config: Config) -> dict[str, Check]:
    query = page_queries(config)
    return {
        "drained": Check(
            "Is a lease still live on overflow?",
            highest(config, on_overflow(config, names.LIVE_LEASES)),
            "== 0",
            "> 0",
            "the lease store can't be read: look at the workers themselves.",
        ),
        "zero_for_hold": Check(
            "Has the token delta stayed at zero?",
            query["zero_for_hold"],
            "== 0",
            "> 0",
            "the detector is blind, and that is not zero: admission stays closed.",
        ),
    }


def _evidence(config: Config) -> dict[str, Check]:
    """Return the number behind each condition that makes free overflow the wrong bet."""
    return {**_too_late(config), **_counted(config)}


def _too_late(config: Config) -> dict[str, Check]:
    """Return what is too late for the deadlines, and by how many seconds."""
    period = page_queries(config)["heartbeat_period"]
    budget = lowest(config, select(config, names.DEADLINE_BUDGET_SECONDS))
    too_few = "fewer than five overflow tasks had a deadline, or a store can't be read."
    return {
        str(Condition.CANCEL_SLOWER_THAN_SLACK): Check(
            "By how many seconds is the cancel too slow?",
            _too_slow(config, budget),
            "<= 0",
            "> 0",
            too_few,
        ),
        str(Condition.HEARTBEAT_TOO_SLOW): Check(
            "By how many seconds is a heartbeat too slow?",
            f"{period} - {number(HEARTBEAT_SLACK)} * {budget} / 3",
            "<= 0",
            "> 0",
            too_few,
        ),
    }


def _counted(config: Config) -> dict[str, Check]:
    """Return what must not be there at all, and how much of it is."""
    query = page_queries(config)
    worker = equals(names.KEY, KeyKind.WORKER)
    return {
        str(Condition.NO_CANCEL_CHANNEL): Check(
            "How many cancels have not stopped their task?",
            query["propagation_open"],
            "== 0",
            "> 0",
            _NO_LEASE_ARM,
        ),
        str(Condition.RETRY_ID_MISSING): Check(
            "How many retries came without their id?",
            query["retries_without_id"],
            "== 0",
            "> 0",
            "the gateway can't be read.",
        ),
        str(Condition.LEDGER_KEYED_BY_HOST): Check(
            "How many tokens are charged to a machine?",
            highest(config, select(config, names.UNMATCHED_TOKENS, worker)),
            "== 0",
            "> 0",
            "the ledger can't be read.",
        ),
        str(Condition.SECOND_DECODER): Check(
            "How many leases are there beyond the first of a request?",
            query["duplicates"],
            "== 0",
            "> 0",
            _NO_LEASE_ARM,
        ),
    }


def _queue_age_share(config: Config) -> str:
    age = highest(config, select(config, names.QUEUE_AGE_SECONDS))
    budget = lowest(config, select(config, names.DEADLINE_BUDGET_SECONDS))
    return f"{age} / ignoring ({names.POOL}) group_right () {budget}"


def _too_slow(config: Config, budget: str) -> str:
    apart = without_replicas(config, names.SOURCE)
    grace = f"max {apart} ({select(config, names.GRACE_SECONDS)})"
    if config.stores.queue is None:
        return f"{grace} - {budget}"
    age = highest(config, select(config, names.QUEUE_AGE_SECONDS))
    return f"{grace} - ({budget} - ignoring ({names.POOL}) group_left () {age})"
