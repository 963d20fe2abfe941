"""The overview: can the detector see, then the split, then the proof, then what to do about it."""

from grafana_foundation_sdk.builders import dashboard as builders

from orphanwatch.dashboards import evidence
from orphanwatch.dashboards.frame import empty_dashboard, encode
from orphanwatch.dashboards.gate import gate
from orphanwatch.dashboards.links import OVERVIEW_UID, PANEL_OF_ALERT, SERVICE_PAGE, page_url
from orphanwatch.dashboards.sight import sight
from orphanwatch.exporter.config import Config

FILE = f"{OVERVIEW_UID}.json"
FIRST_ROW_ID = 101  # well above the panels' own
PURPOSE = (
    "Calm queue, rising spend, nobody waiting: is the stack decoding for clients that left? "
    "Read it from the top; a gap means unknown, never zero."
)


def overview(config: Config) -> str:
    """Return the overview dashboard as JSON."""
    built = empty_dashboard(config, OVERVIEW_UID, "Orphanwatch / Overview", PURPOSE)
    rows = (
        ("Can the detector see?", sight(config)),
        ("The split: queue depth and token spend on one time axis", evidence.split(config)),
        ("The proof: tokens charged to tasks that nobody waits for", evidence.tokens(config)),
        ("Leases alive past their cutoff", evidence.leases(config)),
        ("Who waits, and what runs twice", evidence.work(config)),
        ("Overflow: open or closed, and how much slack is left", gate(config)),
    )
    for place, (title, row) in enumerate(rows):
        built = built.with_row(builders.Row(title).id(FIRST_ROW_ID + place))
        for panel in row:
            built = built.with_panel(panel.links([_page_link(config, panel.build().id_val)]))
    return encode(built)


def _page_link(config: Config, panel: int | None) -> builders.DashboardLink:
    page = next((name for name, shown in PANEL_OF_ALERT.items() if shown == panel), SERVICE_PAGE)
    return (
        builders.DashboardLink(f"What to do: {page}")
        .url(page_url(config, page))
        .target_blank(target_blank=True)
    )
