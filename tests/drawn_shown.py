"""What a panel shows: its answers, its place, its axes, and how its values are written."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from panel_answers import Series, Window

INK: Final = "#24292e"
FAINT: Final = "#6b727b"
COLORS: Final = {
    "green": "#56a64b",
    "yellow": "#e0b400",
    "red": "#e02f44",
    "blue": "#3274d9",
    "purple": "#8f3bb8",
    "orange": "#ff780a",
}

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


class Place(NamedTuple):
    """Where a panel's inside stands on the picture, in parts of it."""

    left: float
    bottom: float
    width: float
    height: float


class Shown(NamedTuple):
    """A panel and what its queries were answered, by their refs."""

    panel: Mapping[str, Any]
    answers: Mapping[str, Sequence[Series]]
    window: Window
    marks: Sequence[float]
    """When an alert began to fire."""

    @property
    def defaults(self) -> Mapping[str, Any]:
        """The panel's own field settings."""
        defaults: Mapping[str, Any] = self.panel["fieldConfig"]["defaults"]
        return defaults

    def overrides(self, ref: str) -> dict[str, Any]:
        """Return what is set for one query only."""
        return {
            setting["id"]: setting["value"]
            for override in self.panel["fieldConfig"].get("overrides", [])
            if override["matcher"]["options"] == ref
            for setting in override["properties"]
        }


def written(value: float, unit: str) -> str:
    """Return a value in its unit, as short as Grafana writes it."""
    if unit == "percentunit":
        return f"{100 * value:.3g}%"
    if unit == "s":
        return _duration(value)
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "K")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}" + (" c/s" if unit == "cps" else "")


def _duration(value: float) -> str:
    for size, word in ((_DAY, "days"), (_HOUR, "h"), (_MINUTE, "min")):
        if abs(value) >= size:
            return f"{value / size:.3g} {word}"
    if abs(value) < 1 and value:
        return f"{1000 * value:.3g} ms"
    return f"{value:.3g} s"


def axes_of(figure: Figure, place: Place, shown: Shown) -> Axes:
    """Return axes over the time shown."""
    axes = figure.add_axes(place)
    axes.set_xlim(shown.window.start, shown.window.end)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: _clock(at)))
    axes.tick_params(labelsize=7, colors=FAINT, length=2)
    axes.grid(visible=True, color="#e6e8eb", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_color("#d5d9de")
    return axes


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")
