"""A page that is missing, empty or unfinished is not written."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from artifact_configs import small_config
from jinja2 import ChoiceLoader, DictLoader

from orphanwatch.alerts.catalogue import ALERTS
from orphanwatch.exporter.errors import RenderError
from orphanwatch.runbooks.facts import alert_facts, page_facts
from orphanwatch.runbooks.render import environment, render, write_page
from orphanwatch.runbooks.wholeness import ALERT_HEADINGS


def written(name: str, body: str) -> str:
    """Return the page that a template of this text gives under a name."""
    pages = environment(html=False)
    assert pages.loader is not None
    pages.loader = ChoiceLoader([DictLoader({f"{name}.md.j2": body}), pages.loader])
    config = small_config()
    facts = {**page_facts(config, "o.yml"), **alert_facts(config, ALERTS[0])}
    return write_page(pages, name, ALERT_HEADINGS, facts)


def filled_in(**changes: str) -> str:
    """Return a template that writes every block, some of them as given."""
    source = Path(__file__).parent.parent / "runbooks" / "templates" / "OrphanLeasesAlive.md.j2"
    text = source.read_text(encoding="utf-8")
    for block, content in changes.items():
        start = f"{{% block {block} %}}"
        before, _, rest = text.partition(start)
        text = f"{before}{start}{content}{{% endblock %}}{rest.partition('{% endblock %}')[2]}"
    return text


def test_alert_without_page() -> None:
    """An alert that nobody wrote a page for fails the render, by its name."""
    pages = environment(html=False)
    with pytest.raises(RenderError, match="OrphanNew has no page; write runbooks/templates/Orph"):
        write_page(pages, "OrphanNew", ALERT_HEADINGS, {})


def test_unfinished_words_of_a_rule() -> None:
    """What a rule says counts as well: a page that would show its TODO fails the render."""
    rules = ALERTS[0].rules(small_config())
    unfinished = tuple(replace(rule, description="TODO: say what to do") for rule in rules)
    alert = replace(ALERTS[0], rules=lambda _: unfinished)
    problem = "OrphanTokensAccruing, under The rule, is unfinished: it says TODO"
    with pytest.raises(RenderError, match=problem):
        render(small_config(), [alert])


def test_a_whole_page() -> None:
    """The template that the next tests spoil is whole as it is."""
    assert written("OrphanX", filled_in()).startswith("# OrphanTokensAccruing\n")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        pytest.param({"meaning": ""}, "says nothing in its block meaning", id="an empty block"),
        pytest.param(
            {"impact": " \n \n"}, "says nothing in its block impact", id="a block of blanks"
        ),
        pytest.param(
            {"formula": "{{ '' }}"}, "says nothing in its block formula", id="a value that is empty"
        ),
        pytest.param(
            {"escalation": "{{ nobody }}"},
            "in its block escalation: 'nobody' is undefined",
            id="a name that does not exist",
        ),
        pytest.param(
            {"diagnosis": "{{ q.no_such_query }}"},
            "in its block diagnosis: .* no attribute 'no_such_query'",
            id="a query that does not exist",
        ),
        pytest.param(
            {"silencing": "TODO"}, "in its block silencing, is unfinished: it says TODO", id="TODO"
        ),
        pytest.param(
            {"meaning": "Fixme later."}, "in its block meaning, .* it says Fixme", id="FIXME"
        ),
        pytest.param(
            {"impact": "Lorem ipsum dolor."}, "it says Lorem ipsum", id="a text that only fills"
        ),
        pytest.param(
            {"who_may_change": "???"}, "in its block who_may_change", id="a question to oneself"
        ),
        pytest.param(
            {"mitigation": "| Drain the workers | | the pool shrinks |"},
            r"a blank cell under Mitigation, in the row \| Drain the workers",
            id="a step without its undo",
        ),
        pytest.param(
            {"mitigation": "Just restart it."},
            "no step under Mitigation",
            id="steps without a table",
        ),
    ],
)
def test_unfinished_block(changes: dict[str, str], problem: str) -> None:
    """A block that is empty, undefined or unfinished is not written; page and block are named."""
    with pytest.raises(RenderError, match=problem) as caught:
        written("OrphanX", filled_in(**changes))
    assert "OrphanX" in str(caught.value)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param("{{ nothing }}", "'nothing' is undefined", id="a name that does not exist"),
        pytest.param('{% extends "alert.md.j2" %}', "Required block", id="a part is not written"),
        pytest.param(
            "# X\n\n## Meaning\n\ntext\n", "has the sections Meaning", id="sections are missing"
        ),
        pytest.param(
            "# X\n\n" + "\n".join(f"## {heading}\n" for heading in ALERT_HEADINGS),
            "says nothing under Meaning",
            id="sections that are empty",
        ),
        pytest.param("{% if %}", "can't be rendered", id="a template that is broken"),
    ],
)
def test_unfinished_page(body: str, problem: str) -> None:
    """A page that is not whole is not written; the error names the page and what is wrong."""
    with pytest.raises(RenderError, match=problem) as caught:
        written("OrphanX", body)
    assert "OrphanX" in str(caught.value)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        pytest.param(
            {"pools": {"free": {"role": "overflow", "owner": " "}}},
            "pools.free.owner is blank",
            id="an owner",
        ),
        pytest.param({"service": ""}, "service: is blank", id="the service"),
        pytest.param(
            {"pools": {"free": {"role": "overflow", "owner": "TODO"}}},
            "service-page, .* is unfinished: it says TODO",
            id="an owner who is still to be found",
        ),
    ],
)
def test_unfinished_config(keys: dict[str, Any], problem: str) -> None:
    """A name that the config leaves blank or open is not rendered as if it were one."""
    with pytest.raises(RenderError, match=problem):
        render(small_config(**keys), ALERTS)
