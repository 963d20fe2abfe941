"""Rows of the cancel path: propagation as it was measured, and the grace that it is held to."""

from orphanwatch.alerts import promql
from orphanwatch.alerts.context_timing import PROPAGATION_RANGE
from orphanwatch.alerts.promql import percent
from orphanwatch.alerts.slow_cancels import allowed_share, pools_by_edge
from orphanwatch.dashboards import lines, queries
from orphanwatch.dashboards.links import Panel
from orphanwatch.dashboards.panels import AnyPanel, Canvas, Frame, Query
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import format_bound, format_duration

_UNSEEN = "no cancel settled in this time, or a store that it rests on can't be read."


def times(config: Config) -> list[AnyPanel]:
    """Return propagation as a heatmap, and its quantiles with the grace drawn in."""
    return [_heatmap(config), _quantiles(config)]


def _graces(config: Config) -> str:
    """Return the grace in force in words, pool by pool where they differ."""
    pools = sorted(config.pools) or list(config.pool_names)
    words = [f"{format_bound(config.grace_of(pool))} in {pool}" for pool in pools]
    one = {config.grace_of(pool) for pool in pools}
    return format_bound(one.pop()) if len(one) == 1 else ", ".join(words)


def _heatmap(config: Config) -> AnyPanel:
    family = names.CANCEL_PROPAGATION_SECONDS
    return Canvas(config).heatmap(
        Frame(
            Panel.PROPAGATION,
            f"Cancel propagation, held to a grace of {_graces(config)}",
            "From the client's cancel to the last sign of work, of tasks that have stopped. Cells "
            "above the grace in force are work for nobody. The grace as a line is in the graph "
            "beside: Grafana's heatmap can't hold one.",
            _UNSEEN,
            width=12,
            height=10,
        ),
        "s",
        Query("A", queries.bucket_counts(config, family), "{{le}}"),
    )


def _quantiles(config: Config) -> AnyPanel:
    family = names.CANCEL_PROPAGATION_SECONDS
    quantile = config.grace_quantile
    panel = Canvas(config).graph(
        Frame(
            Panel.PROPAGATION_QUANTILES,
            "Cancel propagation against the grace in force",
            f"The median and the {quantile:g} quantile, which the grace is measured at. Dashed: "
            "the grace in force. A quantile above it says that cancels arrive too late. It is as "
            "fine as the histogram's buckets; tasks that have not stopped are not in it yet.",
            _UNSEEN,
            width=12,
            height=10,
        ),
        "s",
        (
            Query("A", queries.quantile_seconds(config, family, 0.5), "median · {{pool}}"),
            Query(
                "B",
                queries.quantile_seconds(config, family, quantile),
                f"{quantile:g} quantile · {{{{pool}}}}",
            ),
            Query("C", queries.gauge(config, names.GRACE_SECONDS), "grace · {{pool}} ({{source}})"),
        ),
    )
    return lines.limit_line(panel, "C")


def late(config: Config) -> list[AnyPanel]:
    """Return what share of the cancels was slower than the grace, and those that are open."""
    # With every grace above the last bucket there is nothing to ask, and no rule either.
    slower = [_slower(config)] if pools_by_edge(config) else []
    return [*slower, _open(config), _abandoned(config)]


def _open(config: Config) -> AnyPanel:
    return Canvas(config).graph(
        Frame(
            Panel.PROPAGATION_OPEN,
            "Cancels that have not arrived",
            "Tasks that their client cancelled while a worker held them, and which still hold "
            "a lease, live or expired. They are not in the times above: a line that climbs "
            "means that cancels don't arrive at all.",
            "the gateway or the leases can't be read.",
            width=8,
        ),
        "short",
        (
            Query(
                "A",
                queries.gauge(config, names.CANCEL_PROPAGATION_OPEN),
                "{{pool}} · {{job}}",
            ),
        ),
    )


def _abandoned(config: Config) -> AnyPanel:
    return Canvas(config).graph(
        Frame(
            Panel.ABANDONED,
            "Abandoned tasks by cause",
            f"Tasks whose stop lies in the last {format_duration(config.horizon)}: how many "
            "clients left, missed their deadline, or were served by a sibling.",
            "the gateway can't be read.",
            width=8,
        ),
        "short",
        (
            Query(
                "A",
                queries.total(queries.gauge(config, names.ABANDONED_TASKS), names.POOL),
                "{{cause}} · {{job}}",
            ),
        ),
    )


def _slower(config: Config) -> AnyPanel:
    limit = allowed_share(config)
    panel = Canvas(config).graph(
        Frame(
            Panel.SLOWER_THAN_GRACE,
            "Share of cancels slower than the grace",
            "Of the cancels that settled, each point over as long as the time shown: show "
            f"{format_duration(PROPAGATION_RANGE)} to see what the rule sees. Above the line, "
            f"{percent(float(limit))}, the runbook's number is no longer true: mend the cancel "
            "path, or measure the grace again.",
            f"{_UNSEEN} A pool whose grace is above the histogram's last edge is left out.",
            width=8,
        ),
        "percentunit",
        tuple(
            Query(chr(ord("A") + place), _slower_share(config, edge, pools), "{{pool}} · {{job}}")
            for place, (edge, pools) in enumerate(pools_by_edge(config).items())
        ),
    )
    return lines.threshold_line(panel, float(limit))


def _slower_share(config: Config, edge: float, pools: list[str]) -> str:
    """Return the share of the pools' settled cancels that surely took longer than their grace."""
    family = names.CANCEL_PROPAGATION_SECONDS
    own = promql.equals(names.POOL, *pools)
    in_time = queries.select(config, family.bucket, promql.equals(names.LE, repr(edge)), own)
    every = queries.select(config, family.count, own)
    within, settled = (
        queries.added(config, f"increase({counter}[{queries.SEEN_RANGE}])")
        for counter in (in_time, every)
    )
    return f"1 - sum without ({names.LE}) ({within}) / ({settled} > 0)"


def grace(config: Config) -> list[AnyPanel]:
    """Return the grace in force, where it comes from, and until when it holds."""
    until = queries.lowest(config, queries.select(config, names.GRACE_VALID_UNTIL))
    return [
        Canvas(config).graph(
            Frame(
                Panel.GRACE_IN_FORCE,
                "Grace in force, and its source",
                "How long a cancel may take to reach the worker before its work counts as orphan. "
                "A proposal is a guess: measure it with orphanwatch grace.",
                "the exporter isn't scraped.",
                width=16,
            ),
            "s",
            (Query("A", queries.gauge(config, names.GRACE_SECONDS), "{{pool}} · {{source}}"),),
        ),
        Canvas(config).newest(
            Frame(
                Panel.GRACE_VALID_UNTIL,
                "Measured grace is valid for",
                "Time until the measurement behind the grace runs out; after that the exporter "
                "falls back to the proposal. Measure again before: orphanwatch grace --save.",
                "no pool's grace is measured, so each is a proposal; or the exporter isn't "
                "scraped.",
                width=8,
                no_data="not measured",
            ),
            "s",
            (Query("A", f"{until} - time()", "{{pool}} · {{job}}"),),
        ),
    ]
