"""The measurement file of what was found."""

from collections.abc import Mapping

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.grace.estimate import METHOD, Findings, PoolGrace
from orphanwatch.exporter.instants import Instant, Micros, to_the_second
from orphanwatch.exporter.measurement import Measurement, PoolMeasurement
from orphanwatch.exporter.measurement_file import sealed
from orphanwatch.exporter.names import Role
from orphanwatch.exporter.version import VERSION


def measurement_of(
    findings: Findings, config: Config | None, engines: Mapping[str, str], validity: Micros
) -> Measurement | None:
    """Return the measurement of the pools that were measured; None where none was.

    Without a config it is bound to the quantile, the margin and the names of the pools alone.
    """
    pools = {
        name: measured
        for name, pool in findings.pools.items()
        if (measured := _pool(pool, config.role(name) if config is not None else None)) is not None
    }
    if not pools:
        return None
    measured_at = to_the_second(findings.at)
    return sealed(
        Measurement(
            service=None if config is None else config.service,
            quantile=findings.terms.quantile,
            margin=findings.terms.margin,
            window=findings.terms.window,
            method=METHOD,
            version=VERSION,
            engines=engines,
            measured_at=measured_at,
            valid_until=Instant(measured_at + validity),
            pools=pools,
        )
    )


def _pool(pool: PoolGrace, role: Role | None) -> PoolMeasurement | None:
    if pool.measured is None or pool.estimate is None or pool.upper is None:
        return None
    return PoolMeasurement(
        role=role,
        in_force=pool.measured,
        estimate=pool.estimate,
        upper=pool.upper,
        settled=pool.settled or 0,
        open=pool.open or 0,
        source=pool.source,
        resolution=pool.resolution,
    )
