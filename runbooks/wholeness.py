"""Refuses a page that is not whole: a part missing, empty or unfinished, a cell left blank."""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from jinja2 import Template, TemplateError

from orphanwatch.exporter.errors import RenderError

ALERT_HEADINGS: Final = (
    "Meaning",
    "Impact",
    "Is it real?",
    "First five minutes",
    "Diagnosis",
    "Mitigation",
    "Recent changes and roll-back",
    "Escalation",
    "Known false positives",
    "Silencing",
    "Threshold",
    "The rule",
)
SERVICE_HEADINGS: Final = (
    "Threshold",
    "Verdict",
    "The hops",
    "Which number to trust for what",
    "Proposed shed rules",
    "When free overflow is the wrong bet",
    "Rollback",
    "Who should skip the drill",
    "Alerts",
    "Limits",
)
_STEPS_HEADING: Final = "Mitigation"
_STEP: Final = re.compile(r"^\| --- \| --- \| --- \|\n\| \S", re.MULTILINE)
_HEADING: Final = re.compile(r"^## (.+)$", re.MULTILINE)
_UNFINISHED: Final = re.compile(
    r"\b(TODO|FIXME|TBD|XXX|lorem ipsum|placeholder|change ?me)\b|\?\?\?", re.IGNORECASE
)
_FENCE: Final = re.compile(r"^ *(`{3,}).*?^ *\1$", re.DOTALL | re.MULTILINE)
_ROW: Final = re.compile(r"^ *\|(.*)\|$", re.MULTILINE)
_CELL: Final = re.compile(r"(?<!\\)\|")


def refuse_unfinished_blocks(name: str, page: Template, facts: Mapping[str, object]) -> None:
    """Raise ``RenderError`` for a block that is undefined in parts, empty or unfinished."""
    for block, write in page.blocks.items():
        try:
            text = "".join(write(page.new_context(dict(facts))))
        except TemplateError as error:
            raise RenderError(
                f"the page of {name} can't be rendered, in its block {block}: {error.message}"
            ) from error
        if not text.strip():
            raise RenderError(f"the page of {name} says nothing in its block {block}; fill it in")
        _refuse_words(f"the page of {name}, in its block {block},", text)


def refuse_unfinished(name: str, headings: tuple[str, ...], text: str) -> None:
    """Raise ``RenderError`` for a section that is missing, empty or unfinished, or a blank cell."""
    parts = _HEADING.split(text)
    if tuple(parts[1::2]) != headings:
        raise RenderError(
            f"the page of {name} has the sections {', '.join(parts[1::2])}; "
            f"write {', '.join(headings)}, in this order"
        )
    for heading, content in zip(("its head", *parts[1::2]), parts[::2], strict=True):
        if not content.strip():
            raise RenderError(f"the page of {name} says nothing under {heading}; fill it in")
        _refuse_words(f"the page of {name}, under {heading},", content)
        _refuse_blank_cells(name, heading, content)
        if heading == _STEPS_HEADING and not _STEP.search(content):
            raise RenderError(
                f"the page of {name} has no step under {heading}; write it as a row of the table"
            )


def _refuse_words(where: str, text: str) -> None:
    unfinished = _UNFINISHED.search(text)
    if unfinished:
        raise RenderError(f"{where} is unfinished: it says {unfinished[0]}")


def _refuse_blank_cells(name: str, heading: str, content: str) -> None:
    # PromQL is no table, though it may hold pipes.
    rows = [match[1] for match in _ROW.finditer(_FENCE.sub("", content))]
    for row, below in pairwise((*rows, "none")):
        # A table whose rows explain themselves has a blank head, all of it.
        is_blank_head = set(row) <= set(" |") and not below.strip(" |-")
        blank = [cell for cell in _CELL.split(row) if not cell.strip()]
        if blank and not is_blank_head:
            raise RenderError(
                f"the page of {name} has a blank cell under {heading}, in the row |{row}|; "
                "say what it is, or that it is unknown"
            )
