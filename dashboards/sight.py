"""The row that comes first: can the detector see?"""

from typing import Final

from orphanwatch.alerts.timing import stale_age
from orphanwatch.dashboards import panels, queries
from orphanwatch.dashboards.links import Panel
from orphanwatch.dashboards.panels import AnyPanel, Frame, Query, State
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import format_duration, seconds
from orphanwatch.exporter.names import StoreName

REACHABLE: Final = (State(1, "reachable", panels.GREEN), State(0, "DOWN", panels.RED))
READABLE: Final = (State(1, "readable", panels.GREEN), State(0, "UNREADABLE", panels.RED))


def sight(config: Config) -> list[AnyPanel]:
    """Return the panels that tell calm from blind."""
    return [_reachable(config), _readable(config), _last_read(config), _refresh(config)]


def _reachable(config: Config) -> AnyPanel:
    up = queries.lowest(config, queries.select("up"))
    return panels.big_number(
        Frame(
            Panel.EXPORTER_UP,
            "Exporter reachable",
            "Whether Prometheus can scrape every replica of the exporter. While it is down, "
            "nothing below is current.",
            width=4,
            height=6,
        ),
        (Query("A", up, "{{job}}"),),
        REACHABLE,
    )


def _readable(config: Config) -> AnyPanel:
    stores = config.stores.configured()
    missing = [str(store) for store in StoreName if store not in stores]
    left_out = f" Not configured, so unknown: {', '.join(missing)}." if missing else ""
    # One query per store, so that a store without data stays visible as such.
    readable = tuple(
        Query(
            chr(ord("A") + place),
            queries.highest(config, queries.select(names.STORE_UP, f'store="{store}"')),
            f"{store} · {{{{job}}}}",
        )
        for place, store in enumerate(stores)
    )
    return panels.big_number(
        Frame(
            Panel.STORES_READABLE,
            "Stores readable",
            "Whether the last read of each configured store worked; one replica's is enough. "
            f"What rests on an unreadable store is absent below, not zero.{left_out}",
            width=8,
            height=6,
        ),
        readable,
        READABLE,
    )


def _last_read(config: Config) -> AnyPanel:
    age = queries.lowest(config, f"time() - {queries.select(names.STORE_LAST_SUCCESS)}")
    panel = panels.graph(
        Frame(
            Panel.LAST_READ_AGE,
            "Age of the last good read",
            "Time since each store was last read. Above the line, "
            f"{format_duration(stale_age(config))}, it is stale and the detector is blind.",
            width=6,
            height=6,
        ),
        "s",
        (Query("A", age, "{{store}} · {{job}}"),),
    )
    return panels.threshold_line(panel, seconds(stale_age(config)))


def _refresh(config: Config) -> AnyPanel:
    refresh = names.REFRESH_DURATION_SECONDS
    return panels.graph(
        Frame(
            Panel.REFRESH_TIME,
            "Time one refresh takes",
            "Mean and 95th percentile of the time to read all stores and evaluate. It should stay "
            f"well under the refresh interval, {format_duration(config.refresh_interval)}.",
            width=6,
            height=6,
        ),
        "s",
        (
            Query("A", queries.mean_seconds(config, refresh), "mean · {{job}}"),
            Query("B", queries.quantile_seconds(config, refresh, 0.95), "p95 · {{job}}"),
        ),
    )
