"""Checks of labels: joins that can match, and groupings by labels that are there."""

from collections.abc import Iterator
from typing import Final

import promql_parser as promql

from orphanwatch.alerts.lint.labels import Branches, Labels, branches, matched, reaches
from orphanwatch.alerts.lint.model import Check, Expression, Facts, Problem
from orphanwatch.alerts.lint.tree import SETS, nodes, operator


def possible_join(expression: Expression, facts: Facts) -> Iterator[Problem]:
    """Both sides of an operation can have the labels by which they are matched."""
    for node, left, right in _joins(expression, facts):
        for one, others in ((left, right), (right, left)):
            for labels in sorted(one, key=str):
                why = {_clash(node, labels, other) for other in others}
                if None not in why:
                    yield Problem(
                        f"the two sides of `{operator(node)}` never match: "
                        + " and ".join(sorted(reason for reason in why if reason)),
                        "join by labels that both sides keep",
                    )


def _clash(node: promql.BinaryExpr, one: Labels, other: Labels) -> str | None:
    """Return why no series of one side meets one of the other; None where one may."""
    mine, theirs = matched(one, node), matched(other, node)
    for label in sorted(mine.sure | theirs.sure):
        if label in mine.sure and not theirs.has(label):
            return f"one has `{label}` and the other does not"
        if label in theirs.sure and not mine.has(label):
            return f"one has `{label}` and the other does not"
    for label in _joined_on(node):
        if not one.has(label) and not other.has(label):
            return f"neither has `{label}`"
    return None


def _joined_on(node: promql.BinaryExpr) -> list[str]:
    matching = node.modifier.matching if node.modifier else None
    is_on = matching is not None and matching.type == promql.LabelModifierType.Include
    return list(matching.labels) if matching is not None and is_on else []


def single_match(expression: Expression, facts: Facts) -> Iterator[Problem]:
    """Each series meets at most one of the other side, or ``group_left`` says which side has more.

    Prometheus fails the whole query otherwise.
    """
    for node, left, right in _joins(expression, facts):
        many = reaches(node)
        if operator(node) in SETS:
            continue
        for side, found, named in (
            ("left", left, promql.VectorMatchCardinality.ManyToOne),
            ("right", right, promql.VectorMatchCardinality.OneToMany),
        ):
            more = sorted(set().union(*(_told_apart(labels, node) for labels in found)))
            if more and (many is None or many != named):
                yield Problem(
                    f"on the {side} of `{operator(node)}` several series differ only in "
                    f"{', '.join(more)}, and meet the same one",
                    "aggregate them away, or match by them",
                )


def _told_apart(labels: Labels, node: promql.BinaryExpr) -> frozenset[str]:
    """Return the labels that tell series apart and are not matched by."""
    kept = matched(labels, node)
    return labels.sure - labels.fixed - kept.sure


def grouping_by_what_is_there(expression: Expression, facts: Facts) -> Iterator[Problem]:
    """``by``, ``without`` and ``group_left`` name labels that can be there."""
    for node, _ in nodes(expression.tree):
        if isinstance(node, promql.AggregateExpr) and node.modifier is not None:
            found = branches(node.expr, facts)
            yield from _missing(tuple(node.modifier.labels), found)
        elif isinstance(node, promql.BinaryExpr) and node.modifier is not None:
            is_left = reaches(node) == promql.VectorMatchCardinality.ManyToOne
            found = branches(node.rhs if is_left else node.lhs, facts)
            yield from _missing(tuple(node.modifier.group_labels or ()), found)


def _missing(labels: tuple[str, ...], found: Branches) -> Iterator[Problem]:
    for label in labels:
        if found and not any(one.has(label) for one in found):
            yield Problem(
                f"`{label}` is named in a grouping, and no series has it there any more",
                "leave it out, or keep it in the aggregation below",
            )


def _joins(
    expression: Expression, facts: Facts
) -> Iterator[tuple[promql.BinaryExpr, Branches, Branches]]:
    """Yield each operation of two vectors, ``or`` left aside, with the labels of its sides."""
    for node, _ in nodes(expression.tree):
        if isinstance(node, promql.BinaryExpr) and operator(node) != "or":
            left, right = branches(node.lhs, facts), branches(node.rhs, facts)
            if left and right:
                yield node, left, right


CHECKS: Final[tuple[Check[Expression], ...]] = (
    Check("promql/impossible", possible_join),
    Check("promql/vector_matching", single_match),
    Check("promql/aggregate", grouping_by_what_is_there),
)
