"""The promtool unit tests: every case of every alert, in each of its variations."""

from collections.abc import Iterable, Iterator

from orphanwatch.alerts.alert import Alert, Case, Check, Firing, Rule, Variation
from orphanwatch.alerts.documents import Document
from orphanwatch.alerts.links import filled_dashboard_url
from orphanwatch.alerts.parts import Part
from orphanwatch.alerts.promql import equals
from orphanwatch.alerts.rules import rule_annotations, rule_labels
from orphanwatch.alerts.selector_labels import chosen, chosen_by_equality
from orphanwatch.alerts.templates import spoken
from orphanwatch.alerts.timing import evaluation_interval
from orphanwatch.alerts.traces import Series, every_fourth_missed, written
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.errors import RenderError
from orphanwatch.exporter.instants import format_duration


def promtool_file(config: Config, parts: Iterable[Part], rule_file_name: str) -> Document:
    """Return the promtool test file of some parts, for the rules in ``rule_file_name``."""
    return {
        "rule_files": [rule_file_name],
        "evaluation_interval": format_duration(evaluation_interval(config)),
        "tests": [test for part in parts for test in _tests(config, part)],
    }


def _tests(config: Config, part: Part) -> Iterator[Document]:
    writer = _Writer(config, part.alerts)
    return (test for case in part.cases for test in writer.tests(case, part.subject))


class _Writer:
    """Writes cases for one config; knows the alerts that they name."""

    def __init__(self, config: Config, alerts: tuple[Alert, ...]) -> None:
        self._config = config
        self._alerts = {alert.name: alert for alert in alerts}

    def tests(self, case: Case, subject: str) -> Iterator[Document]:
        """Yield the case once for each of its variations that this config has."""
        for variation in case.variations:
            if variation is Variation.REPLICAS and not self._config.replica_labels:
                continue
            name = f"{subject}: {case.name} ({variation})"
            yield {
                "name": name,
                "interval": format_duration(self._config.scrape_interval),
                "input_series": [_input(series) for series in self._vary(case.series, variation)],
                **self._expectations(case, name),
            }

    def _expectations(self, case: Case, test: str) -> Document:
        checks = [self._check(check) for check in case.checks]
        never = [self._never(case, name, test) for name in case.never]
        both = {"alert_rule_test": checks, "promql_expr_test": never}
        return {kind: tests for kind, tests in both.items() if tests}

    def _vary(self, series: tuple[Series, ...], variation: Variation) -> Iterator[Series]:
        ours = chosen(self._config)
        for one in series:
            labels = {**ours, **one.labels}
            if variation is Variation.PLAIN:
                yield Series(one.family, one.trace, labels)
            elif variation is Variation.MISSED:
                yield Series(one.family, every_fourth_missed(one.trace), labels)
            else:
                label = self._config.replica_labels[0]
                for replica in ("replica-a", "replica-b"):
                    yield Series(one.family, one.trace, {**labels, label: replica})

    def _at(self, scrape: int) -> str:
        return format_duration(scrape * self._config.scrape_interval)

    def _check(self, check: Check) -> Document:
        return {
            "eval_time": self._at(check.scrape),
            "alertname": check.alert,
            "exp_alerts": [self._expected(check.alert, firing) for firing in check.firing],
        }

    def _expected(self, name: str, firing: Firing) -> Document:
        alert = self._alerts[name]
        rule = self._rule(alert, firing)
        annotations = rule_annotations(self._config, alert, rule)
        ours = chosen_by_equality(self._config) if firing.by_absence else chosen(self._config)
        own = {key: str(text) for key, text in firing.labels.items()}
        labels = {**ours, **rule_labels(self._config, rule), **own}
        words = {
            "description": spoken(rule.description, firing),
            "dashboard_url": filled_dashboard_url(self._config, name, labels),
        }
        return {"exp_labels": labels, "exp_annotations": annotations | words}

    def _rule(self, alert: Alert, firing: Firing) -> Rule:
        for rule in alert.rules(self._config):
            if rule.severity is firing.severity and rule.labels.items() <= firing.labels.items():
                return rule
        raise RenderError(f"{alert.name} has no rule of severity {firing.severity} to test")

    def _never(self, case: Case, name: str, test: str) -> Document:
        length = max(len(series.trace) for series in case.series)
        # Prometheus writes ALERTS itself, so one look back over it sees every evaluation.
        fired = f'ALERTS{{alertname="{name}",alertstate="firing"}}'
        return {
            # Of an expression that fails, promtool 2.42 tells its text and not the test's name.
            "expr": f"count_over_time({fired}[{self._at(length + 1)}]) # {test}",
            "eval_time": self._at(length),
            "exp_samples": [],
        }


def _input(series: Series) -> Document:
    labels = ",".join(equals(name, value) for name, value in sorted(series.labels.items()))
    return {"series": f"{series.family}{{{labels}}}", "values": written(series.trace)}
