"""The one threshold line of the service page: signal, number, rationale, and its source."""

from dataclasses import dataclass
from typing import Final

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.errors import RenderError
from orphanwatch.exporter.instants import (
    Instant,
    Micros,
    format_bound,
    format_instant,
    to_the_second,
)
from orphanwatch.exporter.measurement import Measurement
from orphanwatch.exporter.names import GraceSource
from orphanwatch.runbooks.markdown import code, plain

_UNMEASURED: Final = "not measured yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """The grace that the line is made of, and where it comes from."""

    grace: Micros
    source: GraceSource
    provenance: str
    """The source and what it rests on, as Markdown on one line."""
    measured_at: str = _UNMEASURED
    expires_at: str = "never: a proposal has no date"

    @property
    def number(self) -> str:
        """The grace as ``850ms``, ``1s`` or ``1.2s``."""
        return grace_text(self.grace)

    @property
    def line(self) -> str:
        """The line itself."""
        return (
            f"Shed overflow when lease_age + {self.number} > deadline_slack; "
            "utilization on the free pool is not an SLO."
        )


def threshold_of(config: Config) -> Threshold:
    """Return the threshold in force: the largest grace of the overflow pools, never understated.

    Without an overflow pool it is the default grace. It counts as measured only where every
    overflow pool has been measured. Raises ``RenderError`` for a measurement that does not say
    what it rests on.
    """
    pools = config.overflow_pools
    slowest = max(pools, key=config.grace_of, default=None)
    grace = config.grace if slowest is None else config.grace_of(slowest)
    open_pools = [pool for pool in pools if config.grace_source(pool) is GraceSource.PROPOSAL]
    measurement = config.measurement
    if slowest is None or open_pools or measurement is None:
        said = _why_proposed(config, open_pools)
        return Threshold(grace=grace, source=GraceSource.PROPOSAL, provenance=said)
    return Threshold(
        grace=grace,
        source=GraceSource.MEASURED,
        provenance=f"`measured`: {_rests_on(measurement, slowest)}",
        measured_at=_stamp(measurement.measured_at),
        expires_at=_stamp(measurement.valid_until),
    )


def grace_rests_on(config: Config, pool: str) -> str:
    """Return what one pool's grace rests on, as Markdown on one line."""
    measurement = config.measurement
    if measurement is None or config.grace_source(pool) is GraceSource.PROPOSAL:
        return _UNMEASURED
    return _sample(measurement, pool)


def grace_text(grace: Micros) -> str:
    """Return a grace as ``850ms``, ``1s`` or ``1.2s``, to the millisecond, rounded up."""
    return format_bound(grace)


def _why_proposed(config: Config, open_pools: list[str]) -> str:
    if config.measurement_problem:
        return f"`proposal`: the measured grace is not used, {plain(config.measurement_problem)}"
    if config.measurement is not None and open_pools:
        named = ", ".join(code(pool) for pool in open_pools)
        return f"`proposal`: not every overflow pool is measured, {named} is missing"
    return "`proposal`: not measured yet, taken from `grace_seconds` in the config"


def _rests_on(measurement: Measurement, pool: str) -> str:
    method, version = plain(measurement.method), plain(measurement.version)
    engines = [f"{plain(name)} {plain(text)}" for name, text in measurement.engines.items()]
    return ", ".join(
        (
            f"{_sample(measurement, pool)} of pool {code(pool)}",
            f"from {measurement.pools[pool].source} by {method}",
            f"with orphanwatch {version}",
            *engines,
            f"margin {measurement.margin:g}",
            f"on {_stamp(measurement.measured_at)}",
            f"valid until {_stamp(measurement.valid_until)}",
        )
    )


def _sample(measurement: Measurement, pool: str) -> str:
    found = measurement.pools[pool]
    stated = {
        "settled": found.settled,
        "method": measurement.method.strip(),
        "version": measurement.version.strip(),
    }
    missing = [name for name, value in stated.items() if not value]
    if missing:
        raise RenderError(
            f"the measurement does not say its {', '.join(missing)}, and the threshold line needs "
            "it; measure again with orphanwatch grace --save"
        )
    return (
        f"quantile {measurement.quantile:g} is {grace_text(found.estimate)}, "
        f"at most {grace_text(found.upper)}, "
        f"over {found.settled} settled and {found.open} open cancels"
    )


def _stamp(at: Instant) -> str:
    return format_instant(to_the_second(at))
