"""A replay does what Prometheus does, and says what it can't know: on a past that is made up."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from alert_configs import alert_config, with_store

from orphanwatch.alerts.alert import Severity
from orphanwatch.alerts.backtest.history import MOST_POINTS, Grid, History, LabelSet
from orphanwatch.alerts.backtest.neighbours import rules_of, variants
from orphanwatch.alerts.backtest.plot import MOST_LETTERS, picture
from orphanwatch.alerts.backtest.replay import firings, sight, unseen, written_out
from orphanwatch.alerts.backtest.report import (
    document_of,
    headline,
    lines_of,
    titles,
    why_unknown,
)
from orphanwatch.alerts.backtest.results import Backtest
from orphanwatch.alerts.backtest.run import backtest, slower
from orphanwatch.alerts.lint.tree import parsed
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.errors import PrometheusError
from orphanwatch.exporter.instants import parse_duration

DAY = 86_400


@pytest.mark.parametrize(
    ("times", "hold", "fired"),
    [
        pytest.param((), 30, (), id="nothing never fires"),
        pytest.param((0,), 0, (0,), id="without a hold the first evaluation fires"),
        pytest.param((0, 15), 30, (), id="a flap that is shorter than the hold is silent"),
        pytest.param((0, 15, 30), 30, (30,), id="exactly the hold fires"),
        pytest.param((0, 15, 30, 45, 60), 30, (30,), id="what goes on fires once"),
        pytest.param((0, 15, 45, 60), 30, (), id="one evaluation without it begins anew"),
        pytest.param((0, 15, 30, 60, 75, 90), 30, (30, 90), id="two spells are two pages"),
        pytest.param((0, 15, 30, 45), 20, (30,), id="a hold between two evaluations ends late"),
    ],
)
def test_an_alert_fires_as_in_prometheus(
    times: tuple[int, ...], hold: int, fired: tuple[int, ...]
) -> None:
    """It must hold at every evaluation, and each spell fires once."""
    assert tuple(firings(times, 15, hold)) == fired


RECORDED = {"pool:x:rate5m": "sum(rate(x_total[5m]))", "pool:x:rate5m_per_y": "(a / b)"}


@pytest.mark.parametrize(
    ("expr", "written"),
    [
        pytest.param("pool:x:rate5m > 1", "(sum(rate(x_total[5m]))) > 1", id="a name"),
        pytest.param("pool:x:rate5m_per_y > 1", "((a / b)) > 1", id="a name that begins another"),
        pytest.param(
            'pool:x:rate5m{team=~"a{2}|\\"}"} > 1',
            "(sum(rate(x_total[5m]))) > 1",
            id="matchers with braces in their texts",
        ),
        pytest.param(
            "max_over_time(pool:x:rate5m[1h])",
            "max_over_time(((sum(rate(x_total[5m])))[1h:15s]))",
            id="a range of it",
        ),
        pytest.param("job:pool:x:rate5m > 1", "job:pool:x:rate5m > 1", id="another name's end"),
    ],
)
def test_recorded_names_are_written_out(expr: str, written: str) -> None:
    """What a recording rule records stands in its place, since the past may lack it."""
    result = written_out(expr, RECORDED, "15s")
    assert result == written
    assert parsed(result) is not None


SEEN = {"orphan_a": frozenset({1, 2}), "orphan_b": frozenset({2, 3}), "orphan_c": frozenset[int]()}
EVERY = frozenset({1, 2, 3, 4})


@pytest.mark.parametrize(
    ("expr", "times"),
    [
        pytest.param("max_over_time(orphan_a[1m]) > 0", {1, 2}, id="a metric speaks when it is"),
        pytest.param("orphan_a / orphan_b > 1", {2}, id="a ratio needs both"),
        pytest.param("orphan_a > 0 and orphan_b > 0", {2}, id="and needs both"),
        pytest.param("orphan_a > 0 or orphan_b > 0", {1, 2, 3}, id="of or one is enough"),
        pytest.param("orphan_a > 0 unless orphan_c > 0", {1, 2}, id="unless needs the left one"),
        pytest.param("absent_over_time(orphan_c[1m])", EVERY, id="absence is always seen"),
        pytest.param("sum(orphan_c) > 0", set(), id="what was never there says nothing"),
        pytest.param("up == 0", EVERY, id="what is of others is taken to be there"),
    ],
)
def test_when_an_expression_could_have_spoken(expr: str, times: set[int]) -> None:
    """A silence counts as none only where the metrics were there."""
    tree = parsed(expr)
    assert tree is not None
    assert sight(tree, SEEN, EVERY) == times
    assert unseen(tree, SEEN) == (("orphan_c",) if "orphan_c" in expr else ())


@pytest.mark.parametrize(
    ("expr", "hold", "step"),
    [
        pytest.param("rate(a[1m]) > 0", "90s", 15, id="a minute's range: at each evaluation"),
        pytest.param("rate(a[6h]) > 0", "2h", 1080, id="a twentieth of six hours"),
        pytest.param("rate(a[6h]) > 0 and rate(a[30m]) > 0", "2h", 90, id="of the shortest range"),
        pytest.param(
            "rate(a[6h]) / avg_over_time((count(present_over_time(a[1m])))[6h:90s]) > 0",
            "2h",
            1080,
            id="of a subquery its own range, not what it looks at",
        ),
        pytest.param("rate(a[6h]) > 0", "5m", 75, id="a quarter of the hold, where that is less"),
        pytest.param("rate(a[6h]) > 0 and b > 0", "2h", 15, id="with an instant look: at each"),
    ],
)
def test_rules_over_long_ranges_are_evaluated_less_often(expr: str, hold: str, step: int) -> None:
    """Whole evaluations of the group, never longer than what the rule can tell apart."""
    tree = parsed(expr)
    assert tree is not None
    assert slower(Grid.over(0, DAY, 15), tree, parse_duration(hold)).step == step


def test_a_long_grid_is_asked_in_parts() -> None:
    """No part has more points than a server answers, and together they are the grid."""
    grid = Grid.over(7, 40 * 86_400, 15)
    parts = list(grid.chunks())
    assert all(len(part.times) <= MOST_POINTS for part in parts)
    assert [at for part in parts for at in part.times] == list(grid.times)
    assert grid.start == 15


@pytest.mark.parametrize("ratio", [0.07, 0.5])
def test_a_generous_budget_has_neighbours_too(ratio: float) -> None:
    """Half of it brings a burn rate back that it leaves out itself, of which nothing is told."""
    config = alert_config(thresholds={"waste_budget_ratio": ratio})
    own = {rule.key for rule in rules_of(config)}
    budgets = [each for each in variants(config) if each.setting == "thresholds.waste_budget_ratio"]
    assert budgets
    assert {rule.key for each in budgets for rule in each.rules} <= own


def test_thresholds_have_neighbours_where_rules_depend_on_them() -> None:
    """The multiples of a threshold, 0 first where that is allowed, each an exact decimal."""
    values: dict[str, list[str]] = {}
    for variant in variants(alert_config(thresholds={"token_delta": 0.3})):
        values.setdefault(variant.setting, []).append(variant.value)
    assert values["thresholds.token_delta"] == ["0", "0.15", "0.6", "1.5"]
    assert "thresholds.calm_depth_ratio" not in values


def test_a_neighbour_changes_the_rules_that_depend_on_it() -> None:
    """The token arm stands in the split signal too, and in no other rule."""
    [changed] = {
        tuple(rule.name for rule in variant.rules)
        for variant in variants(alert_config())
        if variant.setting == "thresholds.token_delta"
    }
    assert changed == ("OrphanTokensAccruing", "OrphanSplitSignal")


class Past:
    """A past in which all metrics but some were there, and some rules held at some instants."""

    def __init__(self, *, seen_from: int = 0, lost: tuple[str, ...] = (), **held: range) -> None:
        self._seen_from = seen_from
        self._lost = lost
        self._held = held
        self.asked: list[str] = []
        self.earliest = 0

    def present(self, query: str, grid: Grid) -> Mapping[LabelSet, tuple[int, ...]]:
        """Answer for the names of metrics, and for expressions by a word that is in them."""
        self.asked.append(query)
        self.earliest = min(self.earliest, grid.start)
        if query.startswith("group by (__name__)"):
            times = tuple(at for at in grid.times if at >= self._seen_from)
            only_exporter = '__name__="orphanwatch_build_info"' in query
            names = {"orphanwatch_build_info", *(() if only_exporter else METRICS)}
            names -= set(self._lost)
            return {(("__name__", name),): times for name in names} if times else {}
        for word, held in self._held.items():
            if word in query and "last_over_time" not in query:
                return {(("pool", "paid"),): tuple(at for at in grid.times if at in held)}
        return {}


METRICS = (
    "orphan_token_delta",
    "orphan_tokens_total",
    "orphan_leases_confirmed",
    "orphan_lease_oldest_seconds",
    "orphan_split_signal",
    "orphan_spend_tokens_per_second",
)


def replay_of(past: Past, config: Config | None = None, **changes: Any) -> Backtest:
    """Return a backtest of fourteen days."""
    settings: dict[str, Any] = {"at": 14 * DAY, "length": 14 * DAY, "step": 60, "assumed": ""}
    return backtest(config or alert_config(), past, **(settings | changes))


def test_pages_a_week_are_reckoned_over_all_rules_that_page() -> None:
    """One leak and one living lease in two weeks are one page a week; tickets are unknown."""
    past = Past(
        orphan_token_delta=range(DAY, DAY + 900), orphan_leases_confirmed=range(DAY, DAY + 900)
    )
    found = replay_of(past)
    assert headline(found, Severity.CRITICAL) == "Pages a week: 1.0"
    assert headline(found, Severity.WARNING).startswith("Tickets a week: unknown; ")


def test_a_rule_without_sight_is_unknown_and_the_sum_says_at_least() -> None:
    """With the ledger lost the token alert is unknown, never 0."""
    past = Past(
        lost=("orphan_token_delta", "orphan_tokens_total"),
        orphan_leases_confirmed=range(DAY, DAY + 900),
    )
    found = replay_of(past)
    [tokens] = [each for each in found.outcomes if each.name == "OrphanTokensAccruing"]
    assert (tokens.count, tokens.per_week, tokens.fired) == (None, None, None)
    assert headline(found, Severity.CRITICAL).startswith("Pages a week: at least 0.5; ")
    lines = "\n".join(lines_of(found))
    assert "OrphanTokensAccruing: unknown: orphan_token_delta, orphan_tokens_total never" in lines
    document = json.loads(json.dumps(document_of(found)))
    assert document["alerts"][0]["fired"] is None
    drawn = picture(found)
    assert "OrphanTokensAccruing" in drawn
    said = re.findall(r'<text class="soft" x="16" y="\d+">(unknown[^<]*)</text>', drawn)
    assert said, "why it is unknown"
    assert all(len(line) <= MOST_LETTERS for line in said), "no line runs out of the picture"


def test_under_a_day_no_weekly_number_is_told() -> None:
    """Twelve hours are counted, and a week is not made of them."""
    past = Past(seen_from=14 * DAY - DAY // 2, orphan_token_delta=range(14 * DAY - 3600, 14 * DAY))
    found = replay_of(past)
    [tokens] = [each for each in found.outcomes if each.name == "OrphanTokensAccruing"]
    assert (tokens.count, tokens.per_week) == (1, None)
    lines = "\n".join(lines_of(found))
    assert "The exporter's history begins at 1970-01-14T12:00:00Z" in lines
    assert "unknown for a week: seen for 12h only, under a day" in lines


def test_why_rules_are_unknown_is_said_once() -> None:
    """On a young history many saw as little: one line, and one block of the picture."""
    found = replay_of(Past(seen_from=14 * DAY - 3600))
    young = "seen for 1h only, under a day"
    assert {outcome.per_week for outcome in found.outcomes} == {None}
    [line] = [line for line in lines_of(found) if young in line]
    alike = [outcome for outcome in found.outcomes if young in why_unknown(outcome)]
    assert len(alike) > 1
    assert line == f"{titles(alike)}: unknown for a week: {young}"
    whole = replace(found, outcomes=tuple(alike))
    assert f"all {len(alike)} rules: unknown for a week: {young}" in lines_of(whole)
    drawn = picture(found)
    assert drawn.count(young) == 1
    assert all(outcome.name in drawn for outcome in found.outcomes), "none is lost"


def test_a_history_of_a_minute_is_found_in_a_range_of_30_days() -> None:
    """The default range on the first day: looks are 22 minutes apart, and none falls into it."""
    at = 60 * DAY + 1000
    found = replay_of(Past(seen_from=at - 60), at=at, length=30 * DAY, step=15)
    assert found.start >= at - 60


def test_days_show_when_it_fired_and_when_nobody_could_know() -> None:
    """One sign a day: a bar, a dot for none, a question mark for no sight."""
    past = Past(orphan_token_delta=range(DAY, DAY + 900))
    found = replay_of(past, length=3 * DAY, at=3 * DAY)
    rows = [line.split()[-1] for line in lines_of(found) if line.startswith("Orphan")]
    assert rows[:2] == ["·█·", "···"]


def test_no_exporter_in_the_past_is_an_error_with_its_remedy() -> None:
    """Before there was an exporter nothing can be told."""
    with pytest.raises(PrometheusError, match="run orphanwatch serve"):
        replay_of(Past(seen_from=99 * DAY))


@pytest.mark.parametrize(
    ("length", "step"),
    [
        pytest.param(1, None, id="a second"),
        pytest.param(3600, DAY, id="a step that is longer than the range"),
    ],
)
def test_a_range_of_no_length_is_refused(length: int, step: int | None) -> None:
    """With the remedy, and without a division by its length."""
    with pytest.raises(PrometheusError, match="fewer than two evaluations"):
        replay_of(Past(), length=length, step=step)


def test_a_range_from_before_the_epoch_begins_with_it() -> None:
    """However long it is, no instant is asked for that a server can't write down."""
    past = Past()
    assert replay_of(past, length=100_000 * 365 * DAY).length > 13 * DAY
    assert past.earliest >= 0


def test_each_expression_is_asked_once() -> None:
    """Holds are replayed from the same answer; a threshold that changes nothing asks nothing."""
    past = Past()
    replay_of(past)
    rules = [query for query in past.asked if not query.startswith("group by (__name__)")]
    assert len(rules) == len(set(rules))


def test_a_picture_is_byte_stable_and_takes_any_pool_name() -> None:
    """Names are text in it, not markup."""
    config = alert_config(selector='team="<a&b>"', service="<chat>")
    found = replay_of(Past(orphan_token_delta=range(DAY, DAY + 900)), config)
    assert picture(found) == picture(found)
    assert "<chat>" not in picture(found)


@pytest.mark.parametrize(
    ("url", "said"),
    [pytest.param("http://127.0.0.1:1", "the server can't be reached", id="nobody listens")],
)
def test_a_server_that_can_not_be_asked(url: str, said: str) -> None:
    """What is wrong, and the remedy; never a password of the URL."""
    secret = url.replace("http://", "http://reader:hunter2@")
    with pytest.raises(PrometheusError, match=said) as raised:
        History(secret).present("up", Grid(0, 60, 60))
    assert "hunter2" not in str(raised.value)


def test_a_late_ledger_moves_what_is_replayed() -> None:
    """The rules are those of the config, windows and holds included."""
    late = rules_of(alert_config(stores=with_store("ledger", lag="60s")))
    prompt = rules_of(alert_config())
    assert late[0].hold == prompt[0].hold + 60_000_000
