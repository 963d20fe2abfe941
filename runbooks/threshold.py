"""The one threshold line of the service page: signal, number, rationale."""

from dataclasses import dataclass

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import SECOND, Micros
from orphanwatch.exporter.names import GraceSource

_MILLISECOND = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """The grace that the line is made of, and where it comes from."""

    grace: Micros
    source: GraceSource

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
    overflow pool has been measured.
    """
    pools = config.overflow_pools
    sources = {config.grace_source(pool) for pool in pools}
    return Threshold(
        grace=max((config.grace_of(pool) for pool in pools), default=config.grace),
        source=GraceSource.MEASURED if sources == {GraceSource.MEASURED} else GraceSource.PROPOSAL,
    )


def grace_text(grace: Micros) -> str:
    """Return a grace as ``850ms``, ``1s`` or ``1.2s``, to the millisecond, rounded up."""
    milliseconds = -(-grace // _MILLISECOND)
    if milliseconds * _MILLISECOND < SECOND:
        return f"{milliseconds}ms"
    return f"{milliseconds / 1000:.3f}".rstrip("0").rstrip(".") + "s"
