"""Cancels of known laws, measured over and over: how often the reported bound is honest.

A law says how long a cancel takes; some never stop. Cancels come evenly over an hour, and at its
end one that has not stopped is open. The table stands in the documentation.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from orphanwatch.exporter.grace.curve import Samples
from orphanwatch.exporter.grace.estimate import PoolSamples, Terms, pool_grace
from orphanwatch.exporter.instants import SECOND, Micros
from orphanwatch.exporter.measurement import MeasuredFrom

RUNS: Final = 1000
HOUR: Final = 3600.0
HEAD: Final = (
    "| law | never stop | quantile | cancels | measured | bound holds | without the open ones |"
)

Lengths = NDArray[np.float64]


@dataclass(frozen=True)
class Law:
    """A mixture of lengths, in seconds: each with its weight."""

    name: str
    parts: tuple[tuple[float, "stats.distributions.rv_frozen"], ...]

    def draw(self, random: np.random.Generator, count: int) -> Lengths:
        """Return lengths of cancels that do stop their task."""
        weights = [weight for weight, _ in self.parts]
        chosen = random.choice(len(weights), size=count, p=weights)
        drawn = [part.rvs(size=count, random_state=random) for _, part in self.parts]
        return np.choose(chosen, drawn)

    def quantile(self, quantile: float, never: float) -> float:
        """Return the true quantile of all cancels; infinite where too many never stop."""
        wanted = quantile / (1 - never)
        if wanted >= 1:
            return np.inf
        highest = max(float(part.ppf(1 - 1e-9)) for _, part in self.parts)
        return float(optimize.brentq(lambda at: self._stopped(at) - wanted, 0, highest))

    def _stopped(self, at: float) -> float:
        return sum(weight * float(part.cdf(at)) for weight, part in self.parts)


LAWS: Final = (
    Law("log-normal, median 0.4 s", ((1.0, stats.lognorm(0.5, scale=0.4)),)),
    Law("exponential, mean 0.3 s", ((1.0, stats.expon(scale=0.3)),)),
    Law(
        "bimodal: 0.2 s, one in twenty 3 s",
        ((0.95, stats.lognorm(0.3, scale=0.2)), (0.05, stats.lognorm(0.2, scale=3.0))),
    ),
)
CASES: Final = (
    (0.0, 0.99, 1000),
    (0.005, 0.99, 1000),
    (0.1, 0.8, 400),
    (0.2, 0.7, 400),
    (0.4, 0.5, 400),
    (0.4, 0.99, 1000),
)
"""Which part never stops, the quantile that is asked for, and how many cancels there are.

The last quantile can't be reached: whatever is promised then is wrong.
"""


@dataclass(frozen=True)
class Row:
    """What came of the runs of one law."""

    law: Law
    never: float
    quantile: float
    cancels: int
    measured: float
    holds: float
    naive_holds: float

    def __str__(self) -> str:
        """Return the row of the table."""
        cells = (
            self.law.name,
            f"{100 * self.never:g} %",
            f"{self.quantile:g}",
            f"{self.cancels:,}",
            f"{100 * self.measured:.1f} %",
            f"{100 * self.holds:.1f} %",
            f"{100 * self.naive_holds:.1f} %",
        )
        return f"| {' | '.join(cells)} |"


def simulated() -> Iterator[Row]:
    """Yield a row for every law and case: always the same ones."""
    for number, law in enumerate(LAWS):
        for case in CASES:
            yield simulate(law, *case, np.random.default_rng([number, CASES.index(case)]))


def simulate(
    law: Law, never: float, quantile: float, cancels: int, random: np.random.Generator
) -> Row:
    """Return how often the bound was at least the true quantile, or nothing was promised."""
    truth = law.quantile(quantile, never)
    terms = Terms(quantile, 1.0, Micros(int(HOUR) * SECOND))
    measured = holds = naive_holds = 0
    for _ in range(RUNS):
        samples = drawn(law, never, cancels, random)
        bound = bound_of(samples, terms)
        naive = bound_of(Samples(samples.settled), terms)
        measured += bound is not None
        holds += is_honest(bound, truth)
        naive_holds += is_honest(naive, truth)
    shares = (measured / RUNS, holds / RUNS, naive_holds / RUNS)
    return Row(law, never, quantile, cancels, *shares)


def drawn(law: Law, never: float, count: int, random: np.random.Generator) -> Samples:
    """Return the samples of one hour."""
    since = random.uniform(0, HOUR, count)
    lengths = law.draw(random, count)
    lengths[random.uniform(size=count) < never] = np.inf
    has_stopped = lengths <= since
    return Samples(
        np.rint(lengths[has_stopped] * SECOND).astype(np.int64).tolist(),
        np.rint(since[~has_stopped] * SECOND).astype(np.int64).tolist(),
    )


def bound_of(samples: Samples, terms: Terms) -> Micros | None:
    """Return the bound that the product reports as measured, if it does."""
    found = PoolSamples(
        samples=samples,
        source=MeasuredFrom.STORES,
        settled=len(samples.settled),
        open=len(samples.open),
    )
    grace = pool_grace(found, terms)
    return None if grace.measured is None else grace.upper


def is_honest(bound: Micros | None, truth: float) -> bool:
    """Return whether nothing is promised, or what is promised holds."""
    return bound is None or bound >= truth * SECOND


def table(rows: list[Row]) -> str:
    """Return the table of the documentation."""
    return "\n".join([HEAD, "| --- " * 7 + "|", *map(str, rows)]) + "\n"
