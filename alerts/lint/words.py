"""Checks of an alert's labels and words: constant labels, sound templates, readable numbers."""

import re
from collections.abc import Iterator
from typing import Final

from orphanwatch.alerts.lint.labels import branches
from orphanwatch.alerts.lint.model import Check, Facts, Problem, Rule

TEMPLATE: Final = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}", re.DOTALL)
_LABEL: Final = re.compile(r"(?:\$labels|\.Labels)\.(\w+)")
_VALUE: Final = re.compile(r"\$value\b|\.Value\b")
_TEXTS: Final = re.compile(r'"(?:\\.|[^"\\])*"|`[^`]*`')
_READABLE: Final = re.compile(r"\|\s*(humanize\w*|printf\b)|\b(humanize\w*|printf)\s")
_OPENING: Final = frozenset({"range", "if", "with", "define", "block"})
_TEST: Final = re.compile(r"(else\s+)?(if|with)\s")
_EXTERNAL: Final = re.compile(r"\$externalLabels|\.ExternalLabels")


def constant_labels(rule: Rule, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """A label holds no template: a value in one makes a new alert of every change."""
    for label, text in rule.labels.items():
        if "{{" in text:
            yield Problem(f"the label `{label}` is a template", "move it into an annotation")


def sound_templates(rule: Rule, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """Every template closes what it opens, and reads no labels of the server's own."""
    for name, text in rule.annotations.items():
        depth = 0
        for inner in TEMPLATE.findall(text):
            word = inner.split(maxsplit=1)[0] if inner else ""
            depth += (word in _OPENING) - (word == "end")
            if depth < 0:
                break
        left_over = TEMPLATE.sub("", text)
        if depth or "{{" in left_over or "}}" in left_over:
            yield Problem(f"a template of `{name}` is not closed", "balance {{, }} and end")
        if _EXTERNAL.search(text):
            yield Problem(
                f"`{name}` reads the server's external labels, which another server lacks",
                "leave them to Alertmanager",
            )


def labels_that_are_left(rule: Rule, facts: Facts) -> Iterator[Problem]:
    """A template reads only labels that every branch of the expression keeps, or tests them."""
    if rule.expression.read is None:
        return
    found = branches(rule.expression.tree, facts)
    for name, text in rule.annotations.items():
        read = set(_LABEL.findall(_outside_loops(text)))
        # The rule's own labels are not among these: Prometheus adds them later.
        for label in sorted(read - _tested(text)):
            if any(not one.has(label) for one in found):
                yield Problem(
                    f"`{name}` reads the label `{label}`, which a branch of the expression drops",
                    "keep it in the aggregation, or leave it out of the text",
                )


def _outside_loops(text: str) -> str:
    """Return the text without what stands inside a range: there a label is of the inner query."""
    return re.sub(
        r"\{\{-?\s*range\b.*?\{\{-?\s*end\s*-?\}\}",
        lambda loop: re.sub(r"\.Labels\.\w+", "", loop.group(0)),
        text,
        flags=re.DOTALL,
    )


def _tested(text: str) -> set[str]:
    """Return the labels that an ``if`` asks for: a label that is not there is empty, and false."""
    tests = (inner for inner in TEMPLATE.findall(text) if _TEST.match(inner))
    return {label for inner in tests for label in _LABEL.findall(inner)}


def readable_values(rule: Rule, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """A number in the words is humanised: nobody reads 0.0333333333333 at night."""
    for name, text in rule.annotations.items():
        for inner in TEMPLATE.findall(text):
            said = _TEXTS.sub('""', inner)
            if _VALUE.search(said) and not _READABLE.search(said):
                yield Problem(
                    f"`{name}` shows a raw number: {{{{ {inner} }}}}",
                    "write {{ $value | humanize }}, or one of its kin",
                )


CHECKS: Final[tuple[Check[Rule], ...]] = (
    Check("alert/labels", constant_labels),
    Check("alert/template", sound_templates),
    Check("alert/template_labels", labels_that_are_left),
    Check("alert/template_values", readable_values),
)
