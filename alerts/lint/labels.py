"""Which labels the series of an expression can have, worked out from the expression alone.

An expression with ``or`` has branches, and each has labels of its own: what one branch has the
other may lack.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

import promql_parser as promql
from promql_parser import Expr

from orphanwatch.alerts.lint.model import Facts
from orphanwatch.alerts.lint.tree import ARITHMETIC, COMPARISONS, function, operator, selection
from orphanwatch.exporter.names import LE, OWN_LABELS

_TARGET: Final = frozenset({"job", "instance"})
"""What Prometheus itself puts on every series that it scrapes."""
_SCALARS: Final = frozenset({"time", "pi", "scalar", "vector"})
_ABSENT: Final = frozenset({"absent", "absent_over_time"})
_LABELLING: Final = frozenset({"label_replace", "label_join"})
_SAMPLING: Final = frozenset({"topk", "bottomk", "limitk", "limit_ratio"})


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of the series of one branch."""

    sure: frozenset[str] = frozenset()
    """What every series has."""
    fixed: frozenset[str] = frozenset()
    """Those with one and the same value in all series."""
    maybe: frozenset[str] = frozenset()
    """What a series may have."""
    gone: frozenset[str] | None = None
    """What none has, any other label being possible; None: nothing else is possible."""

    def has(self, label: str) -> bool:
        """Return whether a series may have the label."""
        if label in self.sure | self.maybe:
            return True
        return self.gone is not None and label not in self.gone

    def only(self, labels: Iterable[str]) -> "Labels":
        """Return what is left of these labels."""
        kept = frozenset(labels)
        return Labels(
            self.sure & kept,
            self.fixed & kept,
            frozenset(label for label in kept - self.sure if self.has(label)),
        )

    def without(self, labels: Iterable[str]) -> "Labels":
        """Return what is left once these labels are dropped."""
        dropped = frozenset(labels)
        gone = None if self.gone is None else self.gone | dropped
        return Labels(self.sure - dropped, self.fixed - dropped, self.maybe - dropped, gone)

    def plus(self, labels: Iterable[str]) -> "Labels":
        """Return these labels and more, which a series may have."""
        more = frozenset(labels)
        gone = None if self.gone is None else self.gone - more
        return Labels(self.sure, self.fixed - more, self.maybe | (more - self.sure), gone)


Branches = frozenset[Labels]
"""The labels of each branch; empty where there is no vector but a number or a text."""


def branches(node: Expr, facts: Facts) -> Branches:
    """Return the labels that the series of an expression can have, branch by branch."""
    if selection(node) is not None:
        return _selected(node, facts)
    if isinstance(node, promql.ParenExpr | promql.UnaryExpr | promql.SubqueryExpr):
        return branches(node.expr, facts)
    if isinstance(node, promql.AggregateExpr):
        return _aggregated(node, facts)
    if isinstance(node, promql.BinaryExpr):
        return _combined(node, facts)
    return _called(node, facts) if isinstance(node, promql.Call) else frozenset()


def _selected(node: Expr, facts: Facts) -> Branches:
    found = selection(node)
    if found is None:
        return frozenset()
    if found.name is None:
        bases = frozenset({Labels(gone=frozenset())})
    elif found.name in facts.recorded:
        # Without itself, so that a rule that reads what it records comes to an end.
        others = {name: tree for name, tree in facts.recorded.items() if name != found.name}
        bases = branches(facts.recorded[found.name], replace(facts, recorded=others))
    elif found.name in facts.samples:
        own = frozenset(facts.samples[found.name].labels)
        # One of ours that this family lacks is no target label either.
        bases = frozenset({Labels(own | _TARGET, frozenset(), frozenset(), OWN_LABELS - own)})
    else:
        bases = frozenset({Labels(gone=frozenset())})
    equal = {label: value for label, sign, value in found.matchers if sign == "="}
    fixed = frozenset(label for label, value in equal.items() if value)
    empty = frozenset(label for label, value in equal.items() if not value)
    return frozenset(
        Labels(base.sure | fixed, base.fixed | fixed, base.maybe - fixed, base.gone).without(empty)
        for base in bases
    )


def _each(found: Branches, change: Callable[[Labels], Labels]) -> Branches:
    return frozenset(change(labels) for labels in found)


def _aggregated(node: promql.AggregateExpr, facts: Facts) -> Branches:
    inner, name = branches(node.expr, facts), function(node)
    if name in _SAMPLING:
        return inner
    found = _each(inner, lambda labels: grouped(labels, node))
    if name == "count_values" and isinstance(node.param, promql.StringLiteral):
        value_label = node.param.val
        return _each(found, lambda labels: labels.plus({value_label}))
    return found


def grouped(labels: Labels, node: promql.AggregateExpr) -> Labels:
    """Return what an aggregation leaves of the labels."""
    if node.modifier is None:
        return Labels()
    if node.modifier.type == promql.AggModifierType.By:
        return labels.only(node.modifier.labels)
    return labels.without(node.modifier.labels)


def _called(node: promql.Call, facts: Facts) -> Branches:
    name = function(node)
    if name in _ABSENT:
        absent = selection(node.args[0])
        matchers = absent.matchers if absent else ()
        told = frozenset(label for label, sign, value in matchers if sign == "=" and value)
        return frozenset({Labels(told, told)})
    if name in _SCALARS:
        return frozenset({Labels()}) if name == "vector" else frozenset()
    inner = next((each for arg in node.args if (each := branches(arg, facts))), frozenset())
    if name == "histogram_quantile":
        return _each(inner, lambda labels: labels.without({LE}))
    if name in _LABELLING and isinstance(node.args[1], promql.StringLiteral):
        target = node.args[1].val
        return _each(inner, lambda labels: labels.plus({target}))
    return inner


def _combined(node: promql.BinaryExpr, facts: Facts) -> Branches:
    left, right, sign = branches(node.lhs, facts), branches(node.rhs, facts), operator(node)
    if sign == "or":
        return left | right
    if not left or not right:
        return left or right
    if sign not in ARITHMETIC | COMPARISONS:
        return left
    extra = frozenset(node.modifier.group_labels or ()) if node.modifier else frozenset()
    if reaches(node) is promql.VectorMatchCardinality.OneToMany:
        return _each(right, lambda labels: labels.plus(extra))
    if reaches(node) is promql.VectorMatchCardinality.ManyToOne:
        return _each(left, lambda labels: labels.plus(extra))
    return _each(left, lambda labels: matched(labels, node))


def reaches(node: promql.BinaryExpr) -> promql.VectorMatchCardinality | None:
    """Return which side may have many series for one of the other; None where it is not said."""
    if node.modifier is None:
        return None
    named = (
        promql.VectorMatchCardinality.OneToMany,
        promql.VectorMatchCardinality.ManyToOne,
    )
    return next((one for one in named if node.modifier.card == one), None)


def matched(labels: Labels, node: promql.BinaryExpr) -> Labels:
    """Return the labels by which the two sides are matched."""
    matching = node.modifier.matching if node.modifier else None
    if matching is None:
        return labels
    if matching.type == promql.LabelModifierType.Include:
        return labels.only(matching.labels)
    return labels.without(matching.labels)
