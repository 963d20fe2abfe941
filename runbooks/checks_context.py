"""Is it real? The checks of the alerts that say how pools, grace, admission and budget stand."""

from orphanwatch.alerts import budget
from orphanwatch.alerts.burn_rules import orphans, ratio
from orphanwatch.alerts.promql import number, select
from orphanwatch.alerts.slow_cancels import allowed_share, slow_share
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import format_duration
from orphanwatch.runbooks.queries import Check, highest, page_queries


def pools_mixed(config: Config) -> tuple[Check, ...]:
    """Return what tells which way the pools are mixed."""
    query = page_queries(config)
    return (
        Check(
            "Do workers hold live leases for both a paid and an overflow pool?",
            query["workers_in_both_pools"],
            "== 0",
            "> 0",
            "the lease store can't be read, or its leases name no pool.",
        ),
        Check(
            "Are leases held in a pool of another role than their task's?",
            query["leases_outside_pool"],
            "== 0",
            "> 0",
            "the gateway or the lease store can't be read.",
        ),
        Check(
            "Does work that can't be cancelled run on overflow?",
            query["uncancellable_on_overflow"],
            "== 0",
            "> 0",
            "the gateway can't be read, or has no row while a request runs.",
        ),
    )


def cancel_slower_than_grace(config: Config) -> tuple[Check, ...]:
    """Return what tells whether cancels take longer than the grace says."""
    query = page_queries(config)
    return (
        _slow_cancels(config),
        Check(
            "Are there cancelled tasks whose work has not ended at all?",
            query["propagation_open"],
            "== 0",
            "> 0",
            "the gateway or the lease store can't be read.",
        ),
        Check(
            "Do slow cancels leave orphan leases right now?",
            query["orphan_leases"],
            "== 0",
            "> 0",
            "the gateway or the lease store can't be read.",
        ),
    )


def _slow_cancels(config: Config) -> Check:
    limit = number(float(allowed_share(config)))
    return Check(
        "Which part of a day's cancels took longer than their pool's grace?",
        slow_share(config),
        f"<= {limit}",
        f"> {limit}",
        "no cancel ended within the day, or the exporter is not scraped.",
    )


def grace_unmeasured(config: Config) -> tuple[Check, ...]:
    """Return what tells whether the grace in force rests on a measurement."""
    query = page_queries(config)
    until = select(config, names.GRACE_VALID_UNTIL)
    return (
        Check(
            "For how many seconds more is the measurement valid?",
            highest(config, f"{until} - time()"),
            "> 0",
            "<= 0",
            "no pool is measured, so the grace in force is a proposal: the alert is right.",
        ),
        Check(
            "Does what is in force fail already?",
            *_slow_cancels(config)[1:],
        ),
        Check(
            "Are there cancels that never end, and would push a measurement up?",
            query["propagation_open"],
            "== 0",
            "> 0",
            "the gateway or the lease store can't be read.",
        ),
    )


def overflow_closed(config: Config) -> tuple[Check, ...]:
    """Return what tells whether overflow is closed, and why."""
    query = page_queries(config)
    return (
        Check(
            "Is overflow admission closed?",
            query["admission"],
            "== 1",
            "== 0",
            "there is no overflow pool, or no exporter: then a gate counts it as closed.",
        ),
        Check(
            "By which condition?",
            highest(config, select(config, names.FAIL_CLOSED)),
            "== 0",
            "== 1",
            "no condition is known; a store that it needs can't be read.",
        ),
        Check(
            "Is it closed because a store can't be read?",
            query["store_up"],
            "== 1",
            "== 0",
            "there is no exporter; go by OrphanDetectorBlind.",
        ),
    )


def waste_budget_burn(config: Config) -> tuple[Check, ...]:
    """Return what tells whether waste burns the budget, and whether it goes on."""
    query = page_queries(config)
    fastest = next(iter(budget.burns(config)), budget.BURNS[0])
    allowed = number(config.thresholds.waste_budget_ratio)
    return (
        Check(
            f"Which part of all tokens of the last {format_duration(fastest.short)} is orphan?",
            ratio(config, fastest.short),
            f"<= {allowed}",
            f"> {allowed}",
            "nothing was spent, or the ledger can't be read.",
        ),
        Check(
            f"Which pool wastes how many tokens per second, over {format_duration(fastest.long)}?",
            orphans(config, fastest.long),
            "== 0",
            "> 0",
            "the counter is not scraped; ask the first query of OrphanDetectorBlind.",
        ),
        Check(
            "Is orphan work charged right now?",
            query["token_delta"],
            "== 0",
            "> 0",
            "the gateway or the ledger can't be read, so this arm is blind, not calm.",
        ),
    )
