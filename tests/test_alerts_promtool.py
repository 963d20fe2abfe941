"""The generated unit tests pass in the real promtool, and notice rules that are wrong."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from alert_configs import (
    STORES,
    alert_config,
    alerting_rules,
    bent_rule_is_caught,
    run,
    with_store,
)

from orphanwatch.alerts.alert import Alert, Case, Check, Firing, Severity
from orphanwatch.alerts.artifacts import PROMETHEUS_RULE, RULE_TESTS, RULES, build, rules_text
from orphanwatch.alerts.catalogue import ALERTS
from orphanwatch.alerts.coverage import coverage
from orphanwatch.alerts.parts import Part, parts
from orphanwatch.alerts.promtool import prove, run_promtool
from orphanwatch.alerts.rule_tests import promtool_file
from orphanwatch.exporter.artifacts import write_files
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.errors import RenderError

ROOT = Path(__file__).parents[1]

OTHERS = [
    pytest.param(
        alert_config(
            stores=with_store("ledger", shape="final", lag="37s", prorated="report"),
            scrape_interval="17s",
            delta_window="90s",
            refresh_interval="20s",
            grace_seconds=45,
            thresholds={
                "token_delta": 100,
                "shed_overdue_ratio": 0.07,
                "unmatched_spend_ratio": 0.03,
            },
        ),
        id="nothing is a multiple of anything",
    ),
    pytest.param(
        alert_config(
            selector=r'cluster="e\"u\\1",zone=~"a|b",team!=""',
            scrape_interval="60s",
            delta_window="4m",
            pools={"paid": {"role": "paid"}, 'o"ver\\fl{{ow': {"role": "overflow"}},
        ),
        id="every minute, one of services, names with quotes and braces",
    ),
    pytest.param(
        alert_config(
            {"leases": STORES["leases"] | {"lease_ttl": "200s"}},
            replica_labels=[],
            scrape_interval="30s",
            delta_window="2m",
        ),
        id="every 30 s, one store, long leases, no replicas",
    ),
]


def test_the_files_pass_as_they_are_written(tmp_path: Path) -> None:
    """The rules pass the check, and promtool plays every case against all of them."""
    write_files(build(alert_config()), tmp_path)
    checked = run(tmp_path, "promtool", "check", "rules", "--lint-fatal", RULES)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    tested = run_promtool(tmp_path, "test", "rules", RULE_TESTS)
    assert tested.passed, tested.output


@pytest.mark.parametrize("config", OTHERS)
def test_rules_of_other_configs_pass_their_own_tests(config: Config) -> None:
    """Each alert's cases are played against its own rules, the healthy stacks against all.

    Every rule against every case is many times the work, and is done for one config above.
    """
    done: list[int] = []
    outcomes = prove(config, rules_text(config), parts(config, ALERTS), done.append)
    assert [outcome.output for outcome in outcomes if not outcome.passed] == []
    proven = coverage(config, ALERTS, [outcome.evidence for outcome in outcomes])
    assert (proven.covered, proven.gaps) == (len(alerting_rules(config)), ())
    assert done == [*range(1, len(outcomes) + 1)]


@pytest.mark.parametrize("config", OTHERS)
def test_rules_of_other_configs_pass_the_strictest_check(config: Config, tmp_path: Path) -> None:
    """Promtool's own linter has nothing to say of the rule file."""
    (tmp_path / RULES).write_text(rules_text(config))
    checked = run(tmp_path, "promtool", "check", "rules", "--lint-fatal", RULES)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_each_part_holds_one_alert_and_the_last_one_all() -> None:
    """No alert's cases are left out, and each is played against its own rules alone."""
    *own, whole = parts(alert_config(), ALERTS)
    assert [part.subject for part in own] == [alert.name for alert in ALERTS]
    assert [part.alerts for part in own] == [(alert,) for alert in ALERTS]
    assert [part.cases for part in own] == [alert.cases(alert_config()) for alert in ALERTS]
    assert (whole.alerts, len(whole.cases)) == (ALERTS, 6)


def test_a_case_that_names_another_alert_is_played_against_its_rules_too() -> None:
    """A case may say what others do, fire or be silent."""
    first, second, third, *_ = ALERTS
    case = Case(name="a", series=(), checks=(Check(alert=second.name, scrape=1),))
    other = Case(name="b", series=(), never=(third.name,))
    wide = replace(first, cases=lambda _: (case, other))
    assert parts(alert_config(), (wide, *ALERTS[1:]))[0].alerts == (wide, second, third)


def test_an_error_in_one_part_ends_the_others() -> None:
    """A case that demands a severity without rule is told, and nothing goes on behind it."""
    check = Check(alert=ALERTS[0].name, scrape=1, firing=(Firing(severity=Severity.INFO),))
    wrong = Part("a case", ALERTS[:1], (Case(name="a case", series=(), checks=(check,)),))
    with pytest.raises(RenderError, match="has no rule of severity info"):
        prove(alert_config(), "groups: []\n", [wrong], lambda _: None)


def test_the_kubernetes_rule_holds_rules_that_prometheus_accepts(tmp_path: Path) -> None:
    """What stands below ``spec`` is a rule file."""
    spec = yaml.safe_load(build(alert_config())[PROMETHEUS_RULE])["spec"]
    (tmp_path / "spec.yml").write_text(yaml.safe_dump(spec))
    checked = run(tmp_path, "promtool", "check", "rules", "spec.yml")
    assert checked.returncode == 0, checked.stderr


def test_the_watchdog_of_the_docs_is_a_rule_and_a_route(tmp_path: Path) -> None:
    """What docs/alerts.md asks for beside our rules can be pasted."""
    blocks = re.findall(
        r"```yaml\n(.*?)```", (ROOT / "docs/alerts.md").read_text("utf-8"), re.DOTALL
    )
    rules, route = (block for block in blocks if "Watchdog" in block)
    (tmp_path / "rules.yml").write_text(rules)
    routes = yaml.safe_load(route)
    receivers = [{"name": name} for name in ("own", routes[0]["receiver"])]
    whole = {"route": {"receiver": "own", "routes": routes}, "receivers": receivers}
    (tmp_path / "am.yml").write_text(yaml.safe_dump(whole))
    for command in (
        ("promtool", "check", "rules", "rules.yml"),
        ("amtool", "check-config", "am.yml"),
    ):
        checked = run(tmp_path, *command)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_case_for_a_severity_that_no_rule_has_is_refused() -> None:
    """A case can't demand a page that no rule would send."""
    firing = Firing(severity=Severity.INFO)
    case = Case(
        name="a case", series=(), checks=(Check(alert=ALERTS[0].name, scrape=1, firing=(firing,)),)
    )
    with pytest.raises(RenderError, match="has no rule of severity info"):
        promtool_file(alert_config(), [Part("a case", ALERTS, (case,))], RULES)


@pytest.mark.parametrize("alert", [pytest.param(alert, id=alert.name) for alert in ALERTS])
def test_every_alert_has_a_case_that_fires_and_one_that_is_silent(alert: Alert) -> None:
    """No rule is untested, in either direction, by the cases it brings itself."""
    cases = alert.cases(alert_config())
    assert any(check.firing for case in cases for check in case.checks)
    assert any(alert.name in case.never for case in cases)


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        pytest.param(
            "OrphanTokensAccruing", "for: 2m30s", "for: 1m", id="a hold that a straggler outlasts"
        ),
        pytest.param(
            "OrphanTokensAccruing",
            "max_over_time(orphan_token_delta[1m])",
            "orphan_token_delta",
            id="an instant look that one missed scrape resets",
        ),
        pytest.param(
            "OrphanTokensAccruing",
            "increase(orphan_tokens_total[1m])",
            "increase(orphan_tokens_total[15s])",
            id="a range as short as a scrape",
        ),
        pytest.param(
            "OrphanTokensAccruing", "max without (instance", "sum without (instance",
            id="a sum that doubles with a second replica",
        ),
        pytest.param("OrphanTokensAccruing", "> 0", ">= 0", id="a threshold that zero reaches"),
        pytest.param("OrphanLeasesAlive", "> bool 60", "> bool 45", id="a dead worker that pages"),
        pytest.param("OrphanLeasesAlive", "> bool 60", ">= bool 60", id="a lease at its limit"),
        pytest.param("OrphanLeasesAlive", "for: 1m30s", "for: 1m", id="no few graces to stop in"),
        pytest.param(
            "OrphanSplitSignal", "unless ignoring (pool)", "unless on (pool)",
            id="arms that can't silence the split",
        ),
        pytest.param(
            "OrphanSplitSignal", "last_over_time(orphan_split_signal",
            "max_over_time(orphan_split_signal", id="spikes that linger",
        ),
        pytest.param(
            "OrphanSplitSignal", "if eq .Labels.job $labels.job", "if true",
            id="another job's spend told",
        ),
        pytest.param(
            "OrphanDetectorBlind",
            'absent_over_time(orphan_store_up{store="queue"}[1m])',
            "absent_over_time(orphan_store_up[1m])",
            id="one absent() for all stores",
        ),
        pytest.param(
            "OrphanDetectorBlind", "time() - max", "0 * time() - max", id="no eye for staleness"
        ),
        pytest.param(
            "OrphanDetectorBlind", "max without (instance", "min without (instance",
            id="one blind replica of two that pages",
        ),
        pytest.param(
            "OrphanDuplicateDecoders", "for: 1m30s", "for: 30s", id="a hand-over that warns"
        ),
        pytest.param("OrphanDuplicateDecoders", "> 0", ">= 0", id="duplicates from zero on"),
        pytest.param(
            "OrphanShedOverdue", "max without (instance", "sum without (instance",
            id="a ratio that doubles with a second replica",
        ),
        pytest.param("OrphanShedOverdue", "> 0.1", ">= 0.1", id="a tenth that is overdue"),
        pytest.param("OrphanShedOverdue", "for: 5m", "for: 4m", id="less than five minutes"),
        pytest.param(
            "OrphanRetryWithoutRetryId", "for: 1m30s", "for: 3m", id="a single retry unseen"
        ),
        pytest.param("OrphanLedgerMiskeyed", "60 * last", "last", id="seconds for a window"),
        pytest.param("OrphanLedgerMiskeyed", "> 0.05", ">= 0.05", id="the allowed part"),
        pytest.param(
            "OrphanLedgerMiskeyed", 'key=~"empty|unknown"', 'key="unknown"', id="no empty keys"
        ),
        pytest.param(
            "OrphanLedgerMiskeyed", "sum without (key)", "max without (key)", id="keys apart"
        ),
        pytest.param(
            "OrphanHeartbeatTooSlow", 'condition="heartbeat_too_slow"', 'condition!=""',
            id="any condition",
        ),
    ],
)  # fmt: skip
def test_a_wrong_rule_does_not_pass(name: str, right: str, wrong: str, tmp_path: Path) -> None:
    """The cases of an alert fail as soon as its rule is bent, so they prove something."""
    bent_rule_is_caught(name, right, wrong, tmp_path)
