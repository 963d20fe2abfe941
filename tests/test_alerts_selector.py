"""``selector``: one service's rules in a Prometheus, and an Alertmanager, that serve several."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from alert_configs import alert_config, all_rules, run
from promql_facts import matchers, selectors
from pydantic import ValidationError

from orphanwatch.alerts.artifacts import build
from orphanwatch.alerts.catalogue import ALERTS
from orphanwatch.alerts.documents import document_text
from orphanwatch.alerts.promql import select
from orphanwatch.alerts.routing import routing
from orphanwatch.alerts.rules import prometheus_rule, rule_file
from orphanwatch.alerts.selector_labels import chosen, chosen_by_equality
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.errors import RenderError

CHAT = alert_config(selector='cluster="eu-1",namespace="chat"', service="chat")
CODE = alert_config(selector='cluster="eu-1",namespace="code"', service="code")


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        pytest.param("", "", id="none"),
        pytest.param("  ", "", id="blank is none"),
        pytest.param('cluster="eu-1"', 'cluster="eu-1"', id="one matcher"),
        pytest.param(" a = 'x' , b=~\"y|z\",", 'a="x",b=~"y|z"', id="spaces and quotes"),
        pytest.param('a!="",b!~"c.*"', 'a!="",b!~"c.*"', id="all four operators"),
        pytest.param(r'a="\"\\"', r'a="\"\\"', id="escapes stay escaped"),
    ],
)
def test_matchers_are_read_once_and_written_alike(text: str, canonical: str) -> None:
    """What is written down is parsed at the border; everything later sees one spelling."""
    assert alert_config(selector=text).selector == canonical


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("zone", "no list of label matchers", id="no matcher"),
        pytest.param('{cluster="a"}', "no list of label matchers", id="in braces"),
        pytest.param('a="b"}[5m', "no list of label matchers", id="a range behind it"),
        pytest.param(
            'a="b"} offset NaN + up{c="d"',
            "no list of label matchers",
            id="what makes the parser panic",
        ),
        pytest.param('a="b"} or up{c="d"', "no list of label matchers", id="a second selector"),
        pytest.param('a="b" or c="d"', "no list of label matchers", id="alternatives"),
        pytest.param('a="b"} # ', "no list of label matchers", id="a comment"),
        pytest.param('a=~"("', "no list of label matchers", id="a broken expression"),
        pytest.param('"a.b"="c"', "no list of label matchers", id="a quoted label"),
        pytest.param('__name__="up"', "no list of label matchers", id="a name"),
        pytest.param('pool="paid"', "label pool is set by", id="a label of the metrics"),
        pytest.param('alertname="x"', "label alertname is set by", id="a label of the alerts"),
        pytest.param('severity="x"', "label severity is set by", id="a label of the rules"),
        pytest.param('instance="a:1"', "one of replica_labels", id="a label the rules drop"),
    ],
)
def test_what_is_no_choice_of_a_service_is_refused(text: str, problem: str) -> None:
    """The error says what is wrong and does not repeat the text."""
    with pytest.raises(ValidationError, match=problem) as refused:
        alert_config(selector=text)
    assert text not in str(refused.value)


def test_every_selector_of_every_rule_carries_the_matchers() -> None:
    """Instant, range and absent alike: no rule looks at another service's series."""
    wanted = {("cluster", "Equal", "eu-1"), ("namespace", "Equal", "chat")}
    for rule in all_rules(CHAT):
        for selector in selectors(rule["expr"]):
            assert wanted <= matchers(selector), rule["expr"]


def test_templates_carry_the_matchers_too() -> None:
    """A query within a description looks at this service alone, and Go can read its quotes."""
    texts = [rule["annotations"]["description"] for rule in all_rules(CHAT) if "alert" in rule]
    queries = [query for text in texts for query in re.findall(r'query "((?:\\.|[^"\\])*)"', text)]
    assert queries
    for query in queries:
        assert r"cluster=\"eu-1\",namespace=\"chat\"" in query


def test_without_a_selector_nothing_is_added() -> None:
    """The rules of a Prometheus of its own know no service label and no matcher more."""
    plain = alert_config()
    assert select(plain, names.STORE_UP) == "orphan_store_up"
    assert build(plain) == build(alert_config(selector=""))
    assert {"orphanwatch-evidence"} <= group_names(plain)
    assert not any("service" in rule.get("labels", {}) for rule in all_rules(plain))


@pytest.mark.parametrize(
    ("text", "labels", "equal"),
    [
        pytest.param('a="x"', {"a": "x"}, {"a": "x"}, id="an equality"),
        pytest.param('a=~"x|y"', {"a": "x"}, {}, id="alternatives"),
        pytest.param('a=~"x.+"', {"a": "xx"}, {}, id="an open end"),
        pytest.param('a!=""', {"a": "x"}, {}, id="anything"),
        pytest.param('a!="x"', {}, {}, id="not one of them"),
        pytest.param('a!="",a!="x",a=~"x|y"', {"a": "y"}, {}, id="several on one label"),
    ],
)
def test_made_up_series_fit_the_selector(
    text: str, labels: dict[str, str], equal: dict[str, str]
) -> None:
    """The generated tests play series that the rules see, whatever the operator."""
    config = alert_config(selector=text)
    assert chosen(config) == labels
    assert chosen_by_equality(config) == equal


def test_an_expression_without_example_is_refused_with_a_remedy() -> None:
    """Rules that can't be tested are not built."""
    with pytest.raises(RenderError, match=r"selector: .*label a .*eu-1\|eu-2"):
        build(alert_config(selector='a=~"[0-9]{3}z"'))


def test_a_service_without_a_letter_is_refused_where_it_must_be_told_apart() -> None:
    """Groups and objects are named by it."""
    with pytest.raises(RenderError, match="service:"):
        build(alert_config(selector='a="b"', service="***"))


def test_two_services_share_no_name() -> None:
    """Groups, Kubernetes objects and receivers of two configs can stand side by side."""
    assert not group_names(CHAT) & group_names(CODE)
    long, longer = (
        alert_config(selector='team="a"', service=f"llm-inference-gateway-eu-west-{zone}")
        for zone in (1, 2)
    )
    assert not group_names(long) & group_names(longer)
    assert metadata_name(CHAT) == "orphanwatch-chat"
    assert metadata_name(CODE) == "orphanwatch-code"
    assert not receivers(CHAT) & receivers(CODE)


def test_one_prometheus_tells_two_services_apart(tmp_path: Path) -> None:
    """With both rule files loaded, an orphan of the one fires the one alert, with its name."""
    for name, config in (("chat.yml", CHAT), ("code.yml", CODE)):
        (tmp_path / name).write_text(document_text(rule_file(config, ALERTS)))
    checked = run(tmp_path, "promtool", "check", "rules", "--lint-fatal", "chat.yml", "code.yml")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    (tmp_path / "test.yml").write_text(yaml.safe_dump(orphan_of_chat()))
    tested = run(tmp_path, "promtool", "test", "rules", "test.yml")
    assert tested.returncode == 0, tested.stdout + tested.stderr


def orphan_of_chat() -> dict[str, Any]:
    """Return a test of both rule files: chat leaks, and code's exporter is gone."""
    chat = 'cluster="eu-1",namespace="chat"'
    ours = [
        {"series": f'orphan_store_up{{store="{store}",{chat}}}', "values": "1x60"}
        for store in names.StoreName
    ]
    leak = {"series": f'orphan_token_delta{{pool="overflow",{chat}}}', "values": "9x60"}
    asked = {
        "OrphanTokensAccruing": [("chat", 'pool="overflow"')],
        "OrphanDetectorBlind": [("code", f'store="{store}"') for store in names.StoreName],
    }
    return {
        "rule_files": ["chat.yml", "code.yml"],
        "evaluation_interval": "15s",
        "tests": [
            {
                "interval": "15s",
                "input_series": [*ours, leak],
                "promql_expr_test": [
                    {
                        "expr": f'ALERTS{{alertname="{name}",alertstate="firing"}}',
                        "eval_time": "10m",
                        "exp_samples": [
                            {"labels": alerts_series(name, service, label), "value": 1}
                            for service, label in firing
                        ],
                    }
                    for name, firing in asked.items()
                ],
            }
        ],
    }


def alerts_series(name: str, service: str, label: str) -> str:
    """Return the series that Prometheus writes for a firing alert of a service."""
    return (
        f'ALERTS{{alertname="{name}",alertstate="firing",severity="critical",'
        f'service="{service}",cluster="eu-1",namespace="{service}",{label}}}'
    )


def test_both_alertmanager_parts_merge(tmp_path: Path) -> None:
    """Receivers are told apart, so one Alertmanager takes routes and inhibitions of both."""
    parts = [routing(config, ALERTS) for config in (CHAT, CODE)]
    merged = {
        "route": {
            "receiver": parts[0]["route"]["receiver"],
            "routes": [route for part in parts for route in part["route"]["routes"]],
        },
        "receivers": [receiver for part in parts for receiver in part["receivers"]],
        "inhibit_rules": [rule for part in parts for rule in part["inhibit_rules"]],
    }
    (tmp_path / "am.yml").write_text(yaml.safe_dump(merged))
    checked = run(tmp_path, "amtool", "check-config", "am.yml")
    assert checked.returncode == 0, checked.stderr
    for service in ("chat", "code"):
        routed = run(
            tmp_path, "amtool", "config", "routes", "test", "--config.file=am.yml",
            "alertname=OrphanLeasesAlive", "severity=critical", f"service={service}",
        )  # fmt: skip
        assert routed.stdout.strip() == f"orphanwatch-{service}-page"


def test_no_inhibition_reaches_another_service() -> None:
    """Sources are this service's; targets are ours of this service, or alerts with its labels."""
    rules = routing(CHAT, ALERTS)["inhibit_rules"]
    for rule in rules:
        assert 'service="chat"' in rule["source_matchers"]
        assert {'service="chat"', 'namespace="chat"'} & set(rule["target_matchers"])


def test_capacity_alerts_that_the_user_names_are_taken_as_they_are() -> None:
    """Who writes a matcher for a service knows which labels its alerts have."""
    named = alert_config(selector='job="chat"', capacity_alerts='team="chat-capacity"')
    rules = routing(named, ALERTS)["inhibit_rules"]
    assert rules[-1]["target_matchers"] == ['team="chat-capacity"', 'alertname!~"Orphan.+"']


def group_names(config: Config) -> set[str]:
    """Return the names of the rule groups."""
    return {group["name"] for group in rule_file(config, ALERTS)["groups"]}


def metadata_name(config: Config) -> str:
    """Return the name of the Kubernetes object."""
    return str(prometheus_rule(config, ALERTS)["metadata"]["name"])


def receivers(config: Config) -> set[str]:
    """Return the names of the receivers."""
    return {one["name"] for one in routing(config, ALERTS)["receivers"]}
