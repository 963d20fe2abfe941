"""What the grace behind the rules rests on, in one line that a rule carries."""

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import format_bound, format_instant


def grace_provenance(config: Config) -> str:
    """Return each pool's grace in force and its source, and the measurement that was used.

    Where something was measured its digest, instant and end follow: by the digest the file is
    found again, and a rule of an old one is told from a rule of today's.
    """
    graces = ", ".join(
        f"{pool} {format_bound(config.grace_of(pool))} ({config.grace_source(pool)})"
        for pool in config.pool_names
    )
    # A name that looks like a template would be read as one.
    graces = graces.replace("{{", "{ {").replace("}}", "} }")
    found = config.measurement
    if found is None:
        return graces
    measured, until = format_instant(found.measured_at), format_instant(found.valid_until)
    return f"{graces}; measured {measured}, valid until {until}, digest {found.digest}"
