"""Grafana's own linter, strict and with nothing excluded: ours pass, spoilt ones do not."""

import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from artifact_configs import STORES, small_config
from dashboard_lint import RULES, variables
from panel_answers import Window, filled, panels_of
from promql_facts import matchers, selectors

from orphanwatch.dashboards.build import build

CONFIGS = {
    "the small config": small_config(),
    "a selector for one of several services": small_config(
        selector='cluster="eu-1",namespace=~"llm|batch"'
    ),
    "two stores only": small_config(stores={name: STORES[name] for name in ("gateway", "ledger")}),
    "no pools": small_config(pools={}),
    "no replica labels": small_config(replica_labels=[]),
    "a pool whose name is no word": small_config(
        pools={"paid (eu)": {"role": "paid", "lease_cap": 1}, "over.flow": {"role": "overflow"}}
    ),
}
FILES = tuple(build(small_config()))
Document = dict[str, Any]


@cache
def built(name: str) -> dict[str, str]:
    """Return the dashboards of a config, which take a while to build."""
    return build(CONFIGS[name])


def test_all_rules_are_there() -> None:
    """The linter has 17 rules, and each is done again here."""
    assert len(RULES) == 17


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("rule", RULES)
def test_dashboards_pass(rule: str, config: str) -> None:
    """Each dashboard of each config passes each rule."""
    complaints = {file: list(RULES[rule](json.loads(text))) for file, text in built(config).items()}
    assert complaints == {file: [] for file in FILES}


def _first(document: Document) -> Document:
    return panels_of(document)[0]


def _ask(document: Document, expr: str) -> None:
    _first(document)["targets"][0]["expr"] = expr


SCOPE = 'job=~"$job",instance=~"$instance"'
SPOILT: dict[str, tuple[str, Callable[[Document], Any]]] = {
    "no data source variable": (
        "template-datasource-rule",
        lambda d: d["templating"]["list"].pop(0),
    ),
    "a data source variable with another label": (
        "template-datasource-rule",
        lambda d: variables(d)[0].update(label="Server"),
    ),
    "no job variable": ("template-job-rule", lambda d: d["templating"]["list"].pop(1)),
    "one job only": ("template-job-rule", lambda d: variables(d)[1].update(multi=False)),
    "an all value that fits no label too": (
        "template-instance-rule",
        lambda d: variables(d)[2].update(allValue=".*"),
    ),
    "a variable's query that can't be read": (
        "template-label-promql-rule",
        lambda d: variables(d)[1].update(query="label_values(orphan{, job)"),
    ),
    "a variable asked once": (
        "template-on-time-change-reload-rule",
        lambda d: variables(d)[1].update(refresh=1),
    ),
    "a fixed data source": (
        "panel-datasource-rule",
        lambda d: _first(d)["datasource"].update(uid="prometheus-1"),
    ),
    "no description": ("panel-title-description-rule", lambda d: _first(d).pop("description")),
    "no title": ("panel-title-description-rule", lambda d: _first(d).update(title="")),
    "an unknown unit": (
        "panel-units-rule",
        lambda d: _first(d)["fieldConfig"]["defaults"].update(unit="tokens"),
    ),
    "nothing asked": ("panel-no-targets-rule", lambda d: _first(d).update(targets=[])),
    "logs asked": (
        "target-logql-rule",
        lambda d: _first(d)["targets"][0]["datasource"].update(type="loki"),
    ),
    "a range over logs": ("target-logql-auto-rule", lambda d: _ask(d, "rate({a=`b`}[$__auto])")),
    "a query that can't be read": ("target-promql-rule", lambda d: _ask(d, "sum(up{")),
    "a variable that is not there": ("target-promql-rule", lambda d: _ask(d, "up * $factor")),
    "a fixed range": (
        "target-rate-interval-rule",
        lambda d: _ask(d, f"rate(orphan_tokens_total{{{SCOPE}}}[2m])"),
    ),
    "a fixed range of an increase": (
        "target-rate-interval-rule",
        lambda d: _ask(d, f"increase(orphan_tokens_total{{{SCOPE}}}[2m])"),
    ),
    "a selector without job": ("target-job-rule", lambda d: _ask(d, 'up{instance=~"$instance"}')),
    "one selector of two without instance": (
        "target-instance-rule",
        lambda d: _ask(d, f'up{{{SCOPE}}} and up{{job=~"$job"}}'),
    ),
    "a raw counter": (
        "target-counter-agg-rule",
        lambda d: _ask(d, f"orphan_tokens_total{{{SCOPE}}}"),
    ),
    "a raw bucket": (
        "target-counter-agg-rule",
        lambda d: _ask(d, f"orphan_refresh_duration_seconds_bucket{{{SCOPE}}}"),
    ),
    "open to editing": ("uneditable-dashboard", lambda d: d.update(editable=True)),
}


@pytest.mark.parametrize(("rule", "spoil"), SPOILT.values(), ids=SPOILT)
@pytest.mark.parametrize("file", FILES)
def test_spoilt_dashboards_fail(file: str, rule: str, spoil: Callable[[Document], Any]) -> None:
    """Each rule finds what it is there for."""
    document = json.loads(built("the small config")[file])
    spoil(document)
    assert list(RULES[rule](document))


def test_every_rule_can_fail() -> None:
    """There is a spoilt dashboard for each rule."""
    assert {rule for rule, _ in SPOILT.values()} == set(RULES)


@pytest.mark.parametrize("file", FILES)
def test_selector_is_in_every_query(file: str) -> None:
    """A config's selector picks its service in panels, variables and alert marks alike."""
    wanted = {("cluster", "Equal", "eu-1"), ("namespace", "Re", "llm|batch")}
    document = json.loads(built("a selector for one of several services")[file])
    texts = [target["expr"] for panel in panels_of(document) for target in panel["targets"]]
    texts += [marks["expr"] for marks in document["annotations"]["list"]]
    texts += [
        one["query"].removeprefix("label_values(").rpartition(",")[0]
        for one in variables(document)
        if one["type"] == "query"
    ]
    window = Window(start=0, end=60, step=15)
    for text in texts:
        # Variables within quotes are values like any other.
        for selector in selectors(filled(text, window)):
            assert wanted <= matchers(selector)
