"""Configurations that generated files are tested with."""

from typing import Any

from orphanwatch.exporter.config import Config, parse_config

STORES: dict[str, Any] = {
    "gateway": {"type": "sql", "url": "sqlite:///stack.db"},
    "leases": {"type": "sql", "url": "sqlite:///stack.db"},
    "ledger": {"type": "sql", "url": "sqlite:///stack.db", "shape": "increments"},
    "queue": {"type": "sql", "url": "sqlite:///stack.db"},
}
POOLS: dict[str, Any] = {"paid": {"role": "paid", "lease_cap": 2}, "overflow": {"role": "overflow"}}


def small_config(**keys: Any) -> Config:
    """Return the contract's small config, with some top-level keys changed."""
    return parse_config({"pools": POOLS, "stores": STORES, **keys})
