"""The pages of the presets, each of one form with configs that load, and that of the ids."""

import re
from pathlib import Path

import pytest
from cli_session import GOLDEN
from documentation import DOCS, blocks, configs, headings, section, surroundings, tables

from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.ids import IdRule
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.presets import PRESETS, preset_of

FOLDER = DOCS / "presets"
INDEX = (FOLDER / "README.md").read_text(encoding="utf-8")
FORM = ["Config", "What it sees", "What it can't see", "Ids", "Tested with"]


def page(name: str) -> str:
    """Return a preset's page."""
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def test_each_preset_has_a_page_and_each_page_a_preset() -> None:
    """Nothing else lies in the folder but the index."""
    assert {file.name for file in FOLDER.iterdir()} == {
        "README.md",
        *(f"{name}.md" for name in PRESETS),
    }


def test_the_index_names_each_preset_and_what_it_can_be() -> None:
    """The table is the presets' own words: name, title, and stores."""
    [table] = [found for found in tables(INDEX) if found.head == ("preset", "system", "can be")]
    assert list(table.rows) == [
        (f"[`{name}`]({name}.md)", preset_of(name).title, ", ".join(can_be(name)))
        for name in PRESETS
    ]


def can_be(name: str) -> list[str]:
    """Return the stores a preset can be, as the index writes them."""
    return [f"`{store}`" for store in StoreName if store in preset_of(name).stores]


def test_the_sets_of_the_index_can_be_configured() -> None:
    """Each preset that a set names for a store can be that store."""
    [table] = tables(section(INDEX, "Sets that work together"))
    assert table.head == ("you run", *StoreName)
    for _, *cells in table.rows:
        for store, cell in zip(StoreName, cells, strict=True):
            assert cell.startswith("your own") or store in preset_of(cell.strip("`")).stores


def test_the_index_says_what_each_page_says() -> None:
    """The form stands there for whoever adds a page."""
    said = section(INDEX, "What each page says")
    assert re.findall(r"^- `## (.+?)`", said, flags=re.MULTILINE) == FORM


@pytest.mark.parametrize("name", PRESETS)
def test_each_page_has_the_same_form(name: str) -> None:
    """A title, and the headings of the index in their order."""
    assert page(name).startswith("# ")
    assert headings(page(name)) == FORM
    assert all(section(page(name), title).strip() for title in FORM)


@pytest.mark.parametrize("name", PRESETS)
def test_each_config_of_a_page_loads_and_uses_the_preset(name: str, tmp_path: Path) -> None:
    """What a reader copies works, once the variables and secret files that it names are there."""
    shown = configs(page(name))
    assert configs(section(page(name), "Config"))
    for number, text in enumerate(shown):
        file = tmp_path / f"{number}.yml"
        around = surroundings(text, tmp_path)
        file.write_text(around.text, encoding="utf-8")
        stores = load_config(file, around.environ).stores
        assert name in {source.preset for source in stores.sources()}


@pytest.mark.parametrize("name", PRESETS)
def test_each_page_shows_every_store_that_the_preset_can_be(name: str) -> None:
    """No use of it has to be guessed."""
    shown = "".join(configs(page(name)))
    for store in preset_of(name).stores:
        assert re.search(rf"{store}:\s*(?:\{{.*)?\s*preset: {name}\b", shown), store


def test_the_examples_of_spelling_are_what_the_rules_do() -> None:
    """The table of docs/identity.md, computed."""
    text = (DOCS / "identity.md").read_text(encoding="utf-8")
    [table] = [found for found in tables(text) if found.head[0] == "key"]
    for row in table.rows:
        key, example, turns, into = (cell.strip("`") for cell in row)
        rules = {
            "strip_prefix": IdRule(strip_prefix=example),
            "strip_suffix": IdRule(strip_suffix=example),
            "uuid": IdRule(uuid=example == "true"),
        }
        assert rules[key].apply(turns) == into


def test_what_check_says_of_ids_is_what_it_says() -> None:
    """The session that docs/identity.md shows is a committed one of the real program."""
    [shown] = blocks((DOCS / "identity.md").read_text(encoding="utf-8"), "text")
    assert shown == (GOLDEN / "check-identity.txt").read_text(encoding="utf-8")
