"""What is installed is what the tree holds, under the one name everybody imports."""

import ast
import configparser
import importlib.metadata
import importlib.resources
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PARTS = ("exporter", "alerts", "dashboards", "runbooks")


def declared() -> configparser.ConfigParser:
    """Return what setup.cfg says."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    return config


def test_every_package_is_listed() -> None:
    """The packages in setup.cfg are the folders of the tree, neither more nor fewer."""
    listed = set(declared()["options"]["packages"].split())
    found = {
        ".".join(("orphanwatch", *init.parent.relative_to(ROOT).parts))
        for part in PARTS
        for init in (ROOT / part).rglob("__init__.py")
    }
    assert listed == found


def test_no_module_lies_in_a_folder_that_is_no_package() -> None:
    """A folder without an ``__init__.py`` would be left out of the wheel in silence."""
    lost = [
        str(module.relative_to(ROOT))
        for part in PARTS
        for module in (ROOT / part).rglob("*.py")
        if not (module.parent / "__init__.py").exists()
    ]
    assert lost == []


def test_every_other_file_is_shipped() -> None:
    """Templates and type markers are matched by a pattern of package_data."""
    patterns = [pattern.strip(" ,") for pattern in declared()["options.package_data"]["*"].split()]
    listed = declared()["options"]["packages"].split()
    left_out = []
    for package in listed:
        folder = ROOT.joinpath(*package.split(".")[1:])
        shipped = {file for pattern in patterns for file in folder.glob(pattern)}
        inner = {ROOT.joinpath(*other.split(".")[1:]) for other in listed} - {folder}
        left_out += [
            str(file.relative_to(ROOT))
            for file in folder.rglob("*")
            if file.is_file()
            and file.suffix not in {".py", ".pyc"}
            and not any(file.is_relative_to(other) for other in inner)
            and file not in shipped
        ]
    assert left_out == []


@pytest.mark.parametrize("part", PARTS)
def test_each_part_says_that_it_is_typed(part: str) -> None:
    """A type checker of somebody who imports us finds py.typed in the installed package."""
    assert importlib.resources.files(f"orphanwatch.{part}").joinpath("py.typed").is_file()


@pytest.mark.parametrize("part", PARTS)
def test_type_checkers_find_each_part_through_its_link(part: str) -> None:
    """The links in .typings lead to the parts, relative to the tree they lie in."""
    link = ROOT / ".typings" / "orphanwatch" / part
    assert link.is_symlink()
    assert not link.readlink().is_absolute()
    assert link.resolve() == (ROOT / part).resolve()


def test_imports_are_absolute_and_by_the_installed_name() -> None:
    """No module imports relatively, or by a bare name that works only from the root."""
    wrong = [
        f"{module.relative_to(ROOT)}:{node.lineno}"
        for part in (*PARTS, "tests")
        for module in (ROOT / part).rglob("*.py")
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if _is_wrong(node)
        if isinstance(node, ast.stmt)
    ]
    assert wrong == []


def _is_wrong(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.level > 0 or (node.module or "").split(".")[0] in PARTS
    if isinstance(node, ast.Import):
        return any(alias.name.split(".")[0] in PARTS for alias in node.names)
    return False


def test_the_version_is_stated_once() -> None:
    """The installed metadata has setup.cfg's version, and no module repeats it."""
    version = declared()["metadata"]["version"]
    assert importlib.metadata.version("orphanwatch") == version
    repeated = [
        str(module.relative_to(ROOT))
        for part in PARTS
        for module in (ROOT / part).rglob("*.py")
        if f'"{version}"' in module.read_text(encoding="utf-8")
    ]
    assert repeated == []


def test_the_newest_release_in_the_changelog_is_this_version() -> None:
    """CHANGELOG.md has Unreleased on top, then the version that setup.cfg states."""
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    heads = [line.split("]")[0].removeprefix("## [") for line in lines if line.startswith("## [")]
    assert heads[:2] == ["Unreleased", declared()["metadata"]["version"]]


def test_the_all_extra_holds_every_driver() -> None:
    """``orphanwatch[all]`` is the sum of the extras for stores."""
    extras = declared()["options.extras_require"]
    drivers = {
        line
        for name in extras
        if name not in {"all", "test"}
        for line in extras[name].strip().splitlines()
    }
    assert set(extras["all"].strip().splitlines()) == drivers
