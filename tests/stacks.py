"""Random stacks: settings and rows that are dense in boundary cases, and how they are written.

All times are quarters of a second near ``AT``, so that sums and comparisons are exact in floats.
"""

import sqlite3
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import yaml

Row = dict[str, Any]

AT: Final = 1_700_000_000.0
"""The instant that every random stack is looked at."""

COLUMNS: Final = {
    "tasks": {
        "task_id": "TEXT",
        "retry_id": "TEXT",
        "attempt": "INTEGER",
        "pool": "TEXT",
        "submitted_at": "REAL",
        "deadline_at": "REAL",
        "cancelled_at": "REAL",
        "finished_at": "REAL",
        "outcome": "TEXT",
        "cancellable": "INTEGER",
    },
    "leases": {
        "task_id": "TEXT",
        "worker_id": "TEXT",
        "pool": "TEXT",
        "acquired_at": "REAL",
        "heartbeat_at": "REAL",
        "released_at": "REAL",
    },
    "ledger": {
        "task_id": "TEXT",
        "tokens": "REAL",
        "charged_at": "REAL",
        "prompt_tokens": "REAL",
        "started_at": "REAL",
        "entry_id": "TEXT",
    },
    "queue": {
        "sampled_at": "REAL",
        "depth": "REAL",
        "age_seconds": "REAL",
        "in_flight": "REAL",
        "admission_cap": "REAL",
    },
}
STORES: Final = {"tasks": "gateway", "leases": "leases", "ledger": "ledger", "queue": "queue"}
FORMS: Final = ("s", "s", "s", "ms", "us", "ns", "iso", "iso_naive", "iso_offset")
"""How one column of instants is written down."""

DEFAULTS: Final[Row] = {
    "pools": {"paid": {"role": "paid", "lease_cap": 2}, "overflow": {"role": "overflow"}},
    "grace": 1.0,
    "delta_window": 60.0,
    "baseline_window": 300.0,
    "horizon": 3600.0,
    "clock_skew_allowance": 0.0,
    "reopen_hold": 300.0,
    "deadline": "hard",
    "rows": "live",
    "lease_ttl": 60.0,
    "heartbeat": None,
    "maps_heartbeat": True,
    "maps_submission": True,
    "has_queue": True,
    "shape": "increments",
    "lag": 0.0,
    "prorated": "page",
    "admission_cap": None,
    "calm_depth_ratio": 0.5,
    "rise_ratio": 1.1,
    "flat_ratio": 1.5,
}
"""The contract's defaults, lengths in seconds."""


@dataclass(frozen=True, kw_only=True)
class Stack:
    """One inference stack: its rows, its settings, and how it is written down."""

    settings: Row
    rows: dict[str, list[Row]]
    dropped: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Columns that a table does not have."""
    unconfigured: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Tables that are configured, but are not there."""
    forms: dict[tuple[str, str], str] = field(default_factory=dict)

    def readable(self) -> dict[str, list[Row] | None]:
        """Return the rows that the stores can give; None for a store that can't be read."""
        return {
            table: None
            if table in self.unconfigured or table in self.missing
            else [self._kept(table, row) for row in self.rows.get(table, [])]
            for table in COLUMNS
        }

    def known_settings(self) -> Row:
        """Return the settings that hold, given which stores and columns there are."""
        settings = {**DEFAULTS, **self.settings}
        settings["maps_heartbeat"] = "heartbeat_at" not in self.dropped.get("leases", ())
        settings["maps_submission"] = "submitted_at" not in self.dropped.get("tasks", ())
        settings["has_queue"] = "queue" not in self.unconfigured
        if "ledger" in self.unconfigured:
            settings |= {"shape": "increments", "lag": 0.0}
        if self.settings.get("rise_ratio") is None:
            settings["rise_ratio"] = 1.5 if settings["shape"] == "final" else 1.1
        return settings

    def _kept(self, table: str, row: Row) -> Row:
        gone = self.dropped.get(table, ())
        return {name: value for name, value in row.items() if name not in gone}


def write_stack(stack: Stack, folder: Path) -> Path:
    """Write the stack into ``stack.db`` in the folder; return the path of its config."""
    connection = sqlite3.connect(folder / "stack.db")
    connection.execute("PRAGMA synchronous = OFF")  # nothing here outlives a power cut
    try:
        for table, types in COLUMNS.items():
            if table not in stack.missing:
                _write_table(connection, stack, table, types)
        connection.commit()
    finally:
        connection.close()
    path = folder / "orphanwatch.yml"
    path.write_text(yaml.safe_dump(config_document(stack)), encoding="utf-8")
    return path


def _write_table(
    connection: sqlite3.Connection, stack: Stack, table: str, types: dict[str, str]
) -> None:
    gone = stack.dropped.get(table, ())
    kept = [name for name in types if name not in gone]
    declared = ", ".join(f"{name} {_column_type(stack, table, name)}" for name in kept)
    connection.execute(f"CREATE TABLE {table} ({declared})")
    marks = ", ".join("?" for _ in kept)
    for row in stack.rows.get(table, []):
        values = [written(row.get(name), stack.forms.get((table, name), "s")) for name in kept]
        connection.execute(f"INSERT INTO {table} VALUES ({marks})", values)  # noqa: S608  (our own names)


def _column_type(stack: Stack, table: str, name: str) -> str:
    form = stack.forms.get((table, name), "s")
    if form.startswith("iso"):
        return "TEXT"
    return COLUMNS[table][name] if form == "s" else "INTEGER"


def written(value: Any, form: str) -> Any:
    """Return an instant in a form, other values as they are."""
    if value is None or form == "s":
        return value
    if form.startswith("iso"):
        stamp = datetime.fromtimestamp(value, UTC)
        text = stamp.isoformat(timespec="milliseconds")
        if form == "iso_naive":
            return text.removesuffix("+00:00").replace("T", " ")
        return text if form == "iso_offset" else text.replace("+00:00", "Z")
    return round(value * {"ms": 1e3, "us": 1e6, "ns": 1e9}[form])


def config_document(stack: Stack, url: str = "sqlite:///stack.db") -> Row:
    """Return the config of a stack as the document that its YAML holds."""
    settings = {**DEFAULTS, **stack.settings}
    stores: Row = {}
    for table, store in STORES.items():
        if table in stack.unconfigured:
            continue
        stores[store] = {"type": "sql", "url": url.format(store=store), "relation": table}
        stores[store] |= _store_settings(store, settings)
    pools = {
        name: {("grace_seconds" if key == "grace" else key): value for key, value in pool.items()}
        for name, pool in settings["pools"].items()
    }
    document: Row = {
        "pools": pools,
        "stores": stores,
        "grace_seconds": settings["grace"],
        "scrape_interval": settings["delta_window"] / 4,
    }
    for name in (
        "delta_window",
        "baseline_window",
        "horizon",
        "clock_skew_allowance",
        "reopen_hold",
    ):
        document[name] = settings[name]
    return document


def _store_settings(store: str, settings: Row) -> Row:
    names = {
        "gateway": ("deadline", "rows"),
        "leases": ("lease_ttl", "heartbeat"),
        "ledger": ("shape", "lag", "prorated"),
        "queue": ("admission_cap",),
    }[store]
    return {name: settings[name] for name in names if settings[name] is not None}
