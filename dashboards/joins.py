"""Rows of the detector: whether ids join, what is lost on the way, and what needs no join."""

from orphanwatch.alerts import promql
from orphanwatch.dashboards import lines, queries
from orphanwatch.dashboards.links import Panel
from orphanwatch.dashboards.panels import AnyPanel, Canvas, Frame, Query
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.names import Family


def shares(config: Config) -> list[AnyPanel]:
    """Return the three joins, each by whether the other side is there."""
    return [
        _join(
            config,
            Frame(
                Panel.ABANDONED_JOIN,
                "Abandoned tasks, by whether the ledger knows them",
                "None with a row, and many without, means that no orphan token can be seen. One "
                "that never decoded rightly has no row.",
                "the gateway or the ledger can't be read.",
                width=8,
            ),
            names.JOIN_ABANDONED_TASKS,
        ),
        _join(
            config,
            Frame(
                Panel.LEDGER_JOIN,
                "Ledger rows, by whether their key is a task",
                "Rows without a task are charged to a key that the gateway does not know: see "
                "orphanwatch check for which id it is.",
                "the ledger or the gateway can't be read, or a request has no gateway row while "
                "it runs.",
                width=8,
            ),
            names.JOIN_LEDGER_ROWS,
        ),
        _join(
            config,
            Frame(
                Panel.LEASE_JOIN,
                "Unreleased leases, by whether their task is known",
                "A lease without a task can't be seen to be an orphan.",
                "the leases or the gateway can't be read, or a request has no gateway row while "
                "it runs.",
                width=8,
            ),
            names.JOIN_LEASES,
        ),
    ]


def _join(config: Config, frame: Frame, family: Family) -> AnyPanel:
    (label,) = family.labels
    return Canvas(config).graph(
        frame,
        "short",
        (Query("A", queries.gauge(config, family), f"{{{{{label}}}}} · {{{{job}}}}"),),
    )


def losses(config: Config) -> list[AnyPanel]:
    """Return tokens that match no task, and rows that could not be used."""
    return [_unmatched(config), _rejected(config)]


def _unmatched(config: Config) -> AnyPanel:
    ratio = config.thresholds.unmatched_spend_ratio
    window = promql.seconds(config.delta_window)
    spend = queries.gauge(config, names.SPEND_TOKENS_PER_SECOND)
    panel = Canvas(config).graph(
        Frame(
            Panel.UNMATCHED_TOKENS,
            "Tokens charged to no known task",
            "In the spend window, by what the key is instead. Any charged to a worker is a fault: "
            f"the ledger is keyed by host. Dashed: {ratio:g} of all tokens spent in the window, "
            "the limit for empty and unknown keys together.",
            "the ledger or the gateway can't be read.",
            width=12,
        ),
        "short",
        (
            Query("A", queries.gauge(config, names.UNMATCHED_TOKENS), "{{key}} · {{job}}"),
            Query(
                "B",
                f"{spend} * {window} * {promql.number(ratio)}",
                "limit for empty and unknown · {{job}}",
            ),
        ),
    )
    return lines.limit_line(panel, "B")


def _rejected(config: Config) -> AnyPanel:
    panel = Canvas(config).graph(
        Frame(
            Panel.REJECTED_ROWS,
            "Rows that could not be used",
            "Per second, by store and reason; each costs only itself, and is counted once. An "
            "adjustment is no fault. The exporter's log names the rows.",
            "the exporter isn't scraped, or has been scraped only once.",
            width=12,
        ),
        "cps",
        (
            Query(
                "A",
                queries.per_second(config, names.ROWS_REJECTED_TOTAL),
                "{{store}} · {{reason}}",
            ),
        ),
    )
    return lines.long_legend(panel)


def gap(config: Config) -> AnyPanel:
    """Return what queue and engine hold against what somebody waits for."""
    panel = Canvas(config).graph(
        Frame(
            Panel.IN_FLIGHT_GAP,
            "In flight beyond what somebody waits for",
            "In flight and waiting by the queue's own count, the tasks that somebody waits for "
            "(dashed, a mean), and the gap between them: orphan work seen without any join by id.",
            "the queue's sample is older than a minute, or the gateway can't be read.",
            width=24,
        ),
        "short",
        (
            Query("A", queries.gauge(config, names.IN_FLIGHT_GAP), "gap · {{job}}"),
            Query("B", queries.gauge(config, names.QUEUE_IN_FLIGHT), "in flight · {{job}}"),
            Query("C", queries.gauge(config, names.QUEUE_DEPTH), "waiting · {{job}}"),
            Query("D", queries.gauge(config, names.ATTACHED_TASKS), "attached · {{job}}"),
        ),
    )
    return lines.limit_line(panel, "D")
