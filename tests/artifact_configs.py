"""Configurations that generated files are tested with, and the files they must give."""

import os
from pathlib import Path
from typing import Any

from orphanwatch.exporter.config import Config, parse_config

GOLDEN = Path(__file__).parent / "golden"
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


def golden(name: str, text: str) -> str:
    """Return the committed file of ``golden/``, rewritten first where ``REWRITE_GOLDEN`` is set."""
    path = GOLDEN / name
    if os.environ.get("REWRITE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return path.read_text(encoding="utf-8")
