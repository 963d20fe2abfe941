"""Rendered runbook pages, and what is read off them."""

from html.parser import HTMLParser
from typing import Any

from artifact_configs import small_config

from orphanwatch.alerts.catalogue import ALERTS
from orphanwatch.runbooks.render import render_all

RENDERED = render_all(small_config())
"""Every page of the small config."""
FILES = tuple(RENDERED)
PAGES = tuple(name.removesuffix(".md") for name in FILES if name.endswith(".md"))
ALERT_NAMES = tuple(alert.name for alert in ALERTS)


def page(name: str, **keys: Any) -> str:
    """Return a page's Markdown for the small config with changed keys."""
    files = render_all(small_config(**keys)) if keys else RENDERED
    return files[f"{name}.md"]


def section(text: str, title: str) -> str:
    """Return one section of a page's Markdown, without its heading."""
    return text.split(f"\n## {title}\n")[1].split("\n## ", maxsplit=1)[0]


def elements(text: str) -> list[tuple[str, dict[str, str | None]]]:
    """Return the elements of an HTML page, each with its attributes."""
    parser = _Elements()
    parser.feed(text)
    return parser.found


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
