"""Where dashboards and their panels are: stable uids and panel ids, and the links made of them.

Rules and pages link here, so nothing in this module needs the Grafana library.
"""

import re
from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Final
from urllib.parse import quote_plus

from orphanwatch.alerts.naming import digest, shortened
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config

LONGEST_UID: Final = 40
SERVICE_PAGE: Final = "service-page"
"""The name of the service's runbook page."""
PAGE_PLACE: Final = "{page}"
"""Where a page's name goes in ``runbook_base_url``; at its end, where it is not there."""


class Dashboard(StrEnum):
    """The dashboards by the names of their files, without ``.json``: also their uids."""

    OVERVIEW = "orphanwatch-overview"
    CANCEL_PATH = "orphanwatch-cancel-path"
    DETECTOR = "orphanwatch-detector"

    @property
    def title_words(self) -> str:
        """What the dashboard is called, after the product's name."""
        return self.removeprefix("orphanwatch-").replace("-", " ").capitalize()


class Panel(Enum):
    """Every panel: its dashboard, and its id there.

    An id is for ever: alerts and bookmarks point at it. A new panel takes a new one.
    """

    EXPORTER_UP = (Dashboard.OVERVIEW, 1)
    STORES_READABLE = (Dashboard.OVERVIEW, 2)
    LAST_READ_AGE = (Dashboard.OVERVIEW, 3)
    REFRESH_TIME = (Dashboard.OVERVIEW, 4)
    SPLIT = (Dashboard.OVERVIEW, 5)
    SPLIT_SIGNAL = (Dashboard.OVERVIEW, 6)
    TOKEN_DELTA = (Dashboard.OVERVIEW, 7)
    TOKENS_BY_CAUSE = (Dashboard.OVERVIEW, 8)
    ORPHAN_LEASES = (Dashboard.OVERVIEW, 9)
    OLDEST_LEASE = (Dashboard.OVERVIEW, 10)
    ATTACHED = (Dashboard.OVERVIEW, 11)
    DUPLICATES = (Dashboard.OVERVIEW, 12)
    ADMISSION = (Dashboard.OVERVIEW, 13)
    FAIL_CLOSED = (Dashboard.OVERVIEW, 14)
    SLACK = (Dashboard.OVERVIEW, 15)
    GRACE = (Dashboard.OVERVIEW, 16)
    VERDICT = (Dashboard.OVERVIEW, 17)
    WASTED_TOKENS = (Dashboard.OVERVIEW, 18)
    WASTED_WORKER_SECONDS = (Dashboard.OVERVIEW, 19)
    WASTED_MONEY = (Dashboard.OVERVIEW, 20)
    WASTE_RATIO = (Dashboard.OVERVIEW, 21)
    PAID_UTILIZATION = (Dashboard.OVERVIEW, 22)
    WHAT_TO_DO = (Dashboard.OVERVIEW, 23)

    PROPAGATION = (Dashboard.CANCEL_PATH, 1)
    PROPAGATION_QUANTILES = (Dashboard.CANCEL_PATH, 2)
    SLOWER_THAN_GRACE = (Dashboard.CANCEL_PATH, 3)
    PROPAGATION_OPEN = (Dashboard.CANCEL_PATH, 4)
    GRACE_IN_FORCE = (Dashboard.CANCEL_PATH, 5)
    GRACE_VALID_UNTIL = (Dashboard.CANCEL_PATH, 6)
    LEASE_AGE_AND_SLACK = (Dashboard.CANCEL_PATH, 7)
    SHED_DUE = (Dashboard.CANCEL_PATH, 8)
    HEARTBEAT = (Dashboard.CANCEL_PATH, 9)
    DUPLICATE_DECODERS = (Dashboard.CANCEL_PATH, 10)
    RETRIES_WITHOUT_ID = (Dashboard.CANCEL_PATH, 11)
    POOLS_MIXED = (Dashboard.CANCEL_PATH, 12)
    ABANDONED = (Dashboard.CANCEL_PATH, 13)
    LEASES_BY_STATE = (Dashboard.CANCEL_PATH, 14)
    CANCEL_PATH_EXPORTER = (Dashboard.CANCEL_PATH, 15)
    CANCEL_PATH_STORES = (Dashboard.CANCEL_PATH, 16)

    STORE_STATES = (Dashboard.DETECTOR, 1)
    READ_AGE = (Dashboard.DETECTOR, 2)
    CLOCK_SKEW = (Dashboard.DETECTOR, 3)
    REFRESH_QUANTILES = (Dashboard.DETECTOR, 4)
    UNMATCHED_TOKENS = (Dashboard.DETECTOR, 5)
    LEDGER_JOIN = (Dashboard.DETECTOR, 6)
    LEASE_JOIN = (Dashboard.DETECTOR, 7)
    ABANDONED_JOIN = (Dashboard.DETECTOR, 8)
    REJECTED_ROWS = (Dashboard.DETECTOR, 9)
    COUNTER_RATES = (Dashboard.DETECTOR, 10)
    IN_FLIGHT_GAP = (Dashboard.DETECTOR, 11)
    BUILD = (Dashboard.DETECTOR, 12)
    CONFIG_LOADED = (Dashboard.DETECTOR, 13)
    CONFIG_AGE = (Dashboard.DETECTOR, 14)

    @property
    def dashboard(self) -> Dashboard:
        """The dashboard that the panel stands on."""
        return self.value[0]

    @property
    def id(self) -> int:
        """The panel's number on its dashboard."""
        return self.value[1]


# Which panel shows what an alert is about.
PANEL_OF_ALERT: Final[dict[str, Panel]] = {
    "OrphanTokensAccruing": Panel.TOKEN_DELTA,
    "OrphanLeasesAlive": Panel.ORPHAN_LEASES,
    "OrphanSplitSignal": Panel.SPLIT,
    "OrphanDetectorBlind": Panel.STORES_READABLE,
    "OrphanDuplicateDecoders": Panel.DUPLICATE_DECODERS,
    "OrphanShedOverdue": Panel.SHED_DUE,
    "OrphanRetryWithoutRetryId": Panel.RETRIES_WITHOUT_ID,
    "OrphanLedgerMiskeyed": Panel.UNMATCHED_TOKENS,
    "OrphanHeartbeatTooSlow": Panel.HEARTBEAT,
    "OrphanPoolsMixed": Panel.POOLS_MIXED,
    "OrphanCancelSlowerThanGrace": Panel.SLOWER_THAN_GRACE,
    "OrphanGraceUnmeasured": Panel.GRACE_IN_FORCE,
    "OrphanOverflowClosed": Panel.FAIL_CLOSED,
    "OrphanWasteBudgetBurn": Panel.WASTE_RATIO,
}


# Further panels that speak of the same fault: they lead to the same page.
_PAGE_OF_PANEL: Final[dict[Panel, str]] = {
    Panel.EXPORTER_UP: "OrphanDetectorBlind",
    Panel.LAST_READ_AGE: "OrphanDetectorBlind",
    Panel.REFRESH_TIME: "OrphanDetectorBlind",
    Panel.SPLIT_SIGNAL: "OrphanSplitSignal",
    Panel.TOKENS_BY_CAUSE: "OrphanTokensAccruing",
    Panel.OLDEST_LEASE: "OrphanLeasesAlive",
    Panel.ATTACHED: "OrphanSplitSignal",
    Panel.DUPLICATES: "OrphanDuplicateDecoders",
    Panel.ADMISSION: "OrphanOverflowClosed",
    Panel.SLACK: "OrphanShedOverdue",
    Panel.GRACE: "OrphanGraceUnmeasured",
    Panel.WASTED_TOKENS: "OrphanWasteBudgetBurn",
    Panel.WASTED_WORKER_SECONDS: "OrphanWasteBudgetBurn",
    Panel.WASTED_MONEY: "OrphanWasteBudgetBurn",
    Panel.PROPAGATION: "OrphanCancelSlowerThanGrace",
    Panel.PROPAGATION_QUANTILES: "OrphanCancelSlowerThanGrace",
    Panel.PROPAGATION_OPEN: "OrphanLeasesAlive",
    Panel.GRACE_VALID_UNTIL: "OrphanGraceUnmeasured",
    Panel.LEASE_AGE_AND_SLACK: "OrphanShedOverdue",
    Panel.LEASES_BY_STATE: "OrphanLeasesAlive",
    Panel.CANCEL_PATH_EXPORTER: "OrphanDetectorBlind",
    Panel.CANCEL_PATH_STORES: "OrphanDetectorBlind",
    Panel.STORE_STATES: "OrphanDetectorBlind",
    Panel.READ_AGE: "OrphanDetectorBlind",
    Panel.REFRESH_QUANTILES: "OrphanDetectorBlind",
    Panel.LEDGER_JOIN: "OrphanLedgerMiskeyed",
    Panel.ABANDONED_JOIN: "OrphanLedgerMiskeyed",
    Panel.IN_FLIGHT_GAP: "OrphanSplitSignal",
}

ALERT_VARIABLES: Final = ("job", names.POOL)
"""The labels of an alert that are variables of the dashboards."""


def uid_of(config: Config, dashboard: Dashboard) -> str:
    """Return the uid of a dashboard: its own, with the service's name where there are several.

    Grafana takes 40 characters; a longer one ends in a digest, so that no two become one.
    """
    if not config.selector:
        return str(dashboard)
    plain = re.sub(r"[^a-z0-9]+", "-", config.service.lower()).strip("-")
    service = plain or digest(config.service)
    return shortened(f"{dashboard}-{service}", LONGEST_UID, config.service)


def dashboard_url(config: Config, dashboard: Dashboard) -> str:
    """Return the address of a dashboard."""
    return f"{config.links.dashboard_base_url}/d/{uid_of(config, dashboard)}"


def overview_url(config: Config) -> str:
    """Return the address of the overview."""
    return dashboard_url(config, Dashboard.OVERVIEW)


def panel_url(config: Config, panel: Panel) -> str:
    """Return the address that opens one panel in full."""
    return f"{dashboard_url(config, panel.dashboard)}?viewPanel={panel.id}"


def alert_url(config: Config, alert: str, labels: Mapping[str, str] | None = None) -> str:
    """Return the address of the panel an alert is about; raises ``KeyError`` for no alert of ours.

    With the labels of a firing alert, the dashboard opens on its job and pool.
    """
    chosen = labels or {}
    return panel_url(config, PANEL_OF_ALERT[alert]) + "".join(
        f"&var-{label}={quote_plus(chosen[label])}"
        for label in ALERT_VARIABLES
        if chosen.get(label)
    )


def alert_url_template(config: Config, alert: str) -> str:
    """Return ``alert_url`` as a template of Prometheus, which fills in the alert's labels.

    A label that an alert lacks leaves its variable alone: the dashboard then shows all.
    """
    return panel_url(config, PANEL_OF_ALERT[alert]) + "".join(
        f"{{{{ with $labels.{label} }}}}&var-{label}={{{{ . | urlquery }}}}{{{{ end }}}}"
        for label in ALERT_VARIABLES
    )


def page_url(config: Config, page: str) -> str:
    """Return the address of a runbook page: an alert's name, or ``service-page``.

    It has no ending, as ``serve`` wants it; a server of plain files is told by ``{page}`` in the
    base where the name goes, and what follows it.
    """
    base = config.links.runbook_base_url
    return base.replace(PAGE_PLACE, page) if PAGE_PLACE in base else f"{base}/{page}"


def page_of(panel: Panel) -> str:
    """Return the name of the runbook page that says what to do about what a panel shows."""
    own = {shown: alert for alert, shown in PANEL_OF_ALERT.items()}
    return own.get(panel) or _PAGE_OF_PANEL.get(panel, SERVICE_PAGE)
