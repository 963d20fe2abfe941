"""Checks of what is selected: metrics, labels and values that exist, counters read as such."""

import re
from collections.abc import Iterator
from typing import Final

import promql_parser as promql
from promql_parser import Expr

from orphanwatch.alerts.lint.model import Check, Expression, Facts, Problem, Role, Sampled
from orphanwatch.alerts.lint.tree import RATES, Selection, function, nodes, selections
from orphanwatch.exporter.names import OWN_LABELS, Kind

PREFIXES: Final = ("orphan_", "orphanwatch_")
VARIABLE: Final = "$"
"""What begins a dashboard variable within a matcher."""

_META: Final = re.compile(r"[.*+?()\[\]{}|^$\\]")
_COUNTER_READERS: Final = RATES | {
    "resets",
    "changes",
    "absent",
    "absent_over_time",
    "present_over_time",
    "count",
    "count_over_time",
    "group",
    "timestamp",
}
_OF_GAUGES: Final = {"rate": "deriv", "irate": "idelta", "increase": "delta"}


def known_metric(expression: Expression, facts: Facts) -> Iterator[Problem]:
    """Every metric that is read exists: the exporter shows it, or a rule of the file records it."""
    for found in selections(expression.tree):
        name = found.name
        if name is None or name in facts.samples or name in facts.recorded:
            continue
        is_strange = facts.foreign is not None and name not in facts.foreign
        if name.startswith(PREFIXES) or is_strange:
            yield Problem(
                f"nobody shows or records `{name}`",
                "write a name of docs/metrics.md, or record it in the same file",
            )


def known_label(expression: Expression, facts: Facts) -> Iterator[Problem]:
    """A matcher names a label that the metric can have."""
    for found, sampled in _ours(expression, facts):
        for label, _, _ in found.matchers:
            if label in OWN_LABELS and label not in sampled.labels:
                have = ", ".join(sampled.labels) or "none of its own"
                yield Problem(f"`{found.name}` has no label `{label}`", f"its labels: {have}")


def known_value(expression: Expression, facts: Facts) -> Iterator[Problem]:
    """A matcher on a label with a closed set of values fits one of them."""
    for found, sampled in _ours(expression, facts):
        for label, sign, value in found.matchers:
            allowed = facts.values.get(label)
            if allowed is None or label not in sampled.labels or VARIABLE in value:
                continue
            if not _fits(sign, value, allowed):
                yield Problem(
                    f'`{label}{sign}"{value}"` fits no value of that label',
                    f"write one of: {', '.join(sorted(allowed))}",
                )


def _fits(sign: str, value: str, allowed: frozenset[str]) -> bool:
    if sign in {"=", "!="}:
        return value in allowed
    try:
        return any(re.fullmatch(value, one) for one in allowed)
    except re.error:  # Go's expressions know more than Python's: then it can't be told here
        return True


def plain_matcher(expression: Expression, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """A regular expression stands only where equality would not do, and without anchors."""
    for found in selections(expression.tree):
        for label, sign, value in found.matchers:
            if sign not in {"=~", "!~"} or VARIABLE in value[:-1]:
                continue
            written = f'`{label}{sign}"{value}"`'
            if value.startswith("^") or value.endswith("$"):
                yield Problem(f"{written} has anchors, and is anchored anyway", "drop ^ and $")
            elif value == ".*":
                yield Problem(f"{written} fits everything or nothing", "drop the matcher")
            elif not _META.search(value):
                equal = "=" if sign == "=~" else "!="
                yield Problem(f"{written} fits one text only", f'write {label}{equal}"{value}"')


def raw_counter(expression: Expression, facts: Facts) -> Iterator[Problem]:
    """A counter is read through rate or increase, since it starts again at 0 with its program."""
    if expression.role is Role.MARKS:
        return
    for found, sampled in _ours(expression, facts):
        if sampled.kind is not Kind.GAUGE and _reader(found) not in _COUNTER_READERS:
            yield Problem(
                f"`{found.name}` is a counter, and is read as if it never started again",
                f"write increase({found.name}[...]) or rate({found.name}[...])",
            )


def _reader(found: Selection) -> str:
    """Return the function or aggregation right around a selector."""
    for node in reversed(found.above):
        if not isinstance(node, promql.ParenExpr | promql.SubqueryExpr):
            return function(node)
    return ""


def rated_gauge(expression: Expression, facts: Facts) -> Iterator[Problem]:
    """Only counters are under rate, irate and increase: a gauge that falls would count as reset."""
    for found, sampled in _ours(expression, facts):
        reader = _reader(found)
        if sampled.kind is Kind.GAUGE and reader in RATES:
            yield Problem(
                f"`{found.name}` is a gauge under {reader}()",
                f"write {_OF_GAUGES[reader]}(), or a function such as max_over_time()",
            )


def rate_before_sum(expression: Expression, facts: Facts) -> Iterator[Problem]:
    """Counters are rated first and aggregated after: a sum hides that one of them was reset."""
    for node, _ in nodes(expression.tree):
        if function(node) not in RATES or not isinstance(node, promql.Call):
            continue
        inner = [below for below, _ in nodes(node.args[0])]
        if any(_is_summed(below, facts) for below in inner):
            yield Problem(
                f"{function(node)}() of what is aggregated already", "rate first, then aggregate"
            )


def _is_summed(node: Expr, facts: Facts) -> bool:
    if isinstance(node, promql.AggregateExpr):
        return True
    names = [found.name for found in selections(node)]
    return any(name in facts.recorded for name in names)


def _ours(expression: Expression, facts: Facts) -> Iterator[tuple[Selection, Sampled]]:
    for found in selections(expression.tree):
        sampled = facts.samples.get(found.name or "")
        if sampled is not None:
            yield found, sampled


def of_this_service(expression: Expression, facts: Facts) -> Iterator[Problem]:
    """Every selector has the matchers of ``selector``, where the config picks one of several."""
    wanted = facts.config.selector_matchers
    for found in selections(expression.tree):
        if found.name not in facts.samples and found.name not in facts.recorded:
            continue
        for matcher in wanted:
            if (matcher.label, str(matcher.operator), matcher.value) not in found.matchers:
                yield Problem(f"`{found.name}` reads every service", f"add the matcher {matcher}")


CHECKS: Final[tuple[Check[Expression], ...]] = (
    Check("promql/metric", known_metric),
    Check("promql/label", known_label),
    Check("promql/value", known_value),
    Check("promql/selector", of_this_service),
    Check("promql/regexp", plain_matcher),
    Check("promql/counter", raw_counter),
    Check("promql/rate", rated_gauge),
    Check("promql/rate_of_sum", rate_before_sum),
)
