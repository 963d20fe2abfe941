"""A measured grace: what was measured, what it rests on, and whether it is in force.

Reading and writing the file is ``measurement_file``'s business; measuring is ``grace``'s.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, NamedTuple

from orphanwatch.exporter.instants import Instant, Micros, format_instant, to_the_second
from orphanwatch.exporter.names import OTHER_POOL, Role

VALIDITY: Final = Micros(30 * 86_400_000_000)
"""How long a measurement holds, unless it is said otherwise when it is saved."""


class MeasuredFrom(StrEnum):
    """What the samples of a pool were read from."""

    STORES = "stores"
    """The stores, and the samples that ``serve`` keeps in its state file."""
    STORES_AND_DRILLS = "stores+drills"
    """The same, with the samples of drills that broke nothing."""
    PROMETHEUS = "prometheus"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolMeasurement:
    """The grace of one pool, and the samples that carry it."""

    role: Role | None
    """None where it was not known: measured from Prometheus without a config, or ``other``."""
    in_force: Micros
    """The upper bound times the margin, rounded up to two significant digits."""
    estimate: Micros
    upper: Micros
    settled: int
    open: int
    """Cancels that had not stopped their task yet."""
    source: MeasuredFrom
    resolution: Micros | None = None
    """How coarse estimate and bound are: the width of the histogram bucket that the bound is the
    edge of. None where they come from single samples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A whole measurement file. A pool that it does not hold stays a proposal."""

    service: str | None
    """None where it was not known: measured from Prometheus without a config."""
    quantile: float
    margin: float
    window: Micros
    method: str
    version: str
    """Of the orphanwatch that measured."""
    engines: Mapping[str, str] = field(default_factory=dict)
    """Versions of what runs the work, as they were stated."""
    measured_at: Instant
    valid_until: Instant
    pools: Mapping[str, PoolMeasurement]
    config_digest: str = ""
    """Of what must be the same in the config: see ``bound_to``."""
    digest: str = ""
    """Of the whole file but this line: it shows a change by hand."""

    def expires_by(self, at: Instant) -> bool:
        """Return whether it does not hold at an instant any more; it holds up to its last one."""
        return at > self.valid_until


class Bond(NamedTuple):
    """What of a config a measurement is bound to: with another of these, it says nothing."""

    service: str
    quantile: float
    margin: float
    roles: Mapping[str, Role]
    """Of the configured pools. A pool that is new does not concern what was measured before."""


def mismatch(measurement: Measurement, bond: Bond) -> str:
    """Return why a measurement does not fit a config; empty where it does."""
    for key, then, now in (
        ("service", measurement.service, bond.service),
        ("grace_quantile", measurement.quantile, bond.quantile),
        ("grace_margin", measurement.margin, bond.margin),
    ):
        if then is not None and then != now:
            return f"was measured with {key} {then}, and the config says {now}"
    for name, pool in measurement.pools.items():
        if name != OTHER_POOL and name not in bond.roles:
            return f"has a pool {name}, which the config does not have"
        if pool.role is not None and pool.role is not bond.roles[name]:
            return f"was measured with pool {name} as {pool.role}, now it is {bond.roles[name]}"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementFile:
    """What the file named by ``grace: {file: …}`` holds, as far as it may be used."""

    path: str
    remedy: str
    """The command that measures and writes it again."""
    measurement: Measurement | None
    """None where it may not be used; ``reason`` says why."""
    reason: str = ""

    @property
    def problem(self) -> str:
        """A sentence for whoever must mend it, remedy included; empty where all is well."""
        if not self.reason:
            return ""
        return f"grace.file: {self.path} {self.reason}; run {self.remedy}"

    def refused(self, reason: str) -> "MeasurementFile":
        """Return the file with nothing to use in it, and the reason."""
        return replace(self, measurement=None, reason=reason)

    def fitting(self, bond: Bond) -> "MeasurementFile":
        """Return the file as it may be used with a config."""
        reason = mismatch(self.measurement, bond) if self.measurement is not None else ""
        return self.refused(reason) if reason else self

    def as_of(self, at: Instant) -> "MeasurementFile":
        """Return the file as it may be used at an instant."""
        if self.measurement is None or not self.measurement.expires_by(at):
            return self
        until = format_instant(to_the_second(self.measurement.valid_until))
        return self.refused(f"has expired: valid until {until}")
