"""What the samples of a pool say about its grace, and whether they can carry it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Final, NamedTuple

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.grace.curve import Curve, Samples
from orphanwatch.exporter.instants import SECOND, Instant, Micros
from orphanwatch.exporter.measurement import MeasuredFrom
from orphanwatch.exporter.names import GraceSource

METHOD: Final = (
    "product-limit (Kaplan-Meier), open ones right-censored; bound: lower edge of the two-sided "
    "95 % log-log (Greenwood) band"
)

_SIGNIFICANT: Final = 2
_LEAST: Final = Micros(1000)
"""No cancel is promised to arrive in less than a millisecond."""
_DOUBT: Final = 0.05
_NORMAL_975: Final = 1.959963984540054
"""The normal quantile of a two-sided 95 % band."""


class Terms(NamedTuple):
    """What a grace is asked to be."""

    quantile: float
    margin: float
    window: Micros

    @classmethod
    def of(cls, config: Config, quantile: float | None = None) -> "Terms":
        """Return the terms of a config, or of another quantile."""
        return cls(quantile or config.grace_quantile, config.grace_margin, config.grace_window)

    @property
    def least_settled(self) -> int:
        """How many must have settled: with one fewer, all of them may lie below the quantile.

        The largest of n falls short of the quantile with probability q to the n.
        """
        return math.ceil(math.log(_DOUBT) / math.log(self.quantile))


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSamples:
    """The samples of one pool, with what they were read from. None is unknown."""

    samples: Samples | None
    """None where settled or open ones can't be known; ``unknown`` says why."""
    source: MeasuredFrom
    settled: int | None
    open: int | None
    slow: int = 0
    """Of the settled ones those that took longer than the last edge; how much is not known."""
    unknown: str = ""
    edges: tuple[Micros, ...] = ()
    """Of the histogram that the samples come from; empty where each is known by itself."""

    def resolution_at(self, bound: Micros) -> Micros | None:
        """Return the width of the bucket that a bound is the upper edge of."""
        if not self.edges:
            return None
        return Micros(bound - max((edge for edge in self.edges if edge < bound), default=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolGrace:
    """What was found for one pool. None is what the curve does not reach, or unknown."""

    quantile: float
    estimate: Micros | None
    upper: Micros | None
    measured: Micros | None
    """The grace to put in force; None where it stays a proposal."""
    settled: int | None
    open: int | None
    reason: str
    source: MeasuredFrom
    resolution: Micros | None = None
    curve: Curve | None = None
    longest: Micros | None = None
    """Of the samples; how far a picture of them reaches."""

    @property
    def status(self) -> GraceSource:
        """Whether the samples can carry a grace."""
        return GraceSource.PROPOSAL if self.measured is None else GraceSource.MEASURED


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """One measuring: every pool's, and what must be said about all of it."""

    at: Instant
    terms: Terms
    pools: Mapping[str, PoolGrace]
    in_force: Mapping[str, Micros | None]
    """What the exporter uses at present, by pool; None is unknown."""
    notes: tuple[str, ...] = ()

    @property
    def unknown(self) -> tuple[str, ...]:
        """The pools of which nobody can tell, since something could not be read."""
        return tuple(
            name for name, pool in self.pools.items() if pool.settled is None or pool.open is None
        )


def pool_grace(found: PoolSamples, terms: Terms) -> PoolGrace:
    """Return what samples say about a grace. It is measured only where they can carry it."""
    quantile = terms.quantile
    if found.samples is None:
        return PoolGrace(
            quantile=quantile,
            estimate=None,
            upper=None,
            measured=None,
            settled=found.settled,
            open=found.open,
            reason=found.unknown,
            source=found.source,
        )
    curve = Curve.of(found.samples)
    estimate, upper = curve.reaches(quantile), curve.surely_reaches(quantile)
    lacking = _lacking(curve, found, terms)
    return PoolGrace(
        quantile=quantile,
        estimate=estimate,
        upper=upper,
        measured=in_force(upper, terms.margin) if upper is not None and not lacking else None,
        settled=found.settled,
        open=found.open,
        reason=lacking or f"{found.settled} settled and {found.open} open carry the quantile",
        source=found.source,
        resolution=None if upper is None else found.resolution_at(upper),
        curve=curve,
        longest=found.samples.longest,
    )


def _lacking(curve: Curve, found: PoolSamples, terms: Terms) -> str:
    """Return what the samples lack to carry the quantile; empty where they do."""
    settled, asked = found.settled or 0, f"{100 * terms.quantile:g} %"
    if settled == 0 and not found.open:
        return "no client cancelled a task that held a lease"
    if settled < terms.least_settled:
        return f"{settled} settled, and {asked} takes at least {terms.least_settled}"
    if curve.reaches(terms.quantile) is None:
        most = max(curve.stopped, default=0.0)
        never = (found.open or 0) + found.slow
        how = "took longer than can be told" if found.slow else "have not stopped"
        return (
            f"the curve ends at {100 * most:.4g} %, below {asked}: {never} of "
            f"{settled + (found.open or 0)} {how}; mend the cancel path first"
        )
    if curve.surely_reaches(terms.quantile) is None:
        most, open_ones = max(curve.low, default=0.0), found.open or 0
        needed = settled_for_bound(terms.quantile, open_ones)
        # Open ones that are shorter than settled ones widen the band further.
        more = f"about {needed} settled" if settled < needed else "more"
        return (
            f"the band's lower edge ends at {100 * most:.4g} %, below {asked}: "
            f"{settled} settled and {open_ones} open, and it takes {more}"
        )
    return ""


def settled_for_bound(quantile: float, open_ones: int) -> int:
    """Return how many must settle, all before the open ones, until the bound exists.

    At the end of the curve the share S not stopped is open / all, and the log-log band's edge is
    1 - S ** exp(-z sqrt(Greenwood) / -ln S), where Greenwood's sum is (1 - S) / (all S).
    """
    few, many = 1, 2
    while _edge(many, open_ones) < quantile:
        few, many = many, 2 * many
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if _edge(middle, open_ones) >= quantile else (middle, many)
    return many


def _edge(settled: int, open_ones: int) -> float:
    everyone = settled + open_ones
    # Where nobody is left the band has no value; its edge is drawn as if the last had not stopped.
    left = max(open_ones, 1) / everyone
    doubt = _NORMAL_975 * math.sqrt((1 - left) / (everyone * left)) / -math.log(left)
    return float(1 - left ** math.exp(-doubt))


def in_force(upper: Micros, margin: float) -> Micros:
    """Return a bound with its margin, rounded up to two significant digits, never down.

    In decimals, of what is written: 0.8 s with a margin of 1.5 is 1.2 s and not 1.3 s, which the
    product of two floating point numbers, a trace above 1.2, would make of it.
    """
    exact = Decimal(upper) * Decimal(repr(margin))
    if exact <= _LEAST:
        return _LEAST
    step = Decimal(1).scaleb(exact.adjusted() - _SIGNIFICANT + 1)
    rounded = (exact / step).to_integral_value(rounding=ROUND_CEILING) * step
    return Micros(int(rounded.to_integral_value(rounding=ROUND_CEILING)))


def as_seconds(length: Micros | None) -> float | None:
    """Return a length in seconds; None stays unknown."""
    return None if length is None else length / SECOND
