"""Runs a backtest: asks the history, replays the rules and their neighbours."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

import promql_parser as promql
from promql_parser import Expr

from orphanwatch.alerts.backtest.history import Grid, LabelSet, Reader
from orphanwatch.alerts.backtest.neighbours import (
    HOLD_FACTORS,
    Variant,
    rules_of,
    variants,
)
from orphanwatch.alerts.backtest.replay import (
    Replayed,
    Times,
    firings,
    hold_seconds,
    sight,
    unseen,
)
from orphanwatch.alerts.backtest.results import (
    Backtest,
    Curve,
    CurvePoint,
    Fired,
    Outcome,
    per_week,
)
from orphanwatch.alerts.lint.facts import sample_names
from orphanwatch.alerts.lint.tree import Selection, selections
from orphanwatch.alerts.promql import number
from orphanwatch.alerts.timing import evaluation_interval, lookback
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.errors import PrometheusError
from orphanwatch.exporter.instants import SECOND, Micros, format_duration, micros

MOST_LOOKS: Final = 2_000
"""At so many instants it is asked which metrics were there."""
DAY: Final = 86_400
_PARTS_OF_RANGE: Final = 20
_PARTS_OF_HOLD: Final = 4
_NAME: Final = "__name__"
_NO_HISTORY: Final = (
    "the server has no history of an exporter in that time, so what would have paged is unknown; "
    "run orphanwatch serve, let Prometheus scrape it for a week, and come back "
    "(or mend --selector, --range, --at)"
)

_TOO_SHORT: Final = (
    "fewer than two evaluations lie between the history's beginning and its end; lengthen "
    "--range, shorten --step, or come back later"
)


class _Sight(NamedTuple):
    """When each metric was there, looked at often enough."""

    grid: Grid
    metrics: Mapping[str, Times]

    def length(self, times: Times) -> int:
        """Return how many seconds some looks stand for."""
        return min(len(times) * self.grid.step, self.grid.end - self.grid.start)


def backtest(
    config: Config, reader: Reader, *, at: int, length: int, step: int | None, assumed: str
) -> Backtest:
    """Return what the config's rules would have done in the ``length`` seconds up to ``at``.

    Without a ``step`` they are evaluated as often as Prometheus does, or as often as tells the
    same. Raises ``PrometheusError`` where the history can't be read, or holds nothing of the
    exporter.
    """
    every = step or max(1, -(-evaluation_interval(config) // SECOND))
    start = _beginning(config, reader, _several(Grid.over(at - length, at, every)))
    grid = _several(Grid.over(start, at, every))
    seen = _sight(config, reader, grid)
    replay = _Replay(reader, grid, seen, is_fixed=step is not None)
    neighbours = tuple(variants(config))
    exporter = seen.metrics[str(names.BUILD_INFO)]
    return Backtest(
        wanted=length,
        start=grid.start,
        end=grid.end,
        step=grid.step,
        seen=seen.length(exporter),
        assumed=assumed,
        outcomes=tuple(replay.outcome(config, rule, neighbours) for rule in rules_of(config)),
    )


def _several(grid: Grid) -> Grid:
    """Return the grid; raises ``PrometheusError`` where it is no stretch of time."""
    if grid.end <= grid.start:
        raise PrometheusError(_TOO_SHORT)
    return grid


def _presence(config: Config, named: str, reach: Micros) -> str:
    """Return the query for the names of what was there within the last ``reach``."""
    matchers = ",".join((named, *map(str, config.selector_matchers)))
    return f"group by ({_NAME}) (last_over_time({{{matchers}}}[{format_duration(reach)}]))"


def _coarse(grid: Grid) -> Grid:
    """Return a grid over the same time that has no more instants than may be looked at."""
    times = -(-len(grid.times) // MOST_LOOKS)
    return Grid.over(grid.start, grid.end, grid.step * max(1, times))


def _beginning(config: Config, reader: Reader, grid: Grid) -> int:
    """Return when the exporter was first seen, to one step of the grid.

    Each look goes back to the one before, and the last one reaches the end: who has begun to
    scrape a minute ago, and asks for 30 days, has a minute of history, and not none.
    """
    coarse = _coarse(grid)
    looks = Grid.covering(coarse.start, grid.end, coarse.step)
    reach = max(lookback(config), Micros(looks.step * SECOND))
    first = min(_exporter_times(config, reader, looks, reach), default=None)
    if first is None:
        raise PrometheusError(_NO_HISTORY)
    closer = Grid.over(max(grid.start, first - looks.step), min(first, grid.end), grid.step)
    begun = min(_exporter_times(config, reader, closer, lookback(config)), default=None)
    if begun is None:
        raise PrometheusError(_NO_HISTORY)
    return begun


def _exporter_times(config: Config, reader: Reader, grid: Grid, reach: Micros) -> tuple[int, ...]:
    """Return at which instants the exporter was there within the last ``reach``."""
    query = _presence(config, f'{_NAME}="{names.BUILD_INFO}"', reach)
    return tuple(at for times in reader.present(query, grid).values() for at in times)


def _metric_times(config: Config, reader: Reader, grid: Grid) -> Mapping[str, tuple[int, ...]]:
    """Return at which instants each metric was there, seen as the rules see it."""
    named = f'{_NAME}=~"orphan_.+|{names.BUILD_INFO}"'
    found = reader.present(_presence(config, named, lookback(config)), grid)
    return {dict(labels)[_NAME]: times for labels, times in found.items()}


def _sight(config: Config, reader: Reader, grid: Grid) -> _Sight:
    coarse = _coarse(grid)
    found = _metric_times(config, reader, coarse)
    return _Sight(coarse, {name: frozenset(found.get(name, ())) for name in sample_names()})


class _Replay:
    """The rules' past: each expression is asked once."""

    def __init__(self, reader: Reader, grid: Grid, seen: _Sight, *, is_fixed: bool) -> None:
        self._reader = reader
        self._grid = grid
        self._seen = seen
        self._is_fixed = is_fixed
        self._asked: dict[tuple[str, Grid], Mapping[LabelSet, tuple[int, ...]]] = {}

    def outcome(self, config: Config, rule: Replayed, neighbours: Sequence[Variant]) -> Outcome:
        """Return one rule's past and those of its neighbours."""
        tree = promql.parse(rule.expr)
        times = sight(tree, self._seen.metrics, frozenset(self._seen.grid.times))
        seen = self._seen.length(times)
        grid = self._grid if self._is_fixed else slower(self._grid, tree, rule.hold)
        fired = self._fired(rule, grid) if times else None
        return Outcome(
            name=rule.name,
            labels=rule.labels,
            severity=rule.severity,
            hold=format_duration(rule.hold),
            seen=seen,
            unseen=unseen(tree, self._seen.metrics),
            fired=fired,
            days=self._days(times, fired or ()),
            step=grid.step,
            curves=tuple(self._curves(config, rule, neighbours, grid, seen)),
        )

    def _fired(self, rule: Replayed, grid: Grid) -> tuple[Fired, ...]:
        asked = (rule.expr, grid)
        if asked not in self._asked:
            self._asked[asked] = self._reader.present(rule.expr, grid)
        hold = hold_seconds(rule.hold)
        found = [
            Fired(at, tuple(pair for pair in labels if pair[0] != _NAME))
            for labels, times in self._asked[asked].items()
            for at in firings(times, grid.step, hold)
        ]
        return tuple(sorted(found))

    def _days(self, times: Times, fired: Sequence[Fired]) -> tuple[int | None, ...]:
        count = max(1, -(-(self._grid.end - self._grid.start) // DAY))
        # The last day ends with the replay, so that it is a whole one.
        first = self._grid.end - count * DAY
        days: list[int | None] = [None] * count
        for at in times:
            days[_day(at, first)] = 0
        for one in fired:
            place = _day(one.at, first)
            days[place] = (days[place] or 0) + 1
        return tuple(days)

    def _curves(
        self,
        config: Config,
        rule: Replayed,
        neighbours: Sequence[Variant],
        grid: Grid,
        seen: int,
    ) -> list[Curve]:
        curves = [self._hold_curve(rule, grid, seen)]
        for setting in dict.fromkeys(variant.setting for variant in neighbours):
            values = {
                variant.value: other
                for variant in neighbours
                if variant.setting == setting
                for other in variant.rules
                if other.key == rule.key
            }
            if values:
                own = _stated(config, setting)
                points = [self._point(value, other, grid, seen) for value, other in values.items()]
                current = self._point(own, rule, grid, seen)._replace(is_current=True)
                ordered = sorted([*points, current], key=lambda point: Decimal(point.value))
                curves.append(Curve(setting, tuple(ordered)))
        return curves

    def _hold_curve(self, rule: Replayed, grid: Grid, seen: int) -> Curve:
        points = []
        for factor in HOLD_FACTORS:
            hold = Micros(int(factor * rule.hold))
            point = self._point(format_duration(hold), rule._replace(hold=hold), grid, seen)
            points.append(point._replace(is_current=factor == 1))
        return Curve("for", tuple(points))

    def _point(self, value: str, rule: Replayed, grid: Grid, seen: int) -> CurvePoint:
        count = len(self._fired(rule, grid)) if seen else None
        return CurvePoint(value, is_current=False, fired=count, per_week=per_week(count, seen))


def slower(grid: Grid, tree: Expr, hold: int) -> Grid:
    """Return a grid for a rule that reads nothing but long ranges, which move slowly.

    A twentieth of its shortest range, and a quarter of its ``for``, are looked at in between:
    windows of days cost a server minutes otherwise, and tell the same.
    """
    shortest = min((_reach(found) for found in selections(tree)), default=0)
    wanted = min(shortest // _PARTS_OF_RANGE, hold // _PARTS_OF_HOLD) // SECOND
    return Grid.over(grid.start, grid.end, max(1, wanted // grid.step) * grid.step)


def _reach(found: Selection) -> int:
    """Return how far back a selector looks; within a subquery, that of the outermost."""
    ranges = [node.range for node in found.above if isinstance(node, promql.SubqueryExpr)]
    outermost = ranges[0] if ranges else None
    return micros(outermost.total_seconds()) if outermost else found.length or 0


def _day(at: int, first: int) -> int:
    return max(0, (at - first - 1) // DAY)


def _stated(config: Config, setting: str) -> str:
    return number(getattr(config.thresholds, setting.partition(".")[2]))
