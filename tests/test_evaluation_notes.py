"""What an evaluation says of what it can't know, where numbers alone leave people guessing."""

from pathlib import Path

import pytest
from plain_stack import plain

LOST = "depth, calm and the split signal are unknown"


@pytest.mark.parametrize(
    ("at", "note"),
    [
        pytest.param(30, None, id="a fresh sample needs no note"),
        pytest.param(89, None, id="a sample of a minute ago still counts"),
        pytest.param(
            125.5,
            f"the newest queue sample is 1m36s old, and counts for 1m: {LOST}",
            id="an old sample is named with its age",
        ),
    ],
)
def test_a_queue_that_says_nothing_is_told(tmp_path: Path, at: float, note: str | None) -> None:
    """The store is up and its series are absent: the reason stands in the notes."""
    notes = plain(tmp_path).evaluate(at).notes
    assert [each for each in notes if "queue" in each] == ([note] if note else [])


def test_a_queue_without_any_sample_is_told(tmp_path: Path) -> None:
    """An empty table is readable, and no calm."""
    stack = plain(tmp_path)
    stack.run_sql("DELETE FROM queue")
    assert f"the queue store holds no sample with a time: {LOST}" in stack.evaluate(30).notes
