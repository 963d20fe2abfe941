"""Draws graphs: lines over time with their limits, second axis, alert marks and legend."""

import math
from collections.abc import Mapping, Sequence
from itertools import cycle, pairwise
from typing import Any, Final

import numpy as np
from drawn_shown import COLORS, FAINT, INK, Place, Shown, axes_of, written
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator
from panel_answers import Series, Window

_LINES: Final = (
    "#56a64b", "#e0b400", "#3274d9", "#ff780a", "#e02f44", "#1f60c4",
    "#a352cc", "#7c5b99", "#37872d", "#c4162a", "#0aa5b8", "#fa6400",
)  # fmt: skip
_MOST_IN_LEGEND: Final = 12
_LEGEND_POINTS: Final = 7.0


def graph(figure: Figure, place: Place, shown: Shown) -> None:
    """Draw lines over time, with what is drawn into them, and their legend."""
    inner = _above_legend(figure, place, shown)
    axes = axes_of(figure, inner, shown)
    right: Axes | None = None
    handles: list[Line2D] = []
    colors = cycle(_LINES)
    for ref, series in shown.answers.items():
        settings = shown.overrides(ref)
        on = axes
        if settings.get("custom.axisPlacement") == "right":
            right = right or _right_axes(axes, settings)
            on = right
        for one in series:
            fixed = settings.get("color", {}).get("fixedColor")
            color = COLORS.get(fixed, fixed) if fixed else next(colors)
            handles.append(_line(on, one, color, settings, shown.window))
    _scale(axes, shown)
    _thresholds(axes, shown)
    for at in shown.marks:
        axes.axvline(at, color=COLORS["red"], linewidth=0.8, linestyle=(0, (2, 3)), alpha=0.8)
    _legend(figure, place, inner, shown, handles)


def _right_axes(axes: Axes, settings: Mapping[str, Any]) -> Axes:
    right: Axes = axes.twinx()
    unit = settings.get("unit", "short")
    right.yaxis.set_major_formatter(FuncFormatter(lambda value, _: written(value, unit)))
    right.yaxis.set_major_locator(MaxNLocator(5))
    right.set_ylabel(settings.get("custom.axisLabel", ""), fontsize=7, color=FAINT)
    right.tick_params(labelsize=7, colors=FAINT, length=2)
    for side in ("top", "right", "left", "bottom"):
        right.spines[side].set_color("#d5d9de")
    return right


def _line(
    axes: Axes, series: Series, color: str, settings: Mapping[str, Any], window: Window
) -> Line2D:
    dashed = "custom.lineStyle" in settings
    times, values = _with_gaps(series.points, window.step)
    (line,) = axes.plot(
        times,
        values,
        color=color,
        linewidth=1.0 if dashed else 1.6,
        linestyle=(0, (5, 4)) if dashed else "-",
        label=series.legend,
    )
    if not dashed:
        axes.fill_between(times, values, 0, color=color, alpha=0.06, linewidth=0)
    return line


def _with_gaps(
    points: Sequence[tuple[float, float]], step: float
) -> tuple[list[float], list[float]]:
    """Return times and values, with a hole wherever a point is missing."""
    times, values = [points[0][0]], [points[0][1]]
    for (before, _), (at, value) in pairwise(points):
        if at - before > 1.5 * step:
            times.append(before + step)
            values.append(math.nan)
        times.append(at)
        values.append(value)
    return times, values


def _scale(axes: Axes, shown: Shown) -> None:
    unit = shown.defaults["unit"]
    custom = shown.defaults["custom"]
    low, high = axes.get_ylim()
    high = max(high, custom.get("axisSoftMax", high))
    axes.set_ylim(min(0.0, low), high if high > 0 else 1.0)
    axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: written(value, unit)))
    axes.set_ylabel(custom.get("axisLabel", ""), fontsize=7, color=FAINT)


def _thresholds(axes: Axes, shown: Shown) -> None:
    """Draw the thresholds; one that lies outside is drawn at the edge, as Grafana does it."""
    if shown.defaults["custom"].get("thresholdsStyle", {}).get("mode") != "dashed":
        return
    low, high = axes.get_ylim()
    for step in shown.defaults["thresholds"]["steps"]:
        if step["value"] is not None:
            at = min(max(step["value"], low), high)
            axes.axhline(at, color=COLORS[step["color"]], linewidth=1.3, linestyle=(0, (6, 4)))


def _is_right(shown: Shown) -> bool:
    return bool(shown.panel["options"]["legend"]["placement"] == "right")


def _names(shown: Shown) -> list[str]:
    names = [one.legend for series in shown.answers.values() for one in series]
    if len(names) > _MOST_IN_LEGEND:
        return [*names[: _MOST_IN_LEGEND - 1], f"and {len(names) - _MOST_IN_LEGEND + 1} more"]
    return names


def _columns(figure: Figure, width: float, names: Sequence[str]) -> int:
    room = width * figure.get_size_inches()[0] * 72
    return max(1, min(len(names), int(room / (max(map(len, names)) * 4.2 + 22))))


def _above_legend(figure: Figure, place: Place, shown: Shown) -> Place:
    """Return the place without what the legend needs."""
    if _is_right(shown):
        return place._replace(width=place.width * 0.66)
    names = _names(shown)
    rows = math.ceil(len(names) / _columns(figure, place.width, names))
    height = (rows * _LEGEND_POINTS * 1.55 + 2) / (72 * figure.get_size_inches()[1])
    return place._replace(bottom=place.bottom + height, height=place.height - height)


def _legend(
    figure: Figure, place: Place, inner: Place, shown: Shown, handles: Sequence[Line2D]
) -> None:
    ordered = list(handles)
    if _is_right(shown):
        # Such a legend is sorted by the largest value.
        ordered.sort(key=lambda line: -max(np.nan_to_num(np.asarray(line.get_ydata(), float))))
    names = [str(line.get_label()) for line in ordered]
    if len(names) > _MOST_IN_LEGEND:
        names = [*names[: _MOST_IN_LEGEND - 1], f"and {len(names) - _MOST_IN_LEGEND + 1} more"]
    below = 17 / (72 * figure.get_size_inches()[1])
    right = inner.left + inner.width + 0.012
    figure.legend(
        ordered[: len(names)],
        names,
        loc="upper left",
        bbox_to_anchor=(
            (right, inner.bottom + inner.height)
            if _is_right(shown)
            else (inner.left - 0.004, inner.bottom - below)
        ),
        ncols=1 if _is_right(shown) else _columns(figure, place.width, names),
        fontsize=_LEGEND_POINTS,
        frameon=False,
        handlelength=1.3,
        columnspacing=1.1,
        labelspacing=0.4,
        borderaxespad=0,
        borderpad=0,
        labelcolor=INK,
    )
