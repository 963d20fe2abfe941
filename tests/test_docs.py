"""The documentation and the program say the same."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from documentation import DOCS, PAGES, ROOT, anchors, configs

from orphanwatch.exporter.cli import orphanwatch
from orphanwatch.exporter.config_file import load_config

EXAMPLES = ROOT / "examples"


def test_the_config_in_the_readme_loads(tmp_path: Path) -> None:
    """What a reader copies works."""
    [text] = configs((ROOT / "README.md").read_text(encoding="utf-8"))
    file = tmp_path / "orphanwatch.yml"
    file.write_text(text, encoding="utf-8")
    assert len(load_config(file).stores.configured()) == 4


def test_generated_pages_are_up_to_date(tmp_path: Path) -> None:
    """``make docs`` changes nothing."""
    subprocess.run([sys.executable, DOCS / "write.py", tmp_path], check=True)
    written = {page.name: page.read_text(encoding="utf-8") for page in tmp_path.iterdir()}
    assert written
    committed = {name: (DOCS / name).read_text(encoding="utf-8") for name in written}
    assert committed == written, "run make docs"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    """A relative link names a file of the tree, and its fragment a heading of it."""
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if target.startswith(("http://", "https://")):
            continue
        name, _, fragment = target.partition("#")
        file = page.parent / name if name else page
        if not file.exists() or (
            fragment and fragment not in anchors(file.read_text(encoding="utf-8"))
        ):
            dead.append(target)
    assert dead == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_in_pages_exist(page: Path) -> None:
    """A file or folder of ours that a page names is there."""
    named = re.findall(
        r"`((?:exporter|alerts|dashboards|runbooks|tests|docs|examples)/[^`*\s]*)`",
        page.read_text(encoding="utf-8"),
    )
    assert [path for path in named if not (ROOT / path).exists()] == []


def tree(folder: Path) -> dict[str, str]:
    """Return the text of every file in a folder, by its path."""
    return {
        str(file.relative_to(folder)): file.read_text(encoding="utf-8")
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


@pytest.mark.parametrize("part", ["alerts", "dashboards", "runbook"])
def test_examples_are_up_to_date(part: str, written_examples: Path) -> None:
    """``make examples`` changes nothing, and leaves nothing over."""
    assert tree(EXAMPLES / part) == tree(written_examples / part), "run make examples"


@pytest.fixture(scope="module")
def written_examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that holds the examples, written now."""
    out = tmp_path_factory.mktemp("examples")
    program = Path(sys.executable).with_name("orphanwatch")
    subprocess.run([EXAMPLES / "write", program, out], check=True, stdout=subprocess.DEVNULL)
    return out


def test_the_example_config_loads() -> None:
    """It is a whole one: all four stores."""
    assert len(load_config(EXAMPLES / "orphanwatch.yml").stores.configured()) == 4


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Yield a command and every one below it, with the words that call it."""
    yield name, command
    if not isinstance(command, click.Group):
        return
    context = click.Context(command)
    for inner in command.list_commands(context):
        found = command.get_command(context, inner)
        assert found is not None
        yield from commands(found, f"{name} {inner}")


EVERY = dict(commands(orphanwatch, "orphanwatch"))
COMMANDS = {name: found for name, found in EVERY.items() if not isinstance(found, click.Group)}
GROUPS = {name: found for name, found in EVERY.items() if isinstance(found, click.Group)}


@pytest.mark.parametrize("name", EVERY)
def test_each_command_has_help_with_an_example(name: str) -> None:
    """The help says what a command does, or those below it, shows a call, explains each option."""
    command = EVERY[name]
    assert command.help
    assert re.search(rf"Example: {name}\b", command.epilog or "")
    assert [
        option.name
        for option in command.params
        if isinstance(option, click.Option) and not option.help
    ] == []


@pytest.mark.parametrize("name", GROUPS)
def test_the_list_of_commands_fits_into_80_columns(name: str) -> None:
    """Each command's line says a whole sentence, on one line, cut nowhere."""
    group = GROUPS[name]
    context = click.Context(group, info_name=name, terminal_width=80)
    listed = group.get_help(context).partition("Commands:\n")[2].split("\n\n")[0].splitlines()
    assert [line.split()[0] for line in listed] == group.list_commands(context)
    assert [line for line in listed if line.endswith("...")] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_stands_in_the_readme(name: str) -> None:
    """The table of commands in README.md is whole."""
    assert f"| `{name}` |" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_names_no_other_command() -> None:
    """What a reader types exists."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(orphanwatch [^`]+)` \|", readme, flags=re.MULTILINE)) == set(
        COMMANDS
    )


def test_the_readme_is_short() -> None:
    """At most 120 lines, as long as a tired person reads."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120
