"""The kinds of panel we draw: a graph, a heatmap, a timeline of states, words, and totals."""

from typing import Final, NamedTuple, TypeVar

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import (
    heatmap as heatmaps,
)
from grafana_foundation_sdk.builders import (
    prometheus,
    stat,
    statetimeline,
    timeseries,
)
from grafana_foundation_sdk.builders import text as texts
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models import heatmap as heatmap_models
from grafana_foundation_sdk.models import text as text_models
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from orphanwatch.dashboards import queries
from orphanwatch.dashboards.links import Panel
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import format_duration

DATA_SOURCE: Final = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")

GREEN: Final = "green"
YELLOW: Final = "yellow"
RED: Final = "red"
BLUE: Final = "blue"
PURPLE: Final = "purple"

NO_DATA: Final = "no data: unknown, not zero"

AnyPanel = timeseries.Panel | stat.Panel | statetimeline.Panel | heatmaps.Panel | texts.Panel
P = TypeVar("P", timeseries.Panel, stat.Panel, statetimeline.Panel, heatmaps.Panel)


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
    unknown: str
    """What it means when the panel has no data, and what to do then."""
    width: int
    height: int = 8
    no_data: str = NO_DATA
    """What stands in the panel instead of a value."""


class Canvas:
    """Makes panels for one config: each query is asked at the scrape interval or slower."""

    def __init__(self, config: Config) -> None:
        self._step = format_duration(config.scrape_interval)

    def graph(self, frame: Frame, unit: str, wanted: tuple[Query, ...]) -> timeseries.Panel:
        """Return lines over time. A gap is drawn as a gap: unknown is never zero."""
        panel = (
            timeseries.Panel()
            .unit(unit)
            .axis_soft_min(0)
            .line_width(2)
            .fill_opacity(8)
            .span_nulls(span_nulls=False)
            .show_points(common.VisibilityMode.AUTO)
            .legend(_legend())
            .tooltip(_tooltip())
        )
        return self._framed(panel, frame).targets([self._over_time(query) for query in wanted])

    def heatmap(self, frame: Frame, unit: str, wanted: Query) -> heatmaps.Panel:
        """Return a histogram's buckets over time: the darker, the more observations."""
        color = (
            heatmaps.HeatmapColorOptions()
            .mode(heatmap_models.HeatmapColorMode.SCHEME)
            .scheme("Oranges")
            .steps(64)
        )
        panel = (
            heatmaps.Panel()
            .unit("short")
            .calculate(calculate=False)
            .rows_frame(
                heatmaps.RowsHeatmapOptions().layout(common.HeatmapCellLayout.LE).value("samples")
            )
            .color(color)
            .y_axis(heatmaps.YAxisConfig().unit(unit).axis_label("took at most"))
            # An empty bucket stays the colour of the paper.
            .filter_values(heatmaps.FilterValueRange().le(1e-9))
            .cell_gap(1)
            .exemplars_color(BLUE)
            .show_legend()
            .tooltip(heatmaps.HeatmapTooltip().mode(common.TooltipDisplayMode.SINGLE))
        )
        return self._framed(panel, frame).targets(
            [self._over_time(wanted).format(PromQueryFormat.HEATMAP)]
        )

    def big_number(
        self, frame: Frame, wanted: tuple[Query, ...], states: tuple[State, ...]
    ) -> stat.Panel:
        """Return the newest values, as words on the colour of their state."""
        panel = (
            self._stat("none")
            .mappings(mappings(states))
            .color_mode(common.BigValueColorMode.BACKGROUND_SOLID)
        )
        return self._framed(panel, frame).targets([self._over_time(query) for query in wanted])

    def newest(self, frame: Frame, unit: str, wanted: tuple[Query, ...]) -> stat.Panel:
        """Return what is known at the end of the time shown, as one number for each series."""
        panel = self._stat(unit).color_mode(common.BigValueColorMode.VALUE)
        return self._framed(panel, frame).targets(
            [self._target(query).instant() for query in wanted]
        )

    def timeline(
        self, frame: Frame, wanted: tuple[Query, ...], states: tuple[State, ...]
    ) -> statetimeline.Panel:
        """Return one bar per series that changes colour with its state; a gap is unknown."""
        panel = (
            statetimeline.Panel()
            .unit("none")
            .mappings(mappings(states))
            .show_value(common.VisibilityMode.NEVER)
            .merge_values(merge_values=True)
            .row_height(0.8)
            .legend(_legend())
            .tooltip(_tooltip())
        )
        return self._framed(panel, frame).targets([self._over_time(query) for query in wanted])

    def _stat(self, unit: str) -> stat.Panel:
        return (
            stat.Panel()
            .unit(unit)
            .graph_mode(common.BigValueGraphMode.NONE)
            .text_mode(common.BigValueTextMode.VALUE_AND_NAME)
            .reduce_options(common_builders.ReduceDataOptions().calcs(["last"]))
        )

    def _framed(self, panel: P, frame: Frame) -> P:
        return (
            panel.id(frame.panel.id)
            .title(frame.title)
            .description(f"{frame.description} No data: {frame.unknown}")
            .span(frame.width)
            .height(frame.height)
            .datasource(DATA_SOURCE)
            .no_value(frame.no_data)
        )

    def _over_time(self, query: Query) -> prometheus.Dataquery:
        target = self._target(query).range()
        return target.exemplar(exemplar=True) if queries.counts(query.expr) else target

    def _target(self, query: Query) -> prometheus.Dataquery:
        return (
            prometheus.Dataquery()
            .ref_id(query.ref)
            .datasource(DATA_SOURCE)
            .expr(query.expr)
            .legend_format(query.legend)
            .interval(self._step)
        )


def page(panel: Panel, title: str, description: str, markdown: str) -> texts.Panel:
    """Return a panel of the whole width that holds words; it asks nothing."""
    return (
        texts.Panel()
        .id(panel.id)
        .title(title)
        .description(description)
        .span(24)
        .height(20)
        .mode(text_models.TextMode.MARKDOWN)
        .content(markdown)
    )


def mappings(states: tuple[State, ...]) -> list[dashboard.ValueMapping]:
    """Return the words and colours of states, with unknown as one of them."""
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
