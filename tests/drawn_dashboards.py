"""Lays the panels of a dashboard out as its JSON says, and draws what they are answered."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from drawn_panels import draw
from drawn_shown import FAINT, INK, Place, Shown
from incident import Incident
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from panel_answers import Window, answers, panels_of
from PIL import Image

ORIGIN: Final = "An incident on a small stack, drawn by our own renderer, not by Grafana"
DIGEST: Final = "Description"
"""The field of a PNG that says which panels were drawn."""
_COLUMNS: Final = 24
_INCHES_WIDE: Final = 15.0
_INCHES_A_ROW: Final = 0.36
_HEAD_ROWS: Final = 2
_MARGIN: Final = 0.004


def write_picture(
    document: Mapping[str, Any], incident: Incident, window: Window, picture: Path
) -> None:
    """Write a dashboard as a PNG that carries the digest of what was drawn."""
    drawn(document, incident, window).savefig(picture, dpi=100, metadata={DIGEST: digest(document)})


def digest(document: Mapping[str, Any]) -> str:
    """Return what tells whether a picture is of this dashboard: its panels and where they stand."""
    panels = [(one["id"], one["type"], one["title"], one["gridPos"]) for one in document["panels"]]
    return hashlib.sha256(repr(panels).encode()).hexdigest()[:16]


def digest_of_picture(picture: Path) -> str:
    """Return the digest that a picture carries."""
    with Image.open(picture) as image:
        return str(image.info[DIGEST])


def drawn(document: Mapping[str, Any], incident: Incident, window: Window) -> Figure:
    """Return the picture of a dashboard."""
    mpl.rcParams["font.family"] = "DejaVu Sans"
    rows = max(p["gridPos"]["y"] + p["gridPos"]["h"] for p in document["panels"]) + _HEAD_ROWS
    figure = Figure(figsize=(_INCHES_WIDE, rows * _INCHES_A_ROW), facecolor="#f4f5f5")
    figure.text(0.01, 1 - 0.7 / rows, document["title"], fontsize=15, color=INK, fontweight="bold")
    figure.text(0.01, 1 - 1.5 / rows, ORIGIN, fontsize=9, color=FAINT)
    marks = _marks(document, incident, window)
    for panel in document["panels"]:
        box = _box(panel["gridPos"], rows)
        if panel["type"] == "row":
            figure.text(
                box.left, box.bottom + box.height * 0.3, f"▾ {panel['title']}",
                fontsize=10.5, color=INK, fontweight="bold",
            )  # fmt: skip
    for panel in document["panels"]:
        if panel["type"] == "text":
            _panel(figure, _box(panel["gridPos"], rows), rows, Shown(panel, {}, window, marks))
    for panel in panels_of(document):
        answered = {
            target["refId"]: answers(incident.prometheus, target, window)
            for target in panel["targets"]
        }
        _panel(figure, _box(panel["gridPos"], rows), rows, Shown(panel, answered, window, marks))
    return figure


def _box(grid: Mapping[str, int], rows: int) -> Place:
    width = (1 - 2 * _MARGIN) / _COLUMNS
    return Place(
        _MARGIN + grid["x"] * width + _MARGIN / 2,
        1 - (_HEAD_ROWS + grid["y"] + grid["h"]) / rows + 0.12 / rows,
        grid["w"] * width - _MARGIN,
        grid["h"] / rows - 0.24 / rows,
    )


def _panel(figure: Figure, box: Place, rows: int, shown: Shown) -> None:
    figure.add_artist(
        Rectangle(
            (box.left, box.bottom), box.width, box.height, transform=figure.transFigure,
            facecolor="white", edgecolor="#dde1e6", linewidth=0.8, zorder=0,
        )
    )  # fmt: skip
    top = 0.75 / rows
    title = shown.panel["title"]
    size = min(9.0, box.width * _INCHES_WIDE * 72 / (0.6 * len(title)))
    figure.text(
        box.left + 0.005, box.bottom + box.height - 0.62 / rows, title,
        fontsize=size, color=INK, fontweight="bold",
    )  # fmt: skip
    is_axes = shown.panel["type"] in {"timeseries", "heatmap", "state-timeline"}
    left, right = (0.044, _right_margin(shown)) if is_axes else (0.004, 0.004)
    bottom = 1.05 / rows if is_axes else 0.2 / rows
    inside = Place(
        box.left + left,
        box.bottom + bottom,
        box.width - left - right,
        box.height - bottom - top - 0.2 / rows,
    )
    draw(figure, inside, shown)


def _right_margin(shown: Shown) -> float:
    has_axis = any(shown.overrides(ref).get("custom.axisPlacement") for ref in shown.answers)
    return 0.04 if has_axis else 0.012


def _marks(document: Mapping[str, Any], incident: Incident, window: Window) -> Sequence[float]:
    """Return when each alert began to fire, within the time shown."""
    (marks,) = document["annotations"]["list"]
    target = {"expr": marks["expr"], "legendFormat": "{{alertname}}"}
    found = answers(incident.prometheus, target, window)
    return sorted({series.points[0][0] for series in found if series.points[0][0] > window.start})
