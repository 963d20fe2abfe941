"""The generated unit tests pass in the real promtool, and notice rules that are wrong."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from alert_configs import STORES, alert_config, run, with_store

from orphanwatch.alerts.alert import Alert, Case, Check, Firing, Severity
from orphanwatch.alerts.artifacts import PROMETHEUS_RULE, RULE_TESTS, RULES, build
from orphanwatch.alerts.catalogue import ALERTS
from orphanwatch.alerts.documents import document_text
from orphanwatch.alerts.rule_tests import promtool_file
from orphanwatch.alerts.rules import rule_file
from orphanwatch.alerts.stories import stories
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.errors import RenderError


def test_the_files_pass_as_they_are_written(tmp_path: Path) -> None:
    """The rules pass the check, and promtool plays every case against all of them."""
    files = build(alert_config())
    (tmp_path / RULES).write_text(files[RULES])
    (tmp_path / RULE_TESTS).write_text(files[RULE_TESTS])
    passes(tmp_path)


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(alert_config(scrape_interval="30s", delta_window="2m"), id="every 30 s"),
        pytest.param(alert_config(scrape_interval="60s", delta_window="4m"), id="every minute"),
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
            alert_config(selector='cluster="eu-1",zone=~"a|b",team!=""'), id="one of services"
        ),
        pytest.param(
            alert_config({"leases": STORES["leases"] | {"lease_ttl": "200s"}}, replica_labels=[]),
            id="one store, long leases, no replicas",
        ),
    ],
)
def test_rules_of_other_configs_pass_their_own_tests(config: Config, tmp_path: Path) -> None:
    """Each alert's cases are played against its own rules, the healthy stacks against all.

    Every rule against every case is many times the work, and is done for one config above.
    """
    for alerts, told in (
        *(((alert,), ()) for alert in ALERTS if alert.rules(config)),
        (tuple(replace(alert, cases=lambda _: ()) for alert in ALERTS), stories(config, ALERTS)),
    ):
        (tmp_path / RULES).write_text(document_text(rule_file(config, alerts)))
        tests = document_text(promtool_file(config, alerts, told, RULES))
        (tmp_path / RULE_TESTS).write_text(tests)
        passes(tmp_path)


def passes(folder: Path) -> None:
    """Hold the rules of a folder against promtool's strictest check, and against their tests."""
    checked = run(folder, "promtool", "check", "rules", "--lint-fatal", RULES)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    tested = run(folder, "promtool", "test", "rules", RULE_TESTS)
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_the_kubernetes_rule_holds_rules_that_prometheus_accepts(tmp_path: Path) -> None:
    """What stands below ``spec`` is a rule file."""
    spec = yaml.safe_load(build(alert_config())[PROMETHEUS_RULE])["spec"]
    (tmp_path / "spec.yml").write_text(yaml.safe_dump(spec))
    checked = run(tmp_path, "promtool", "check", "rules", "spec.yml")
    assert checked.returncode == 0, checked.stderr


def test_a_case_for_a_severity_that_no_rule_has_is_refused() -> None:
    """A case can't demand a page that no rule would send."""
    firing = Firing(severity=Severity.INFO)
    case = Case(
        name="a case", series=(), checks=(Check(alert=ALERTS[0].name, scrape=1, firing=(firing,)),)
    )
    with pytest.raises(RenderError, match="has no rule of severity info"):
        promtool_file(alert_config(), ALERTS, (case,), RULES)


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
    config = alert_config()
    alert = next(alert for alert in ALERTS if alert.name == name)
    rules = document_text(rule_file(config, (alert,)))
    assert right in rules
    (tmp_path / RULES).write_text(rules.replace(right, wrong))
    tests = document_text(promtool_file(config, (alert,), (), RULES))
    (tmp_path / RULE_TESTS).write_text(tests)
    tested = run(tmp_path, "promtool", "test", "rules", RULE_TESTS)
    assert tested.returncode == 1
    assert "FAILED" in tested.stdout + tested.stderr
