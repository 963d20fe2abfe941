"""The forms of a dashboard that Grafana reads."""

from enum import StrEnum


class Model(StrEnum):
    """A form of a dashboard's JSON."""

    CLASSIC = "classic"
    """Every Grafana from 9 to 13 imports it, and provisions it from files."""
    V2 = "v2"
    """The resource ``dashboard.grafana.app/v2``, Grafana 13's own."""
