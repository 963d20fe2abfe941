"""Our own rules and panels are clean under every config, and a rule that is bent is found."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from alert_configs import STORES, alert_config, with_store
from cli_session import run
from documentation import DOCS, section, tables
from lint_rules import CONFIG, DELTA, alert, found_in_foreign, group, names, record

from orphanwatch.alerts.artifacts import PROMETHEUS_RULE, RULES, build, rules_text
from orphanwatch.alerts.lint.read_rules import parse_rule_file
from orphanwatch.alerts.lint.run import Linted, checks, lint_generated
from orphanwatch.dashboards.build import build as build_dashboards
from orphanwatch.exporter.config import Config

CONFIGS = (
    pytest.param(alert_config(), id="the small config"),
    pytest.param(alert_config(scrape_interval="60s", delta_window="4m"), id="a scrape a minute"),
    pytest.param(alert_config(scrape_interval="1s", delta_window="4s"), id="a scrape a second"),
    pytest.param(alert_config(selector='cluster="eu-1",team=~"llm-.+"'), id="one of many services"),
    pytest.param(
        alert_config(
            pools={
                'say "hi" \\ {{ $value }}': {"role": "overflow"},
                "grün|.*": {"role": "paid", "grace_seconds": 40},
            }
        ),
        id="pools with names that are PromQL and templates",
    ),
    pytest.param(
        alert_config(stores=with_store("ledger", shape="final", prorated="report", lag="90s")),
        id="a late ledger of final rows",
    ),
    *(
        pytest.param(alert_config(stores={name: store}), id=f"the store {name} alone")
        for name, store in STORES.items()
    ),
    pytest.param(
        alert_config(selector='team="a"', service="llm-inference-gateway-of-europe-west-1"),
        id="one of many services, with a long name",
    ),
    pytest.param(alert_config(pools={}), id="no pool at all"),
    pytest.param(alert_config(pools={"paid": {"role": "paid"}}), id="no overflow pool"),
    pytest.param(alert_config(pools={"batch": {"role": "overflow"}}), id="no paid pool"),
    pytest.param(alert_config(replica_labels=["instance"]), id="replicas told by instance"),
    pytest.param(
        alert_config(
            thresholds={
                "token_delta": 1e-7,
                "shed_overdue_ratio": 0.07,
                "unmatched_spend_ratio": 1e-5,
                "waste_budget_ratio": 0.007,
            }
        ),
        id="thresholds that binary fractions can't hold",
    ),
)


def lint(config: Config) -> Linted:
    """Return what the lint finds in everything that is generated for a config."""
    return lint_generated(config, {RULES: rules_text(config)}, build_dashboards(config))


@pytest.mark.parametrize("config", CONFIGS)
def test_what_we_generate_is_clean(config: Config) -> None:
    """No rule and no panel query has a finding, and all were looked at."""
    linted = lint(config)
    assert list(map(str, linted.findings)) == []
    assert linted.rules >= 2
    assert linted.queries >= 20


def test_rules_without_any_pool_are_clean() -> None:
    """Where no pool is configured all work is in the pool ``other``."""
    config = alert_config(pools={})
    assert lint_generated(config, {RULES: rules_text(config)}, {}).findings == ()


Bend = Callable[[str], str]


def swap(old: str, new: str) -> Bend:
    """Return a change of every place where a text stands."""
    return lambda text: text.replace(old, new)


BENT = (
    pytest.param("promql/metric", swap("orphan_token_delta", "orphan_tokens_delta"),
                 id="a metric renamed"),
    pytest.param("promql/value", swap('store="queue"', 'store="queues"'), id="a value renamed"),
    pytest.param("promql/label", swap('store="queue"', 'pool="paid"'), id="a label swapped"),
    pytest.param("promql/regexp", swap('store="queue"', 'store=~"queue"'), id="a needless pattern"),
    pytest.param("promql/counter", swap("increase(", "max_over_time("), id="a counter read raw"),
    pytest.param("promql/rate", swap("max_over_time(orphan_token_delta",
                                     "increase(orphan_token_delta"), id="a gauge that is rated"),
    pytest.param("promql/range", swap("orphan_token_delta[1m]", "orphan_token_delta[30s]"),
                 id="a range of two scrapes"),
    pytest.param("promql/instant", swap("max_over_time(orphan_token_delta[1m])",
                                        "orphan_token_delta"), id="an instant look"),
    pytest.param("promql/impossible", swap("unless ignoring (pool)", "unless on (pool)"),
                 id="arms that can't silence the split"),
    pytest.param("alert/comparison", swap(") > 0\n", ")\n"), id="no comparison"),
    pytest.param("promql/syntax", swap("max without (", "max without (,"), id="a stray comma"),
    pytest.param("promql/nan", swap(") > 0\n", ") / orphan_token_delta > 0\n"), id="a bare ratio"),
    pytest.param("promql/decimal", swap("> 0\n", "> 1e-9\n"), id="an exponent"),
    pytest.param("promql/fragile", swap("increase(", "irate("), id="the last two samples"),
    pytest.param("alert/for", swap("for: 1m30s", "for: 15s"), id="a hold of one scrape"),
    pytest.param("alert/severity", swap("severity: critical", "severity: page"),
                 id="an unknown severity"),
    pytest.param("alert/labels", swap("severity: critical", 'severity: "{{ $value }}"'),
                 id="a value in a label"),
    pytest.param("alert/template_labels", swap("$labels.pool", "$labels.cause"),
                 id="a label that was aggregated away"),
    pytest.param("alert/template_labels", swap("max without (", "max without (pool, "),
                 id="an aggregation that drops what the words name"),
    pytest.param("alert/template_values", swap(" | humanize", ""), id="a raw number"),
    pytest.param("alert/template", swap("{{ end }}", ""), id="a range without its end"),
    pytest.param("alert/summary", swap("waits for.\n", "waits for\n"), id="no full stop"),
    pytest.param("alert/links", swap("runbook_url", "runbook"), id="no runbook"),
    pytest.param("alert/links", swap("http://", "//"), id="links without a scheme"),
    pytest.param("alert/name", swap("alert: Orphan", "alert: orphan_"), id="a name in snake case"),
    pytest.param("alert/first_word", swap("OrphanDetectorBlind", "DetectorBlind"),
                 id="a name with another first word"),
    pytest.param("group/interval", swap("interval: 15s", "interval: 10m"), id="a lazy group"),
    pytest.param("group/duplicate", swap("name: orphanwatch-detector",
                                         "name: orphanwatch-evidence"), id="a group name twice"),
    pytest.param("rule/duplicate", swap("OrphanLeasesAlive", "OrphanTokensAccruing"),
                 id="two alerts that are one"),
)  # fmt: skip


@pytest.mark.parametrize(("check", "bend"), BENT)
def test_a_bent_rule_is_found(check: str, bend: Bend) -> None:
    """Each change of the real rule file makes its check speak."""
    config = alert_config()
    sound = rules_text(config)
    bent = bend(sound)
    assert bent != sound
    assert check in names(lint_generated(config, {RULES: bent}, {}).findings)


def test_rules_of_others_are_passed_by_unless_they_read_ours() -> None:
    """In a user's file only rules that rest on our metrics are judged, recorded ones too."""
    theirs = alert("node_load1 > 5", alert="NodeBusy", for_=None)
    ours = record("pool:orphan_token_delta:max", DELTA)
    on_ours = alert("pool:orphan_token_delta:max", alert="OrphanMine")
    again = record("pool:leaks:max", "max(pool:orphan_token_delta:max)")
    once_more = record("job:leaks:max", "max(pool:leaks:max)")
    far = alert("job:leaks:max", alert="OrphanFar")
    pattern = alert('count({__name__=~"orphan_lea.+"})', alert="OrphanPattern")
    found = found_in_foreign(group(theirs, ours, on_ours, again, once_more, far, pattern))
    compared = [found_.place for found_ in found if found_.check == "alert/comparison"]
    assert compared == ["alert OrphanMine", "alert OrphanFar", "alert OrphanPattern"]
    assert not [found_ for found_ in found if "NodeBusy" in found_.place]


def test_the_command_says_what_it_looked_at(tmp_path: Path) -> None:
    """Without a finding it exits 0, and says how much was checked."""
    (tmp_path / "orphanwatch.yml").write_text(CONFIG, encoding="utf-8")
    answer = run(tmp_path, "alerts", "lint", "--config.file", "orphanwatch.yml")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"{len(checks())} checks, ")
    assert answer.out.endswith("dashboard queries: no findings\n")


@pytest.mark.parametrize("form", [RULES, PROMETHEUS_RULE])
def test_the_command_judges_a_file(form: str, tmp_path: Path) -> None:
    """A finding names file, rule, check, problem and remedy, in one line, and exits 1."""
    (tmp_path / "orphanwatch.yml").write_text(CONFIG, encoding="utf-8")
    text = build(alert_config())[form]
    (tmp_path / "mine.yml").write_text(text.replace("for: 2m30s", "for: 15s", 1), encoding="utf-8")
    answer = run(
        tmp_path, "alerts", "lint", "--config.file", "orphanwatch.yml", "--rules", "mine.yml"
    )
    assert answer.code == 1
    assert answer.out.splitlines()[0] == (
        "mine.yml: alert OrphanTokensAccruing: [alert/for] `for` is 15s, under 2 scrapes of 15s; "
        "write for: 30s or longer"
    )
    assert answer.out.splitlines()[-1].endswith(": 1 finding")


MANIFEST = """
kind: Deployment
spec: {replicas: 2}
---
# Before it stands another document, and behind it nothing.
kind: PrometheusRule
spec:
  groups:
    - name: mine
      labels:
      rules:
        - alert: OrphanThings
          expr: max_over_time(orphan_token_delta[1m]) > 0
          for: 1m
          keep_firing_for: 5m
          labels: {severity: warning, page: yes, team: 7, since: 2026-11-30}
          annotations:
---
"""
"""All of it is sound for Prometheus: words that YAML takes for something else stay texts there."""


def test_plain_words_and_blanks_are_what_prometheus_takes_them_for() -> None:
    """So are several documents in one file, as manifests of Kubernetes are."""
    [rule] = parse_rule_file("mine.yml", MANIFEST).rules
    assert rule.labels == {
        "severity": "warning", "page": "yes", "team": "7", "since": "2026-11-30",
    }  # fmt: skip
    assert rule.annotations == {}


@pytest.mark.parametrize(
    "expr",
    [
        pytest.param("orphan_leases[1m] offset NaN", id="a length that is no number"),
        pytest.param("+".join(["orphan_leases"] * 400), id="a chain that nests too deeply"),
        pytest.param("+".join(["orphan_leases"] * 30_000), id="one that ends the parser's stack"),
        pytest.param("(" * 30_000 + "orphan_leases" + ")" * 30_000, id="brackets without an end"),
    ],
)
def test_no_expression_ends_the_lint(expr: str) -> None:
    """What can't be parsed is a finding, never a crash, and is not shown in full."""
    [found] = [one for one in found_in_foreign(group(alert(expr))) if one.check == "promql/syntax"]
    assert len(str(found)) < 500


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("groups: [", "mine.yml: is not YAML in line 1", id="no YAML"),
        pytest.param(
            "groups:\n- name: a\n  name: b",
            "mine.yml: is not YAML in line 3: a key stands twice",
            id="a key that stands twice, which Prometheus refuses too",
        ),
        pytest.param("[" * 5000, "mine.yml: nests too deeply", id="YAML without a bottom"),
        pytest.param("", "mine.yml: holds no groups of rules; name a", id="nothing at all"),
        pytest.param("kind: Service", "mine.yml: holds no groups of rules", id="no rule file"),
        pytest.param("- a", "mine.yml: the document: is no mapping;", id="a list"),
        pytest.param(
            yaml.safe_dump(
                {"groups": [{"name": "a", "rules": [{"alert": "B", "expr": "up == 0"}]}]}
            ),
            "mine.yml: no rule reads our metrics, so nothing was checked; name a file",
            id="rules of which none is about us: no findings would sound like calm",
        ),
        pytest.param(
            yaml.safe_dump({"groups": [{"name": "a", "rules": [{"alert": "B"}]}]}),
            "mine.yml: groups.0.rules.0.expr: field required",
            id="no expression",
        ),
        pytest.param(
            yaml.safe_dump({"groups": [{"rules": [{"alert": "B", "expr": "1", "for": "soon"}]}]}),
            "'soon' is no duration",
            id="no duration",
        ),
    ],
)
def test_a_file_that_is_none_is_refused(text: str, said: str, tmp_path: Path) -> None:
    """A file that can't be read as rules is no finding: exit 2, and what is wrong with it."""
    (tmp_path / "orphanwatch.yml").write_text(CONFIG, encoding="utf-8")
    (tmp_path / "mine.yml").write_text(text, encoding="utf-8")
    answer = run(
        tmp_path, "alerts", "lint", "--config.file", "orphanwatch.yml", "--rules", "mine.yml"
    )
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err


def test_the_documentation_lists_every_check() -> None:
    """The page's table is the checks, each with its sentence, in their order."""
    page = (DOCS / "alerts.md").read_text(encoding="utf-8")
    [table] = tables(section(page, "Lint"))
    shown = [(name.strip("`"), says) for name, says in table.rows]
    assert shown == [(name, says.replace("``", "`").replace("|", "\\|")) for name, says in checks()]
