"""Where an alert points: its runbook page and its panel, both found by its name."""

from collections.abc import Mapping

from orphanwatch.dashboards.links import alert_url, alert_url_template, page_url
from orphanwatch.exporter.config import Config


def runbook_url(config: Config, alert: str) -> str:
    """Return the address of the alert's runbook page."""
    return page_url(config, alert)


def dashboard_url(config: Config, alert: str) -> str:
    """Return the address of the alert's panel: a template that fills in the alert's labels."""
    return alert_url_template(config, alert)


def filled_dashboard_url(config: Config, alert: str, labels: Mapping[str, str]) -> str:
    """Return what ``dashboard_url`` becomes for a firing alert with these labels."""
    return alert_url(config, alert, labels)
