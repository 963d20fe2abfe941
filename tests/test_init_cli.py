"""``orphanwatch init``, the real program: a config to start from, for the systems people run."""

import re
from collections import Counter
from pathlib import Path

import pytest
import yaml
from cli_session import golden, run
from documentation import ROOT, surroundings
from hypothesis import given, settings
from hypothesis import strategies as st

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.init import starting_config, variables_in
from orphanwatch.exporter.names import Role, StoreName
from orphanwatch.exporter.presets import PRESETS, preset_of

MODULES = ROOT / "exporter" / "presets"

subsets = st.lists(st.sampled_from(PRESETS), unique=True, min_size=1)


def written_for(*names: str) -> str:
    """Return the config for presets of these names."""
    return starting_config([preset_of(name) for name in names])


def loaded(text: str, folder: Path) -> Config:
    """Return what a config loads as, once the variables it names are set."""
    file = folder / "orphanwatch.yml"
    around = surroundings(text, folder)
    file.write_text(around.text, encoding="utf-8")
    return load_config(file, around.environ)


def with_everything(text: str) -> str:
    """Return a config with its commented-out settings: sentences begin after one space."""
    return re.sub(r"^( *)#((?:  )*)(?=\S)", r"\1\2", text, flags=re.MULTILINE)


def test_the_presets_are_the_modules_that_are_there() -> None:
    """A preset without a module, or a module that nobody can name, is a slip."""
    modules = {file.stem.replace("_", "-") for file in MODULES.glob("*.py")} - {"--init--"}
    assert set(PRESETS) == modules
    assert list(PRESETS) == sorted(PRESETS)


@pytest.mark.parametrize("name", PRESETS)
def test_each_preset_says_what_init_needs(name: str) -> None:
    """Its own name, a title of one line, a store, and sentences about what it can't see."""
    preset = preset_of(name)
    assert preset.name == name
    assert 0 < len(preset.title) < 80
    assert not preset.title.endswith(".")
    assert preset.stores
    assert set(preset.asks) <= set(preset.stores)
    assert preset.notes
    assert all(note.endswith((".", "`")) for note in preset.notes)


@pytest.mark.parametrize("name", PRESETS)
def test_the_config_for_one_preset_loads(name: str, tmp_path: Path) -> None:
    """Each store that the system can be is configured, and no other."""
    config = loaded(written_for(name), tmp_path)
    assert set(config.stores.configured()) == set(preset_of(name).stores)
    assert {source.preset for source in config.stores.sources()} == {name}


@settings(deadline=None, max_examples=25)
@given(names=subsets)
def test_the_config_for_any_presets_loads(
    names: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever is named together, in whatever order: the first that can be a store is it."""
    config = loaded(written_for(*names), tmp_path_factory.mktemp("any"))
    for store in set(StoreName) - {StoreName.LEDGER}:
        able = [name for name in names if store in preset_of(name).stores]
        played = getattr(config.stores, store)
        assert (played.preset if played else None) == (able[0] if able else None)
    assert {pool.role for pool in config.pools.values()} == set(Role)


@pytest.mark.parametrize(
    ("names", "ledger"),
    [
        pytest.param("vllm,litellm", "litellm", id="a ledger that knows tasks goes first"),
        pytest.param("vllm,tgi", "vllm", id="of those that know none, the first"),
        pytest.param("nginx", None, id="none that can be it"),
    ],
)
def test_a_ledger_without_tasks_is_the_last_choice(
    names: str, ledger: str | None, tmp_path: Path
) -> None:
    """An engine's counter would leave the token arm blind, whoever is named first."""
    chosen = loaded(written_for(*names.split(",")), tmp_path).stores.ledger
    assert (chosen.preset if chosen else None) == ledger


@settings(deadline=None, max_examples=25)
@given(names=st.lists(st.sampled_from(PRESETS), unique=True))
def test_what_is_commented_out_loads_too(
    names: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Taking the mark off all commented settings gives a config with every store."""
    text = with_everything(written_for(*names))
    config = loaded(text, tmp_path_factory.mktemp("all"))
    assert config.stores.configured() == tuple(StoreName)
    assert config.state_file is not None


@settings(deadline=None, max_examples=25)
@given(names=subsets)
def test_each_note_of_each_preset_that_plays_stands_there_once(names: list[str]) -> None:
    """What a system can't see is read before it is trusted."""
    text = " ".join(line.strip().removeprefix("# ") for line in written_for(*names).splitlines())
    words = " ".join(text.split())
    playing = {store["preset"] for store in stores_of(written_for(*names)).values()}
    notes = Counter(note for name in playing for note in preset_of(name).notes)
    assert {note: words.count(f"- {note}") for note in notes} == notes


def stores_of(text: str) -> dict[str, dict[str, str]]:
    """Return the stores of a config."""
    stores: dict[str, dict[str, str]] = yaml.safe_load(text)["stores"]
    return stores


def test_no_line_is_longer_than_a_screen() -> None:
    """Comments are wrapped."""
    for names in ((), PRESETS, tuple(reversed(PRESETS))):
        text = written_for(*names)
        assert [line for line in text.splitlines() if len(line) > 100] == []


def test_the_variables_to_be_set_are_named() -> None:
    """They stand in the head, those of commented-out stores don't."""
    text = "stores:\n  gateway:\n    url: ${A}${B_2}\n  #leases:\n  #  url: ${C}\n"
    assert variables_in(text) == ("A", "B_2")


def test_three_systems_make_one_config(tmp_path: Path) -> None:
    """The example of the documentation, whole."""
    answer = run(tmp_path, "init", "--preset", "nginx,litellm,vllm")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == golden("init-nginx-litellm-vllm.yml", answer.out)


def test_without_presets_it_is_the_embedded_default(tmp_path: Path) -> None:
    """Four tables of a SQLite file, the ones of the README."""
    answer = run(tmp_path, "init")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == golden("init-embedded.yml", answer.out)

    [shown] = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert yaml.safe_load(answer.out) == yaml.safe_load(shown)


def test_presets_may_be_named_one_by_one(tmp_path: Path) -> None:
    """Commas and repeated options are the same, and a name said twice counts once."""
    joined = run(tmp_path, "init", "--preset", "nginx,litellm,vllm")
    apart = run(
        tmp_path, "init", "--preset", "nginx", "--preset", "litellm, vllm", "--preset", "nginx"
    )
    assert apart.out == joined.out


def test_check_runs_on_it_as_it_is(tmp_path: Path) -> None:
    """Nothing listens at the made-up places: check says so of each store, and of no key."""
    assert run(tmp_path, "init", "--preset", "nginx,litellm,vllm", "--out", "o.yml").code == 0
    file = tmp_path / "o.yml"
    text = re.sub(r"@\w+/", "@127.0.0.1:1/", file.read_text(encoding="utf-8"))
    file.write_text(text.replace(":8000/", ":1/"), encoding="utf-8")

    answer = run(
        tmp_path, "check", "--config.file", "o.yml", **dict.fromkeys(variables_in(text), "x")
    )

    assert answer.code == 1
    assert answer.err == ""
    for name in StoreName:
        assert any(line.startswith(f"wrong  stores.{name}: ") for line in answer.out.splitlines())


def test_it_is_written_to_a_file(tmp_path: Path) -> None:
    """``--out`` names the file, makes its folder, and holds what else were printed."""
    printed = run(tmp_path, "init", "--preset", "rq")
    written = run(tmp_path, "init", "--preset", "rq", "--out", "etc/orphanwatch.yml")

    assert (written.code, written.out, written.err) == (0, "etc/orphanwatch.yml\n", "")
    assert (tmp_path / "etc/orphanwatch.yml").read_text(encoding="utf-8") == printed.out


def test_a_file_that_exists_is_kept_unless_forced(tmp_path: Path) -> None:
    """Somebody's config is worth more than ours."""
    file = tmp_path / "orphanwatch.yml"
    file.write_text("mine\n", encoding="utf-8")

    kept = run(tmp_path, "init", "--out", "orphanwatch.yml")
    assert (kept.code, kept.out) == (2, "")
    assert (
        "Error: orphanwatch.yml exists; choose another --out, or overwrite it with --force"
        in kept.err.splitlines()
    )
    assert file.read_text(encoding="utf-8") == "mine\n"

    assert run(tmp_path, "init", "--out", "orphanwatch.yml", "--force").code == 0
    assert file.read_text(encoding="utf-8") == starting_config()


def test_an_unknown_preset_is_told_the_known_ones(tmp_path: Path) -> None:
    """Wrong usage: exit code 2, and every name that would be right."""
    answer = run(tmp_path, "init", "--preset", "nginx,litelm")
    assert (answer.code, answer.out) == (2, "")
    assert f"'litelm' is no preset; these are: {', '.join(PRESETS)}" in answer.err


def test_the_presets_are_listed(tmp_path: Path) -> None:
    """One line each: its name, which stores it can be, and what it is."""
    answer = run(tmp_path, "init", "--list")
    lines = answer.out.splitlines()
    assert (answer.code, answer.err) == (0, "")
    assert [line.split()[0] for line in lines] == list(PRESETS)
    assert all(line.endswith(preset_of(line.split()[0]).title) for line in lines)
    assert {line.index(preset_of(line.split()[0]).title) for line in lines} == {
        lines[0].index(preset_of(PRESETS[0]).title)
    }
