"""What to merge into Alertmanager: who is told, and which alert silences which."""

import re
from typing import Final

from orphanwatch.alerts.alert import Alert, Bearing, Severity
from orphanwatch.alerts.documents import Document
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.errors import RenderError
from orphanwatch.exporter.instants import format_duration

OURS: Final = 'alertname=~"Orphan.+"'
_NOT_OURS: Final = 'alertname!~"Orphan.+"'

# Notices that mean nothing while the detector can't see. They are named here, and not looked
# up, because the list is a promise: evidence is never on it.
MUTED_BY_BLINDNESS: Final = ("OrphanGraceUnmeasured", "OrphanOverflowClosed")

RECEIVERS: Final = {
    Severity.CRITICAL: "orphanwatch-page",
    Severity.WARNING: "orphanwatch-ticket",
    Severity.INFO: "orphanwatch-notice",
}

_ONE_MATCHER: Final = (
    r'[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*(?:"(?:[^"\\\n]|\\.)*"|[^\s",{}]+)'
)
_MATCHERS: Final = re.compile(rf"\s*{_ONE_MATCHER}(?:\s*,\s*{_ONE_MATCHER})*\s*")


def routing(config: Config, alerts: tuple[Alert, ...]) -> Document:
    """Return routes, receivers and inhibitions as one whole Alertmanager config.

    Raises ``RenderError`` if ``capacity_alerts`` is no Alertmanager matcher.
    """
    if not _MATCHERS.fullmatch(config.capacity_alerts):
        raise RenderError(
            "capacity_alerts: is no Alertmanager matcher; "
            'write for example alertname=~"QueueDeep|ScaleUp"'
        )
    return {
        "route": _route(config),
        "receivers": _receivers(),
        "inhibit_rules": _inhibitions(config, alerts),
    }


def _route(config: Config) -> Document:
    return {
        "receiver": RECEIVERS[Severity.INFO],
        "routes": [
            {
                "matchers": [OURS],
                "receiver": RECEIVERS[Severity.INFO],
                "group_by": ["alertname", "pool"],
                "group_wait": "5s",
                "group_interval": format_duration(4 * config.scrape_interval),
                "repeat_interval": "4h",
                "routes": [
                    {"matchers": [f'severity="{severity}"'], "receiver": receiver}
                    for severity, receiver in RECEIVERS.items()
                ],
            }
        ],
    }


def _receivers() -> list[Document]:
    return [{"name": receiver} for receiver in RECEIVERS.values()]


def _inhibitions(config: Config, alerts: tuple[Alert, ...]) -> list[Document]:
    blind = [alert.name for alert in alerts if alert.bearing is Bearing.BLINDNESS]
    evidence = [alert.name for alert in alerts if alert.bearing is Bearing.EVIDENCE]
    # A capacity matcher may be wide; it must never reach an alert of ours.
    capacity = [config.capacity_alerts, _NOT_OURS]
    return [
        _inhibition(blind, [_named(MUTED_BY_BLINDNESS)]),
        _inhibition(blind, capacity),
        _inhibition(evidence, capacity),
    ]


def _inhibition(sources: list[str], targets: list[str]) -> Document:
    return {"source_matchers": [_named(sources)], "target_matchers": targets}


def _named(alerts: list[str] | tuple[str, ...]) -> str:
    return f'alertname=~"{"|".join(alerts)}"'
