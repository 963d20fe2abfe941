"""Configs for the alerts' tests, and their rules taken out of the generated files."""

import subprocess
from pathlib import Path
from typing import Any

import yaml

from orphanwatch.alerts.artifacts import RULES, build
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
    """Return the rules of the generated rule file by alert name."""
    document = yaml.safe_load(build(config)[RULES])
    return {rule["alert"]: rule for group in document["groups"] for rule in group["rules"]}


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Return how a real program fared in a folder."""
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
