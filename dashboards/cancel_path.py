"""The cancel path: how fast cancels arrive, on what grace, and what is left when they don't."""

from typing import Final

from orphanwatch.dashboards import frame, propagation, sight, slack
from orphanwatch.dashboards.classic import Document
from orphanwatch.dashboards.links import Dashboard, Panel
from orphanwatch.exporter.config import Config

FILE: Final = f"{Dashboard.CANCEL_PATH}.json"
PURPOSE: Final = (
    "From the client that leaves to the worker that stops: how long a cancel takes, the grace it "
    "is given, and the leases for which it will come too late."
)


def cancel_path(config: Config) -> Document:
    """Return the dashboard of the cancel path."""
    rows: list[frame.Row] = [
        (
            "Can the detector see?",
            [
                sight.reachable(config, Panel.CANCEL_PATH_EXPORTER, width=8),
                sight.readable(config, Panel.CANCEL_PATH_STORES, width=16),
            ],
        ),
        ("How long a cancel takes to reach its worker", propagation.times(config)),
        ("Cancels that come late, or never", propagation.late(config)),
        ("The grace: what is in force, and for how long", propagation.grace(config)),
        ("What is left: lease age against deadline slack", slack.leases(config)),
        ("What makes orphans: second decoders, lost ids, mixed pools", slack.faults(config)),
    ]
    return frame.render(config, Dashboard.CANCEL_PATH, PURPOSE, rows)
