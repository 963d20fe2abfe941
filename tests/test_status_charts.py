"""The two charts of the status page, and the memory that they are made of."""

import pytest

from orphanwatch.exporter.history import SLOT, SPAN, History, Moment, remember
from orphanwatch.exporter.instants import Instant, micros
from orphanwatch.exporter.names import Action
from orphanwatch.exporter.status.charts import charts_of

NOW = Instant(1_700_000_000_000_000)
SILENCE = micros(30)


def moment(age: float, action: Action = Action.SCALE, depth: float | None = 4.0) -> Moment:
    """Return a moment that is some seconds old."""
    return Moment(Instant(NOW - micros(age)), action, depth, 32.0, 100.0, 90.0, 0.0)


def queue_of(*moments: Moment) -> tuple[tuple[str, ...], list[tuple[str, float, float]]]:
    """Return the strokes of the queue's depth, and its gaps, for a history."""
    charts = charts_of(moments, NOW, SILENCE)
    assert charts is not None
    queue = charts.charts[0]
    return queue.lines[0].strokes, [(gap.look, gap.x, gap.width) for gap in queue.gaps]


def test_nothing_is_drawn_before_there_is_anything() -> None:
    """An empty history makes no picture of calm."""
    assert charts_of((), NOW, SILENCE) is None
    assert charts_of((moment(1000),), NOW, SILENCE) is None


@pytest.mark.parametrize(
    ("moments", "strokes", "gaps"),
    [
        pytest.param(
            (moment(900), moment(895), moment(890)),
            ("0,92 5,92 10,92 10,92",),
            [("unknown", 10.0, 890.0)],
            id="it ends where nothing has been evaluated for long",
        ),
        pytest.param(
            (moment(10), moment(5)),
            ("850,92 875,92 900,92",),
            [("before", 0.0, 850.0)],
            id="what was read last holds until now, and before the first there is nothing",
        ),
        pytest.param(
            (moment(15), moment(10, depth=None), moment(5)),
            ("825,92 850,92", "875,92 900,92"),
            [("unknown", 850.0, 25.0), ("before", 0.0, 825.0)],
            id="an unknown value is a gap, not a zero",
        ),
        pytest.param(
            (moment(100), moment(5)),
            ("400,92 400,92", "875,92 900,92"),
            [("unknown", 400.0, 475.0), ("before", 0.0, 400.0)],
            id="a long silence is a gap",
        ),
    ],
)
def test_lines_and_gaps(
    moments: History, strokes: tuple[str, ...], gaps: list[tuple[str, float, float]]
) -> None:
    """The line is drawn where the value is known, and only there."""
    assert queue_of(*moments) == (strokes, gaps)


@pytest.mark.parametrize(
    ("age", "minutes"),
    [
        pytest.param(5, (3, 2, 1), id="after the start"),
        pytest.param(180, (3, 2, 1), id="three minutes"),
        pytest.param(181, (6, 4, 2), id="more than three"),
        pytest.param(361, (15, 10, 5), id="more than six"),
    ],
)
def test_the_axis_is_no_longer_than_what_was_seen(
    age: float, minutes: tuple[int, int, int]
) -> None:
    """After a start the charts are not nearly empty for a quarter of an hour."""
    charts = charts_of((moment(age),), NOW, SILENCE)
    assert charts is not None
    assert charts.minutes == minutes


def test_all_lines_of_a_chart_share_one_scale() -> None:
    """The upper edge is a round number that holds the largest of them."""
    charts = charts_of((moment(5),), NOW, SILENCE)
    assert charts is not None
    assert [chart.top for chart in charts.charts] == ["50", "100"]
    assert [key.now for key in charts.charts[1].keys] == ["100", "90", "0"]


def test_a_chart_is_told_in_words_too() -> None:
    """Who does not see it hears it."""
    charts = charts_of((moment(10, depth=9.0), moment(5)), NOW, SILENCE)
    assert charts is not None
    assert charts.charts[0].summary == "Queue depth: now 4, lowest 4, highest 9 waiting."
    unknown = charts_of((moment(5, depth=None),), NOW, SILENCE)
    assert unknown is not None
    assert unknown.charts[0].summary == "Queue depth: unknown."


def test_verdicts_along_the_axis() -> None:
    """Equal neighbours are one stretch, and each change is told with its time."""
    charts = charts_of(
        (moment(20), moment(15), moment(10, Action.SHED), moment(5, Action.SHED)), NOW, SILENCE
    )
    assert charts is not None
    assert [(each.x, each.width, each.words) for each in charts.verdicts] == [
        (800.0, 50.0, "scale"),
        (850.0, 50.0, "shed"),
    ]
    assert charts.verdict_words == "Verdicts: scale from 22:13:00Z, shed from 22:13:10Z."


def test_memory_is_bounded() -> None:
    """However often it is evaluated, and however long: one moment a slot, and none too old."""
    history: History = ()
    for age in range(7200, 0, -1):
        history = remember(history, moment(age))
    assert len(history) <= SPAN // SLOT + 1
    assert history[0].at > NOW - SPAN - micros(2)
    assert history[-1] == moment(1)


def test_a_clock_that_was_set_back_begins_anew() -> None:
    """No line runs backwards."""
    assert remember((moment(20), moment(10)), moment(15)) == (moment(15),)
