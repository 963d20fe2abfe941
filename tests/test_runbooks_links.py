"""Links between the pages, and the HTML: one file, safe whatever the config says."""

import re

import pytest
from artifact_configs import small_config
from runbook_pages import ALERT_NAMES, PAGES, elements, page

from orphanwatch.runbooks.render import (
    render_all,
)


@pytest.mark.parametrize("name", PAGES)
def test_markdown_links(name: str) -> None:
    """Each relative link leads to a page that is rendered, and to a heading that is there."""
    files = render_all(small_config())
    for target in re.findall(r"\]\(([^)]+)\)", files[f"{name}.md"]):
        if target.startswith("http"):
            continue
        file, _, fragment = target.partition("#")
        assert file in files
        headings = re.findall(r"^#+ (.+)$", files[file], re.MULTILINE)
        assert not fragment or fragment in {
            heading.lower().replace(" ", "-") for heading in headings
        }


@pytest.mark.parametrize("name", PAGES)
def test_html_links(name: str) -> None:
    """Each relative link of an HTML page leads to an HTML page that is rendered, to an id on it."""
    files = render_all(small_config())
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
    text = render_all(small_config())[f"{name}.html"]
    tags = {tag for tag, _ in elements(text)}
    assert not tags & {"script", "img", "link", "iframe", "object", "form"}
    assert "url(" not in text
    assert "@import" not in text
    assert '<meta name="viewport"' in text
    assert "prefers-color-scheme: dark" in text


def test_every_alert_is_reached_from_the_service_page() -> None:
    """The service page links to each alert's page, and each of those links back."""
    for name in ALERT_NAMES:
        assert f"]({name}.md)" in page("service-page")
        assert "](service-page.md)" in page(name)


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
        assert not {tag for tag, _ in tags} & {"script", "b", "em"}
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
