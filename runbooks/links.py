"""Refuses a link that leads nowhere: to a page, a heading or a panel that does not exist."""

from collections.abc import Iterable, Mapping
from typing import Final

from orphanwatch.alerts.links import runbook_url
from orphanwatch.dashboards.links import (
    SERVICE_PAGE,
    Dashboard,
    Panel,
    dashboard_url,
    page_url,
    panel_url,
)
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.errors import RenderError
from orphanwatch.runbooks.web import Outline, outline_of

_SOURCE: Final = ".md"


def refuse_dead_links(config: Config, pages: Mapping[str, str], alerts: Iterable[str]) -> None:
    """Raise ``RenderError`` for the first dead link among the pages, and from alerts to them.

    ``pages`` holds the Markdown by the page's name. Every page must be an alert's or the service
    page, which links to them all and which they all link back to.
    """
    outlines = {name: outline_of(text) for name, text in pages.items()}
    reached = {page: name for name in pages for page in (page_url(config, name),)}
    for alert in alerts:
        if runbook_url(config, alert) not in reached:
            raise RenderError(f"{alert} links to {runbook_url(config, alert)}, where no page is")
    boards = _boards(config)
    for name, outline in outlines.items():
        _refuse_twin_headings(name, outline)
        for target in outline.links:
            reason = _dead(name, target, outlines, boards)
            if reason:
                raise RenderError(f"the page of {name} links to {target}, {reason}")
    _refuse_islands(outlines)


def _boards(config: Config) -> frozenset[str]:
    """Return the addresses of all dashboards and of all their panels."""
    return frozenset(
        {dashboard_url(config, board) for board in Dashboard}
        | {panel_url(config, panel) for panel in Panel}
    )


def _dead(
    name: str, target: str, outlines: Mapping[str, Outline], boards: frozenset[str]
) -> str | None:
    """Return why a link leads nowhere; None where it is alive."""
    if "://" in target:
        return None if target in boards else "where no dashboard and no panel of ours is"
    file, _, fragment = target.partition("#")
    if file and not file.endswith(_SOURCE):
        return f"which is no page; write the page's name with {_SOURCE}"
    page = file.removesuffix(_SOURCE) or name
    if page not in outlines:
        return "where no page is"
    if fragment and fragment not in outlines[page].anchors:
        return f"and {page} has no heading #{fragment}"
    return None


def _refuse_twin_headings(name: str, outline: Outline) -> None:
    twins = {anchor for anchor in outline.anchors if outline.anchors.count(anchor) > 1}
    if twins:
        raise RenderError(
            f"the page of {name} has two headings #{min(twins)}, and a link finds only the first; "
            "word one of them differently"
        )


def _refuse_islands(outlines: Mapping[str, Outline]) -> None:
    for name, outline in outlines.items():
        if name == SERVICE_PAGE:
            continue
        if f"{name}{_SOURCE}" not in outlines[SERVICE_PAGE].links:
            raise RenderError(f"the {SERVICE_PAGE} does not link to the page of {name}")
        if f"{SERVICE_PAGE}{_SOURCE}" not in outline.links:
            raise RenderError(f"the page of {name} does not link back to the {SERVICE_PAGE}")
