"""Which rules the cases prove: what a passed test demands, and what really fired when it did.

A rule is covered when, in tests that passed, one demands that it fires, another that it is
silent, and each of its ``or`` arms fired alone at a moment when its firing was demanded.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import promql_parser

from orphanwatch.alerts.alert import Alert, Case, Variation
from orphanwatch.alerts.documents import Document
from orphanwatch.alerts.rule_tests import promtool_file
from orphanwatch.alerts.rules import rule_file
from orphanwatch.exporter.config import Config

PROBE_RULES: Final = "arms.rules.yml"
PROBE_TESTS: Final = "arms.rules.test.yml"

_ARM: Final = re.compile(r'alertname="arm_(\d+)"')


class Arm(NamedTuple):
    """One alternative of a rule's expression: the whole of it, where it has no top-level ``or``."""

    rule: int
    """The rule it belongs to, by its position among the alerting rules."""
    expr: str


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

    def __init__(self, config: Config, alerts: tuple[Alert, ...], cases: Iterable[Case]) -> None:
        """Take the catalogue, and the cases that belong to no single alert."""
        document = rule_file(config, alerts)
        every = [rule for group in document["groups"] for rule in group["rules"]]
        self._recordings = [rule for rule in every if "record" in rule]
        self._rules = [rule for rule in every if "alert" in rule]
        self._arms = tuple(
            Arm(position, expr)
            for position, rule in enumerate(self._rules)
            for expr in arms(rule["expr"])
        )
        self._interval = document["groups"][0]["interval"]
        self._document = promtool_file(
            config, tuple(map(_plain, alerts)), map(_plain_case, cases), PROBE_RULES
        )

    def documents(self) -> dict[str, Document]:
        """Return the probe's rule file and test file by name."""
        rules = [
            {
                "alert": f"arm_{number}",
                "expr": arm.expr,
                "for": self._rules[arm.rule]["for"],
            }
            for number, arm in enumerate(self._arms)
        ]
        group = {"name": "arms", "interval": self._interval, "rules": [*self._recordings, *rules]}
        tests = [test for one in self._document["tests"] if (test := self._asked(one))]
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

    def _firing(self, rules: set[int]) -> str:
        wanted = "|".join(
            f"arm_{number}" for number, arm in enumerate(self._arms) if arm.rule in rules
        )
        fires = f'ALERTS{{alertname=~"{wanted}",alertstate="firing"}}'
        return f"count by (alertname) ({fires})"

    def _raised(self, check: Document, alert: Document) -> int:
        """Return the rule that raises an expected alert."""
        labels = alert["exp_labels"]
        return next(
            position
            for position, rule in enumerate(self._rules)
            if rule["alert"] == check["alertname"] and rule["labels"].items() <= labels.items()
        )

    def coverage(self, output: str, *, passed: bool) -> Coverage:
        """Return what is proven, from what promtool said of the probe.

        ``passed`` is whether the rules' own tests passed: a failed test proves nothing.
        """
        fired = {int(number) for number in _ARM.findall(output)} if passed else set()
        demanded, silent = self._expectations() if passed else (set(), set())
        gaps = tuple(
            Gap(_title(rule), "; ".join(missing))
            for position, rule in enumerate(self._rules)
            if (missing := list(self._missing(position, demanded, silent, fired)))
        )
        return Coverage(len(self._rules) - len(gaps), len(self._rules), gaps)

    def _expectations(self) -> tuple[set[int], set[int]]:
        """Return the rules that a test demands to fire, and those demanded to be silent."""
        demanded: set[int] = set()
        silent: set[int] = set()
        for test in self._document["tests"]:
            for check in test.get("alert_rule_test", ()):
                raised = {self._raised(check, alert) for alert in check["exp_alerts"]}
                demanded |= raised
                silent |= self._of(check["alertname"]) - raised
            for never in test.get("promql_expr_test", ()):
                silent |= {
                    position
                    for position, rule in enumerate(self._rules)
                    if f'alertname="{rule["alert"]}"' in never["expr"]
                }
        return demanded, silent

    def _of(self, name: str) -> set[int]:
        return {position for position, rule in enumerate(self._rules) if rule["alert"] == name}

    def _missing(
        self, position: int, demanded: set[int], silent: set[int], fired: set[int]
    ) -> Iterator[str]:
        if position not in demanded:
            yield "no passed test demands that it fires"
        if position not in silent:
            yield "no passed test demands that it is silent"
        for number, arm in enumerate(self._arms):
            if arm.rule == position and number not in fired:
                yield f"no case makes this arm fire: {' '.join(arm.expr.split())}"


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


def _plain(alert: Alert) -> Alert:
    """Return the alert with each case in one variation: which arms fire differs in none."""
    own = alert.cases
    return replace(alert, cases=lambda config: tuple(map(_plain_case, own(config))))


def _plain_case(case: Case) -> Case:
    return replace(case, variations=(Variation.PLAIN,))
