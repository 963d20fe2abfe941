"""A page as the content of a dashboard's text panel: the same words, links that lead somewhere."""

import re

import pytest
from artifact_configs import small_config
from runbook_pages import PAGES, RENDERED

from orphanwatch.alerts.catalogue import ALERTS
from orphanwatch.runbooks.panel import panel_text
from orphanwatch.runbooks.render import GENERATED

_TARGET = re.compile(r"\]\(([^)]+)\)")


@pytest.mark.parametrize("name", PAGES)
def test_the_same_words(name: str) -> None:
    """The panel says what the page says, to the letter; only links lead elsewhere."""
    text = panel_text(small_config(), name, ALERTS)
    source = RENDERED[f"{name}.md"].removeprefix(GENERATED)
    assert _TARGET.sub("]", text) == _TARGET.sub("]", source)


@pytest.mark.parametrize("name", PAGES)
def test_links_are_absolute(name: str) -> None:
    """A panel lies on another server than the pages, so each of its links is a whole address."""
    base = "https://runbooks.example.com/llm"
    text = panel_text(small_config(links={"runbook_base_url": base}), name, ALERTS)
    targets = _TARGET.findall(text)
    assert targets
    assert all(target.startswith((f"{base}/", "http://127.0.0.1:3000/d/")) for target in targets)


def test_a_fragment_keeps_its_page() -> None:
    """A link to a heading leads to the heading, on the page that it stands on."""
    text = panel_text(small_config(), "OrphanTokensAccruing", ALERTS)
    assert "(http://127.0.0.1:9787/runbook/OrphanTokensAccruing#the-rule)" in text
    assert "(http://127.0.0.1:9787/runbook/service-page#rollback)" in text


def test_no_such_page() -> None:
    """A page that does not exist is no empty panel."""
    with pytest.raises(KeyError):
        panel_text(small_config(), "OrphanGone", ALERTS)
