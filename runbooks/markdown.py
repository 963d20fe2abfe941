"""Makes values safe to stand in Markdown: nothing from a config or a rule becomes markup."""

import re
from collections.abc import Iterable, Sequence

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|<>~$&])")
_TICKS = re.compile(r"`+")


def plain(text: str) -> str:
    """Return text that reads in Markdown as it is, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def code(text: str) -> str:
    """Return a code span on one line."""
    flat = " ".join(text.split())
    fence = "`" * (_longest_ticks(flat) + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") else ""
    return f"{fence}{pad}{flat}{pad}{fence}"


def cell(text: str) -> str:
    """Return a code span for a table, where a bare pipe would start the next column."""
    return code(text).replace("|", r"\|")


def block(text: str, language: str) -> str:
    """Return a fenced block that no content can close early."""
    fence = "`" * max(3, _longest_ticks(text) + 1)
    return f"{fence}{language}\n{text.strip()}\n{fence}"


def flat(text: str) -> str:
    """Return text on one line: what a template wrote in a block, for a table's cell."""
    return " ".join(str(text).split())


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are finished Markdown already."""
    lines = (titles, ["---"] * len(titles), *rows)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _longest_ticks(text: str) -> int:
    return max((len(run) for run in _TICKS.findall(text)), default=0)
