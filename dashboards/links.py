"""Where dashboards and their panels are: stable uids and panel ids, and the links made of them.

Rules and pages link here, so nothing in this module needs the Grafana library.
"""

from enum import IntEnum
from typing import Final

from orphanwatch.exporter.config import Config

OVERVIEW_UID: Final = "orphanwatch-overview"
"""The uid of the overview; its file is this with ``.json``."""

SERVICE_PAGE: Final = "service-page"
"""The name of the service's runbook page."""


class Panel(IntEnum):
    """The overview's panels by their id. An id is for ever: alerts and bookmarks point at it."""

    EXPORTER_UP = 1
    STORES_READABLE = 2
    LAST_READ_AGE = 3
    REFRESH_TIME = 4
    SPLIT = 5
    SPLIT_SIGNAL = 6
    TOKEN_DELTA = 7
    TOKENS_BY_CAUSE = 8
    ORPHAN_LEASES = 9
    OLDEST_LEASE = 10
    ATTACHED = 11
    DUPLICATES = 12
    ADMISSION = 13
    FAIL_CLOSED = 14
    SLACK = 15
    GRACE = 16


# Which panel shows what an alert is about.
PANEL_OF_ALERT: Final[dict[str, Panel]] = {
    "OrphanTokensAccruing": Panel.TOKEN_DELTA,
    "OrphanLeasesAlive": Panel.ORPHAN_LEASES,
    "OrphanDetectorBlind": Panel.STORES_READABLE,
    "OrphanSplitSignal": Panel.SPLIT,
}


def overview_url(config: Config) -> str:
    """Return the address of the overview."""
    return f"{config.links.dashboard_base_url}/d/{OVERVIEW_UID}"


def panel_url(config: Config, panel: Panel) -> str:
    """Return the address that opens one panel of the overview in full."""
    return f"{overview_url(config)}?viewPanel={panel.value}"


def alert_url(config: Config, alert: str) -> str:
    """Return the address of the panel an alert is about; the whole overview where it has none."""
    panel = PANEL_OF_ALERT.get(alert)
    return overview_url(config) if panel is None else panel_url(config, panel)


def page_url(config: Config, page: str) -> str:
    """Return the address of a runbook page: an alert's name, or ``service-page``."""
    return f"{config.links.runbook_base_url}/{page}"
