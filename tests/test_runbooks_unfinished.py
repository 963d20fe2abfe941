"""A page that is missing, empty or unfinished is not written."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from artifact_configs import small_config
from jinja2 import ChoiceLoader, DictLoader

from orphanwatch.alerts.catalogue import ALERTS
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.errors import RenderError
from orphanwatch.runbooks.render import (
    ALERT_HEADINGS,
    _alert_facts,
    _environment,
    _facts,
    _page,
    render,
)


@dataclass(frozen=True, kw_only=True)
class MadeUpRule:
    """A rule of an alert that the product does not have."""

    expr: str = "x > 0"
    hold: int = 0
    severity: str = "info"
    description: str = "It is."
    time_to_page: int = 1


@dataclass(frozen=True, kw_only=True)
class MadeUpAlert:
    """An alert that the product does not have."""

    name: str
    severity: str = "info"
    summary: str = "It is so."
    rules: Callable[[Config], Sequence[MadeUpRule]] = field(default=lambda _: (MadeUpRule(),))


def test_alert_without_page() -> None:
    """An alert that nobody wrote a page for fails the render, by its name."""
    with pytest.raises(RenderError, match="OrphanNew has no"):
        render(small_config(), [MadeUpAlert(name="OrphanNew")])


def test_unfinished_words() -> None:
    """A page that would say TODO fails the render: an unfinished page is none."""
    rule = MadeUpRule(description="TODO: say what to do")
    alert = MadeUpAlert(name="OrphanTokensAccruing", rules=lambda _: (rule,))
    with pytest.raises(RenderError, match="OrphanTokensAccruing is unfinished: it says TODO"):
        render(small_config(), [alert])


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param("{{ nothing }}", "'nothing' is undefined", id="a name that does not exist"),
        pytest.param('{% extends "alert.md.j2" %}', "Required block", id="a part is not written"),
        pytest.param("## Meaning\n\ntext\n", "has the sections Meaning", id="sections are missing"),
        pytest.param(
            "\n".join(f"## {heading}\n" for heading in ALERT_HEADINGS),
            "says nothing under Is it real",
            id="sections that are empty",
        ),
        pytest.param("{% if %}", "can't be rendered", id="a template that is broken"),
    ],
)
def test_unfinished_page(body: str, problem: str) -> None:
    """A page that is not whole is not written; the error names the page and what is wrong."""
    pages = _environment(html=False)
    assert pages.loader is not None
    pages.loader = ChoiceLoader([DictLoader({"OrphanX.md.j2": body}), pages.loader])
    facts = {**_facts(small_config()), **_alert_facts(small_config(), ALERTS[0])}
    with pytest.raises(RenderError, match=problem) as caught:
        _page(pages, "OrphanX", ALERT_HEADINGS, facts)
    assert "OrphanX" in str(caught.value)
