"""What is drawn into panels: the rules' thresholds, limits and baselines, second axes."""

from collections.abc import Iterable
from typing import Final

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import statetimeline, timeseries
from grafana_foundation_sdk.models import common, dashboard

from orphanwatch.dashboards.panels import GREEN, RED, State, mappings

_ROOM_ABOVE: Final = 1.1


def threshold_line(panel: timeseries.Panel, value: float) -> timeseries.Panel:
    """Return the panel with a dashed line at the number that the rule compares with."""
    return threshold_lines(panel, [(value, RED)])


def threshold_lines(
    panel: timeseries.Panel, wanted: Iterable[tuple[float, str]]
) -> timeseries.Panel:
    """Return the panel with a dashed line at each number, in its colour, the lowest first.

    The axis reaches past the highest, so that one sees how far away it is.
    """
    style = common_builders.GraphThresholdsStyleConfig().mode(
        common.GraphThresholdsStyleMode.DASHED
    )
    steps = [dashboard.Threshold(value, color) for value, color in wanted]
    highest = max((step.value for step in steps if step.value), default=None)
    if highest is not None:
        panel = panel.axis_soft_max(_ROOM_ABOVE * highest)
    return panel.thresholds(
        builders.ThresholdsConfig()
        .mode(dashboard.ThresholdsMode.ABSOLUTE)
        .steps([dashboard.Threshold(None, GREEN), *steps])
    ).thresholds_style(style)


def long_legend(panel: timeseries.Panel) -> timeseries.Panel:
    """Return the panel with its legend as a table beside it, the largest first."""
    return panel.legend(
        common_builders.VizLegendOptions()
        .show_legend(show_legend=True)
        .display_mode(common.LegendDisplayMode.TABLE)
        .placement(common.LegendPlacement.RIGHT)
        .calcs(["max"])
        .sort_by("Max")
        .sort_desc(sort_desc=True)
    )


def limit_line(panel: timeseries.Panel, ref: str) -> timeseries.Panel:
    """Return the panel with one query drawn thin and dashed: a limit or a baseline."""
    return panel.override_by_query(
        ref,
        [
            dashboard.DynamicConfigValue("custom.lineStyle", {"fill": "dash", "dash": [8, 8]}),
            dashboard.DynamicConfigValue("custom.lineWidth", 1),
            dashboard.DynamicConfigValue("custom.fillOpacity", 0),
        ],
    )


def restate(panel: statetimeline.Panel, ref: str, states: tuple[State, ...]) -> statetimeline.Panel:
    """Return the timeline with words and colours of its own for one query."""
    return panel.override_by_query(
        ref, [dashboard.DynamicConfigValue("mappings", mappings(states))]
    )


def right_axis(
    panel: timeseries.Panel, ref: str, unit: str, label: str, color: str
) -> timeseries.Panel:
    """Return the panel with one query on a second axis, with a unit and colour of its own."""
    return panel.override_by_query(
        ref,
        [
            dashboard.DynamicConfigValue("unit", unit),
            dashboard.DynamicConfigValue("custom.axisPlacement", "right"),
            dashboard.DynamicConfigValue("custom.axisLabel", label),
            dashboard.DynamicConfigValue("color", {"mode": "fixed", "fixedColor": color}),
        ],
    )
