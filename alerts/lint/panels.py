"""Checks of panel queries: those of dashboard-linter, on the text as Grafana gets it."""

import re
from collections.abc import Iterator
from typing import Final

from orphanwatch.alerts.lint.model import Check, Expression, Facts, Problem, Role
from orphanwatch.alerts.lint.tree import selections

RATE_INTERVAL: Final = "$__rate_interval"
_RATED: Final = re.compile(r"\b(i?rate)\s*\(")
_RANGE: Final = re.compile(r"\[([^\]]*)\]")
_SCOPES: Final = {"job": "$job", "instance": "$instance"}


def rate_interval(expression: Expression, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """A panel's rate is over $__rate_interval, which follows the zoom and the scrapes."""
    if expression.role is not Role.PANEL:
        return
    for call in _RATED.finditer(expression.text):
        length = _RANGE.search(expression.text, call.end())
        if length is not None and length[1] != RATE_INTERVAL:
            yield Problem(f"{call[1]}() is over [{length[1]}]", f"write [{RATE_INTERVAL}]")


def scoped(expression: Expression, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """Every selector of a panel follows the variables job and instance."""
    if expression.role is not Role.PANEL:
        return
    for found in selections(expression.tree):
        for label, variable in _SCOPES.items():
            if (label, "=~", variable) not in found.matchers:
                yield Problem(
                    f"`{found.name}` does not follow the variable {label}",
                    f'add {label}=~"{variable}"',
                )


CHECKS: Final[tuple[Check[Expression], ...]] = (
    Check("panel/rate_interval", rate_interval),
    Check("panel/scope", scoped),
)
