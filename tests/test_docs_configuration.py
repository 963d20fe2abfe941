"""The page of the configuration, held against the models that read a config."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from config_models import BASES, ROLES, SECTIONS, STORES, Model
from documentation import DOCS, Table, configs, headings, section, surroundings, tables
from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from orphanwatch.exporter import config, config_stores
from orphanwatch.exporter.columns import COLUMNS, REQUIRED
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.instants import format_duration
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.sql.dialect import known_schemes

PAGE = (DOCS / "configuration.md").read_text(encoding="utf-8")

HEADS = {
    "settings": ("key", "default", "meaning"),
    "by kind": ("type", "key", "default", "meaning"),
}


def documented(title: str) -> dict[str, str]:
    """Return key and default of each row of the section's table."""
    rows = [row for table in _tables(title, "settings") for row in table.rows]
    keys = {key.strip("`"): default for key, default, _ in rows}
    assert len(rows) == len(keys), "a key stands twice"
    return keys


def documented_by_kind(title: str) -> dict[tuple[str, str], str]:
    """Return what the section's second table says of single kinds: type and key, and default."""
    rows = [row for table in _tables(title, "by kind") for row in table.rows]
    keys = {(kind.strip("`"), key.strip("`")): default for kind, key, default, _ in rows}
    assert len(rows) == len(keys), "a key stands twice"
    return keys


def _tables(title: str, form: str) -> list[Table]:
    return [table for table in tables(section(PAGE, title)) if table.head == HEADS[form]]


def declared(model: Model) -> dict[str, str]:
    """Return key and default of each field, the way the page writes them."""
    return {field.alias or name: shown(field) for name, field in model.model_fields.items()}


def own(model: Model) -> dict[str, str]:
    """Return what a model declares beyond what the other bases that it is made of declare."""
    shared = {
        key: default
        for base in BASES.values()
        if base is not model and issubclass(model, base)
        for key, default in declared(base).items()
    }
    return dict(declared(model).items() - shared.items())


def shown(field: FieldInfo) -> str:
    """Return a field's default the way the page writes it."""
    value = field.get_default(call_default_factory=True)
    if field.is_required():
        return "required"
    if value is None:
        return "none"
    if isinstance(value, BaseModel):
        return "see below"
    if isinstance(value, tuple) and value:
        return ", ".join(f"`{item}`" for item in value)
    if any(isinstance(rule, BeforeValidator) for rule in field.metadata):
        value = format_duration(value)
    return f"`{_written(value)}`".replace("|", "\\|")


def _written(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return '""' if value == "" else "[]" if value == () else str(value)


@pytest.mark.parametrize("title", SECTIONS)
def test_each_key_stands_in_the_page_with_its_default(title: str) -> None:
    """A key that is added, renamed or given another default changes the page too."""
    for model in SECTIONS[title]:
        assert documented(title) == own(model)


@pytest.mark.parametrize("name", StoreName)
def test_what_only_some_kinds_of_a_store_have_stands_in_its_section(name: StoreName) -> None:
    """A key, or a default, that a store has with one ``type`` alone is in the second table."""
    differing = {
        (kind, key): default
        for (role, kind), model in STORES.items()
        if role is name
        for key, default in own(model).items() - declared(ROLES[name]).items()
    }
    assert documented_by_kind(f"`stores.{name}`") == differing


def test_each_table_of_keys_is_held_against_a_model() -> None:
    """The sections with such a table are those that this module knows."""
    assert {title for title in headings(PAGE) if _tables(title, "settings")} == set(SECTIONS)


def test_each_model_that_a_config_is_made_of_has_its_section() -> None:
    """A model that is nested somewhere, with keys of its own, is not forgotten."""
    composed = {*STORES.values(), config_stores.Stores}
    nested = {model for model in reachable(config.Config) if model not in composed}
    assert nested - {model for models in SECTIONS.values() for model in models} == set()


def reachable(model: Model) -> set[Model]:
    """Return a model and all those that its fields are made of."""
    found: set[Model] = {model}
    for field in model.model_fields.values():
        for inner in _models_in(field.annotation):
            found |= reachable(inner)
    return found


def _models_in(annotation: Any) -> Iterator[Model]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_in(part)


def test_the_page_says_which_store_can_be_of_which_kind() -> None:
    """The table of kinds is the config's own list of pairs."""
    head = ("`type`", *(f"`{name}`" for name in StoreName), "what it is")
    [table] = [table for table in tables(section(PAGE, "Kinds of stores")) if table.head == head]
    said = {
        (name, row[0].strip("`"))
        for row in table.rows
        for name, cell in zip(StoreName, row[1:-1], strict=True)
        if cell == "yes"
    }
    assert said == set(STORES)


def test_the_page_names_each_database_that_can_be_read() -> None:
    """With a url of its kind, and the extra that its driver comes with."""
    head = ("database", "url", "extra to install")
    [table] = [found for found in tables(section(PAGE, "`type: sql`")) if found.head == head]
    shown_schemes = {
        url.strip("`").partition("://")[0].partition("+")[0] for _, url, _ in table.rows
    }
    others = {"postgres", "mariadb"}  # other names of the same
    assert shown_schemes == set(known_schemes()) - others


@pytest.mark.parametrize("name", StoreName)
def test_each_column_stands_in_its_stores_section(name: StoreName) -> None:
    """The canonical columns are listed, and which of them a store must have."""
    words = ", ".join(
        f"`{column}` (required)" if column in REQUIRED[name] else f"`{column}`"
        for column in COLUMNS[name]
    )
    assert f"Columns: {words}.\n" in section(PAGE, f"`stores.{name}`")


def test_each_config_of_the_page_loads(tmp_path: Path) -> None:
    """What a reader copies works, once the variables and secret files that it names are there."""
    shown_configs = configs(PAGE)
    assert len(shown_configs) > 1
    for number, text in enumerate(shown_configs):
        file = tmp_path / f"{number}.yml"
        around = surroundings(text, tmp_path)
        file.write_text(around.text, encoding="utf-8")
        assert load_config(file, around.environ).stores.configured()
