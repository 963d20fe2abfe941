"""The row that comes first: can the detector see?"""

from typing import Final

from orphanwatch.alerts import promql
from orphanwatch.alerts.timing import stale_age
from orphanwatch.dashboards import lines, panels, queries
from orphanwatch.dashboards.links import Panel
from orphanwatch.dashboards.panels import AnyPanel, Canvas, Frame, Query, State
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import format_duration, seconds
from orphanwatch.exporter.names import StoreName

REACHABLE: Final = (State(1, "reachable", panels.GREEN), State(0, "DOWN", panels.RED))
READABLE: Final = (State(1, "readable", panels.GREEN), State(0, "UNREADABLE", panels.RED))


def sight(config: Config) -> list[AnyPanel]:
    """Return the overview's panels that tell calm from blind."""
    return [
        reachable(config, Panel.EXPORTER_UP, width=3),
        readable(config, Panel.STORES_READABLE, width=7),
        read_age(config, Panel.LAST_READ_AGE, width=5, height=6),
        _refresh(config),
    ]


def reachable(config: Config, panel: Panel, width: int) -> AnyPanel:
    """Return whether the exporter is scraped."""
    up = queries.lowest(config, queries.select(config, "up"))
    return Canvas(config).big_number(
        Frame(
            panel,
            "Exporter reachable",
            "Whether Prometheus can scrape every replica of the exporter. While it is down, "
            "nothing below is current.",
            "Prometheus has no such job: mend its scrape config, and change nothing meanwhile.",
            width=width,
            height=6,
        ),
        (Query("A", up, "{{job}}"),),
        REACHABLE,
    )


def readable(config: Config, panel: Panel, width: int) -> AnyPanel:
    """Return whether each configured store is read."""
    # One query per store, so that a store without data stays visible as such.
    asked = tuple(
        Query(
            chr(ord("A") + place),
            queries.gauge(config, names.STORE_UP, promql.equals(names.STORE, store)),
            f"{store} · {{{{job}}}}",
        )
        for place, store in enumerate(config.stores.configured())
    )
    return Canvas(config).big_number(
        Frame(
            panel,
            "Stores readable",
            "Whether the last read of each configured store worked; one replica's is enough. "
            f"What rests on an unreadable store is absent below, not zero.{left_out(config)}",
            "the exporter isn't scraped, so it is blind: restore sight first.",
            width=width,
            height=6,
        ),
        asked,
        READABLE,
    )


def left_out(config: Config) -> str:
    """Return the sentence that names the stores without configuration; empty where none is."""
    stores = config.stores.configured()
    missing = [str(store) for store in StoreName if store not in stores]
    return f" Not configured, so unknown: {', '.join(missing)}." if missing else ""


def read_age(config: Config, panel: Panel, width: int, height: int) -> AnyPanel:
    """Return how old each store's last good read is, with the rule's line."""
    read_at = queries.select(config, names.STORE_LAST_SUCCESS)
    drawn = Canvas(config).graph(
        Frame(
            panel,
            "Age of the last good read",
            "Time since each store was last read. Above the line, "
            f"{format_duration(stale_age(config))}, it is stale and the detector is blind.",
            "no store was ever read: see orphanwatch check.",
            width=width,
            height=height,
        ),
        "s",
        (Query("A", queries.lowest(config, f"time() - {read_at}"), "{{store}} · {{job}}"),),
    )
    return lines.threshold_line(drawn, seconds(stale_age(config)))


def _refresh(config: Config) -> AnyPanel:
    refresh = names.REFRESH_DURATION_SECONDS
    return Canvas(config).graph(
        Frame(
            Panel.REFRESH_TIME,
            "Time one refresh takes",
            "Mean and 95th percentile of the time to read all stores and evaluate. It should stay "
            f"well under the refresh interval, {format_duration(config.refresh_interval)}.",
            "no refresh ended in this time: the exporter hangs, or isn't scraped.",
            width=5,
            height=6,
        ),
        "s",
        (
            Query("A", queries.mean_seconds(config, refresh), "mean · {{job}}"),
            Query("B", queries.quantile_seconds(config, refresh, 0.95), "p95 · {{job}}"),
        ),
    )
