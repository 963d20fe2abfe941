"""What to merge into Alertmanager: who is told, and which alert silences which."""

import re
from typing import Final

from orphanwatch.alerts.alert import Alert, Bearing, Severity
from orphanwatch.alerts.documents import Document
from orphanwatch.alerts.promql import equals
from orphanwatch.alerts.rules import SERVICE, scope
from orphanwatch.alerts.timing import GROUP_WAIT
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.errors import RenderError
from orphanwatch.exporter.instants import format_duration

OURS: Final = 'alertname=~"Orphan.+"'
_NOT_OURS: Final = 'alertname!~"Orphan.+"'

# Notices that mean nothing while the detector can't see. They are named here, and not looked
# up, because the list is a promise: evidence is never on it.
MUTED_BY_BLINDNESS: Final = ("OrphanGraceUnmeasured", "OrphanOverflowClosed")

_DESKS: Final = {
    Severity.CRITICAL: "page",
    Severity.WARNING: "ticket",
    Severity.INFO: "notice",
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
        "receivers": _receivers(config),
        "inhibit_rules": _inhibitions(config, alerts),
    }


def receiver(config: Config, severity: Severity) -> str:
    """Return the name of the receiver that is told of a severity."""
    return f"{scope(config)}-{_DESKS[severity]}"


def _service(config: Config) -> list[str]:
    """Return the matcher of this service's alerts, where it is one of several."""
    return [equals(SERVICE, config.service)] if config.selector else []


def _route(config: Config) -> Document:
    return {
        "receiver": receiver(config, Severity.INFO),
        "routes": [
            {
                "matchers": [OURS, *_service(config)],
                "receiver": receiver(config, Severity.INFO),
                "group_by": ["alertname", "pool"],
                "group_wait": format_duration(GROUP_WAIT),
                "group_interval": format_duration(4 * config.scrape_interval),
                "repeat_interval": "4h",
                "routes": [
                    {
                        "matchers": [f'severity="{severity}"'],
                        "receiver": receiver(config, severity),
                    }
                    for severity in _DESKS
                ],
            }
        ],
    }


def _receivers(config: Config) -> list[Document]:
    return [{"name": receiver(config, severity)} for severity in _DESKS]


def _capacity(config: Config) -> list[str]:
    """Return the matchers of the capacity alerts that are to be muted.

    The default can't know whose they are: of several services it takes those with this one's own
    labels, since muting another's would lose a page.
    """
    ours = "capacity_alerts" in config.model_fields_set
    theirs = [] if ours else [str(matcher) for matcher in config.selector_matchers]
    # A capacity matcher may be wide; it must never reach an alert of ours.
    return [config.capacity_alerts, *theirs, _NOT_OURS]


def _inhibitions(config: Config, alerts: tuple[Alert, ...]) -> list[Document]:
    blind = [alert.name for alert in alerts if alert.bearing is Bearing.BLINDNESS]
    evidence = [alert.name for alert in alerts if alert.bearing is Bearing.EVIDENCE]
    service = _service(config)
    capacity = _capacity(config)
    return [
        _inhibition([_named(blind), *service], [_named(MUTED_BY_BLINDNESS), *service]),
        _inhibition([_named(blind), *service], capacity),
        _inhibition([_named(evidence), *service], capacity),
    ]


def _inhibition(sources: list[str], targets: list[str]) -> Document:
    return {"source_matchers": sources, "target_matchers": targets}


def _named(alerts: list[str] | tuple[str, ...]) -> str:
    return f'alertname=~"{"|".join(alerts)}"'
