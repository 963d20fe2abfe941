"""Checks of lengths of time: ranges, holds and intervals against the scrape interval."""

from collections.abc import Iterator
from typing import Final

import promql_parser as promql

from orphanwatch.alerts.lint.model import Check, Expression, Facts, Group, Problem, Rule
from orphanwatch.alerts.lint.tree import function, nodes, selections
from orphanwatch.alerts.timing import (
    HOLD_SCRAPES,
    LONGEST_EVALUATION_INTERVAL,
    LOOKBACK_SCRAPES,
)
from orphanwatch.exporter.instants import Micros, format_duration, micros


def _shortest_range(facts: Facts) -> Micros:
    return Micros(LOOKBACK_SCRAPES * facts.config.scrape_interval)


def _shortest_hold(facts: Facts) -> Micros:
    return Micros(HOLD_SCRAPES * facts.config.scrape_interval)


def long_range(expression: Expression, facts: Facts) -> Iterator[Problem]:
    """A range holds at least 4 scrapes, so that one missed scrape leaves no hole."""
    shortest = _shortest_range(facts)
    for length in _ranges(expression):
        if length < shortest:
            yield Problem(
                f"the range [{format_duration(length)}] is under {LOOKBACK_SCRAPES} scrapes of "
                f"{format_duration(facts.config.scrape_interval)}",
                f"write at least [{format_duration(shortest)}]",
            )


def _ranges(expression: Expression) -> Iterator[Micros]:
    for node, _ in nodes(expression.tree):
        if isinstance(node, promql.MatrixSelector | promql.SubqueryExpr) and node.range:
            yield micros(node.range.total_seconds())


def no_instant_look(expression: Expression, facts: Facts) -> Iterator[Problem]:
    """A rule reads a scraped metric over a range, so that a missed scrape resets no ``for``."""
    if not expression.role.is_rule:
        return
    for found in selections(expression.tree):
        if found.length is None and found.name in facts.samples and not _is_within(found.above):
            yield Problem(
                f"`{found.name}` is read at one instant, and a missed scrape makes it absent",
                f"write for example max_over_time({found.name}"
                f"[{format_duration(_shortest_range(facts))}])",
            )


def _is_within(above: tuple[object, ...]) -> bool:
    return any(isinstance(node, promql.SubqueryExpr) for node in above)


def long_hold(rule: Rule, facts: Facts) -> Iterator[Problem]:
    """An alert holds for at least 2 scrapes, so that a single sample pages nobody."""
    shortest = _shortest_hold(facts)
    if rule.is_alert and rule.expression.hold < shortest:
        yield Problem(
            f"`for` is {format_duration(rule.expression.hold)}, under {HOLD_SCRAPES} scrapes of "
            f"{format_duration(facts.config.scrape_interval)}",
            f"write for: {format_duration(shortest)} or longer",
        )


def absence_that_waits(rule: Rule, facts: Facts) -> Iterator[Problem]:
    """What is said to be absent was absent for longer than a server needs to start again."""
    if not rule.is_alert or rule.expression.read is None:
        return
    shortest = _shortest_hold(facts)
    for node, _ in nodes(rule.expression.tree):
        if function(node) == "absent" and rule.expression.hold < shortest:
            yield Problem(
                "absent() fires as soon as Prometheus starts again",
                f"hold it for {format_duration(shortest)}, or write absent_over_time()",
            )


def short_interval(group: Group, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """A group is evaluated at least every 5 minutes: longer leaves gaps in what it records."""
    if group.interval is not None and group.interval > LONGEST_EVALUATION_INTERVAL:
        longest = format_duration(LONGEST_EVALUATION_INTERVAL)
        yield Problem(
            f"it is evaluated every {format_duration(group.interval)}", f"write at most {longest}"
        )


def hold_over_interval(group: Group, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """A ``for`` that is not 0 is at least one evaluation long: a shorter one means the same."""
    for rule in group.rules:
        if group.interval and 0 < rule.expression.hold < group.interval:
            yield Problem(
                f"the `for` of {rule.name} is shorter than the interval "
                f"{format_duration(group.interval)}",
                "raise the `for`, or shorten the interval",
            )


EXPRESSION_CHECKS: Final[tuple[Check[Expression], ...]] = (
    Check("promql/range", long_range),
    Check("promql/instant", no_instant_look),
)
RULE_CHECKS: Final[tuple[Check[Rule], ...]] = (
    Check("alert/for", long_hold),
    Check("alert/absent", absence_that_waits),
)
GROUP_CHECKS: Final[tuple[Check[Group], ...]] = (
    Check("group/interval", short_interval),
    Check("group/for", hold_over_interval),
)
