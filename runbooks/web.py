"""Turns a page's Markdown into one HTML file that needs nothing else: no script, no request."""

import re
from itertools import pairwise
from typing import Final, NamedTuple

from jinja2 import Environment
from markdown_it import MarkdownIt
from markdown_it.token import Token

_NOT_WORD: Final = re.compile(r"[^a-z0-9]+")
_SOURCE_LINK: Final = re.compile(r"^([\w-]+)\.md(#[\w-]+)?$")
_COLUMNS_ON_A_PHONE: Final = 2


class Heading(NamedTuple):
    """A heading of the second level, and where it is on the page."""

    title: str
    anchor: str


class Outline(NamedTuple):
    """What of a page can be linked to, and what it links to."""

    anchors: tuple[str, ...]
    links: tuple[str, ...]


def outline_of(markdown: str) -> Outline:
    """Return the anchors of all headings of a page, and the targets of all its links."""
    tokens = _parser().parse(markdown)
    anchors = tuple(
        _anchor_of(content.content)
        for token, content in pairwise(tokens)
        if token.type == "heading_open"
    )
    links = tuple(
        str(part.attrGet("href"))
        for token in tokens
        for part in token.children or ()
        if part.type == "link_open"
    )
    return Outline(anchors, links)


def to_html(pages: Environment, title: str, markdown: str, status_page: str) -> str:
    """Return the page as HTML, with a list of its sections; links to pages become ``.html``.

    ``status_page`` is where the way back leads; empty where there is none.
    """
    parser = _parser()
    tokens = parser.parse(markdown)
    headings = _anchor(tokens)
    _relink(tokens)
    _label_cells(tokens)
    body = parser.renderer.render(tokens, parser.options, {})
    # A wide table scrolls inside its own box, so that a phone's page does not.
    body = body.replace("<table", '<div class="wide"><table').replace("</table>", "</table></div>")
    return pages.get_template("page.html.j2").render(
        title=title, body=body, headings=headings, status_page=status_page
    )


def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table")


def _anchor_of(heading: str) -> str:
    return _NOT_WORD.sub("-", heading.lower()).strip("-")


def _anchor(tokens: list[Token]) -> list[Heading]:
    headings = []
    for token, content in pairwise(tokens):
        if token.type == "heading_open":
            anchor = _anchor_of(content.content)
            token.attrSet("id", anchor)
            if token.tag == "h2":
                headings.append(Heading(content.content, anchor))
    return headings


def _relink(tokens: list[Token]) -> None:
    for token in tokens:
        for part in token.children or ():
            if part.type == "link_open":
                target = str(part.attrGet("href"))
                part.attrSet("href", _SOURCE_LINK.sub(r"\1.html\2", target))


def _label_cells(tokens: list[Token]) -> None:
    """Write each column's title at its cells, so that a phone can show a row as a list."""
    table, titles, column = Token("", "", 0), [""], 0
    for token, content in pairwise(tokens):
        if token.type == "table_open":
            table, titles = token, []
        elif token.type == "th_open":
            titles.append(content.content)
            if len(titles) > _COLUMNS_ON_A_PHONE:
                table.attrSet("class", "stacked")
        elif token.type == "tr_open":
            column = 0
        elif token.type == "td_open":
            token.attrSet("data-label", titles[column])
            column += 1
