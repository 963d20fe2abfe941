"""The overview: can the detector see, then the split, then the proof, then what to do about it."""

from typing import Final

from orphanwatch.alerts.catalogue import ALERTS
from orphanwatch.dashboards import evidence, frame, gate, sight, waste
from orphanwatch.dashboards.classic import Document
from orphanwatch.dashboards.links import SERVICE_PAGE, Dashboard, Panel
from orphanwatch.dashboards.panels import AnyPanel, page
from orphanwatch.dashboards.verdict import verdict
from orphanwatch.exporter.config import Config
from orphanwatch.runbooks.panel import panel_text

FILE: Final = f"{Dashboard.OVERVIEW}.json"
PURPOSE: Final = (
    "Calm queue, rising spend, nobody waiting: is the stack decoding for clients that left? "
    "Read it from the top; a gap means unknown, never zero."
)


def overview(config: Config) -> Document:
    """Return the overview dashboard."""
    rows: list[frame.Row] = [
        ("Can the detector see?", [verdict(config), *sight.sight(config)]),
        ("The split: queue depth and token spend on one time axis", evidence.split(config)),
        ("The proof: tokens charged to tasks that nobody waits for", evidence.tokens(config)),
        ("Leases alive past their cutoff", evidence.leases(config)),
        ("What it costs, in the time shown", waste.waste(config)),
        ("Who waits, and what runs twice", evidence.work(config)),
        ("Overflow: open or closed, and how much slack is left", gate.gate(config)),
        ("What to do", [_service_page(config)]),
    ]
    return frame.render(config, Dashboard.OVERVIEW, PURPOSE, rows, (waste.price_variable(),))


def _service_page(config: Config) -> AnyPanel:
    return page(
        Panel.WHAT_TO_DO,
        "Service page",
        "The runbook's service page as it was when this dashboard was built: the threshold line, "
        "the shed rules, the rollback.",
        panel_text(config, SERVICE_PAGE, ALERTS),
    )
