"""The curve of what stopped by when, its band and quantiles: by hand, and once more, naively."""

import math
import re
from fractions import Fraction

import pytest
from documentation import DOCS
from hypothesis import given, settings
from hypothesis import strategies as some

from orphanwatch.exporter.grace.curve import Curve, Samples
from orphanwatch.exporter.grace.estimate import (
    PoolSamples,
    Terms,
    in_force,
    pool_grace,
    settled_for_bound,
)
from orphanwatch.exporter.instants import Micros
from orphanwatch.exporter.measurement import MeasuredFrom
from orphanwatch.exporter.names import GraceSource

Z = 1.959963984540054
"""The normal quantile that a two-sided band of 95 % is drawn with."""


def samples(settled: list[int], open_ones: list[int]) -> Samples:
    """Return samples of whole microseconds."""
    return Samples([Micros(each) for each in settled], [Micros(each) for each in open_ones])


def terms(quantile: float, margin: float = 1.5) -> Terms:
    """Return terms of a quantile."""
    return Terms(quantile, margin, Micros(1))


@pytest.mark.parametrize(
    ("settled", "open_ones", "steps"),
    [
        pytest.param([3, 1, 2], [], {1: "1/3", 2: "2/3", 3: "1"}, id="each that settles is a step"),
        pytest.param([1, 1, 2, 2], [], {1: "1/2", 2: "1"}, id="ties are one step"),
        pytest.param(
            [1, 3], [2], {1: "1/3", 2: "1/3", 3: "1"}, id="an open one leaves to those behind it"
        ),
        pytest.param(
            [1, 2], [2], {1: "1/3", 2: "2/3"}, id="open at a stop's instant: it was still there"
        ),
        pytest.param(
            [1, 2, 4], [1, 3, 9], {1: "1/6", 2: "3/8", 3: "3/8", 4: "11/16", 9: "11/16"},
            id="those that stay open at the end keep the curve below 1",
        ),
        pytest.param([0, 0, 5], [], {0: "2/3", 5: "1"}, id="a cancel may take no time at all"),
        pytest.param([7], [], {7: "1"}, id="one sample is a curve"),
        pytest.param([], [4, 5], {}, id="with all of them open there is no curve"),
        pytest.param([], [], {}, id="with none there is no curve"),
    ],
)  # fmt: skip
def test_the_curve_by_hand(settled: list[int], open_ones: list[int], steps: dict[int, str]) -> None:
    """Product-limit: at each step, of those still under way the part that stops then goes."""
    curve = Curve.of(samples(settled, open_ones))
    shown = dict(zip(curve.at, curve.stopped, strict=True))
    assert shown == pytest.approx({at: float(Fraction(part)) for at, part in steps.items()})


def test_the_band_by_hand() -> None:
    """Greenwood on the log-log scale, for 4 that stop at 1, 2, 3 and 4 and 6 that stay open."""
    curve = Curve.of(samples([1, 2, 3, 4], [9] * 6))
    left = 0.7  # three of ten have stopped
    greenwood = 1 / (10 * 9) + 1 / (9 * 8) + 1 / (8 * 7)
    spread = Z * math.sqrt(greenwood) / abs(math.log(left))
    assert curve.stopped[2] == pytest.approx(0.3)
    assert curve.low[2] == pytest.approx(1 - left ** math.exp(-spread))
    assert curve.high[2] == pytest.approx(1 - left ** math.exp(spread))


@pytest.mark.parametrize(
    ("settled", "open_ones", "quantile", "estimate"),
    [
        pytest.param(100, 0, 0.99, 99, id="it is reached at exactly 99 of 100"),
        pytest.param(1000, 0, 0.999, 999, id="and at 999 of 1,000"),
        pytest.param(98, 2, 0.99, None, id="two of 100 that stay open are too many for 0.99"),
        pytest.param(99, 1, 0.99, 99, id="one of them is not"),
        pytest.param(60, 40, 0.5, 50, id="with 40 % that never stop the median is still there"),
    ],
)
def test_where_the_quantile_is(
    settled: int, open_ones: int, quantile: float, estimate: int | None
) -> None:
    """The smallest propagation at which the curve reaches it, no rounding error too late."""
    curve = Curve.of(samples(list(range(1, settled + 1)), [10**6] * open_ones))
    assert curve.reaches(quantile) == estimate


@pytest.mark.parametrize("count", [299, 537])
def test_the_last_stop_alone_carries_no_bound(count: int) -> None:
    """Where nobody is left the band has no value: the edge stays where it was before."""
    curve = Curve.of(samples(list(range(count)), []))
    assert curve.stopped[-1] == 1
    assert curve.low[-1] == curve.low[-2] < 0.99
    assert curve.surely_reaches(0.99) is None


@pytest.mark.parametrize(("count", "bound"), [(537, None), (538, 250_000)])
def test_cancels_that_all_take_as_long_have_a_bound(count: int, bound: int | None) -> None:
    """In one bucket of a histogram, for one: the edge is as if the last had not stopped yet."""
    curve = Curve.of(samples([250_000] * count, []))
    assert curve.reaches(0.99) == 250_000
    assert curve.surely_reaches(0.99) == bound


def test_the_page_says_how_many_a_bound_takes() -> None:
    """With as many the edge reaches the quantile, with one fewer it does not."""
    page = (DOCS / "grace.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (0\.9\d*) \| ([\d,]+) \| ([\d,]+) \| ([\d,]+) \|$", page, re.MULTILINE)
    assert [row[0] for row in rows] == ["0.99", "0.95", "0.9"]
    for quantile, *counts in rows:
        for open_ones, shown in zip((0, 2, 5), counts, strict=True):
            count = int(shown.replace(",", ""))
            carries = [
                Curve.of(samples(list(range(1, settled + 1)), [10**6] * open_ones)).surely_reaches(
                    float(quantile)
                )
                is not None
                for settled in (count - 1, count)
            ]
            assert carries == [False, True], (quantile, open_ones)
            assert settled_for_bound(float(quantile), open_ones) == count


lengths = some.lists(some.integers(0, 30), max_size=40)


@settings(max_examples=300, deadline=None)
@given(settled=lengths, open_ones=lengths)
def test_the_curve_is_that_of_a_naive_reading_of_the_formula(
    settled: list[int], open_ones: list[int]
) -> None:
    """With any ties: the curve in exact fractions, the band from the textbook's own formula."""
    curve = Curve.of(samples(settled, open_ones))
    expected = naive_curve(settled, open_ones)
    assert list(curve.at) == [at for at, *_ in expected]
    for shown, part in zip(curve.stopped, expected, strict=True):
        assert shown == pytest.approx(float(part[1]), abs=1e-12)
    for shown, part in zip(curve.low, expected, strict=True):
        assert shown == pytest.approx(part[2], abs=1e-9)
    for quantile in (0.5, 0.9, 0.99):
        reached = [at for at, stopped, _ in expected if stopped >= Fraction(str(quantile))]
        assert curve.reaches(quantile) == (reached[0] if reached else None)


def naive_curve(settled: list[int], open_ones: list[int]) -> list[tuple[int, Fraction, float]]:
    """Return instant, part that stopped, and lower edge, instant by instant."""
    if not settled:
        return []
    found, left, greenwood, edge = [], Fraction(1), Fraction(0), 0.0
    for at in sorted({*settled, *open_ones}):
        at_risk = sum(each >= at for each in (*settled, *open_ones))
        stop = settled.count(at)
        counted = stop if stop < at_risk else stop - 1
        shown = left * Fraction(at_risk - stop, at_risk)
        left *= Fraction(at_risk - counted, at_risk)
        greenwood += Fraction(counted, at_risk * (at_risk - counted))
        if left < 1:
            spread = Z * math.sqrt(greenwood) / abs(math.log(left))
            edge = 1 - float(left) ** math.exp(-spread)
        found.append((at, 1 - shown, edge))
    return found


@pytest.mark.parametrize(
    ("quantile", "least"),
    [(0.99, 299), (0.95, 59), (0.9, 29), (0.5, 5)],
)
def test_how_many_must_have_settled(quantile: float, least: int) -> None:
    """With fewer, all of them may lie below the quantile, more often than once in twenty."""
    assert terms(quantile).least_settled == least
    assert quantile**least <= 0.05 < quantile ** (least - 1)


@pytest.mark.parametrize(
    ("upper", "margin", "grace"),
    [
        pytest.param(800_000, 1.5, 1_200_000, id="0.8 s by 1.5 is 1.2 s, in decimals"),
        pytest.param(800_001, 1.5, 1_300_000, id="a microsecond more is more"),
        pytest.param(850_000, 1.0, 850_000, id="two digits stay as they are"),
        pytest.param(850_001, 1.0, 860_000, id="up, never down"),
        pytest.param(1_000_000, 1.1, 1_100_000, id="1.1 is 1.1 and not a trace above it"),
        pytest.param(666_667, 1.5, 1_100_000, id="1.0000005 s is 1.1 s"),
        pytest.param(66_400_000, 1.5, 100_000_000, id="99.6 s is 100 s"),
        pytest.param(5_000, 1.5, 7_500, id="milliseconds have two digits as well"),
        pytest.param(0, 1.5, 1_000, id="none is less than a millisecond"),
    ],
)
def test_a_grace_is_the_bound_with_its_margin_rounded_up(
    upper: int, margin: float, grace: int
) -> None:
    """To two significant digits, in exact decimals."""
    assert in_force(Micros(upper), margin) == grace


@given(
    upper=some.integers(0, 10**12),
    margin=some.sampled_from([1.0, 1.1, 1.2, 1.25, 1.5, 1.7, 2.0, 3.3]),
)
def test_a_grace_never_understates(upper: int, margin: float) -> None:
    """And overstates by less than a tenth, where it is a millisecond or more."""
    exact = Fraction(str(margin)) * upper
    grace = in_force(Micros(upper), margin)
    assert exact <= grace
    assert grace == 1000 or grace < exact * Fraction(11, 10)
    assert grace == 1000 or len(str(grace).rstrip("0")) <= 2


@pytest.mark.parametrize(
    ("settled", "open_ones", "quantile", "said"),
    [
        pytest.param(0, 0, 0.99, "no client cancelled a task that held a lease", id="nothing"),
        pytest.param(298, 0, 0.99, "298 settled, and 99 % takes at least 299", id="too few"),
        pytest.param(
            980, 20, 0.99,
            "the curve ends at 98 %, below 99 %: 20 of 1000 have not stopped; mend the cancel path "
            "first",
            id="too many that never stop",
        ),
        pytest.param(
            299, 0, 0.99,
            "the band's lower edge ends at 98.25 %, below 99 %: 299 settled and 0 open, "
            "and it takes about 538 settled",
            id="enough for the estimate, too few for the bound",
        ),
    ],
)  # fmt: skip
def test_what_the_samples_lack(settled: int, open_ones: int, quantile: float, said: str) -> None:
    """It stays a proposal, and says why."""
    grace = pool_grace(pool(settled, open_ones), terms(quantile))
    assert (grace.status, grace.measured) == (GraceSource.PROPOSAL, None)
    assert grace.reason == said


def test_samples_that_carry_the_quantile_are_a_measurement() -> None:
    """1,000 that took 1 to 1,000 ms, two that never stop."""
    grace = pool_grace(pool(1000, 2), terms(0.99))
    assert grace.status is GraceSource.MEASURED
    assert grace.estimate == 992_000
    assert grace.upper is not None
    assert grace.upper > grace.estimate
    assert grace.measured == in_force(grace.upper, 1.5)
    assert grace.reason == "1000 settled and 2 open carry the quantile"


def pool(settled: int, open_ones: int) -> PoolSamples:
    """Return a pool whose settled ones took a millisecond more each, and open ones an hour."""
    return PoolSamples(
        samples=samples(
            [1000 * each for each in range(1, settled + 1)], [3600 * 10**6] * open_ones
        ),
        source=MeasuredFrom.STORES,
        settled=settled,
        open=open_ones,
    )
