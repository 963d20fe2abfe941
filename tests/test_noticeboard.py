"""What is published goes stale, whatever the clocks do meanwhile."""

import made_up_boards as made_up
import pytest

from orphanwatch.exporter.instants import SECOND, Instant
from orphanwatch.exporter.names import Action
from orphanwatch.exporter.noticeboard import Noticeboard
from orphanwatch.exporter.state import Counters

STALE_AFTER = 30


@pytest.mark.parametrize(
    ("wall", "steady", "is_current"),
    [
        pytest.param(29, 29, True, id="soon after"),
        pytest.param(31, 31, False, id="once it is stale"),
        pytest.param(-3600 + 29, 29, True, id="the clock set back: soon after"),
        pytest.param(-3600 + 31, 31, False, id="the clock set back: stale all the same"),
        pytest.param(3600, 1, False, id="the clock set forward, or the machine was asleep"),
    ],
)
def test_an_evaluation_is_shown_until_it_is_stale(
    wall: int, steady: int, *, is_current: bool
) -> None:
    """A refresh that hangs while the clock is set back must not leave the gate open for hours."""
    passed = {"wall": 0, "steady": 0}
    counters = Counters(counters={}, histograms={}, exemplars={})
    board = Noticeboard(
        made_up.config(),
        lambda: Instant(made_up.AT + passed["wall"] * SECOND),
        counters,
        steady=lambda: 1000.0 + passed["steady"],
    )
    board.publish(made_up.evaluation(Action.SCALE, "calm"), counters)
    passed |= {"wall": wall, "steady": steady}
    assert (board.current().evaluation is not None) is is_current
