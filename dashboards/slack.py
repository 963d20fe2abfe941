"""Rows of the cancel path: the slack that is left, and the faults that make orphans."""

from orphanwatch.alerts import promql
from orphanwatch.dashboards import lines, queries
from orphanwatch.dashboards.links import Panel
from orphanwatch.dashboards.panels import AnyPanel, Canvas, Frame, Query
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.signals.admission import HEARTBEAT_SLACK

_NO_LEASES = "the gateway or the leases can't be read."


def leases(config: Config) -> list[AnyPanel]:
    """Return lease age against slack, shed due, heartbeats, and leases by their state."""
    return [_age_and_slack(config), _shed_due(config), _heartbeat(config), _by_state(config)]


def _age_and_slack(config: Config) -> AnyPanel:
    least = queries.lowest(config, queries.select(config, names.DEADLINE_SLACK_SECONDS_MIN))
    panel = Canvas(config).graph(
        Frame(
            Panel.LEASE_AGE_AND_SLACK,
            "Lease age against deadline slack",
            "Shed when lease age plus grace exceeds deadline slack: where the oldest heartbeat "
            "meets the least slack, a cancel comes too late. Dashed: the age of the oldest request "
            "that waits, the backup when depth and spend disagree.",
            "no lease is live, no live task has a deadline, or a store can't be read.",
            width=12,
        ),
        "s",
        (
            Query("A", least, "least slack · {{pool}}"),
            Query(
                "B",
                queries.gauge(config, names.LEASE_AGE_SECONDS_MAX),
                "oldest heartbeat · {{pool}}",
            ),
            Query("C", queries.gauge(config, names.QUEUE_AGE_SECONDS), "queue age · {{job}}"),
        ),
    )
    return lines.limit_line(panel, "C")


def _shed_due(config: Config) -> AnyPanel:
    # Without an overflow pool nothing is shed, and all leases are shown.
    overflow = config.overflow_pools
    what, whose = ("overflow leases", "the overflow pool") if overflow else ("leases", "each pool")
    pools = (promql.equals(names.POOL, *overflow),) if overflow else ()
    due = queries.gauge(config, names.SHED_DUE_LEASES, *pools)
    live = queries.gauge(config, names.LIVE_LEASES, *pools)
    limit = config.thresholds.shed_overdue_ratio
    panel = Canvas(config).graph(
        Frame(
            Panel.SHED_DUE,
            f"Share of {what} that are due to be shed",
            "Live leases whose age plus grace exceeds their slack, of all live leases of "
            f"{whose}. Above the line, {limit:g}, shedding does not keep up: shed them, and "
            "close overflow.",
            f"no lease of {whose} is live, or a store can't be read.",
            width=12,
        ),
        "percentunit",
        (Query("A", f"{due} / ({live} > 0)", "{{pool}} · {{job}}"),),
    )
    return lines.threshold_line(panel, limit)


def _heartbeat(config: Config) -> AnyPanel:
    budget = queries.lowest(config, queries.select(config, names.DEADLINE_BUDGET_SECONDS))
    panel = Canvas(config).graph(
        Frame(
            Panel.HEARTBEAT,
            "Heartbeat period against a third of the deadline budget",
            "The declared period, else the largest gap seen. Dashed: the limit, "
            f"{HEARTBEAT_SLACK:g} thirds of the time that overflow tasks are given; a slower "
            "heartbeat tells of a lost worker when it is too late, and closes overflow.",
            "no heartbeat is known, or fewer than five overflow tasks came in the spend window.",
            width=12,
        ),
        "s",
        (
            Query("A", queries.gauge(config, names.HEARTBEAT_PERIOD_SECONDS), "period · {{pool}}"),
            Query("B", f"{budget} * {promql.number(HEARTBEAT_SLACK)} / 3", "limit · {{pool}}"),
        ),
    )
    return lines.limit_line(panel, "B")


def _by_state(config: Config) -> AnyPanel:
    return Canvas(config).graph(
        Frame(
            Panel.LEASES_BY_STATE,
            "Leases by state",
            "Live: a fresh heartbeat. Expired: unreleased and silent, so its worker is gone. "
            "Leaked: live, and its task finished and was not abandoned: housekeeping, no orphan.",
            _NO_LEASES,
            width=12,
        ),
        "short",
        (
            Query(
                "A",
                queries.total(queries.gauge(config, names.LIVE_LEASES), names.POOL),
                "live · {{job}}",
            ),
            Query(
                "B",
                queries.total(queries.gauge(config, names.EXPIRED_LEASES), names.POOL),
                "expired · {{job}}",
            ),
            Query(
                "C",
                queries.total(queries.gauge(config, names.LEAKED_LEASES), names.POOL),
                "leaked · {{job}}",
            ),
        ),
    )


def faults(config: Config) -> list[AnyPanel]:
    """Return second decoders, retries without id, and mixed pools."""
    return [_duplicates(config), _retries(config), _mixed(config)]


def _duplicates(config: Config) -> AnyPanel:
    return Canvas(config).graph(
        Frame(
            Panel.DUPLICATE_DECODERS,
            "Duplicate decoders",
            "Live leases beyond the first for one request. Second decoder: an orphan lease of "
            "a task of which another worker heard the cancel.",
            _NO_LEASES,
            width=8,
        ),
        "short",
        (
            Query("A", queries.gauge(config, names.DUPLICATE_IN_FLIGHT), "in flight · {{pool}}"),
            Query(
                "B",
                queries.gauge(config, names.SECOND_DECODER_LEASES),
                "second decoder · {{pool}}",
            ),
        ),
    )


def _retries(config: Config) -> AnyPanel:
    return Canvas(config).graph(
        Frame(
            Panel.RETRIES_WITHOUT_ID,
            "Retries without a retry id",
            "Recent tasks of a second or later attempt whose retry id joins no earlier "
            "attempt: neither a duplicate nor a sibling's completion can be seen for them.",
            "the gateway can't be read, or has no attempts.",
            width=8,
        ),
        "short",
        (Query("A", queries.gauge(config, names.RETRIES_WITHOUT_RETRY_ID), "{{pool}} · {{job}}"),),
    )


def _mixed(config: Config) -> AnyPanel:
    return Canvas(config).graph(
        Frame(
            Panel.POOLS_MIXED,
            "Pools mixed",
            "Overflow must stay apart from the paid lease pool. Workers in both, leases in a "
            "pool of another role than their task's, and overflow work that can't be "
            "cancelled: each must stay at zero.",
            _NO_LEASES,
            width=8,
        ),
        "short",
        (
            Query(
                "A",
                queries.gauge(config, names.WORKERS_IN_BOTH_POOLS),
                "workers in both · {{job}}",
            ),
            Query(
                "B",
                queries.gauge(config, names.LEASES_OUTSIDE_POOL),
                "leases outside · {{pool}}",
            ),
            Query(
                "C",
                queries.gauge(config, names.UNCANCELLABLE_ON_OVERFLOW),
                "uncancellable · {{job}}",
            ),
        ),
    )
