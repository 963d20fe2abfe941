"""The label matchers of ``selector:``, which pick one service's series in a shared Prometheus."""

import re
from enum import StrEnum
from functools import cache
from typing import Any, Final, NamedTuple

import promql_parser

from orphanwatch.exporter.names import OWN_LABELS
from orphanwatch.exporter.promql import parsed

# Labels that a rule, Prometheus or the exporter itself sets: a matcher on one would pick rows of
# a metric, not a service, and the rules would say something else than their pages.
_KEPT: Final = OWN_LABELS | {"__name__", "alertname", "alertstate", "severity"}
_NO_MATCHERS: Final = (
    'is no list of label matchers; write for example cluster="eu-1",namespace="llm"'
)
# Within a function call, so that nothing of the text can end the selector and go on after it.
_FRAME: Final = "sum(orphan_store_up{{{}}})"
_LABEL_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


class Operator(StrEnum):
    """How a matcher compares."""

    EQUAL = "="
    NOT_EQUAL = "!="
    MATCHES = "=~"
    NOT_MATCHES = "!~"


class Matcher(NamedTuple):
    """One label matcher."""

    label: str
    operator: Operator
    value: str

    def __str__(self) -> str:
        """Return the matcher as PromQL."""
        escaped = self.value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'{self.label}{self.operator}"{escaped}"'

    def accepts(self, value: str) -> bool:
        """Return whether a label of this value matches; an absent label is empty."""
        if self.operator in {Operator.EQUAL, Operator.NOT_EQUAL}:
            return (value == self.value) is (self.operator is Operator.EQUAL)
        found = re.fullmatch(self.value, value) is not None
        return found is (self.operator is Operator.MATCHES)


@cache
def parse_selector(text: str) -> tuple[Matcher, ...]:
    """Return the matchers of ``selector:``, none for an empty text.

    Raises ``ValueError`` where it is no list of matchers, or names a label that is not the
    user's to choose by.
    """
    if not text.strip():
        return ()
    matchers = tuple(Matcher(one.name, _OPERATORS[str(one.op)], one.value) for one in _parsed(text))
    for matcher in matchers:
        if matcher.label in _KEPT:
            raise ValueError(
                f"label {matcher.label} is set by the metrics or the rules themselves; choose the "
                "service by a label that your Prometheus adds, such as job or namespace"
            )
        _check_expression(matcher)
    return matchers


_OPERATORS: Final = {
    "MatchOp.Equal": Operator.EQUAL,
    "MatchOp.NotEqual": Operator.NOT_EQUAL,
    "MatchOp.Re": Operator.MATCHES,
    "MatchOp.NotRe": Operator.NOT_MATCHES,
}


def _parsed(text: str) -> list[Any]:
    node = parsed(_FRAME.format(text))
    selector = node.expr if isinstance(node, promql_parser.AggregateExpr) else None
    if not isinstance(selector, promql_parser.VectorSelector) or selector.matchers.or_matchers:
        raise ValueError(_NO_MATCHERS)
    if not all(_LABEL_NAME.fullmatch(one.name) for one in selector.matchers.matchers):
        raise ValueError(_NO_MATCHERS)
    found: list[Any] = selector.matchers.matchers
    return found


def _check_expression(matcher: Matcher) -> None:
    try:
        re.compile(matcher.value if matcher.operator in _EXPRESSIONS else "")
    except re.error:
        raise ValueError(
            f"the regular expression of label {matcher.label} is not understood; write the names "
            "that you mean, such as eu-1|eu-2"
        ) from None


_EXPRESSIONS: Final = frozenset({Operator.MATCHES, Operator.NOT_MATCHES})
