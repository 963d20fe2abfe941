"""Labels that made-up series need, so that the rules of a config with ``selector`` see them."""

import re
from typing import Final

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.config_selector import Matcher, Operator
from orphanwatch.exporter.errors import RenderError

_ANYTHING: Final = re.compile(r"(?<!\\)\.[*+]")


def chosen(config: Config) -> dict[str, str]:
    """Return labels that every matcher of ``selector`` accepts.

    Raises ``RenderError`` for matchers that no plain text satisfies.
    """
    labels = {matcher.label for matcher in config.selector_matchers}
    found = {label: _value(config, label) for label in sorted(labels)}
    # An empty label is an absent one.
    return {label: value for label, value in found.items() if value}


def chosen_by_equality(config: Config) -> dict[str, str]:
    """Return the labels that ``absent_over_time`` gives: those of an equality."""
    fixed = {
        matcher.label for matcher in config.selector_matchers if matcher.operator is Operator.EQUAL
    }
    return {label: value for label, value in chosen(config).items() if label in fixed}


def tells_jobs_apart(config: Config) -> bool:
    """Return whether alerts keep the label ``job``: not where it only tells replicas apart."""
    return "job" not in config.replica_labels


def _value(config: Config, label: str) -> str:
    matchers = [one for one in config.selector_matchers if one.label == label]
    for value in ("", "x", *(text for one in matchers for text in _examples(one))):
        if all(one.accepts(value) for one in matchers):
            return value
    raise RenderError(
        f"selector: no example is found that label {label} may have, so the rules can't be "
        "tested; write its values as a list, such as eu-1|eu-2"
    )


def _examples(matcher: Matcher) -> tuple[str, ...]:
    """Return texts that a matcher may accept: each of its alternatives, and its own."""
    alternatives = matcher.value.strip("^$()").split("|")
    plain = (re.sub(r"\\(.)", r"\1", _ANYTHING.sub("x", one)) for one in alternatives)
    return (*plain, matcher.value)
