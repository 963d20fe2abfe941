"""The detector: what it can read, how late, what it counts, and whether the ids join."""

from typing import Final

from orphanwatch.alerts import promql
from orphanwatch.dashboards import frame, joins, lines, panels, queries, sight
from orphanwatch.dashboards.classic import Document
from orphanwatch.dashboards.links import Dashboard, Panel
from orphanwatch.dashboards.panels import AnyPanel, Canvas, Frame, Query, State
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import format_duration, seconds

FILE: Final = f"{Dashboard.DETECTOR}.json"
PURPOSE: Final = (
    "Is the detector's calm worth anything? What it reads and how late, what it leaves out, and "
    "whether the ids of the stores join: ids that don't look like perfect health."
)
RUNNING: Final = (State(1, "running", panels.GREEN),)
LOADED: Final = (State(1, "loaded", panels.GREEN), State(0, "REFUSED", panels.RED))

_UNSEEN: Final = "the exporter isn't scraped."


def detector(config: Config) -> Document:
    """Return the dashboard of the detector."""
    rows: list[frame.Row] = [
        (
            "Can the detector see?",
            [
                _states(config),
                sight.read_age(config, Panel.READ_AGE, width=7, height=7),
                *_program(config),
            ],
        ),
        ("Clocks, refreshes and counters", _works(config)),
        ("Do the ids join?", joins.shares(config)),
        ("What the ledger and the rows lose", joins.losses(config)),
        ("Without any join: in flight against attached", [joins.gap(config)]),
    ]
    return frame.render(config, Dashboard.DETECTOR, PURPOSE, rows)


def _states(config: Config) -> AnyPanel:
    return Canvas(config).timeline(
        Frame(
            Panel.STORE_STATES,
            "Stores readable over time",
            "Whether the last read of each store worked; one replica's is enough."
            f"{sight.left_out(config)}",
            "no bar: the exporter wasn't scraped, so it was blind.",
            width=8,
            height=7,
        ),
        (Query("A", queries.gauge(config, names.STORE_UP), "{{store}} · {{job}}"),),
        sight.READABLE,
    )


def _program(config: Config) -> list[AnyPanel]:
    """Return which exporter runs, and on which config."""
    return [_build(config), _loaded(config), _age_of_config(config)]


def _build(config: Config) -> AnyPanel:
    return Canvas(config).big_number(
        Frame(
            Panel.BUILD,
            "Exporter's version",
            "Two versions at once mean that an update has not reached every replica.",
            _UNSEEN,
            width=3,
            height=7,
        ),
        (Query("A", queries.gauge(config, names.BUILD_INFO), "{{version}} · {{job}}"),),
        RUNNING,
    )


def _loaded(config: Config) -> AnyPanel:
    loaded = queries.lowest(config, queries.select(config, names.CONFIG_RELOAD_SUCCESSFUL))
    return Canvas(config).big_number(
        Frame(
            Panel.CONFIG_LOADED,
            "Last load of the config",
            "Refused: the config file is wrong, and the one before runs on. The exporter's log "
            "names the key and the remedy.",
            _UNSEEN,
            width=3,
            height=7,
        ),
        (Query("A", loaded, "{{job}}"),),
        LOADED,
    )


def _age_of_config(config: Config) -> AnyPanel:
    taken_at = queries.lowest(config, queries.select(config, names.CONFIG_RELOAD_SUCCEEDED_AT))
    return Canvas(config).newest(
        Frame(
            Panel.CONFIG_AGE,
            "Age of the config in force",
            "Since the start, or the last reload that was taken. Rules and dashboards built "
            "from a newer config may draw other lines than the exporter counts by.",
            _UNSEEN,
            width=3,
            height=7,
        ),
        "s",
        (Query("A", f"time() - {taken_at}", "{{job}}"),),
    )


def _works(config: Config) -> list[AnyPanel]:
    return [_skew(config), _refreshes(config), _counters(config)]


def _skew(config: Config) -> AnyPanel:
    allowed = config.clock_skew_allowance
    panel = Canvas(config).graph(
        Frame(
            Panel.CLOCK_SKEW,
            "Clock skew of the stores",
            "How far the store's clock is from ours, either way. Beyond clock_skew_allowance, "
            f"{format_duration(allowed)}, and the grace, orphans are made up or missed: mend the "
            "clocks, or raise it.",
            "a store that tells no time (a log, a page of metrics), or can't be read.",
            width=8,
        ),
        "s",
        (
            Query(
                "A",
                queries.highest(config, f"abs({queries.select(config, names.STORE_CLOCK_SKEW)})"),
                "{{store}} · {{job}}",
            ),
        ),
    )
    return lines.threshold_line(panel, seconds(allowed)) if allowed else panel


def _refreshes(config: Config) -> AnyPanel:
    family = names.REFRESH_DURATION_SECONDS
    panel = Canvas(config).graph(
        Frame(
            Panel.REFRESH_QUANTILES,
            "Time one refresh takes",
            "Median, 95th and 99th percentile of reading all stores and evaluating. Above the "
            f"line, the refresh interval of {format_duration(config.refresh_interval)}, what is "
            "served grows old: look for a missing index.",
            "no refresh ended in this time: the exporter hangs, or isn't scraped.",
            width=8,
        ),
        "s",
        tuple(
            Query(
                chr(ord("A") + place),
                queries.quantile_seconds(config, family, quantile),
                f"p{100 * quantile:g} · {{{{job}}}}",
            )
            for place, quantile in enumerate((0.5, 0.95, 0.99))
        ),
    )
    return lines.threshold_line(panel, seconds(config.refresh_interval))


def _counters(config: Config) -> AnyPanel:
    expected = promql.number(1 / seconds(config.refresh_interval))
    panel = Canvas(config).graph(
        Frame(
            Panel.COUNTER_RATES,
            "What the counters book",
            "Orphan tokens, and the whole rows that straddle a cutoff (the upper bound), per "
            "second. Right axis: refreshes and settled cancels. Refreshes should go on at about "
            f"{expected} per second: without them nothing is booked.",
            "the exporter isn't scraped, or has been scraped only once.",
            width=8,
        ),
        "cps",
        _booked(config),
    )
    panel = lines.right_axis(panel, "C", "cps", "refreshes, cancels", panels.BLUE)
    return lines.right_axis(panel, "D", "cps", "refreshes, cancels", panels.PURPLE)


def _booked(config: Config) -> tuple[Query, ...]:
    return (
        Query(
            "A",
            queries.total(queries.per_second(config, names.TOKENS_TOTAL), names.CAUSE, names.POOL),
            "orphan tokens, {{basis}} · {{job}}",
        ),
        Query(
            "B",
            queries.total(queries.per_second(config, names.STRADDLING_TOKENS_TOTAL), names.POOL),
            "straddling rows, whole · {{job}}",
        ),
        Query(
            "C",
            queries.per_second(config, names.REFRESH_DURATION_SECONDS.count),
            "refreshes · {{job}}",
        ),
        Query(
            "D",
            queries.total(
                queries.per_second(config, names.CANCEL_PROPAGATION_SECONDS.count),
                names.POOL,
            ),
            "settled cancels · {{job}}",
        ),
    )
