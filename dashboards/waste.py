"""The row of what it costs: waste as tokens, worker time and money, and the paid pool's use."""

from typing import Final

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models import dashboard

from orphanwatch.alerts import promql
from orphanwatch.alerts.alert import Severity
from orphanwatch.alerts.budget import PERIOD, burns, limit
from orphanwatch.alerts.promql import percent
from orphanwatch.dashboards import lines, queries
from orphanwatch.dashboards.links import Panel
from orphanwatch.dashboards.panels import RED, YELLOW, AnyPanel, Canvas, Frame, Query
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import format_duration
from orphanwatch.exporter.names import Role

PRICE: Final = "price"
# An empty price leaves "+ 0" standing, which is a number too.
_PRICE_VALUE: Final = f"(${PRICE} + 0)"
_BURN_COLOR: Final = {Severity.CRITICAL: RED, Severity.WARNING: YELLOW}
_CAUSES: Final = (names.CAUSE, names.BASIS)


def price_variable() -> builders.TextBoxVariable:
    """Return the box for the price of a million tokens, in whatever currency."""
    none = dashboard.VariableOption(selected=True, text="0", value="0")
    return (
        builders.TextBoxVariable(PRICE)
        .label("Price per million tokens")
        .description("In your currency; 0 or empty: not known, so no money is shown.")
        .default_value("0")
        .current(none)
        .options([none])
    )


def waste(config: Config) -> list[AnyPanel]:
    """Return what the orphan work cost in the time shown, and what a paid pool is used to."""
    paid = sorted(name for name, pool in config.pools.items() if pool.role is Role.PAID)
    return [
        _tokens(config),
        _worker_time(config),
        _money(config),
        _ratio(config),
        *([_utilization(config, paid)] if paid else []),
    ]


def wasted_tokens(config: Config) -> str:
    """Return the orphan tokens of the time shown, by pool."""
    return queries.total(queries.seen(config, names.TOKENS_TOTAL), *_CAUSES)


def _tokens(config: Config) -> AnyPanel:
    return Canvas(config).newest(
        Frame(
            Panel.WASTED_TOKENS,
            "Tokens for nobody",
            "Orphan tokens counted in the time shown, every cause together, prorated shares of "
            "straddling rows included.",
            "the exporter isn't scraped, or has been scraped only once.",
            width=8,
            height=5,
        ),
        "short",
        (Query("A", wasted_tokens(config), "{{pool}} · {{job}}"),),
    )


def _worker_time(config: Config) -> AnyPanel:
    scrape = format_duration(config.scrape_interval)
    held = queries.seen(config, names.LEASES, "sum_over_time")
    expr = f"{queries.total(held, names.CAUSE)} * {promql.seconds(config.scrape_interval)}"
    return Canvas(config).newest(
        Frame(
            Panel.WASTED_WORKER_SECONDS,
            "Worker time for nobody",
            "Orphan leases times the time they were held, in the time shown: each scrape of "
            f"{scrape} counts its leases once. Time in which the leases were unknown adds nothing, "
            "so this is the least it was.",
            "the leases could not be read at all in this time.",
            width=8,
            height=5,
        ),
        "s",
        (Query("A", expr, "{{pool}} · {{job}}"),),
    )


def _money(config: Config) -> AnyPanel:
    tokens = queries.total(wasted_tokens(config), names.POOL)
    expr = f"{tokens} / 1000000 * {_PRICE_VALUE} and on () (vector({_PRICE_VALUE}) > 0)"
    panel = Canvas(config).newest(
        Frame(
            Panel.WASTED_MONEY,
            "Money for nobody",
            "The orphan tokens of the time shown at the price that is typed above, per million "
            "tokens, in its currency. One price for all pools: type the paid pool's own and choose "
            "that pool to see its share.",
            "no price above 0 is typed in, or the tokens are unknown.",
            width=8,
            height=5,
            no_data="type a price above",
        ),
        "short",
        (Query("A", expr, "{{job}}"),),
    )
    return panel.decimals(2)


def _ratio(config: Config) -> AnyPanel:
    orphan = queries.total(queries.per_second(config, names.TOKENS_TOTAL), names.POOL, *_CAUSES)
    spend = queries.select(config, names.SPEND_TOKENS_PER_SECOND)
    every = queries.highest(config, f"avg_over_time({spend}[{queries.RATE_RANGE}])")
    panel = Canvas(config).graph(
        Frame(
            Panel.WASTE_RATIO,
            "Share of the spend that is for nobody",
            "Orphan tokens of all tokens. The waste budget is "
            f"{percent(config.thresholds.waste_budget_ratio)} over {format_duration(PERIOD)}; "
            f"the lines are how fast it may burn: {_burning(config)}. A line counts when the share "
            "stays above it for the time that is named.",
            "nothing was spent, or the ledger can't be read.",
            width=16,
        ),
        "percentunit",
        (Query("A", f"{orphan} / ({every} > 0)", "wasted · {{job}}"),),
    )
    return lines.threshold_lines(
        panel,
        sorted((float(limit(config, burn)), _BURN_COLOR[burn.severity]) for burn in burns(config)),
    )


def _burning(config: Config) -> str:
    return ", ".join(
        f"{percent(float(limit(config, burn)))} for {format_duration(burn.long)} ({burn.severity})"
        for burn in burns(config)
    )


def _utilization(config: Config, paid: list[str]) -> AnyPanel:
    pools = promql.equals(names.POOL, *paid)
    live = queries.gauge(config, names.LIVE_LEASES, pools)
    cap = queries.gauge(config, names.LEASE_CAP, pools)
    panel = Canvas(config).graph(
        Frame(
            Panel.PAID_UTILIZATION,
            "Paid pool: live leases of its cap",
            "Says whether the paid pool is full, and nothing else: a full pool of orphans is full "
            "too. Look at the verdict before you scale it.",
            "the leases can't be read, or no paid pool has a lease_cap in the config.",
            width=8,
        ),
        "percentunit",
        (Query("A", f"{live} / ({cap} > 0)", "{{pool}} · {{job}}"),),
    )
    return lines.threshold_line(panel, 1)
