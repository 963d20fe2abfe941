"""The rollback that a drill tells is that of the service page, in its order."""

import re

from runbook_pages import page

from orphanwatch.exporter.drill.telling import ROLLBACK, rollback_lines


def test_each_step_of_the_rollback_begins_a_step_of_the_service_page() -> None:
    """Who drills learns the words that the page says in earnest."""
    section = page("service-page").split("## Rollback\n")[1].split("\n## ")[0]
    on_page = re.findall(r"^\d[.] (.*)", section, re.MULTILINE)
    told = [re.sub(r"^ +\d[.] ", "", line) for line in list(rollback_lines())[1:]]
    assert tuple(told) == ROLLBACK
    assert [
        said.replace("`", "").lower()[: len(step)]
        for said, step in zip(on_page, ROLLBACK, strict=True)
    ] == list(ROLLBACK)
