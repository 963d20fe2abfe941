"""Checks of numbers: divisions that give no number, and decimals that are exact."""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

import promql_parser as promql
from promql_parser import Expr

from orphanwatch.alerts.lint.model import Check, Expression, Facts, Problem
from orphanwatch.alerts.lint.tree import bare, function, is_bool, nodes, number, operator
from orphanwatch.exporter.promql import without_texts

_EXACT_DIGITS: Final = 15
"""What a double carries for certain; a decimal with more of them came from float arithmetic."""
_NUMBERS: Final = re.compile(
    r"(?<![\w:.$])(0x[0-9a-f]+|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)(?![\w.:])", re.IGNORECASE
)
_POSITIVE: Final = frozenset({"clamp_min", "exp", "count_over_time", "present_over_time"})
_KEEPING: Final = frozenset({"max_over_time", "min_over_time", "avg_over_time", "last_over_time"})


def guarded_ratio(expression: Expression, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """What is divided by can't be 0 where a rule or an aggregation uses the quotient: no NaN."""
    for node, above in nodes(expression.tree):
        if not isinstance(node, promql.BinaryExpr) or operator(node) not in {"/", "%"}:
            continue
        is_used = expression.role.is_rule or any(
            isinstance(outer, promql.AggregateExpr) for outer in above
        )
        if is_used and not _is_never_zero(node.rhs):
            yield Problem(
                f"`{node.rhs.prettify().strip()}` is divided by and may be 0, which gives NaN or "
                "Inf: neither is above or below anything",
                "divide by (... > 0)",
            )


def _is_never_zero(node: Expr) -> bool:
    node = bare(node)
    stated = number(node)
    if stated is not None:
        return stated != 0
    if isinstance(node, promql.BinaryExpr):
        return _drops_zero(node)
    if isinstance(node, promql.AggregateExpr):
        return function(node) in {"max", "min", "avg", "sum", "count"} and (
            function(node) == "count" or _is_never_zero(node.expr)
        )
    if isinstance(node, promql.Call) and function(node) in _POSITIVE:
        least = number(node.args[1]) if function(node) == "clamp_min" else 1
        return least is not None and least > 0
    if isinstance(node, promql.Call) and function(node) in _KEEPING:
        return _is_never_zero(node.args[0])
    return isinstance(node, promql.SubqueryExpr) and _is_never_zero(node.expr)


def _drops_zero(node: promql.BinaryExpr) -> bool:
    sign, limit = operator(node), number(node.rhs)
    if sign in {"and", "unless"}:
        return _is_never_zero(node.lhs)
    if sign in {"*", "or"}:
        return _is_never_zero(node.lhs) and _is_never_zero(node.rhs)
    if sign == "/":
        return _is_never_zero(node.lhs)
    if is_bool(node) or limit is None:
        return False
    return {
        ">": limit >= 0,
        ">=": limit > 0,
        "<": limit <= 0,
        "<=": limit < 0,
        "!=": limit == 0,
        "==": limit != 0,
    }.get(sign, False)


def exact_decimal(expression: Expression, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """Numbers are plain and exact decimals: no exponent, no noise of binary fractions."""
    for written in _NUMBERS.findall(without_texts(expression.text)):
        if re.search("[ex]", written, re.IGNORECASE):
            yield Problem(f"`{written}` is not written as a plain decimal", "write its digits out")
        elif len(Decimal(written).as_tuple().digits) > _EXACT_DIGITS:
            yield Problem(
                f"`{written}` has more digits than were meant",
                f"round it, for example to {float(f'{float(written):.{_EXACT_DIGITS}g}')!r}",
            )


CHECKS: Final[tuple[Check[Expression], ...]] = (
    Check("promql/nan", guarded_ratio),
    Check("promql/decimal", exact_decimal),
)
