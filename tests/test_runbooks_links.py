"""Links between the pages, and the HTML: one file, safe whatever the config says."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from artifact_configs import small_config
from runbook_pages import ALERT_NAMES, PAGES, RENDERED, elements, page

from orphanwatch.alerts.artifacts import build as build_alerts
from orphanwatch.dashboards.build import build as build_dashboards
from orphanwatch.exporter.errors import RenderError
from orphanwatch.runbooks.links import refuse_dead_links
from orphanwatch.runbooks.render import render_all


def sources() -> dict[str, str]:
    """Return the Markdown of every page, by the page's name."""
    return {name: RENDERED[f"{name}.md"] for name in PAGES}


@pytest.mark.parametrize("name", PAGES)
def test_markdown_links(name: str) -> None:
    """Each relative link leads to a page that is rendered, and to a heading that is there."""
    files = RENDERED
    for target in re.findall(r"\]\(([^)]+)\)", files[f"{name}.md"]):
        if target.startswith("http"):
            continue
        file, _, fragment = target.partition("#")
        assert (file or f"{name}.md") in files
        headings = re.findall(r"^#+ (.+)$", files[file or f"{name}.md"], re.MULTILINE)
        assert not fragment or fragment in {
            heading.lower().replace(" ", "-") for heading in headings
        }


@pytest.mark.parametrize("name", PAGES)
def test_html_links(name: str) -> None:
    """Each relative link of an HTML page leads to an HTML page that is rendered, to an id on it."""
    files = RENDERED
    ids = {
        file: {attributes["id"] for _, attributes in elements(text) if "id" in attributes}
        for file, text in files.items()
        if file.endswith(".html")
    }
    links = [
        str(attributes["href"]) for tag, attributes in elements(files[f"{name}.html"]) if tag == "a"
    ]
    assert links
    for target in links:
        if target.startswith("http"):
            continue
        file, _, fragment = target.partition("#")
        assert not fragment or fragment in ids[file or f"{name}.html"]
        assert (file or f"{name}.html") in ids


@pytest.mark.parametrize("name", PAGES)
def test_html_needs_nothing_else(name: str) -> None:
    """An HTML page is one file: no script, no picture, no style sheet or font from elsewhere."""
    text = RENDERED[f"{name}.html"]
    tags = {tag for tag, _ in elements(text)}
    assert not tags & {"script", "img", "iframe", "object", "form"}
    # An icon of no bytes: else each browser asks for one, and logs a 404.
    icon = {"rel": "icon", "href": "data:,"}
    assert [attributes for tag, attributes in elements(text) if tag == "link"] == [icon]
    assert "url(" not in text
    assert "@import" not in text
    assert '<meta name="viewport"' in text
    assert "prefers-color-scheme: dark" in text


@pytest.mark.parametrize("name", PAGES)
def test_dashboard_links(name: str) -> None:
    """Each link to a dashboard names one that is built, and a panel that stands on it."""
    boards = {
        json.loads(text)["uid"]: set(panel_ids(json.loads(text)["panels"]))
        for text in build_dashboards(small_config()).values()
    }
    links = re.findall(
        r"\]\(http://127\.0\.0\.1:3000/d/([\w-]+)(?:\?viewPanel=(\d+))?\)", page(name)
    )
    assert links
    for board, panel in links:
        assert not panel or int(panel) in boards[board]
        assert board in boards


def panel_ids(panels: list[dict[str, Any]]) -> Iterator[int]:
    """Return the ids of panels, of those in folded rows too."""
    for panel in panels:
        yield panel["id"]
        yield from panel_ids(panel.get("panels") or [])


def test_every_alert_is_reached_from_the_service_page() -> None:
    """The service page links to each alert's page, and each of those links back."""
    for name in ALERT_NAMES:
        assert f"]({name}.md)" in page("service-page")
        assert "](service-page.md)" in page(name)


@pytest.mark.parametrize(
    ("base", "address"),
    [
        pytest.param("http://127.0.0.1:9787/runbook", "http://127.0.0.1:9787/runbook/{}",
                     id="the exporter's own pages"),
        pytest.param("https://runbooks.example.com/llm", "https://runbooks.example.com/llm/{}",
                     id="pages that were moved elsewhere"),
        pytest.param("https://files.example.com/{page}.html", "https://files.example.com/{}.html",
                     id="pages on a server of plain files"),
    ],
)  # fmt: skip
def test_every_rule_links_to_a_page(base: str, address: str) -> None:
    """The runbook_url of each rule is the address of a page, and each page is some alert's."""
    config = small_config(links={"runbook_base_url": base})
    rules = yaml.safe_load(build_alerts(config)["orphanwatch.rules.yml"])
    linked = {
        rule["annotations"]["runbook_url"]
        for group in rules["groups"]
        for rule in group["rules"]
        if "alert" in rule
    }
    pages = {name.removesuffix(".html") for name in render_all(config) if name.endswith(".html")}
    assert linked == {address.format(name) for name in pages - {"service-page"}}


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        pytest.param("OrphanGone.md", "where no page is", id="no such page"),
        pytest.param("service-page.md#nowhere", "has no heading #nowhere", id="no such heading"),
        pytest.param(
            "#nowhere", "has no heading #nowhere", id="no such heading on the page itself"
        ),
        pytest.param("service-page.html", "write the page's name with .md", id="the wrong ending"),
        pytest.param(
            "http://127.0.0.1:3000/d/orphanwatch-overview?viewPanel=999",
            "no panel of ours",
            id="no such panel",
        ),
        pytest.param("https://example.com/x", "no dashboard", id="somewhere else"),
    ],
)
def test_a_dead_link_is_not_rendered(link: str, problem: str) -> None:
    """A page with a link that leads nowhere fails the render, by page, link and reason."""
    pages = sources()
    pages["OrphanLeasesAlive"] += f"\nSee [this]({link}).\n"
    with pytest.raises(RenderError, match=re.escape(problem)) as caught:
        refuse_dead_links(small_config(), pages, ALERT_NAMES)
    assert f"the page of OrphanLeasesAlive links to {link}" in str(caught.value)


def test_an_alert_that_links_to_no_page_is_not_rendered() -> None:
    """An alert whose runbook_url leads nowhere fails the render."""
    pages = sources()
    del pages["OrphanLeasesAlive"]
    with pytest.raises(RenderError, match="runbook/OrphanLeasesAlive, where no page is"):
        refuse_dead_links(small_config(), pages, ALERT_NAMES)


@pytest.mark.parametrize(
    ("page_name", "gone", "problem"),
    [
        pytest.param(
            "service-page",
            "](OrphanLeasesAlive.md)",
            "does not link to the page of OrphanLeasesAlive",
            id="a page that nothing leads to",
        ),
        pytest.param(
            "OrphanLeasesAlive",
            "](service-page.md)",
            "OrphanLeasesAlive does not link back",
            id="a page that does not lead back",
        ),
    ],
)
def test_an_island_is_not_rendered(page_name: str, gone: str, problem: str) -> None:
    """The service page and the alerts' pages lead to each other, or nothing is rendered."""
    pages = sources()
    pages[page_name] = pages[page_name].replace(gone, "](#threshold)")
    with pytest.raises(RenderError, match=problem):
        refuse_dead_links(small_config(), pages, ALERT_NAMES)


def test_two_headings_of_one_name_are_not_rendered() -> None:
    """A fragment that would find only the first of two headings is refused."""
    pages = sources()
    pages["OrphanLeasesAlive"] += "\n### Meaning\n"
    with pytest.raises(RenderError, match="two headings #meaning"):
        refuse_dead_links(small_config(), pages, ALERT_NAMES)


def test_hostile_names() -> None:
    """Names in a config become text, never markup: no tag, no broken table or code."""
    pools = {
        "a|b": {"role": "overflow", "owner": "<script>alert(1)</script> *x* | `y`"},
        "`tick": {"role": "paid", "lease_cap": 1, "owner": "[link](javascript:0)"},
    }
    files = render_all(small_config(pools=pools, service="<b>|llm_*"))
    for file, text in files.items():
        if not file.endswith(".html"):
            continue
        tags = elements(text)
        assert Counter(tag for tag, _ in tags if tag in {"script", "b", "em"}) == Counter(
            tag for tag, _ in elements(RENDERED[file]) if tag == "em"
        )
        assert not [
            1 for _, attributes in tags if (attributes.get("href") or "").startswith("java")
        ]
    service = files["service-page.html"]
    assert "&lt;script&gt;alert(1)&lt;/script&gt; *x* | `y`" in service
    assert "<code>a|b</code>" in service
    assert "<code>`tick</code>" in service
    for table in re.findall(r"<table.*?</table>", service, re.DOTALL):
        widths = {
            len(re.findall(r"<t[hd]\b", row))
            for row in re.findall(r"<tr>.*?</tr>", table, re.DOTALL)
        }
        assert len(widths) == 1
