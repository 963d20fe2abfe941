"""What Prometheus would have made of the past: alerts that hold for long enough, and their sight.

All of it is pure; instants are seconds since 1970 on the grid of the evaluations.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import promql_parser as promql
from promql_parser import Expr

from orphanwatch.alerts.alert import Severity
from orphanwatch.alerts.lint.model import Rule, RuleFile
from orphanwatch.alerts.lint.tree import SETS, children, function, operator, selection, selections
from orphanwatch.exporter.errors import RenderError
from orphanwatch.exporter.instants import Micros, format_duration, seconds

_ABSENT: Final = frozenset({"absent", "absent_over_time"})
_SEVERITY: Final = "severity"
_MATCHERS: Final = r'(?:"(?:\\.|[^"\\])*"|[^"}])*'

Times = frozenset[int]


class Replayed(NamedTuple):
    """One alerting rule as it is replayed."""

    name: str
    labels: tuple[tuple[str, str], ...]
    """The constants that tell it from the alert's other rules."""
    severity: Severity
    expr: str
    """With what recording rules record written out: the past may lack it."""
    hold: Micros

    @property
    def key(self) -> tuple[str, tuple[tuple[str, str], ...], Severity]:
        """What stays the same when thresholds change."""
        return self.name, self.labels, self.severity


def replayed(file: RuleFile) -> tuple[Replayed, ...]:
    """Return the alerting rules of a file, each standing for itself."""
    recorded: dict[str, str] = {}
    alerting = []
    for group in file.groups:
        step = format_duration(group.interval or 0)
        for rule in group.rules:
            expr = written_out(rule.expression.text, recorded, step)
            if rule.is_alert:
                alerting.append(_replayed(rule, expr))
            else:
                recorded[rule.name] = expr
    return tuple(alerting)


def _replayed(rule: Rule, expr: str) -> Replayed:
    if rule.severity is None:
        raise RenderError(f"{rule.place}: has no severity, so nobody knows whom it would call")
    told_apart = sorted(pair for pair in rule.labels.items() if pair[0] != _SEVERITY)
    return Replayed(rule.name, tuple(told_apart), rule.severity, expr, rule.expression.hold)


def written_out(expr: str, recorded: Mapping[str, str], step: str) -> str:
    """Return an expression with each recorded name replaced by what it records.

    Matchers on a recorded name go: those of ``selector`` stand within what it records as well.
    A range of a recorded name becomes a subquery that steps as the rule group does.
    """
    for name in sorted(recorded, key=len, reverse=True):
        place = re.compile(
            rf"(?<![\w:]){re.escape(name)}(?![\w:])(?:\{{{_MATCHERS}\}})?(?:\[([^\]:]+)\])?"
        )
        body = recorded[name]
        expr = place.sub(lambda found, body=body: _in_place(body, found[1], step), expr)  # type: ignore[misc]  # bound at once
    return expr


def _in_place(body: str, length: str | None, step: str) -> str:
    return f"({body})" if length is None else f"(({body})[{length}:{step}])"


def firings(times: Sequence[int], step: int, hold: int) -> Iterator[int]:
    """Yield the instants at which an alert begins to fire, as Prometheus does.

    ``times`` are those at which its expression gave this series, in order. An evaluation without
    it ends the alert, and it must hold anew.
    """
    began = fired = None
    before = None
    for at in times:
        if before is None or at - before > step:
            began, fired = at, None
        if fired is None and began is not None and at - began >= hold:
            fired = at
            yield at
        before = at


def hold_seconds(hold: Micros) -> int:
    """Return a ``for`` in whole seconds, never shorter than it is."""
    return -int(-seconds(hold) // 1)


def sight(tree: Expr, seen: Mapping[str, Times], every: Times) -> Times:
    """Return when the expression could have spoken: its metrics were there.

    ``seen`` tells when each metric of ours was there; what is of others counts as always there,
    and absence speaks always. Of two branches one is enough.
    """
    found = selection(tree)
    if found is not None:
        return seen.get(found.name or "", every)
    if function(tree) in _ABSENT:
        return every
    sign = operator(tree)
    if isinstance(tree, promql.BinaryExpr) and sign in SETS:
        left, right = (sight(side, seen, every) for side in (tree.lhs, tree.rhs))
        return left | right if sign == "or" else left & right if sign == "and" else left
    times = every
    for child in children(tree):
        times &= sight(child, seen, every)
    return times


def unseen(tree: Expr, seen: Mapping[str, Times]) -> tuple[str, ...]:
    """Return the metrics of an expression that were never there."""
    names = {found.name or "" for found in selections(tree)}
    return tuple(sorted(name for name in names if name in seen and not seen[name]))
