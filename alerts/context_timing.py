"""Ranges and holds of the alerts that say how things are set up, derived like those of timing."""

from typing import Final

from orphanwatch.alerts import timing
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import Micros, micros

PROPAGATION_RANGE: Final = micros(86400)
"""A day of propagation samples: fewer hours mix in their own hour, more hide today's change."""


def mixed_hold(config: Config) -> Micros:
    """Return how long pools must be mixed.

    A worker that moves to another pool on purpose may leave a lease behind, which is live until
    its time to live is over.
    """
    return timing.whole_scrapes(config, timing.lease_ttl(config) + timing.fault_hold(config))


def sample_delay(config: Config) -> Micros:
    """Return how long after its last sign of work a propagation is observed."""
    return timing.charge_window(config)
