"""Rules and panels for the lint's tests: a sound one of each, and what a change of it gives."""

import json
from typing import Any

import yaml
from artifact_configs import small_config

from orphanwatch.alerts.lint.model import Finding
from orphanwatch.alerts.lint.read_rules import parse_rule_file
from orphanwatch.alerts.lint.run import lint_foreign, lint_generated
from orphanwatch.exporter.config import Config

FILE = "made-up.rules.yml"
DASHBOARD = "made-up.json"
DELTA = "max without (instance) (max_over_time(orphan_token_delta[1m]))"
"""A sound vector: one number for each pool."""
EXPR = f"{DELTA} > 0"
SCOPE = 'job=~"$job",instance=~"$instance"'

CONFIG = """
pools:
  paid:     {role: paid, lease_cap: 2}
  overflow: {role: overflow}
stores:
  gateway: {type: sql, url: "sqlite:///stack.db", relation: tasks}
  leases:  {type: sql, url: "sqlite:///stack.db", relation: leases}
  ledger:  {type: sql, url: "sqlite:///stack.db", relation: ledger, shape: increments}
  queue:   {type: sql, url: "sqlite:///stack.db", relation: queue}
"""
"""The contract's whole config, as a file."""

Document = dict[str, Any]


def alert(expr: str = EXPR, **changes: Any) -> Document:
    """Return a sound alerting rule with some keys changed; None takes a key out."""
    sound: Document = {
        "alert": "OrphanThings",
        "expr": expr,
        "for": "1m",
        "labels": {"severity": "warning"},
        "annotations": {
            "summary": "Things go on.",
            "description": "Things go on: {{ $value | humanize }}.",
            "runbook_url": "https://runbooks.example.com/OrphanThings",
            "dashboard_url": "https://grafana.example.com/d/orphanwatch-overview?viewPanel=7",
        },
    }
    changed = sound | {key.rstrip("_"): value for key, value in changes.items()}
    return {key: value for key, value in changed.items() if value is not None}


def annotated(expr: str = EXPR, **changes: str) -> Document:
    """Return a sound alert with some of its annotations changed."""
    rule = alert(expr)
    return rule | {"annotations": rule["annotations"] | changes}


def record(name: str, expr: str) -> Document:
    """Return a recording rule."""
    return {"record": name, "expr": expr}


def group(*rules: Document, **changes: Any) -> Document:
    """Return a rule group that is evaluated at each scrape."""
    return {"name": "orphanwatch-things", "interval": "15s", "rules": list(rules)} | changes


def found_in(*groups: Document, config: Config | None = None) -> tuple[Finding, ...]:
    """Return what the lint finds in rule groups, as if they were generated."""
    text = yaml.safe_dump({"groups": list(groups)})
    return lint_generated(config or small_config(), {FILE: text}, {}).findings


def found_in_foreign(*groups: Document) -> tuple[Finding, ...]:
    """Return what the lint finds in rule groups that somebody else wrote."""
    text = yaml.safe_dump({"groups": list(groups)})
    return lint_foreign(small_config(), parse_rule_file(FILE, text)).findings


def found_in_panel(expr: str, config: Config | None = None) -> tuple[Finding, ...]:
    """Return what the lint finds in a dashboard with one query."""
    panel = {"title": "Things", "targets": [{"refId": "A", "expr": expr}]}
    dashboard = {"panels": [{"title": "Row", "panels": [panel]}]}
    texts = {DASHBOARD: json.dumps(dashboard)}
    return lint_generated(config or small_config(), {}, texts).findings


def names(findings: tuple[Finding, ...]) -> set[str]:
    """Return the names of the checks that found something."""
    return {finding.check for finding in findings}
