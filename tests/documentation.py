"""The pages of the documentation, taken apart: sections, tables, and the configs they show."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.presets import preset_of

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = (*sorted(DOCS.rglob("*.md")), *sorted(ROOT.glob("*.md")))


@dataclass(frozen=True)
class Table:
    """One table of a page, its cells as they are written."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def headings(page: str) -> list[str]:
    """Return the headings of the second level, in their order."""
    return re.findall(r"^## (.+)$", without_blocks(page), flags=re.MULTILINE)


def section(page: str, title: str) -> str:
    """Return what stands under a heading of the second level."""
    head, found, rest = page.partition(f"\n## {title}\n")
    assert found, f"{title} is no heading after {head[-40:]!r}"
    return rest.split("\n## ")[0]


def tables(text: str) -> list[Table]:
    """Return the tables of a text."""
    found = re.findall(r"(?:^\|.*\|\n)+", without_blocks(text) + "\n", flags=re.MULTILINE)
    return [_table(block) for block in found]


def _table(block: str) -> Table:
    head, rule, *rows = (cells(line) for line in block.splitlines())
    assert set("".join(rule)) <= set("-: "), f"no rule under the head of {head}"
    assert all(len(row) == len(head) for row in rows), f"a row has other cells than {head}"
    return Table(head, tuple(rows))


def cells(line: str) -> tuple[str, ...]:
    """Return the cells of a line of a table; a pipe within one is written with a backslash."""
    inner = line.strip().removeprefix("|").removesuffix("|")
    return tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", inner))


def blocks(text: str, language: str) -> list[str]:
    """Return the fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)


def without_blocks(text: str) -> str:
    """Return a text without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def configs(text: str) -> list[str]:
    """Return the whole configurations that a text shows."""
    return [block for block in blocks(text, "yaml") if re.search(r"^stores:", block, re.MULTILINE)]


def anchors(page: str) -> set[str]:
    """Return the fragments of a page's headings."""
    heads = re.findall(r"^#+ (.+)$", without_blocks(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head).lower().replace(" ", "-") for head in heads}


EXAMPLE_URLS: Final = {
    "sql": "postgresql+psycopg://reader:secret@db.example.com/app",
    "redis": "redis://cache.example.com/0",
    "http_json": "https://engine.example.com/slots",
    "prometheus": "https://engine.example.com/metrics",
}


@dataclass(frozen=True)
class Surroundings:
    """What a config that somebody copied needs: its text, and the environment it is read in."""

    text: str
    environ: dict[str, str]


def surroundings(text: str, folder: Path) -> Surroundings:
    """Return a config with made-up variables, and secret files of a folder in place of its own."""
    environ = dict.fromkeys(re.findall(r"\$\{(\w+)\}", text), "made-up")
    for role, store in yaml.safe_load(text)["stores"].items():
        url = EXAMPLE_URLS.get(_kind(role, store), "")
        whole = re.fullmatch(r"\$\{(\w+)\}", str(store.get("url", "")))
        if whole:
            environ[whole[1]] = url
        for key in ("url_file", "password_file", "token_file"):
            if key in store:
                file = folder / f"{role}-{key}"
                file.write_text(url if key == "url_file" else "made-up", encoding="utf-8")
                text = text.replace(store[key], str(file))
    return Surroundings(text, environ)


def _kind(role: str, store: dict[str, Any]) -> str:
    if "type" in store:
        return str(store["type"])
    return str(preset_of(store["preset"]).stores[StoreName(role)]["type"])
