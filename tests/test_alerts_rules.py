"""Every generated rule keeps the style, names only our metrics, and derives its times."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import promql_parser
import pytest
import yaml
from alert_configs import STORES, alert_config, alerting_rules, all_rules, rules_of, with_store
from graces import measured
from promql_facts import family_of

from orphanwatch.alerts.alert import Alert
from orphanwatch.alerts.artifacts import ALERTMANAGER, PROMETHEUS_RULE, RULE_TESTS, RULES, build
from orphanwatch.alerts.catalogue import ALERTS
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.errors import RenderError
from orphanwatch.exporter.instants import parse_duration
from orphanwatch.exporter.names import StoreName


def recorded_names(config: Config) -> set[str]:
    """Return the names that the recording rules give."""
    return {rule["record"] for rule in all_rules(config) if "record" in rule}


INTERVALS = (
    pytest.param(alert_config(), id="scraped every 15 s"),
    pytest.param(alert_config(scrape_interval="30s", delta_window="2m"), id="scraped every 30 s"),
    pytest.param(alert_config(scrape_interval="60s", delta_window="4m"), id="scraped every minute"),
)


def selectors(node: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each vector selector below a node of PromQL, with its range or None."""
    if isinstance(node, promql_parser.MatrixSelector):
        yield node.vector_selector, node.range
    elif isinstance(node, promql_parser.VectorSelector):
        yield node, None
    else:
        for child in ("lhs", "rhs", "expr"):
            if hasattr(node, child):
                yield from selectors(getattr(node, child))
        for argument in getattr(node, "args", ()):
            yield from selectors(argument)


@pytest.mark.parametrize("config", INTERVALS)
def test_expressions_parse_and_name_our_metrics(config: Config) -> None:
    """A second parser accepts every expression; every selector is of our page, or recorded."""
    recorded = recorded_names(config)
    for rule in all_rules(config):
        named = {vector.name for vector, _ in selectors(promql_parser.parse(rule["expr"]))}
        assert named, rule
        assert {name for name in named - recorded if family_of(name) is None} == set()


@pytest.mark.parametrize("config", INTERVALS)
def test_ranges_hold_four_scrapes(config: Config) -> None:
    """Only what is recorded is read at an instant, and no range is shorter than four scrapes."""
    recorded = recorded_names(config)
    for rule in all_rules(config):
        for vector, length in selectors(promql_parser.parse(rule["expr"])):
            assert (length is None) is (vector.name in recorded), rule
            if length is None:
                continue
            assert length.total_seconds() * 1_000_000 >= 4 * config.scrape_interval


@pytest.mark.parametrize("config", INTERVALS)
def test_holds_are_two_scrapes_or_more(config: Config) -> None:
    """A single sample fires nothing; the split signal waits two minutes at most."""
    holds = {name: parse_duration(rule["for"]) for name, rule in rules_of(config).items()}
    assert all(hold >= 2 * config.scrape_interval for hold in holds.values())
    assert holds["OrphanSplitSignal"] <= parse_duration("2m")
    assert holds["OrphanTokensAccruing"] > config.delta_window + config.lag


def test_a_lag_lengthens_window_and_hold() -> None:
    """With a lag a single charge shows for longer, so the leak's hold grows by it."""
    late = alert_config(stores=with_store("ledger", lag="60s"))
    prompt, lagging = (rules_of(one)["OrphanTokensAccruing"] for one in (alert_config(), late))
    assert parse_duration(lagging["for"]) == parse_duration(prompt["for"]) + 60_000_000
    assert "increase(orphan_tokens_total[2m])" in lagging["expr"]


def test_leases_follow_their_time_to_live_and_the_longest_grace() -> None:
    """The dead worker's limit is the store's lease_ttl, the hold a few of the longest grace."""
    config = alert_config(
        stores=with_store("leases", lease_ttl="90s"),
        pools={"overflow": {"role": "overflow", "grace_seconds": 40}},
    )
    rule = rules_of(config)["OrphanLeasesAlive"]
    assert "> bool 90 == 1" in rule["expr"]
    assert rule["for"] == "3m"


def test_the_threshold_of_the_config_is_the_threshold_of_the_rule() -> None:
    """Both token arms compare with the one configured number, exactly written."""
    config = alert_config(thresholds={"token_delta": 0.1})
    assert rules_of(config)["OrphanTokensAccruing"]["expr"].count("> 0.1") == 2


def test_tokens_that_are_only_reported_stay_out_of_the_page() -> None:
    """With ``prorated: report`` the counter arm looks at charged tokens alone."""
    config = alert_config(stores=with_store("ledger", shape="final", prorated="report"))
    expr = rules_of(config)["OrphanTokensAccruing"]["expr"]
    assert 'increase(orphan_tokens_total{basis="charged"}[1m])' in expr


@pytest.mark.parametrize("missing", [pytest.param(name, id=f"no {name}") for name in STORES])
def test_blindness_names_the_configured_stores(missing: str) -> None:
    """A store that is not configured is not missed; each other one is, by its name."""
    config = alert_config({name: store for name, store in STORES.items() if name != missing})
    expr = rules_of(config)["OrphanDetectorBlind"]["expr"]
    assert set(re.findall(r'absent_over_time\(orphan_store_up{store="(\w+)"}', expr)) == (
        {str(name) for name in StoreName} - {missing}
    )
    assert f'"{missing}"' not in expr


def test_the_catalogue_has_each_alert_once() -> None:
    """Rules, pages and panels are found by name, so a name stands for one alert."""
    names = [alert.name for alert in ALERTS]
    assert len(set(names)) == len(names)
    assert set(names) == set(rules_of(alert_config()))


@pytest.mark.parametrize("alert", [pytest.param(alert, id=alert.name) for alert in ALERTS])
def test_style_of_one_alert(alert: Alert) -> None:
    """Name first, a constant summary, a templated description, both links, constant labels."""
    config = alert_config(
        links={"runbook_base_url": "https://wiki/rb/", "dashboard_base_url": "https://grafana/"}
    )
    assert re.fullmatch(r"Orphan([A-Z][a-z]+){1,5}", alert.name)
    assert len(alert.name) <= 40
    theirs = [rule for rule in alerting_rules(config) if rule["alert"] == alert.name]
    for rule in theirs:
        assert list(rule) == ["alert", "expr", "for", "labels", "annotations"]
        annotations = rule["annotations"]
        assert re.fullmatch(r"[A-Z][^{}]{0,57}\.", annotations["summary"])
        assert "{{" in annotations["description"]
        assert "not scale" in annotations["description"]
        assert annotations["runbook_url"] == f"https://wiki/rb/{alert.name}"
        assert annotations["dashboard_url"].startswith("https://grafana/d/orphanwatch-")
        assert "viewPanel=" in annotations["dashboard_url"]
        assert re.fullmatch(r"at most (\d+[dhms])+", annotations["time_to_page"])
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert "{{" not in str(rule["labels"])
    assert theirs[0]["labels"]["severity"] == alert.severity
    assert len({str(rule["labels"]) for rule in theirs}) == len(theirs)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        pytest.param(
            alert_config(grace_seconds=0.85),
            r"overflow 850ms \(proposal\), paid 850ms \(proposal\), other 850ms \(proposal\)",
            id="a proposal is called one",
        ),
        pytest.param(
            measured(alert_config()),
            r".*overflow 1\.2s \(measured\), .*; measured \S+Z, valid until \S+Z, digest \S{16,}",
            id="a measurement is told by its digest and its end",
        ),
        pytest.param(
            alert_config(pools={"{{ evil }}": {"role": "overflow"}}),
            r"(?!.*{{).*evil.*",
            id="a pool that looks like a template is none",
        ),
    ],
)
def test_every_rule_says_what_its_grace_rests_on(config: Config, said: str) -> None:
    """The annotation names each pool's grace, its source, and the measurement behind it."""
    (grace,) = {rule["annotations"]["grace"] for rule in alerting_rules(config)}
    assert re.fullmatch(said, grace)


def test_both_forms_hold_the_same_groups() -> None:
    """The PrometheusRule carries what the rule file carries, in small groups."""
    files = build(alert_config())
    groups = yaml.safe_load(files[RULES])["groups"]
    custom = yaml.safe_load(files[PROMETHEUS_RULE])
    assert custom["kind"] == "PrometheusRule"
    assert custom["spec"]["groups"] == groups
    assert all(len(group["rules"]) <= 20 and len(group["name"]) <= 40 for group in groups)


@pytest.mark.parametrize("name", [RULES, RULE_TESTS, PROMETHEUS_RULE, ALERTMANAGER])
def test_files_say_that_they_are_generated(name: str) -> None:
    """The head warns, the end has a newline, and a second build gives the same bytes."""
    first, second = (built(turn)[name] for turn in range(2))
    assert first == second
    assert first.startswith("# Generated by orphanwatch, do not edit")
    assert first.endswith("\n")
    assert not re.search(r"[ \t]\n", first)


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        pytest.param(alert_config(stores={}), "stores: none is configured", id="no store at all"),
        pytest.param(
            alert_config(replica_labels=["in-stance"]), "replica_labels: 'in-stance'", id="no label"
        ),
        pytest.param(
            alert_config(replica_labels=["pool"]), "replica_labels: 'pool'", id="a label of ours"
        ),
        pytest.param(
            alert_config(replica_labels=["le"]), "replica_labels: 'le'", id="a bucket's edge"
        ),
        pytest.param(
            alert_config(scrape_interval="61s", delta_window="5m"),
            "scrape_interval: at 1m1s a page within 2m would rest on a single scrape; "
            "have Prometheus scrape the exporter at least every 1m, and say so here",
            id="too few scrapes for a page in time",
        ),
        pytest.param(alert_config(capacity_alerts="Scale.*"), "capacity_alerts:", id="no matcher"),
    ],
)
def test_a_config_that_gives_no_sound_rule_is_refused(config: Config, problem: str) -> None:
    """The error names the key, instead of a file that Prometheus would refuse later."""
    with pytest.raises(RenderError, match=re.escape(problem)):
        build(config)


@cache
def built(turn: int) -> dict[str, str]:  # noqa: ARG001  (which build it is)
    """Return all generated files; each turn is a build of its own."""
    return build(alert_config())
