"""The rule groups, once for Prometheus and once for Kubernetes."""

from collections.abc import Iterable, Mapping

from orphanwatch.alerts.alert import Alert, Bearing, Rule
from orphanwatch.alerts.documents import Document
from orphanwatch.alerts.links import dashboard_url, runbook_url
from orphanwatch.alerts.timing import evaluation_interval
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import format_duration


def rule_labels(rule: Rule) -> dict[str, str]:
    """Return the labels of a rule: constants only, a value in one would reset its ``for``."""
    return {"severity": str(rule.severity)}


def rule_annotations(config: Config, alert: Alert, rule: Rule) -> dict[str, str]:
    """Return the annotations of a rule, its description still a template."""
    return {
        "summary": alert.summary,
        "description": rule.description,
        "runbook_url": runbook_url(config, alert.name),
        "dashboard_url": dashboard_url(config, alert.name),
        "time_to_page": f"at most {format_duration(rule.time_to_page)}",
    }


def rule_file(config: Config, alerts: Iterable[Alert]) -> Document:
    """Return the rule file: one group for each bearing that has alerts."""
    by_bearing: Mapping[Bearing, list[Document]] = {bearing: [] for bearing in Bearing}
    for alert in alerts:
        by_bearing[alert.bearing].extend(_rule(config, alert, rule) for rule in alert.rules(config))
    interval = format_duration(evaluation_interval(config))
    return {
        "groups": [
            {"name": f"orphanwatch-{bearing}", "interval": interval, "rules": rules}
            for bearing, rules in by_bearing.items()
            if rules
        ]
    }


def _rule(config: Config, alert: Alert, rule: Rule) -> Document:
    return {
        "alert": alert.name,
        "expr": rule.expr,
        "for": format_duration(rule.hold),
        "labels": rule_labels(rule),
        "annotations": rule_annotations(config, alert, rule),
    }


def prometheus_rule(config: Config, alerts: Iterable[Alert]) -> Document:
    """Return the same groups as a PrometheusRule of the Prometheus operator."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": "orphanwatch",
            "labels": {"app.kubernetes.io/name": "orphanwatch"},
        },
        "spec": rule_file(config, alerts),
    }
