"""The curve of "stopped by": Kaplan and Meier's product-limit estimate, with its band.

E. L. Kaplan, P. Meier, "Nonparametric estimation from incomplete observations", Journal of the
American Statistical Association 53 (1958); the band is Greenwood's, on the log-log scale.
"""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import CensoredData, ecdf

from orphanwatch.exporter.instants import Micros

Parts = NDArray[np.float64]

LEVEL: Final = 0.95
"""Of the two-sided band: its lower edge alone is passed by one curve in forty."""

_ROUNDING: Final = 1e-12
"""What a product of some thousand factors may be off: 0.99 must be reached at 99 of 100."""


@dataclass(frozen=True, slots=True)
class Samples:
    """How long cancels took, and for how long others have been under way without a stop."""

    settled: Sequence[Micros] = ()
    open: Sequence[Micros] = ()
    """Lower bounds: each stops later than that, if ever."""

    @property
    def longest(self) -> Micros:
        """The longest of all; 0 where there is none."""
        return Micros(max((*self.settled, *self.open), default=0))


@dataclass(frozen=True, slots=True)
class Curve:
    """Which part of the cancels had stopped their task by when; a step at each of ``at``."""

    at: tuple[Micros, ...]
    stopped: tuple[float, ...]
    low: tuple[float, ...]
    """The lower edge of the band."""
    high: tuple[float, ...]

    @classmethod
    def of(cls, samples: Samples) -> Self:
        """Return the curve of samples; one without a step where none has settled."""
        if not samples.settled:
            return cls((), (), (), ())
        result, held_back = _ecdf(samples), _held_back(samples)
        steps = result.cdf.quantiles
        stopped = result.cdf.probabilities
        low, high = _band(result)
        if held_back is not samples:
            low, _ = _band(_ecdf(held_back))
        return cls(
            tuple(steps.astype(np.int64).tolist()),
            tuple(stopped.tolist()),
            tuple(low.tolist()),
            tuple(high.tolist()),
        )

    def reaches(self, quantile: float) -> Micros | None:
        """Return the smallest propagation at which the curve reaches a quantile, if any."""
        return self._first(self.stopped, quantile)

    def surely_reaches(self, quantile: float) -> Micros | None:
        """Return the same for the lower edge of the band: an upper bound of the propagation."""
        return self._first(self.low, quantile)

    def _first(self, parts: Iterable[float], quantile: float) -> Micros | None:
        least = quantile - _ROUNDING
        return next((at for at, part in zip(self.at, parts, strict=True) if part >= least), None)


def _ecdf(samples: Samples) -> Any:
    return ecdf(
        CensoredData(
            uncensored=np.asarray(samples.settled, dtype=float),
            right=np.asarray(samples.open, dtype=float),
        )
    )


def _held_back(samples: Samples) -> Samples:
    """Return the samples that the lower edge is drawn from.

    Where the very last to settle leave nobody behind, the curve reaches 1, and there the band's
    formula divides nothing by nothing. As if one of them had not stopped yet, it has a value, and
    one that never promises too much. Everywhere before it is the same.
    """
    last = max(samples.settled)
    if samples.open and max(samples.open) >= last:
        return samples
    settled = list(samples.settled)
    settled.remove(last)
    return Samples(settled, (*samples.open, last))


def _band(result: Any) -> tuple[Parts, Parts]:
    """Return both edges; where the formula has no value, 0 below the curve and 1 above it."""
    with warnings.catch_warnings():
        # It warns of points without a value: before the first stop, and after the last.
        warnings.simplefilter("ignore", RuntimeWarning)
        band = result.cdf.confidence_interval(LEVEL, method="log-log")
    low = np.nan_to_num(band.low.probabilities, nan=0.0)
    high = np.nan_to_num(band.high.probabilities, nan=1.0)
    return low, high
