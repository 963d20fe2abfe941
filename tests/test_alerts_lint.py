"""Each check of ``alerts lint`` finds what it is there for, and leaves its near miss alone."""

from collections.abc import Iterable
from typing import Any

import pytest
from artifact_configs import small_config
from lint_rules import (
    DELTA,
    EXPR,
    SCOPE,
    Document,
    alert,
    annotated,
    found_in,
    found_in_panel,
    group,
    names,
    record,
)

from orphanwatch.alerts.lint.run import checks
from orphanwatch.exporter.config import Config

SPEND = "max without (instance) (max_over_time(orphan_spend_tokens_per_second[1m]))"
INCREASE = "sum without (cause, basis, instance) (increase(orphan_tokens_total[1m]))"


def case(check: str, wrong: object, sound: object, *, id: str) -> Any:  # noqa: A002  (as pytest)
    """Return a row of the table: the check, what it finds, and the near miss that it must not."""
    return pytest.param(check, wrong, sound, id=id)


EXPRESSIONS = (
    case("promql/syntax", "max_over_time(orphan_token_delta[1m] > 0", EXPR,
         id="an expression that does not parse"),
    case("promql/metric", "max_over_time(orphan_token_deltas[1m]) > 0", EXPR,
         id="a metric of ours that is none"),
    case("promql/metric", "max_over_time(node_load1[1m]) > 0", "max_over_time(up[1m]) < 1",
         id="a metric of somebody else"),
    case("promql/metric", "max_over_time(pool:orphan_things:max1m[1m]) > 0", EXPR,
         id="a recorded name that nothing records"),
    case("promql/label",
         'max_over_time(orphan_token_delta{cause="deadline"}[1m]) > 0',
         'max_over_time(orphan_leases{cause="deadline"}[1m]) > 0',
         id="a label that the metric lacks"),
    case("promql/label",
         'max_over_time(orphan_queue_depth{pool="paid"}[1m]) > 0',
         'max_over_time(orphan_queue_depth{job="paid"}[1m]) > 0',
         id="a label of another metric; a target label may be anything"),
    case("promql/value",
         'max_over_time(orphan_leases{cause="cancelled"}[1m]) > 0',
         'max_over_time(orphan_leases{cause="client_cancel"}[1m]) > 0',
         id="a value that a closed set lacks"),
    case("promql/value",
         'max_over_time(orphan_token_delta{pool=~"free|spare"}[1m]) > 0',
         'max_over_time(orphan_token_delta{pool=~"overflow|spare"}[1m]) > 0',
         id="a pattern that fits no configured pool"),
    case("promql/regexp",
         'max_over_time(orphan_token_delta{pool=~"overflow"}[1m]) > 0',
         'max_over_time(orphan_token_delta{pool=~"over.+"}[1m]) > 0',
         id="a pattern that is one text"),
    case("promql/regexp",
         'max_over_time(orphan_token_delta{pool=~"^over.+$"}[1m]) > 0',
         'max_over_time(orphan_token_delta{pool!~"over.+"}[1m]) > 0',
         id="anchors that a matcher has anyway"),
    case("promql/regexp",
         'max_over_time(orphan_token_delta{job=~".*"}[1m]) > 0',
         'max_over_time(orphan_token_delta{job=~".+"}[1m]) > 0',
         id="a pattern that fits everything"),
    case("promql/counter",
         "max_over_time(orphan_tokens_total[1m]) > 0",
         "increase(orphan_tokens_total[1m]) > 0",
         id="a raw counter"),
    case("promql/counter",
         'max_over_time(orphan_refresh_duration_seconds_bucket{le="1"}[1m]) > 0',
         'rate(orphan_refresh_duration_seconds_bucket{le="1"}[1m]) > 0',
         id="a raw bucket"),
    case("promql/counter",
         "max_over_time(sum without (cause) (orphan_tokens_total)[1m:15s]) > 0",
         "max_over_time(rate(orphan_tokens_total[1m])[5m:15s]) > 0",
         id="a raw counter within a subquery"),
    case("promql/rate",
         "increase(orphan_token_delta[1m]) > 0",
         "delta(orphan_token_delta[1m]) > 0",
         id="an increase of a gauge"),
    case("promql/rate_of_sum",
         "rate(sum without (cause) (rate(orphan_tokens_total[1m]))[5m:15s]) > 0",
         "sum without (cause) (rate(orphan_tokens_total[1m])) > 0",
         id="a rate of what is summed already"),
    case("promql/range",
         "max_over_time(orphan_token_delta[45s]) > 0",
         "max_over_time(orphan_token_delta[60s]) > 0",
         id="a range of three scrapes; four are enough"),
    case("promql/range",
         f"max_over_time(({DELTA})[30s:15s]) > 0",
         f"max_over_time(({DELTA})[1m:15s]) > 0",
         id="a subquery of two scrapes"),
    case("promql/instant",
         "orphan_token_delta > 0",
         "last_over_time(orphan_token_delta[1m]) > 0",
         id="an instant look; the last sample of a range is none"),
    case("promql/impossible",
         f"{DELTA} > {SPEND}",
         f"{DELTA} > on (job) group_left () {SPEND}",
         id="a join of a metric that has pools with one that has none"),
    case("promql/impossible",
         f"sum by (job) ({DELTA}) > on (job, pool) sum by (job) ({SPEND})",
         f"sum by (job) ({DELTA}) > on (job) sum by (job) ({SPEND})",
         id="a join by a label that was aggregated away"),
    case("promql/impossible",
         f"{DELTA} > 0 unless max by (pool) (max_over_time(orphan_leases[1m])) > 0",
         f"{DELTA} > 0 unless on (pool) max by (pool) (max_over_time(orphan_leases[1m])) > 0",
         id="an exception that has lost the job"),
    case("promql/vector_matching",
         f"{INCREASE} > ignoring (pool) {SPEND}",
         f"{INCREASE} > ignoring (pool) group_left () {SPEND}",
         id="several pools that meet one number"),
    case("promql/vector_matching",
         "increase(orphan_tokens_total[1m]) > ignoring (cause, basis) {DELTA}".format(
             DELTA="max_over_time(orphan_token_delta[1m])"),
         'increase(orphan_tokens_total{cause="deadline",basis="charged"}[1m])'
         " > ignoring (cause, basis) max_over_time(orphan_token_delta[1m])",
         id="several causes that meet one number; one cause may"),
    case("promql/aggregate",
         f"sum by (pool, cause) ({DELTA}) > 0",
         f"sum by (pool, cluster) ({DELTA}) > 0",
         id="a grouping by a label that is not there; a target label may be"),
    case("promql/aggregate",
         f"{DELTA} > on (job) group_left (version) {SPEND}",
         f"{DELTA} > on (job) group_left (cluster) {SPEND}",
         id="a label taken over that the other side lacks"),
    case("promql/nan",
         f"{INCREASE} / {INCREASE} > 0.5",
         f"{INCREASE} / ({INCREASE} > 0) > 0.5",
         id="a ratio of what may be 0"),
    case("promql/nan",
         f"{INCREASE} / ({INCREASE} > bool 0) > 0.5",
         f"{INCREASE} / clamp_min({INCREASE}, 1) > 0.5",
         id="a guard that turns into 0"),
    case("promql/nan",
         "sum_over_time(orphan_leases[5m]) / sum_over_time(orphan_live_leases[5m]) > 1",
         "sum_over_time(orphan_leases[5m]) / count_over_time(orphan_leases[5m]) > 1",
         id="a sum of samples; a count of them is never 0"),
    case("promql/nan", f"{DELTA} / 0 > 1", f"{DELTA} / 60 > 1", id="a division by 0 itself"),
    case("promql/decimal", f"{DELTA} > 0.30000000000000004", f"{DELTA} > 0.3",
         id="the noise of binary fractions"),
    case("promql/decimal", f"{DELTA} > 1e-05", f"{DELTA} > 0.00001", id="an exponent"),
    case("promql/decimal", f"{DELTA} > 1e3 # not 1000", f"{DELTA} > 1000 # not 1e3",
         id="an exponent that is more than a comment"),
    case("alert/comparison", DELTA, f"{DELTA} != 0", id="an alert without a comparison"),
    case("alert/comparison", f"{DELTA} > bool 0", f"{DELTA} > bool 0 == 1",
         id="a comparison that drops nothing"),
    case("alert/comparison", f"{EXPR} or {DELTA}", f"{EXPR} or {DELTA} > 5",
         id="one branch of two without a comparison"),
    case("promql/fragile",
         f"topk(3, {DELTA}) > 0", f"max without (pool) ({DELTA}) > 0", id="the largest three"),
    case("promql/fragile",
         "irate(orphan_tokens_total[1m]) > 0", "rate(orphan_tokens_total[1m]) > 0",
         id="the last two samples"),
    case("promql/features",
         "mad_over_time(orphan_token_delta[1m]) > 0",
         "stddev_over_time(orphan_token_delta[1m]) > 0",
         id="a function that a flag switches on"),
)  # fmt: skip


@pytest.mark.parametrize(("check", "wrong", "sound"), EXPRESSIONS)
def test_expressions(check: str, wrong: str, sound: str) -> None:
    """The wrong expression is found by its check; the sound one by none at all."""
    assert check in names(found_in(group(alert(wrong))))
    assert found_in(group(alert(sound))) == ()


WORDS = {"summary": "Things go on.", "description": "Things go on: {{ $value | humanize }}."}

RULES = (
    case("alert/for", alert(for_="15s"), alert(for_="30s"), id="a hold of one scrape"),
    case("alert/for", alert(for_=None), alert(for_="2m"), id="no hold"),
    case("alert/absent",
         alert('absent(max_over_time(orphan_store_up{store="queue"}[1m]))', for_="15s"),
         alert('absent(max_over_time(orphan_store_up{store="queue"}[1m]))'),
         id="an absence that a restart of the server fakes"),
    case("promql/jobs",
         alert('max_over_time(up{job="a"}[1m]) - on () max_over_time(up{job="b"}[1m]) < 0',
               for_=None),
         alert('max_over_time(up{job="a",instance="x"}[1m])'
               ' - on () max_over_time(up{job="b",instance="y"}[1m]) < 0'),
         id="two jobs without a hold"),
    case("alert/labels",
         alert(labels={"severity": "info", "value": "{{ $value | humanize }}"}),
         alert(labels={"severity": "info", "window": "1h"}),
         id="a value in a label"),
    case("alert/template",
         annotated(description="{{ $value | humanize } goes on."),
         annotated(description="{{ $value | humanize }} goes on."),
         id="a template that is not closed"),
    case("alert/template",
         annotated(description="{{ if gt $value 1.0 }}Many go on."),
         annotated(description="{{ if gt 1.0 2.0 }}Many{{ else }}Few{{ end }} go on."),
         id="an if without its end"),
    case("alert/template",
         annotated(description="In {{ $externalLabels.cluster }}."),
         annotated(description="In {{ $labels.cluster }}."),
         id="a label of the server's own"),
    case("alert/template_labels",
         annotated(f"sum without (pool) ({DELTA}) > 0", description="In {{ $labels.pool }}."),
         annotated(description="In {{ $labels.pool }}."),
         id="a label that the aggregation dropped"),
    case("alert/template_labels",
         annotated(f"{EXPR} or sum by (job) ({DELTA}) > 5", description="In {{ $labels.pool }}."),
         annotated(f"{EXPR} or sum by (pool) ({DELTA}) > 5", description="In {{ $labels.pool }}."),
         id="a label that one branch drops"),
    case("alert/template_labels",
         annotated(description="In {{ $labels.cause }}."),
         annotated("max_over_time(orphan_leases[1m]) > 0", description="In {{ $labels.cause }}."),
         id="a label that the metric never had"),
    case("alert/template_labels",
         annotated(f"max({DELTA}) > 0", description="It is {{ $labels.severity }}."),
         annotated(f"max({DELTA}) > 0", description="It is a warning: {{ $value | humanize }}."),
         id="a label of the rule itself, which Prometheus adds after the words are made"),
    case("alert/template_labels",
         annotated(f"sum without (pool) ({DELTA}) > 0",
                   description="{{ if gt $value 1.0 }}In {{ $labels.pool }}.{{ end }}"),
         annotated(f"sum without (pool) ({DELTA}) > 0",
                   description="{{ if $labels.pool }}In {{ $labels.pool }}.{{ end }}"),
         id="a label that is dropped; one that is tested first may be"),
    case("alert/template_values",
         annotated(description="{{ $value }} go on."),
         annotated(description='{{ printf "%.0f" $value }} go on.'),
         id="a raw number"),
    case("alert/template_values",
         annotated(description=f'{{{{ range query "{DELTA}" }}}}{{{{ .Value }}}}{{{{ end }}}}'),
         annotated(description=f'{{{{ range query "{DELTA}" }}}}{{{{ .Value | humanize }}}}'
                               "{{ end }}"),
         id="a raw number of a query in the words"),
    case("promql/syntax",
         annotated(description='{{ range query "max(" }}{{ .Value | humanize }}{{ end }}'),
         annotated(description='{{ range query "max(orphan_leases)" }}{{ .Labels.pool }}{{ end }}'),
         id="a query in the words that does not parse"),
    case("promql/metric",
         annotated(description='{{ range query "max(orphan_lease)" }}{{ .Labels.x }}{{ end }}'),
         annotated(description="{{ range query `max(orphan_leases)` }}{{ .Labels.x }}{{ end }}"),
         id="a query in the words that names no metric"),
    case("alert/name", alert(alert="orphan_things"), alert(alert="OrphanThings2"),
         id="a name that is not camel case"),
    case("alert/name", alert(alert="Orphan" + "a" * 35), alert(alert="Orphan" + "a" * 34),
         id="a name of 41 characters"),
    case("alert/severity", alert(labels={"severity": "page"}), alert(labels={"severity": "info"}),
         id="an unknown severity"),
    case("alert/severity", alert(labels={}), alert(labels={"severity": "critical"}),
         id="no severity"),
    case("alert/summary", annotated(summary="{{ $labels.pool }} goes on."),
         annotated(summary="Work goes on."), id="a headline that changes"),
    case("alert/summary", annotated(summary="things go on."), annotated(summary="Things go on."),
         id="a headline in lower case"),
    case("alert/summary", annotated(summary="Things go on"), annotated(summary="They go on."),
         id="a headline without its full stop"),
    case("alert/description", annotated(description="Things go on."),
         annotated(description="Things go on in {{ $labels.pool }}."),
         id="a description that names nothing"),
    case("alert/links", alert(annotations=WORDS), alert(), id="no links"),
    case("alert/links", annotated(runbook_url="runbooks/OrphanThings"),
         annotated(runbook_url="http://127.0.0.1:9787/runbook/OrphanThings"),
         id="a relative link"),
    case("alert/links", annotated(dashboard_url="https://grafana.example.com/d/a b"),
         annotated(dashboard_url="https://grafana.example.com/d/a?var-pool={{ $labels.pool }}"),
         id="a blank in a link; a template is filled in"),
    case("rule/annotations", annotated(owner=" "), annotated(owner="on-call"),
         id="an empty annotation"),
    case("rule/annotations", alert(labels={"severity": "info", "a-b": "x"}),
         alert(labels={"severity": "info", "a_b": "x"}), id="a label name with a hyphen"),
)  # fmt: skip


@pytest.mark.parametrize(("check", "wrong", "sound"), RULES)
def test_rules(check: str, wrong: Document, sound: Document) -> None:
    """The wrong rule is found by its check; the sound one by none at all."""
    assert check in names(found_in(group(wrong)))
    assert found_in(group(sound)) == ()


RATE5M = "sum without (cause, basis) (rate(orphan_tokens_total[5m]))"
RATE1H = "sum without (cause, basis) (rate(orphan_tokens_total[1h]))"
AVERAGE = "avg_over_time(pool:orphan_tokens:rate5m[1h])"


def numbered(count: int) -> list[Document]:
    """Return alerts that differ in name and threshold."""
    return [alert(f"{DELTA} > {number}", alert=f"OrphanThings{number}") for number in range(count)]


def other(*rules: Document, **changes: Any) -> Document:
    """Return a second group."""
    return group(*rules, **({"name": "orphanwatch-others"} | changes))


FILES = (
    case("rule/record_name", [group(record("orphan_rate", RATE5M))],
         [group(record("pool:orphan_tokens:rate5m", RATE5M))], id="a record of one word"),
    case("rule/record_name", [group(record("pool:orphan_tokens_total:rate5m", RATE5M))],
         [group(record("pool:orphan_tokens:rate5m", RATE5M))], id="a total that is rated"),
    case("rule/record_name", [group(record("pool:orphan_tokens:rate1h", RATE5M))],
         [group(record("pool:orphan_tokens:rate1h", RATE1H))], id="a window that is another"),
    case("rule/record_name", [group(record("pool:orphan_leases:rate5m", RATE5M))],
         [group(record("pool:orphan_leases:max", "max without (cause) "
                                                 "(max_over_time(orphan_leases[1m]))"))],
         id="a metric that is another"),
    case("promql/impossible",
         [group(record("pool:orphan_tokens:rate5m", RATE5M),
                alert(f"{DELTA} > on (pool, cause) "
                      "last_over_time(pool:orphan_tokens:rate5m[1m])"))],
         [group(record("pool:orphan_tokens:rate5m", RATE5M),
                alert(f"{DELTA} > on (pool, job) max without (instance) "
                      "(last_over_time(pool:orphan_tokens:rate5m[1m]))"))],
         id="a join by a label that a recording rule dropped"),
    case("promql/rate_of_sum",
         [group(record("pool:orphan_tokens:rate5m", RATE5M),
                alert("rate(pool:orphan_tokens:rate5m[5m]) > 0"))],
         [group(record("pool:orphan_tokens:rate5m", RATE5M), alert(f"{AVERAGE} > 0"))],
         id="a rate of what is recorded as a rate"),
    case("group/interval",
         [group(alert(), interval="6m")], [group(alert(for_="5m"), interval="5m")],
         id="a group that is evaluated every 6 minutes"),
    case("group/for", [group(alert(for_="1m"), interval="2m")],
         [group(alert(for_="2m"), interval="2m")], id="a hold within one evaluation"),
    case("group/size", [group(*numbered(21))], [group(*numbered(20))], id="21 rules in a group"),
    case("group/name", [group(alert(), name="g" * 41)], [group(alert(), name="g" * 40)],
         id="a group name of 41 characters"),
    case("group/duplicate", [group(alert()), group(alert(f"{DELTA} > 1", alert="OrphanOthers"))],
         [group(alert()), other(alert(f"{DELTA} > 1", alert="OrphanOthers"))],
         id="a group name that stands twice"),
    case("rule/duplicate", [group(alert(), alert(f"{DELTA} > 1"))],
         [group(alert(), alert(f"{DELTA} > 1", labels={"severity": "critical"}))],
         id="two rules that give one alert; another severity is another alert"),
    case("rule/same", [group(alert(), alert(alert="OrphanOthers"))],
         [group(alert(), alert(f"{DELTA} > 1", alert="OrphanOthers"))],
         id="two rules that ask the same"),
    case("rule/same", [group(alert(), alert(alert="OrphanOthers"))],
         [group(alert(), alert(labels={"severity": "critical"}, for_="1h"))],
         id="a ticket, and a page where the same goes on for long"),
    case("rule/dependency",
         [group(record("pool:orphan_tokens:rate5m", RATE5M)),
          other(record("pool:orphan_tokens:avg1h", AVERAGE))],
         [group(record("pool:orphan_tokens:rate5m", RATE5M),
                record("pool:orphan_tokens:avg1h", AVERAGE))],
         id="a record that rests on another group's"),
    case("rule/dependency",
         [group(record("pool:orphan_tokens:avg1h", AVERAGE),
                record("pool:orphan_tokens:rate5m", RATE5M))],
         [group(record("pool:orphan_tokens:rate5m", RATE5M),
                record("pool:orphan_tokens:avg1h", AVERAGE))],
         id="a record that rests on one recorded after it"),
    case("rule/dependency",
         [group(record("pool:orphan_tokens:avg1h", AVERAGE),
                record("pool:orphan_tokens:rate5m", RATE5M),
                record("pool:orphan_tokens:avg1h", RATE5M) | {"labels": {"by": "hand"}})],
         [group(record("pool:orphan_tokens:rate5m", RATE5M),
                record("pool:orphan_tokens:avg1h", AVERAGE)),
          other(record("pool:orphan_tokens:avg1h", RATE5M.replace("5m", "1h"))
                | {"labels": {"by": "hand"}})],
         id="the first of two records of one name"),
    case("alert/first_word",
         [group(alert(), alert(f"{DELTA} > 1"), alert(f"{DELTA} > 2", alert="ThingsGoOn"))],
         [group(alert(), alert(f"{DELTA} > 2", alert="OrphanThingsGoOn"))],
         id="a name with another first word"),
)  # fmt: skip


@pytest.mark.parametrize(("check", "wrong", "sound"), FILES)
def test_groups_and_files(check: str, wrong: list[Document], sound: list[Document]) -> None:
    """The wrong groups are found by their check; the sound ones by none at all."""
    assert check in names(found_in(*wrong))
    assert found_in(*sound) == ()


PANELS = (
    case("promql/syntax", "max(orphan_leases{", f"max(orphan_leases{{{SCOPE}}})",
         id="a query that does not parse"),
    case("panel/rate_interval", f"rate(orphan_tokens_total{{{SCOPE}}}[5m])",
         f"rate(orphan_tokens_total{{{SCOPE}}}[$__rate_interval])", id="a fixed rate"),
    case("panel/scope", 'max(orphan_leases{job=~"$job"})', f"max(orphan_leases{{{SCOPE}}})",
         id="a selector that follows no instance"),
    case("panel/scope", 'max(orphan_leases{job="$job",instance=~"$instance"})',
         f"max(orphan_leases{{{SCOPE}}}) * $price", id="a job by equality; a number by a variable"),
    case("promql/counter", f"max(orphan_tokens_total{{{SCOPE}}})",
         f"max(increase(orphan_tokens_total{{{SCOPE}}}[$__range]))", id="a raw counter in a panel"),
    case("promql/metric", f"max(orphan_lease{{{SCOPE}}})", f"max(up{{{SCOPE}}})",
         id="an unknown metric in a panel"),
    case("promql/nan",
         f"max(orphan_live_leases{{{SCOPE}}} / orphan_lease_cap{{{SCOPE}}})",
         f"orphan_live_leases{{{SCOPE}}} / orphan_lease_cap{{{SCOPE}}}",
         id="a ratio that poisons an aggregation; alone it is a gap"),
)  # fmt: skip


@pytest.mark.parametrize(("check", "wrong", "sound"), PANELS)
def test_panels(check: str, wrong: str, sound: str) -> None:
    """The wrong query is found by its check; the sound one by none at all."""
    assert check in names(found_in_panel(wrong))
    assert found_in_panel(sound) == ()


def test_a_selector_of_the_config_is_on_every_selector() -> None:
    """Where the config picks one service, a selector without its matchers reads all of them."""
    config: Config = small_config(selector='cluster="eu-1"')
    within = 'max_over_time(orphan_token_delta{cluster="eu-1"}[1m]) > 0'
    assert names(found_in(group(alert()), config=config)) == {"promql/selector"}
    assert found_in(group(alert(within)), config=config) == ()


def tried() -> Iterable[str]:
    """Return the names of the checks that the tables try."""
    rows = (row.values for row in (*EXPRESSIONS, *RULES, *FILES, *PANELS))
    return {"promql/selector", *(str(values[0]) for values in rows)}


def test_every_check_is_tried() -> None:
    """No check is without a rule that it finds and one that it does not."""
    assert {name for name, _ in checks()} == set(tried())


def test_names_and_sentences_of_checks() -> None:
    """A check's name stands once, and its function says in one sentence what it demands."""
    named = [name for name, _ in checks()]
    assert len(named) == len(set(named))
    assert all(says and says.endswith(".") for _, says in checks())
