"""Checks of what makes an alert fire: a comparison, and nothing that flaps."""

from collections.abc import Iterator
from typing import Final

import promql_parser as promql
from promql_parser import Expr

from orphanwatch.alerts.lint.model import Check, Expression, Facts, Problem, Role
from orphanwatch.alerts.lint.tree import (
    ARITHMETIC,
    COMPARISONS,
    bare,
    children,
    function,
    is_bool,
    nodes,
    operator,
    selections,
)

_ABSENT: Final = frozenset({"absent", "absent_over_time"})
_JUMPY: Final = {
    "topk": "another series every time: compare all with a limit",
    "bottomk": "another series every time: compare all with a limit",
    "limitk": "another series every time: compare all with a limit",
    "limit_ratio": "another series every time: compare all with a limit",
    "irate": "the last two samples only: write rate()",
    "idelta": "the last two samples only: write delta()",
}
_SAMPLING_AGGREGATIONS: Final = frozenset({"limitk", "limit_ratio"})


def comparison(expression: Expression, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """Every branch of an alert compares with something: without, any value at all fires."""
    if expression.role is Role.ALERT:
        for branch in _branches(expression.tree):
            if not _filters(branch):
                yield Problem(
                    f"`{_short(branch)}` is compared with nothing, so any value fires",
                    "compare it, for example: > 0",
                )


def _branches(node: Expr) -> Iterator[Expr]:
    node = bare(node)
    if isinstance(node, promql.BinaryExpr) and operator(node) == "or":
        yield from _branches(node.lhs)
        yield from _branches(node.rhs)
    else:
        yield node


def _filters(node: Expr) -> bool:
    """Return whether an expression can give nothing for series that are there."""
    node = bare(node)
    if isinstance(node, promql.BinaryExpr):
        sign = operator(node)
        if sign in COMPARISONS and not is_bool(node):
            return True
        if sign == "or":
            return _filters(node.lhs) and _filters(node.rhs)
        return _filters(node.lhs) or (sign != "unless" and _filters(node.rhs))
    return function(node) in _ABSENT or any(_filters(child) for child in children(node))


def _short(node: Expr) -> str:
    return " ".join(node.prettify().split())


def steady_function(expression: Expression, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """No rule rests on a function whose answer jumps between two evaluations."""
    if not expression.role.is_rule:
        return
    for node, _ in nodes(expression.tree):
        if function(node) in _JUMPY:
            yield Problem(f"{function(node)}() makes a rule flap", _JUMPY[function(node)])


def one_job(expression: Expression, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """An alert without ``for`` joins no two jobs: one of them is always scraped a little later."""
    if expression.role is not Role.ALERT or expression.hold:
        return
    for node, _ in nodes(expression.tree):
        if isinstance(node, promql.BinaryExpr) and operator(node) in ARITHMETIC:
            left, right = _jobs(node.lhs), _jobs(node.rhs)
            if left and right and left != right:
                yield Problem(
                    f"`{operator(node)}` joins two jobs, scraped at different instants",
                    "give the alert a for: of two scrapes or more",
                )


def _jobs(node: Expr) -> set[str]:
    return {
        value
        for found in selections(node)
        for label, sign, value in found.matchers
        if (label, sign) == ("job", "=")
    }


def old_features(expression: Expression, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """Nothing needs an experimental feature that a server has to be started with."""
    for node, _ in nodes(expression.tree):
        is_experimental = isinstance(node, promql.Call) and node.func.experimental
        if is_experimental or function(node) in _SAMPLING_AGGREGATIONS:
            yield Problem(f"{function(node)}() is experimental", "do without it")


CHECKS: Final[tuple[Check[Expression], ...]] = (
    Check("alert/comparison", comparison),
    Check("promql/fragile", steady_function),
    Check("promql/jobs", one_job),
    Check("promql/features", old_features),
)
