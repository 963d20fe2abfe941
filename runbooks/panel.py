"""A runbook page as the content of a Grafana text panel: the same words, links made absolute."""

import re
from collections.abc import Iterable
from typing import Final

from orphanwatch.dashboards.links import page_url
from orphanwatch.exporter.config import Config
from orphanwatch.runbooks.render import CONFIG_FILE, pages_of
from orphanwatch.runbooks.rules import PageAlert

_PAGE_LINK: Final = re.compile(r"\]\((?:([\w-]+)\.md)?(#[\w-]+)?\)")


def panel_text(
    config: Config, page: str, alerts: Iterable[PageAlert], config_file: str = CONFIG_FILE
) -> str:
    """Return a page's Markdown for a text panel of mode ``markdown``.

    ``page`` is an alert's name, or ``service-page``. Raises ``RenderError`` as ``render`` does,
    and ``KeyError`` for a page that does not exist.
    """
    return _PAGE_LINK.sub(
        lambda link: f"]({page_url(config, link[1] or page)}{link[2] or ''})",
        pages_of(config, alerts, config_file)[page],
    )
