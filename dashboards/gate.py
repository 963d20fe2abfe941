"""The row of the gate: whether overflow admission is open, and how much slack is left."""

from typing import Final

from orphanwatch.dashboards import lines, panels, queries
from orphanwatch.dashboards.links import Panel
from orphanwatch.dashboards.panels import AnyPanel, Canvas, Frame, Query, State
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config

HOLDS: Final = (State(0, "no", panels.GREEN), State(1, "yes", panels.RED))
OPEN_CLOSED: Final = (State(1, "open", panels.GREEN), State(0, "closed", panels.RED))


def gate(config: Config) -> list[AnyPanel]:
    """Return admission and its conditions, slack against lease age, and the grace."""
    allowed = queries.lowest(config, queries.select(config, names.OVERFLOW_ADMISSION_ALLOWED))
    return [
        Canvas(config).timeline(
            Frame(
                Panel.ADMISSION,
                "Overflow admission",
                "Open only while no fail-closed condition holds. No bar: unknown, so closed.",
                "unknown, so treat overflow as closed.",
                width=8,
            ),
            (Query("A", allowed, "{{pool}} · {{job}}"),),
            OPEN_CLOSED,
        ),
        Canvas(config).timeline(
            Frame(
                Panel.FAIL_CLOSED,
                "Why overflow fails closed",
                "Each fail-closed condition by pool; any one is enough to close admission.",
                "a condition that can't be judged has no bar, and keeps admission closed.",
                width=16,
            ),
            (Query("A", queries.gauge(config, names.FAIL_CLOSED), "{{pool}} · {{condition}}"),),
            HOLDS,
        ),
        _slack(config),
        Canvas(config).graph(
            Frame(
                Panel.GRACE,
                "Cancel grace in force",
                "How long a cancel may take to reach the worker before its work counts as orphan. "
                "A proposal until it has been measured.",
                "the exporter isn't scraped.",
                width=12,
            ),
            "s",
            (Query("A", queries.gauge(config, names.GRACE_SECONDS), "{{pool}} · {{source}}"),),
        ),
    ]


def _slack(config: Config) -> AnyPanel:
    slack = queries.lowest(config, queries.select(config, names.DEADLINE_SLACK_SECONDS_MIN))
    panel = Canvas(config).graph(
        Frame(
            Panel.SLACK,
            "Lease age against deadline slack",
            "Shed when lease age plus grace exceeds deadline slack. Right axis: the live leases "
            "for which that holds. Slack below zero is a deadline already missed.",
            "no lease is live, no live task has a deadline, or a store can't be read.",
            width=12,
        ),
        "s",
        (
            Query("A", slack, "least slack · {{pool}}"),
            Query(
                "B",
                queries.gauge(config, names.LEASE_AGE_SECONDS_MAX),
                "oldest heartbeat · {{pool}}",
            ),
            Query(
                "C",
                queries.total(queries.gauge(config, names.SHED_DUE_LEASES), names.POOL),
                "shed due, all chosen pools",
            ),
        ),
    )
    return lines.right_axis(panel, "C", "short", "leases", panels.RED)
