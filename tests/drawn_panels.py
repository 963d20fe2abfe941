"""Draws panels of our dashboards: not as Grafana does it to the pixel, but what it would show."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from drawn_graphs import graph
from drawn_shown import COLORS, FAINT, INK, Place, Shown, axes_of, written
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

_HEAT: Final = LinearSegmentedColormap.from_list("oranges", ["#fff3e4", "#fd8d3c", "#7f2704"])
_EMPTY_BUCKET: Final = 1e-9


def draw(figure: Figure, place: Place, shown: Shown) -> None:
    """Draw one panel's inside."""
    if shown.panel["type"] == "text":
        _words(figure, place, shown)
        return
    if not any(shown.answers.values()):
        _say_no_data(figure, place, shown)
        return
    _KINDS[shown.panel["type"]](figure, place, shown)


def _words(figure: Figure, place: Place, shown: Shown) -> None:
    """Write the beginning of the words, as far as there is room; Grafana scrolls."""
    room = int(place.height * figure.get_size_inches()[1] * 72 / 11.5)
    lines = str(shown.panel["options"]["content"]).splitlines()[:room]
    figure.text(
        place.left + 0.004, place.bottom + place.height, "\n".join(lines),
        ha="left", va="top", fontsize=7.5, color=INK, family="monospace", linespacing=1.3,
    )  # fmt: skip


def _say_no_data(figure: Figure, place: Place, shown: Shown) -> None:
    figure.text(
        place.left + place.width / 2,
        place.bottom + place.height / 2,
        shown.defaults.get("noValue", "no data"),
        ha="center", va="center", fontsize=9, color=FAINT,
    )  # fmt: skip


def _stat(figure: Figure, place: Place, shown: Shown) -> None:
    tiles = _tiles(shown)
    across = place.width >= place.height * 0.9 or len(tiles) == 1
    for number, (name, text, color) in enumerate(tiles):
        part = 1 / len(tiles)
        spot = (
            Place(
                place.left + number * part * place.width,
                place.bottom,
                place.width * part,
                place.height,
            )
            if across
            else Place(
                place.left,
                place.bottom + place.height * (1 - (number + 1) * part),
                place.width,
                place.height * part,
            )
        )
        _tile(figure, spot, name, text, color if _is_solid(shown) else None)


def _is_solid(shown: Shown) -> bool:
    return bool(shown.panel["options"]["colorMode"] == "background_solid")


def _tiles(shown: Shown) -> list[tuple[str, str, str]]:
    """Return name, text and colour of every tile; a query without answer has one too."""
    states = _states(shown)
    tiles = []
    for series in shown.answers.values():
        if not series:
            tiles.append(("", shown.defaults["noValue"], COLORS["yellow"]))
        for one in series:
            value = one.points[-1][1]
            text, color = states.get(value, (_number(value, shown), "green"))
            tiles.append((one.legend, text, COLORS.get(color, color)))
    return tiles


def _number(value: float, shown: Shown) -> str:
    decimals = shown.defaults.get("decimals")
    if decimals is not None:
        return f"{value:.{int(decimals)}f}"
    return written(value, shown.defaults["unit"])


def _states(shown: Shown) -> dict[float, tuple[str, str]]:
    return {
        float(value): (result["text"], result["color"])
        for mapping in shown.defaults.get("mappings", [])
        if mapping["type"] == "value"
        for value, result in mapping["options"].items()
    }


def _tile(figure: Figure, spot: Place, name: str, text: str, background: str | None) -> None:
    if background is not None:
        figure.add_artist(
            Rectangle(
                (spot.left + 0.001, spot.bottom), spot.width - 0.002, spot.height,
                transform=figure.transFigure, facecolor=background, linewidth=0,
            )
        )  # fmt: skip
    middle = spot.left + spot.width / 2
    ink = "white" if background is not None else INK
    room = spot.width * 15 * 72
    size = min(20.0, room / (0.78 * max(len(text), 1)))
    figure.text(
        middle, spot.bottom + spot.height * 0.42, text,
        ha="center", va="center", fontsize=size, color=ink, fontweight="bold",
    )  # fmt: skip
    small = min(8.0, room / (0.64 * max(len(name), 1)))
    figure.text(
        middle, spot.bottom + spot.height * 0.78, name,
        ha="center", va="center", fontsize=small, color=ink,
    )  # fmt: skip


def _timeline(figure: Figure, place: Place, shown: Shown) -> None:
    rows = [(ref, one) for ref, series in shown.answers.items() for one in series]
    names = max(len(one.legend) for _, one in rows)
    left = min(0.0042 * names, place.width * 0.45)
    inner = Place(place.left + left - 0.012, place.bottom, place.width - left + 0.012, place.height)
    axes = axes_of(figure, inner, shown)
    axes.grid(visible=False)
    common = _states(shown)
    for number, (ref, one) in enumerate(rows):
        own = shown.overrides(ref).get("mappings")
        states = _own_states(own) if own else common
        for at, value in one.points:
            color = states.get(value, ("", "yellow"))[1]
            axes.barh(
                -number, shown.window.step * 1.02, left=at, height=0.78,
                color=COLORS.get(color, color), linewidth=0,
            )  # fmt: skip
    axes.set_yticks([-number for number in range(len(rows))], [one.legend for _, one in rows])
    axes.set_ylim(-len(rows) + 0.4, 0.6)


def _own_states(mappings: Iterable[Mapping[str, Any]]) -> dict[float, tuple[str, str]]:
    return {
        float(value): (result["text"], result["color"])
        for mapping in mappings
        if mapping["type"] == "value"
        for value, result in mapping["options"].items()
    }


def _heatmap(figure: Figure, place: Place, shown: Shown) -> None:
    (series,) = shown.answers.values()
    buckets = sorted(series, key=lambda one: float(one.labels["le"]))
    axes = axes_of(figure, place, shown)
    axes.grid(visible=False)
    below: dict[float, float] = {}
    most = max(value for one in buckets for _, value in one.points)
    for number, one in enumerate(buckets):
        for at, value in one.points:
            count = value - below.get(at, 0.0)
            below[at] = value
            if count > _EMPTY_BUCKET:
                axes.barh(
                    number, shown.window.step, left=at, height=0.96,
                    color=_HEAT(count / most), linewidth=0,
                )  # fmt: skip
    unit = shown.panel["options"]["yAxis"]["unit"]
    edges = [float(one.labels["le"]) for one in buckets]
    axes.set_yticks(
        range(len(edges)), ["more" if math.isinf(edge) else written(edge, unit) for edge in edges]
    )
    axes.set_ylim(-0.5, len(edges) - 0.5)
    axes.set_ylabel(shown.panel["options"]["yAxis"]["axisLabel"], fontsize=7, color=FAINT)


_KINDS: Final[dict[str, Callable[[Figure, Place, Shown], None]]] = {
    "timeseries": graph,
    "stat": _stat,
    "state-timeline": _timeline,
    "heatmap": _heatmap,
}
