"""Writes a commented config to start from: for systems by their presets, or for SQLite."""

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import yaml

from orphanwatch.exporter.names import Role, StoreName
from orphanwatch.exporter.presets import PRESETS, Preset, preset_of

_WIDTH: Final = 100

_POOLS: Final[Mapping[Role, Mapping[str, Any]]] = {
    Role.PAID: {"role": "paid", "lease_cap": 2},
    Role.OVERFLOW: {"role": "overflow"},
}
_ROLE_WORDS: Final = {
    Role.PAID: "Leases for hard-deadline work only, and no more of them than the cap.",
    Role.OVERFLOW: "Free, quiet-hour batch work only; its utilization is no SLO.",
}
_STORE_WORDS: Final = {
    StoreName.GATEWAY: "requests, and when nobody waits for them any more",
    StoreName.LEASES: "which worker holds which task",
    StoreName.LEDGER: "tokens charged to tasks",
    StoreName.QUEUE: "how much waits for admission",
}
_UNKNOWN_WITHOUT: Final = {
    StoreName.GATEWAY: "no task has a stop, so neither arm can tell an orphan",
    StoreName.LEASES: "the lease arm is blind, and the grace can't be measured",
    StoreName.LEDGER: "the token arm is blind, and spend is unknown",
    StoreName.QUEUE: "depth, in-flight gap and split signal are absent",
}
_TABLES: Final = {
    StoreName.GATEWAY: {"relation": "tasks"},
    StoreName.LEASES: {"relation": "leases"},
    StoreName.LEDGER: {"relation": "ledger", "shape": "increments"},
    StoreName.QUEUE: {"relation": "queue"},
}
_FURTHER: Final = """\
# How long a cancel may take to reach the worker, until that is measured.
#grace_seconds: 1s

# The Prometheus job's own: every range and `for` of the generated rules follows from it.
#scrape_interval: 15s

# Where serve keeps its counters across restarts; without it they start at 0.
#state_file: orphanwatch.state

# Where the on-call opens pages and dashboards.
#links:
#  runbook_base_url: https://runbooks.example.com
#  dashboard_base_url: https://grafana.example.com
"""


def starting_config(presets: Sequence[Preset] = ()) -> str:
    """Return a config that loads once the variables it names are set.

    Each store is the first of the presets that can be it, a ledger that knows no task the last
    choice; a store that none can be stands there commented out. Without presets it is the
    embedded default: four tables of a SQLite file.
    """
    stores = list(_stores(presets) if presets else _embedded())
    parts = (*_head(presets, stores), *_pools(), *stores, _FURTHER)
    return "\n".join(parts)


def variables_in(text: str) -> tuple[str, ...]:
    """Return the environment variables that the settings of a config name, in their order."""
    settings = (line for line in text.splitlines() if not line.lstrip().startswith("#"))
    return tuple(dict.fromkeys(re.findall(r"\$\{(\w+)\}", "\n".join(settings))))


def preset_table() -> str:
    """Return a line for each preset: its name, the stores it can be, and what it is."""
    presets = [preset_of(name) for name in PRESETS]
    rows = [(each.name, ", ".join(_can_be(each)), each.title) for each in presets]
    name, can = (max(len(row[column]) for row in rows) for column in range(2))
    return "".join(f"{row[0]:<{name}}  {row[1]:<{can}}  {row[2]}\n" for row in rows)


def _can_be(preset: Preset) -> tuple[StoreName, ...]:
    return tuple(name for name in StoreName if name in preset.stores)


def _head(presets: Sequence[Preset], stores: Sequence[str]) -> Iterator[str]:
    names = ", ".join(preset.name for preset in presets)
    lines = [
        f"Orphanwatch for {names}." if names else "Orphanwatch for a stack in one SQLite file.",
        *_first_steps("\n".join(stores)),
        "Every key: docs/configuration.md. How the stores come to share ids: docs/identity.md.",
    ]
    yield from (_comment(line) for line in lines)
    yield ""


def _first_steps(settings: str) -> Iterator[str]:
    variables = variables_in(settings)
    if variables:
        yield f"Set in the environment: {', '.join(variables)}; or write url_file: and a path."
    yield "Look it over, then: orphanwatch check --config.file orphanwatch.yml"


def _pools() -> Iterator[str]:
    yield _comment("A task's pool is what its store says; any that is not named here is `other`.")
    yield "pools:"
    for name, settings in _POOLS.items():
        yield _comment(_ROLE_WORDS[name], "  ")
        yield f"  {name}: {_flow(settings)}"
    yield ""


def _embedded() -> Iterator[str]:
    yield "stores:"
    for name in StoreName:
        settings = {"type": "sql", "url": "sqlite:///stack.db", **_TABLES[name]}
        yield _comment(f"{name}: {_STORE_WORDS[name]}.", "  ")
        yield _block(name, settings)


def _stores(presets: Sequence[Preset]) -> Iterator[str]:
    told: set[str] = set()
    yield "stores:"
    for name in StoreName:
        able = [preset for preset in presets if name in preset.stores]
        if able:
            # The sort is stable: otherwise the order is the user's.
            yield from _played(
                name, sorted(able, key=lambda each: _is_last_choice(each, name)), told
            )
        else:
            yield from _unplayed(name)


def _is_last_choice(preset: Preset, name: StoreName) -> bool:
    """Return whether it is a ledger that knows no task: with it the token arm stays blind."""
    return name is StoreName.LEDGER and preset.stores[name].get("type") == "prometheus"


def _played(name: StoreName, able: Sequence[Preset], told: set[str]) -> Iterator[str]:
    preset, others = able[0], able[1:]
    yield _comment(f"{name}: {_STORE_WORDS[name]}.", "  ")
    yield _comment(f"{preset.title}.", "  ")
    if preset.name not in told:
        told.add(preset.name)
        yield from (_comment(note, "  ", "- ") for note in preset.notes)
        yield _comment(f"More: docs/presets/{preset.name}.md", "  ")
    if others:
        pages = " or ".join(f"{other.name} (docs/presets/{other.name}.md)" for other in others)
        yield _comment(f"It could be {pages} instead.", "  ")
    yield _block(name, {"preset": preset.name, **preset.asks.get(name, {})})


def _unplayed(name: StoreName) -> Iterator[str]:
    able = ", ".join(known for known in PRESETS if name in preset_of(known).stores)
    yield _comment(
        f"{name}: {_STORE_WORDS[name]}. Unknown until configured: {_UNKNOWN_WITHOUT[name]}.", "  "
    )
    yield _comment(f"Presets that can be it: {able}. Or a table of your own:", "  ")
    url = f"${{{name.upper()}_DATABASE_URL}}"
    yield _block(name, {"type": "sql", "url": url, **_TABLES[name]}, lead="  #")


def _block(name: StoreName, settings: Mapping[str, Any], lead: str = "  ") -> str:
    """Return the settings of a store, as lines below ``stores:``."""
    text = yaml.safe_dump({str(name): dict(settings)}, sort_keys=False, width=_WIDTH)
    return textwrap.indent(text, lead)


def _flow(settings: Mapping[str, Any]) -> str:
    return yaml.safe_dump(dict(settings), sort_keys=False, default_flow_style=True).strip()


def _comment(text: str, indent: str = "", mark: str = "") -> str:
    """Return a sentence as lines of a comment."""
    lead = f"{indent}# "
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=lead + mark,
        subsequent_indent=lead + " " * len(mark),
        break_long_words=False,
        break_on_hyphens=False,
    )
