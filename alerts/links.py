"""Where an alert points: its runbook page and its panel, both found by its name."""

from orphanwatch.dashboards.links import alert_url, page_url
from orphanwatch.exporter.config import Config


def runbook_url(config: Config, alert: str) -> str:
    """Return the address of the alert's runbook page."""
    return page_url(config, alert)


def dashboard_url(config: Config, alert: str) -> str:
    """Return the address of the panel that shows what the alert is about."""
    return alert_url(config, alert)
