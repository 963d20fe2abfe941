"""Runs every check over rule files and dashboards; there is no way to leave one out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from orphanwatch.alerts.lint import (
    files,
    firing,
    matching,
    numbers,
    panels,
    ranges,
    selecting,
    style,
    words,
)
from orphanwatch.alerts.lint.facts import facts_of
from orphanwatch.alerts.lint.model import (
    Check,
    Expression,
    Facts,
    Finding,
    Group,
    Problem,
    Rule,
    RuleFile,
)
from orphanwatch.alerts.lint.read_dashboards import dashboard_expressions
from orphanwatch.alerts.lint.read_rules import parse_rule_file
from orphanwatch.alerts.lint.tree import selections
from orphanwatch.exporter.config import Config


def syntax(expression: Expression, facts: Facts) -> Iterator[Problem]:  # noqa: ARG001  (a check's signature)
    """Every expression is PromQL."""
    if expression.read is None:
        shown = " ".join(expression.text.split())
        shown = shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}…"
        yield Problem(f"`{shown}` does not parse, or nests too deeply", "mend the PromQL")


_LONGEST_SHOWN: Final = 300
SYNTAX: Final = Check("promql/syntax", syntax)
EXPRESSION_CHECKS: Final[tuple[Check[Expression], ...]] = (
    *selecting.CHECKS,
    *ranges.EXPRESSION_CHECKS,
    *matching.CHECKS,
    *numbers.CHECKS,
    *firing.CHECKS,
    *panels.CHECKS,
)
RULE_CHECKS: Final[tuple[Check[Rule], ...]] = (*ranges.RULE_CHECKS, *words.CHECKS, *style.CHECKS)
GROUP_CHECKS: Final[tuple[Check[Group], ...]] = (*ranges.GROUP_CHECKS, *files.GROUP_CHECKS)
FILE_CHECKS: Final[tuple[Check[RuleFile], ...]] = files.FILE_CHECKS


def checks() -> tuple[tuple[str, str], ...]:
    """Return the name of every check, and what it demands in one sentence."""
    every: tuple[Check[Any], ...] = (
        SYNTAX,
        *EXPRESSION_CHECKS,
        *RULE_CHECKS,
        *GROUP_CHECKS,
        *FILE_CHECKS,
    )
    return tuple((check.name, check.says) for check in every)


class Linted(NamedTuple):
    """What was looked at, and what was found."""

    rules: int
    queries: int
    """Of dashboards."""
    findings: tuple[Finding, ...]


def lint_generated(
    config: Config, rules: Mapping[str, str], dashboards: Mapping[str, str]
) -> Linted:
    """Return what is found in generated rules and dashboards, given by file name as texts.

    Our rules and panels may read nothing but our own metrics and what Prometheus has of a scrape.
    """
    rule_files = [parse_rule_file(file, text) for file, text in rules.items()]
    every_rule = [rule for file in rule_files for rule in file.rules]
    facts = facts_of(config, every_rule, is_ours=True)
    queries = [
        expression
        for file, text in dashboards.items()
        for expression in dashboard_expressions(config, file, text)
    ]
    findings = [finding for file in rule_files for finding in _lint_file(file, facts)]
    findings += [finding for query in queries for finding in _lint_expression(query, facts)]
    return Linted(len(every_rule), len(queries), tuple(findings))


def lint_foreign(config: Config, file: RuleFile) -> Linted:
    """Return what is found in somebody's rules; those that read nothing of ours are passed by."""
    facts = facts_of(config, file.rules, is_ours=False)
    kept = RuleFile(
        file=file.file,
        groups=tuple(_of_ours(group, facts) for group in file.groups),
    )
    groups = tuple(group for group in kept.groups if group.rules)
    ours = RuleFile(file=file.file, groups=groups)
    return Linted(len(ours.rules), 0, tuple(_lint_file(ours, facts)))


def _of_ours(group: Group, facts: Facts) -> Group:
    return Group(
        file=group.file,
        name=group.name,
        interval=group.interval,
        rules=tuple(rule for rule in group.rules if _reads_ours(rule, facts)),
    )


def _reads_ours(rule: Rule, facts: Facts) -> bool:
    if rule.expression.read is None:
        return any(prefix in rule.expression.text for prefix in selecting.PREFIXES)
    asked, seen = [rule.expression.tree], set[str]()
    while asked:
        for found in selections(asked.pop()):
            for name in found.names - seen:
                seen.add(name)
                asked += [facts.recorded[name]] if name in facts.recorded else []
    return any(prefix in name for name in seen for prefix in selecting.PREFIXES)


def _lint_file(file: RuleFile, facts: Facts) -> Iterator[Finding]:
    yield from _apply(FILE_CHECKS, file, facts)
    for group in file.groups:
        yield from _apply(GROUP_CHECKS, group, facts)
        for rule in group.rules:
            yield from _apply(RULE_CHECKS, rule, facts)
            for expression in (rule.expression, *rule.words):
                yield from _lint_expression(expression, facts)


def _lint_expression(expression: Expression, facts: Facts) -> Iterator[Finding]:
    yield from _apply((SYNTAX,), expression, facts)
    if expression.read is not None:
        yield from _apply(EXPRESSION_CHECKS, expression, facts)


class _Placed(Protocol):
    @property
    def file(self) -> str: ...
    @property
    def place(self) -> str: ...


P = TypeVar("P", bound=_Placed)


def _apply(every: Sequence[Check[P]], subject: P, facts: Facts) -> Iterator[Finding]:
    for check in every:
        for problem in _once(check.look(subject, facts)):
            yield Finding(subject.file, subject.place, check.name, problem)


def _once(problems: Iterable[Problem]) -> Iterable[Problem]:
    """Return each problem once: a selector may stand in an expression several times."""
    return dict.fromkeys(problems)
