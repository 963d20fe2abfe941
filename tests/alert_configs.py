"""Configs for the alerts' tests, and their rules taken out of the generated files."""

import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

from orphanwatch.alerts.catalogue import ALERTS
from orphanwatch.alerts.documents import document_text
from orphanwatch.alerts.parts import part
from orphanwatch.alerts.promtool import play
from orphanwatch.alerts.rules import rule_file
from orphanwatch.exporter.config import Config, parse_config

STORES: dict[str, dict[str, Any]] = {
    "gateway": {"type": "sql", "url": "sqlite:///stack.db"},
    "leases": {"type": "sql", "url": "sqlite:///stack.db"},
    "ledger": {"type": "sql", "url": "sqlite:///stack.db", "shape": "increments"},
    "queue": {"type": "sql", "url": "sqlite:///stack.db"},
}


def alert_config(stores: dict[str, dict[str, Any]] | None = None, **settings: object) -> Config:
    """Return a config with all four stores, or the given ones."""
    return parse_config(
        {
            "pools": {"paid": {"role": "paid", "lease_cap": 2}, "overflow": {"role": "overflow"}},
            "stores": STORES if stores is None else stores,
            **settings,
        }
    )


def with_store(name: str, **settings: object) -> dict[str, dict[str, Any]]:
    """Return all four stores, with some settings of one changed."""
    return STORES | {name: STORES[name] | settings}


def rules_of(config: Config) -> dict[str, dict[str, Any]]:
    """Return the rules of the generated rule file by alert name, the first of each."""
    by_name: dict[str, dict[str, Any]] = {}
    for rule in alerting_rules(config):
        by_name.setdefault(rule["alert"], rule)
    return by_name


def alerting_rules(config: Config) -> list[dict[str, Any]]:
    """Return every alerting rule of the generated rule file, in its order."""
    return [rule for rule in all_rules(config) if "alert" in rule]


def all_rules(config: Config) -> list[dict[str, Any]]:
    """Return every rule of the generated rule file, in its order."""
    document = yaml.safe_load(document_text(rule_file(config, ALERTS)))
    return [rule for group in document["groups"] for rule in group["rules"]]


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Return how a real program fared in a folder."""
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def bent_rule_is_caught(name: str, right: str, wrong: str, folder: Path, case: str = "") -> None:
    """Hold an alert's rules, with one text replaced by another, against its own cases.

    They are played one by one, the shortest first, until one of them fails; or only those whose
    name begins as told.
    """
    config = alert_config()
    alert = next(alert for alert in ALERTS if alert.name == name)
    document = rule_file(config, (alert,))
    bent = yaml.safe_load(document_text(document).replace(right, wrong))
    assert bent != document
    rules = yaml.safe_dump(bent)
    own = part(config, alert, ALERTS)
    assert own.alerts == (alert,)
    told = [own._replace(cases=(one,)) for one in own.cases if one.name.startswith(case)]
    outcomes = (
        play(config, alone, rules, folder) for alone in sorted(told, key=lambda one: one.scrapes)
    )
    said = next((one.output for one in outcomes if not one.passed), "every case passed")
    assert "FAILED" in said
    assert re.search(rf"(name:|#) {name}: {re.escape(case)}", said)
