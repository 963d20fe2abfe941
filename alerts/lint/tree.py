"""Walks over parsed PromQL: nodes with what is above them, and the selectors."""

from collections.abc import Iterator
from typing import NamedTuple

import promql_parser as promql
from promql_parser import Expr

from orphanwatch.exporter.instants import Micros, micros
from orphanwatch.exporter.promql import parsed as promql_of

RATES = frozenset({"rate", "increase", "irate"})
COMPARISONS = frozenset({"==", "!=", ">", "<", ">=", "<="})
SETS = frozenset({"and", "or", "unless"})
ARITHMETIC = frozenset({"+", "-", "*", "/", "%", "^", "atan2"})


DEEPEST = 150
"""How deep an expression may nest: each level costs some calls of every check."""


class Selection(NamedTuple):
    """One selector: which samples, over which range, and what is above it."""

    name: str | None
    """None where the name is a pattern, or any."""
    matchers: tuple[tuple[str, str, str], ...]
    """Label, operator and value; the name is not among them."""
    length: Micros | None
    """The range; None for an instant look."""
    above: tuple[Expr, ...]
    """The nodes around it, the outermost first."""
    names: frozenset[str]
    """What is asked for by name, patterns too."""


def parsed(text: str) -> Expr | None:
    """Return the parsed expression; None where it does not parse, or nests too deeply to walk."""
    tree = promql_of(text)
    return None if tree is None or _is_deep(tree) else tree


def _is_deep(tree: Expr) -> bool:
    level: tuple[Expr, ...] = (tree,)
    for _ in range(DEEPEST):
        level = tuple(child for node in level for child in children(node))
        if not level:
            return False
    return True


def children(node: Expr) -> tuple[Expr, ...]:
    """Return the nodes right below a node."""
    if isinstance(node, promql.BinaryExpr):
        return (node.lhs, node.rhs)
    if isinstance(node, promql.Call):
        return tuple(node.args)
    if isinstance(node, promql.AggregateExpr):
        return (node.expr,)
    if isinstance(node, promql.ParenExpr | promql.UnaryExpr | promql.SubqueryExpr):
        return (node.expr,)
    return ()


def nodes(node: Expr, above: tuple[Expr, ...] = ()) -> Iterator[tuple[Expr, tuple[Expr, ...]]]:
    """Yield each node with the nodes around it, the outermost first."""
    yield node, above
    for child in children(node):
        yield from nodes(child, (*above, node))


def bare(node: Expr) -> Expr:
    """Return a node without the parentheses around it."""
    while isinstance(node, promql.ParenExpr):
        node = node.expr
    return node


def function(node: Expr) -> str:
    """Return the name of the function or aggregation that a node is; "" for others."""
    if isinstance(node, promql.Call):
        return str(node.func.name)
    return str(node.op) if isinstance(node, promql.AggregateExpr) else ""


def operator(node: Expr) -> str:
    """Return the operator that a node is; "" for others."""
    return str(node.op) if isinstance(node, promql.BinaryExpr) else ""


def is_bool(node: promql.BinaryExpr) -> bool:
    """Return whether a comparison gives 0 and 1 and drops nothing."""
    return node.modifier is not None and node.modifier.return_bool


def number(node: Expr) -> float | None:
    """Return the number that a node states; None for others."""
    node = bare(node)
    if isinstance(node, promql.UnaryExpr):
        inner = number(node.expr)
        return None if inner is None else -inner
    return float(node.val) if isinstance(node, promql.NumberLiteral) else None


def selections(tree: Expr) -> Iterator[Selection]:
    """Yield every selector of an expression."""
    for node, above in nodes(tree):
        found = selection(node, above)
        if found is not None:
            yield found


def selection(node: Expr, above: tuple[Expr, ...] = ()) -> Selection | None:
    """Return the selector that a node is; None for others."""
    if isinstance(node, promql.MatrixSelector):
        vector, length = node.vector_selector, micros(node.range.total_seconds())
    elif isinstance(node, promql.VectorSelector):
        vector, length = node, None
    else:
        return None
    matchers = tuple(
        (matcher.name, _sign(matcher.op), matcher.value) for matcher in vector.matchers.matchers
    )
    named = [(sign, value) for label, sign, value in matchers if label == "__name__"]
    exact = [value for sign, value in named if sign == "="]
    return Selection(
        name=vector.name or (exact[0] if exact else None),
        matchers=tuple(matcher for matcher in matchers if matcher[0] != "__name__"),
        length=length,
        above=above,
        names=frozenset(
            [vector.name or "", *(text for sign, text in named if sign in {"=", "=~"})]
        ),
    )


def _sign(op: promql.MatchOp) -> str:
    # The library's operators can be compared, and not be keys.
    return next(sign for known, sign in _SIGNS if op == known)


_SIGNS = (
    (promql.MatchOp.Equal, "="),
    (promql.MatchOp.NotEqual, "!="),
    (promql.MatchOp.Re, "=~"),
    (promql.MatchOp.NotRe, "!~"),
)
