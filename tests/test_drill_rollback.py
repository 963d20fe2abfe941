"""The rollback that a drill tells is that of the service page, in its order."""

import re

import pytest
from runbook_pages import page

from orphanwatch.exporter.drill.telling import ROLLBACK, rollback_lines


@pytest.mark.parametrize(
    ("promoted", "head"),
    [
        pytest.param(True, "Nothing to roll back. Should", id="promoted: nothing went wrong"),
        pytest.param(False, "Were this for real, roll back", id="not promoted"),
    ],
)
def test_each_step_of_the_rollback_begins_a_step_of_the_service_page(
    promoted: bool,  # noqa: FBT001  (a column of the table)
    head: str,
) -> None:
    """Who drills learns the words that the page says in earnest."""
    section = page("service-page").split("## Rollback\n")[1].split("\n## ")[0]
    on_page = re.findall(r"^\d[.] (.*)", section, re.MULTILINE)
    told = [
        re.sub(r"^ +\d[.] ", "", line)
        for line in rollback_lines(promoted=promoted)
        if line.startswith(" ")
    ]
    assert tuple(told) == ROLLBACK
    assert next(rollback_lines(promoted=promoted)).startswith(head)
    assert [
        said.replace("`", "").lower()[: len(step)]
        for said, step in zip(on_page, ROLLBACK, strict=True)
    ] == list(ROLLBACK)
