"""Numbers, traces and descriptions are written as Prometheus and promtool read them."""

import pytest

from orphanwatch.alerts.alert import Firing
from orphanwatch.alerts.promql import number, seconds
from orphanwatch.alerts.templates import humanized, spoken
from orphanwatch.alerts.traces import Trace, climb, every_fourth_missed, flat, gone, written
from orphanwatch.exporter.errors import RenderError


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(0.0, "0", id="zero has no point"),
        pytest.param(0.1, "0.1", id="a tenth is exact"),
        pytest.param(1e-7, "0.0000001", id="a small number has no exponent"),
        pytest.param(1e16, "10000000000000000", id="a large number has no exponent"),
        pytest.param(100, "100", id="the zeros of a hundred stay"),
    ],
)
def test_numbers_are_exact_decimals(value: float, text: str) -> None:
    """No float noise and no exponent reaches a rule."""
    assert number(value) == text


def test_seconds_are_exact() -> None:
    """A length in microseconds is written in full."""
    assert [seconds(60_000_000), seconds(1_500_000), seconds(1)] == ["60", "1.5", "0.000001"]


@pytest.mark.parametrize(
    ("trace", "text"),
    [
        pytest.param(flat(3, 4), "3+0x3", id="one value and three more"),
        pytest.param(climb(5, 10, 3), "5+10x2", id="a climb names its step"),
        pytest.param((5.0, 4.0, 3.0), "5-1x2", id="a fall has a minus"),
        pytest.param((1.0, 0.0), "1 0", id="two values are no run"),
        pytest.param((1.0, 0.0, 0.0), "1 0+0x1", id="a step before a run is not swallowed"),
        pytest.param(gone(1), "stale", id="one missed scrape"),
        pytest.param(flat(1, 2) + gone(3) + (7.0,), "1+0x1 stale _x2 7", id="a hole, then a value"),
        pytest.param(
            every_fourth_missed(flat(2, 8)), "2+0x2 stale 2+0x2 stale", id="every fourth is missed"
        ),
    ],
)
def test_traces_in_promtools_notation(trace: Trace, text: str) -> None:
    """A trace reads back as the same values: promtool's xN is one value and N more."""
    assert written(trace) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(0, "0", id="zero"),
        pytest.param(40, "40", id="below a thousand as it is"),
        pytest.param(1234, "1.234k", id="thousands"),
        pytest.param(13_000_000, "13M", id="millions"),
        pytest.param(0.25, "250m", id="thousandths"),
    ],
)
def test_humanized_as_prometheus_does(value: float, text: str) -> None:
    """The test file demands exactly what Prometheus writes."""
    assert humanized(value) == text


def test_a_template_nobody_speaks_for_is_refused() -> None:
    """A description with a template that the case leaves open can't be demanded."""
    with pytest.raises(RenderError, match="does not say"):
        spoken("Pool {{ $labels.pool }} leaks.", Firing())
