"""A store of a type that there is none of: what is offered instead is what that store can be."""

import re
from pathlib import Path

import pytest

from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.errors import ConfigError

TYPES = {
    "gateway": ["sql", "redis", "jsonl", "http_json"],
    "leases": ["sql", "redis", "http_json"],
    "ledger": ["sql", "jsonl", "http_json", "prometheus"],
    "queue": ["sql", "redis", "http_json", "prometheus"],
}


def problem_of(folder: Path, store: str, settings: str) -> str:
    """Return the one problem of a config with one store."""
    file = folder / "orphanwatch.yml"
    file.write_text(f"stores:\n  {store}: {{{settings}}}\n")
    with pytest.raises(ConfigError) as refused:
        load_config(file)
    [problem] = refused.value.problems
    return problem


@pytest.mark.parametrize("settings", ["type: kafka", "path: gateway.log"], ids=["unknown", "none"])
@pytest.mark.parametrize("store", TYPES)
def test_only_types_of_the_store_are_offered(store: str, settings: str, tmp_path: Path) -> None:
    """By name, with the preset as the other way."""
    types = ", ".join(TYPES[store])
    problem = problem_of(tmp_path, store, settings)
    assert problem == f"stores.{store}.type: write one of {types}, or name a preset"


@pytest.mark.parametrize(
    ("store", "name"),
    [
        (store, name)
        for store in TYPES
        for name in sorted({name for names in TYPES.values() for name in names})
    ],
)
def test_what_is_offered_is_taken(store: str, name: str, tmp_path: Path) -> None:
    """A type is among those offered where, and only where, the store can be of it."""
    file = tmp_path / "orphanwatch.yml"
    file.write_text(f"stores:\n  {store}: {{type: {name}}}\n")
    with pytest.raises(ConfigError) as refused:
        load_config(file)
    is_of_type = not re.search(rf"stores\.{store}\.type: ", "\n".join(refused.value.problems))
    assert is_of_type is (name in TYPES[store])
