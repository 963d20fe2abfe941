"""Which rules the cases prove: what a passed test demands, and what really fired when it did.

A rule is covered when, in tests that passed, one demands that it fires, another that it is
silent, and each of its ``or`` arms fired alone at a moment when its firing was demanded.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import Any, Final, NamedTuple

import promql_parser

from orphanwatch.alerts.alert import Alert
from orphanwatch.alerts.documents import Document
from orphanwatch.alerts.parts import Part
from orphanwatch.alerts.rule_tests import promtool_file
from orphanwatch.alerts.rules import rule_file
from orphanwatch.exporter.config import Config

PROBE_RULES: Final = "arms.rules.yml"
PROBE_TESTS: Final = "arms.rules.test.yml"

_ARM: Final = re.compile(r'alertname="arm_(\d+)"')


class Arm(NamedTuple):
    """One alternative of a rule's expression: the whole of it, where it has no top-level ``or``."""

    rule: str
    """The title of the rule it belongs to."""
    expr: str


class Evidence(NamedTuple):
    """What tests that passed show of the rules, each by its title."""

    demanded: frozenset[str] = frozenset()
    """The rules that a test demands to fire."""
    silent: frozenset[str] = frozenset()
    """The rules that a test demands to be silent."""
    fired: frozenset[Arm] = frozenset()
    """What fired by itself while its rule's firing was demanded."""


class Gap(NamedTuple):
    """A rule that is not covered, and what is missing."""

    rule: str
    missing: str


class Coverage(NamedTuple):
    """How many of the alerting rules the cases prove."""

    covered: int
    rules: int
    gaps: tuple[Gap, ...]

    def __str__(self) -> str:
        """Return the line that ``alerts test`` prints."""
        return f"coverage: {self.covered} of {self.rules} rules"


class Probe:
    """Asks, with rules and tests of its own, which arms fire where a test demands a firing.

    Each arm becomes an alerting rule of the same ``for``. Its tests expect that none fires, so
    promtool names each that does.
    """

    def __init__(self, config: Config, part: Part) -> None:
        """Take the cases to ask about: in one variation, since which arms fire differs in none."""
        document = rule_file(config, part.alerts)
        every = [rule for group in document["groups"] for rule in group["rules"]]
        self._recordings = [rule for rule in every if "record" in rule]
        self._rules = [rule for rule in every if "alert" in rule]
        self._holds = {_title(rule): rule["for"] for rule in self._rules}
        self._arms = tuple(_arms(self._rules))
        self._interval = document["groups"][0]["interval"]
        self._document = promtool_file(config, (part.plain(),), PROBE_RULES)

    def documents(self) -> dict[str, Document]:
        """Return the probe's rule file and test file by name; none if there is nothing to ask."""
        tests = [test for one in self._document["tests"] if (test := self._asked(one))]
        if not tests:
            return {}
        rules = [
            {"alert": f"arm_{number}", "expr": arm.expr, "for": self._holds[arm.rule]}
            for number, arm in enumerate(self._arms)
        ]
        group = {"name": "arms", "interval": self._interval, "rules": [*self._recordings, *rules]}
        return {
            PROBE_RULES: {"groups": [group]},
            PROBE_TESTS: {**self._document, "tests": tests},
        }

    def _asked(self, test: Document) -> Document | None:
        """Return a test that asks which arms fire, None where the test demands no firing."""
        questions = [
            {"expr": self._firing(demanded), "eval_time": check["eval_time"], "exp_samples": []}
            for check in test.get("alert_rule_test", ())
            if (demanded := {self._raised(check, alert) for alert in check["exp_alerts"]})
        ]
        kept = {key: test[key] for key in ("name", "interval", "input_series")}
        return {**kept, "promql_expr_test": questions} if questions else None

    def _firing(self, rules: set[str]) -> str:
        wanted = "|".join(
            f"arm_{number}" for number, arm in enumerate(self._arms) if arm.rule in rules
        )
        fires = f'ALERTS{{alertname=~"{wanted}",alertstate="firing"}}'
        return f"count by (alertname) ({fires})"

    def _raised(self, check: Document, alert: Document) -> str:
        """Return the rule that raises an expected alert."""
        labels = alert["exp_labels"]
        return next(
            _title(rule)
            for rule in self._rules
            if rule["alert"] == check["alertname"] and rule["labels"].items() <= labels.items()
        )

    def evidence(self, output: str) -> Evidence:
        """Return what is shown by a part that passed, from what promtool said of its probe."""
        demanded: set[str] = set()
        silent: set[str] = set()
        for test in self._document["tests"]:
            for check in test.get("alert_rule_test", ()):
                raised = {self._raised(check, alert) for alert in check["exp_alerts"]}
                demanded |= raised
                silent |= self._of(check["alertname"]) - raised
            for never in test.get("promql_expr_test", ()):
                silent |= {
                    _title(rule)
                    for rule in self._rules
                    if f'alertname="{rule["alert"]}"' in never["expr"]
                }
        fired = {self._arms[int(number)] for number in _ARM.findall(output)}
        return Evidence(frozenset(demanded), frozenset(silent), frozenset(fired))

    def _of(self, name: str) -> set[str]:
        return {_title(rule) for rule in self._rules if rule["alert"] == name}


def coverage(config: Config, alerts: Iterable[Alert], shown: Iterable[Evidence]) -> Coverage:
    """Return how many of the alerts' rules are proven by what is shown, and what is missing."""
    proven = reduce(_both, shown, Evidence())
    document = rule_file(config, alerts)
    every = [rule for group in document["groups"] for rule in group["rules"] if "alert" in rule]
    gaps = tuple(
        Gap(_title(rule), "; ".join(missing))
        for rule in every
        if (missing := list(_missing(rule, proven)))
    )
    return Coverage(len(every) - len(gaps), len(every), gaps)


def _both(one: Evidence, other: Evidence) -> Evidence:
    return Evidence(
        one.demanded | other.demanded, one.silent | other.silent, one.fired | other.fired
    )


def _missing(rule: Mapping[str, Any], proven: Evidence) -> Iterator[str]:
    title = _title(rule)
    if title not in proven.demanded:
        yield "no passed test demands that it fires"
    if title not in proven.silent:
        yield "no passed test demands that it is silent"
    for arm in _arms([rule]):
        if arm not in proven.fired:
            yield f"no case makes this arm fire: {' '.join(arm.expr.split())}"


def _arms(rules: Iterable[Mapping[str, Any]]) -> Iterator[Arm]:
    return (Arm(_title(rule), expr) for rule in rules for expr in arms(rule["expr"]))


def arms(expr: str) -> tuple[str, ...]:
    """Return the alternatives of an expression: what stands between its top-level ``or``."""
    return tuple(_prettified(promql_parser.parse(expr)))


def _prettified(node: Any) -> Iterator[str]:
    if isinstance(node, promql_parser.ParenExpr):
        yield from _prettified(node.expr)
    elif isinstance(node, promql_parser.BinaryExpr) and str(node.op) == "or":
        yield from _prettified(node.lhs)
        yield from _prettified(node.rhs)
    else:
        yield node.prettify()


def _title(rule: Mapping[str, Any]) -> str:
    return f"{rule['alert']} ({', '.join(rule['labels'].values())})"
