"""The three kinds of panel we draw: a graph, a big number, a timeline of states."""

from typing import Final, NamedTuple

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import prometheus, stat, statetimeline, timeseries
from grafana_foundation_sdk.models import common, dashboard

from orphanwatch.dashboards.links import Panel

DATA_SOURCE: Final = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")

GREEN: Final = "green"
YELLOW: Final = "yellow"
RED: Final = "red"
BLUE: Final = "blue"

NO_DATA: Final = "no data: unknown, not zero"


AnyPanel = timeseries.Panel | stat.Panel | statetimeline.Panel


class Query(NamedTuple):
    """One query of a panel, and how its lines are called."""

    ref: str
    expr: str
    legend: str


class State(NamedTuple):
    """What a value of a state means, and its colour."""

    value: int
    text: str
    color: str


class Frame(NamedTuple):
    """What every panel has: its id, the words around it, and its size on a grid of 24."""

    panel: Panel
    title: str
    description: str
    width: int
    height: int = 8


def graph(frame: Frame, unit: str, queries: tuple[Query, ...]) -> timeseries.Panel:
    """Return lines over time. A gap is drawn as a gap: unknown is never zero."""
    panel = (
        timeseries.Panel()
        .id(frame.panel.value)
        .title(frame.title)
        .description(frame.description)
        .span(frame.width)
        .height(frame.height)
        .datasource(DATA_SOURCE)
        .unit(unit)
        .axis_soft_min(0)
        .line_width(2)
        .fill_opacity(8)
        .span_nulls(span_nulls=False)
        .show_points(common.VisibilityMode.AUTO)
        .no_value(NO_DATA)
        .legend(_legend())
        .tooltip(_tooltip())
    )
    return panel.targets([_target(query) for query in queries])


def big_number(frame: Frame, queries: tuple[Query, ...], states: tuple[State, ...]) -> stat.Panel:
    """Return the newest values, as words on the colour of their state."""
    panel = (
        stat.Panel()
        .id(frame.panel.value)
        .title(frame.title)
        .description(frame.description)
        .span(frame.width)
        .height(frame.height)
        .datasource(DATA_SOURCE)
        .unit("none")
        .mappings(_mappings(states))
        .color_mode(common.BigValueColorMode.BACKGROUND_SOLID)
        .graph_mode(common.BigValueGraphMode.NONE)
        .text_mode(common.BigValueTextMode.VALUE_AND_NAME)
        .reduce_options(common_builders.ReduceDataOptions().calcs(["last"]))
        .no_value(NO_DATA)
    )
    return panel.targets([_target(query) for query in queries])


def timeline(
    frame: Frame, queries: tuple[Query, ...], states: tuple[State, ...]
) -> statetimeline.Panel:
    """Return one bar per series that changes colour with its state; a gap is unknown."""
    panel = (
        statetimeline.Panel()
        .id(frame.panel.value)
        .title(frame.title)
        .description(frame.description)
        .span(frame.width)
        .height(frame.height)
        .datasource(DATA_SOURCE)
        .unit("none")
        .mappings(_mappings(states))
        .show_value(common.VisibilityMode.NEVER)
        .merge_values(merge_values=True)
        .row_height(0.8)
        .no_value(NO_DATA)
        .legend(_legend())
        .tooltip(_tooltip())
    )
    return panel.targets([_target(query) for query in queries])


def threshold_line(panel: timeseries.Panel, value: float) -> timeseries.Panel:
    """Return the panel with a dashed line at the number that the rule compares with."""
    style = common_builders.GraphThresholdsStyleConfig().mode(common.GraphTresholdsStyleMode.DASHED)
    steps = [dashboard.Threshold(None, GREEN), dashboard.Threshold(value, RED)]
    return panel.thresholds(
        builders.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps)
    ).thresholds_style(style)


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
        ref, [dashboard.DynamicConfigValue("mappings", _mappings(states))]
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


def _target(query: Query) -> prometheus.Dataquery:
    return (
        prometheus.Dataquery()
        .ref_id(query.ref)
        .datasource(DATA_SOURCE)
        .expr(query.expr)
        .legend_format(query.legend)
        .range()
    )


def _mappings(states: tuple[State, ...]) -> list[dashboard.ValueMapping]:
    options = {
        str(state.value): dashboard.ValueMappingResult(
            text=state.text, color=state.color, index=place
        )
        for place, state in enumerate(states)
    }
    blank = dashboard.DashboardSpecialValueMapOptions(
        match=dashboard.SpecialValueMatch.NULL_AND_NAN,
        result=dashboard.ValueMappingResult(text=NO_DATA, color=YELLOW, index=len(states)),
    )
    return [dashboard.ValueMap(options), dashboard.SpecialValueMap(blank)]


def _legend() -> common_builders.VizLegendOptions:
    return (
        common_builders.VizLegendOptions()
        .show_legend(show_legend=True)
        .display_mode(common.LegendDisplayMode.LIST)
        .placement(common.LegendPlacement.BOTTOM)
        .calcs([])
    )


def _tooltip() -> common_builders.VizTooltipOptions:
    return (
        common_builders.VizTooltipOptions()
        .mode(common.TooltipDisplayMode.MULTI)
        .sort(common.SortOrder.DESCENDING)
    )
