"""Checks of names, headlines, severities and links: what mixtool and the mixins' guide ask for."""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from orphanwatch.alerts.alert import Severity
from orphanwatch.alerts.lint.model import Check, Facts, Problem, Rule
from orphanwatch.alerts.lint.tree import RATES, function, nodes, selections
from orphanwatch.alerts.lint.words import TEMPLATE
from orphanwatch.alerts.naming import LONGEST_NAME

LINKS: Final = ("runbook_url", "dashboard_url")

_ALERT_NAME: Final = re.compile(r"(?:[A-Z][a-z0-9]*)+")
_RECORD_NAME: Final = re.compile(r"([a-z][a-z0-9_]*):([a-z][a-z0-9_]*):([a-z][a-z0-9_]*)")
_WINDOW: Final = re.compile(r"(?:rate|increase|irate)(\d+(?:ms|[smhdwy]))")
_LABEL_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def alert_name(rule: Rule, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """An alert's name is camel case, and at most 40 characters long."""
    if not rule.is_alert:
        return
    if not _ALERT_NAME.fullmatch(rule.name):
        yield Problem(f"`{rule.name}` is not camel case", "write it like OrphanTokensAccruing")
    if len(rule.name) > LONGEST_NAME:
        yield Problem(f"the name has {len(rule.name)} characters", f"write at most {LONGEST_NAME}")


def known_severity(rule: Rule, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """An alert's severity is critical (act now), warning (in working time) or info (context)."""
    if rule.is_alert and rule.severity is None:
        stated = rule.labels.get("severity")
        yield Problem(
            "it has no severity" if stated is None else f"`{stated}` is no severity",
            f"write one of: {', '.join(Severity)}",
        )


def constant_summary(rule: Rule, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """The summary is one constant sentence: a capital first, a full stop last, no template."""
    if not rule.is_alert:
        return
    summary = rule.annotations.get("summary", "")
    if not summary:
        yield Problem("it has no summary", "write one constant sentence")
    elif "{{" in summary:
        yield Problem("the summary is a template", "keep numbers and names in the description")
    elif not (summary[0].isupper() and summary.endswith(".")):
        yield Problem(
            "the summary is no sentence", "begin with a capital, and end with a full stop"
        )


def telling_description(rule: Rule, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """The description is there, and names the object or the number by a template."""
    if not rule.is_alert:
        return
    description = rule.annotations.get("description", "")
    if not description:
        yield Problem("it has no description", "say what happened where, and what to do")
    elif not TEMPLATE.search(description):
        yield Problem(
            "the description is the same for every alert", "name the object: {{ $labels.pool }}"
        )


def sound_links(rule: Rule, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """An alert links to its runbook page and its panel, by absolute and valid URLs."""
    if not rule.is_alert:
        return
    for key in LINKS:
        if not rule.annotations.get(key):
            yield Problem(f"it has no {key}", f"add the annotation {key}")
    for key, text in rule.annotations.items():
        if key.endswith("_url") and text and not _is_url(TEMPLATE.sub("x", text)):
            yield Problem(f"the {key} is no absolute URL", "write it with https:// and a host")


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        port_is_sound = parts.port is None or parts.port > 0
    except ValueError:
        return False
    is_plain = not re.search(r"\s|[<>\"{}|\\^`]", text)
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and is_plain and port_is_sound


def filled_annotations(rule: Rule, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """Labels and annotations have valid names, and say something."""
    for kind, pairs in (("label", rule.labels), ("annotation", rule.annotations)):
        for key, text in pairs.items():
            if not _LABEL_NAME.fullmatch(key):
                yield Problem(f"`{key}` is no name of a {kind}", "write letters, digits and _")
            if not text.strip():
                yield Problem(f"the {kind} `{key}` is empty", "fill it in, or leave it out")


def record_name(rule: Rule, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """What a rule records is named level:metric:operations, without _total once it is rated."""
    if rule.is_alert:
        return
    parts = _RECORD_NAME.fullmatch(rule.name)
    if parts is None:
        yield Problem(
            f"`{rule.name}` is not level:metric:operations",
            "write for example pool:orphan_tokens:increase5m",
        )
        return
    _, metric, operations = parts.groups()
    if metric.endswith("_total") and any(rated in operations for rated in RATES):
        yield Problem(f"`{metric}` is rated and no total any more", "drop _total from the name")
    yield from _told_windows(rule, operations)
    yield from _told_metric(rule, metric)


def _told_windows(rule: Rule, operations: str) -> Iterator[Problem]:
    if rule.expression.read is None:
        return
    text = "".join(rule.expression.text.split())
    for window in _WINDOW.findall(operations):
        if f"[{window}]" not in text:
            yield Problem(
                f"the name says {window}, and the expression reads no such range",
                "name the range that it reads",
            )


def _told_metric(rule: Rule, metric: str) -> Iterator[Problem]:
    if rule.expression.read is None or "_per_" in metric:
        return
    read = {found.name or "" for found in selections(rule.expression.tree)}
    rated = any(function(node) in RATES for node, _ in nodes(rule.expression.tree))
    plain = {name.split(":")[1] if name.count(":") > 1 else name for name in read}
    stripped = {name.removesuffix("_total") for name in plain} if rated else plain
    if not any(metric.startswith(name) or name.startswith(metric) for name in stripped | plain):
        yield Problem(
            f"the name says `{metric}`, and the expression reads {', '.join(sorted(read))}",
            "keep the metric's name in the middle",
        )


CHECKS: Final[tuple[Check[Rule], ...]] = (
    Check("alert/name", alert_name),
    Check("alert/severity", known_severity),
    Check("alert/summary", constant_summary),
    Check("alert/description", telling_description),
    Check("alert/links", sound_links),
    Check("rule/annotations", filled_annotations),
    Check("rule/record_name", record_name),
)
