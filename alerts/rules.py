"""The rule groups, once for Prometheus and once for Kubernetes."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from orphanwatch.alerts.alert import Alert, Bearing, Rule
from orphanwatch.alerts.documents import Document
from orphanwatch.alerts.links import dashboard_url, runbook_url
from orphanwatch.alerts.naming import LONGEST_NAME, shortened
from orphanwatch.alerts.provenance import grace_provenance
from orphanwatch.alerts.timing import evaluation_interval
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.errors import RenderError
from orphanwatch.exporter.instants import format_duration

PRODUCT: Final = "orphanwatch"
_LONGEST_BEARING: Final = max(len(f"-{bearing}") for bearing in Bearing)
SERVICE: Final = "service"
"""The label of an alert that names its service, where there are several."""


def rule_labels(config: Config, rule: Rule) -> dict[str, str]:
    """Return the labels of a rule: constants only, a value in one would reset its ``for``.

    Where ``selector`` picks one service among several, alerts say whose they are.
    """
    service = {SERVICE: config.service} if config.selector else {}
    return {"severity": str(rule.severity), **service, **rule.labels}


def rule_annotations(config: Config, alert: Alert, rule: Rule) -> dict[str, str]:
    """Return the annotations of a rule, its description still a template."""
    return {
        "summary": alert.summary,
        "description": rule.description,
        "runbook_url": runbook_url(config, alert.name),
        "dashboard_url": dashboard_url(config, alert.name),
        "time_to_page": f"at most {format_duration(rule.time_to_page)}",
        "grace": grace_provenance(config),
    }


def rule_file(config: Config, alerts: Iterable[Alert]) -> Document:
    """Return the rule file: one group for each bearing that has alerts, recordings first.

    Prometheus evaluates a group in its order, so an alert sees what was recorded just before.
    """
    by_bearing: Mapping[Bearing, list[Alert]] = {bearing: [] for bearing in Bearing}
    for alert in alerts:
        by_bearing[alert.bearing].append(alert)
    interval = format_duration(evaluation_interval(config))
    groups = (
        {
            "name": f"{scope(config)}-{bearing}",
            "interval": interval,
            "rules": [*_recordings(config, theirs), *_alerting(config, theirs)],
        }
        for bearing, theirs in by_bearing.items()
    )
    return {"groups": [group for group in groups if group["rules"]]}


def scope(config: Config) -> str:
    """Return what names of groups, objects and receivers begin with.

    Where ``selector`` picks one service among several, it is told apart by its name, which is
    cut where it is so long that our own lint would find the name of a group.
    """
    if not config.selector:
        return PRODUCT
    named = re.sub(r"[^a-z0-9]+", "-", config.service.lower()).strip("-")
    if not named:
        raise RenderError(
            "service: has no letter or digit to name rule groups by; name the service, because "
            "selector says that it is one of several"
        )
    return shortened(f"{PRODUCT}-{named}", LONGEST_NAME - _LONGEST_BEARING, config.service)


def _recordings(config: Config, alerts: Iterable[Alert]) -> Iterator[Document]:
    for alert in alerts:
        for recording in alert.recordings(config):
            yield {"record": recording.record, "expr": recording.expr}


def _alerting(config: Config, alerts: Iterable[Alert]) -> Iterator[Document]:
    for alert in alerts:
        for rule in alert.rules(config):
            yield {
                "alert": alert.name,
                "expr": rule.expr,
                "for": format_duration(rule.hold),
                "labels": rule_labels(config, rule),
                "annotations": rule_annotations(config, alert, rule),
            }


def prometheus_rule(config: Config, alerts: Iterable[Alert]) -> Document:
    """Return the same groups as a PrometheusRule of the Prometheus operator."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": scope(config),
            "labels": {"app.kubernetes.io/name": PRODUCT},
        },
        "spec": rule_file(config, alerts),
    }
