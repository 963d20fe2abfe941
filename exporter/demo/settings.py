"""The demo's configuration: an ordinary file, so that every other command can be tried on it."""

from pathlib import Path
from typing import Final

DATABASE: Final = "stack.db"
CONFIG: Final = "orphanwatch.yml"

# The windows are short, so that the verdict turns while one looks. The hold outlasts the delta
# window: otherwise the verdict would never rest on "hold".
_TEXT: Final = """\
# The demo's configuration. Its windows are short, so that things happen while you look.
pools:
  paid:     {{role: paid, lease_cap: 2}}
  overflow: {{role: overflow}}
stores:
  gateway: {{type: sql, url: "sqlite:///{database}", relation: tasks}}
  leases:  {{type: sql, url: "sqlite:///{database}", relation: leases}}
  ledger:  {{type: sql, url: "sqlite:///{database}", relation: ledger, shape: increments}}
  queue:   {{type: sql, url: "sqlite:///{database}", relation: queue}}
delta_window: 20s
baseline_window: 60s
horizon: 10m
refresh_interval: 1s
scrape_interval: 5s
reopen_hold: 35s
links: {{runbook_base_url: "http://{address}/runbook"}}
"""


def write_config(folder: Path, address: str) -> Path:
    """Write the config of a demo whose exporter listens on ``address``; returns the file."""
    file = folder / CONFIG
    file.write_text(_TEXT.format(database=DATABASE, address=address), encoding="utf-8")
    return file
