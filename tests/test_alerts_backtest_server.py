"""A backtest on a real Prometheus with a made-up past: every page is known beforehand.

Two days, scraped every 15 s. Tokens leak five times for ten minutes or longer, one leak is cut in
two by a gap of two hours, and once a charge shows for a minute only.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alert_configs import alert_config
from cli_session import run
from documentation import DOCS, blocks, section
from lint_rules import CONFIG
from past import At, running_past, series, write_past

from orphanwatch.alerts.backtest.history import Grid, History
from orphanwatch.alerts.backtest.replay import firings, hold_seconds, replayed
from orphanwatch.alerts.catalogue import waste_budget_burn
from orphanwatch.alerts.documents import document_text
from orphanwatch.alerts.lint.read_rules import parse_rule_file
from orphanwatch.alerts.lint.tree import Selection, parsed, selections
from orphanwatch.alerts.rules import rule_file
from orphanwatch.exporter import names
from orphanwatch.exporter.names import StoreName

START = 1_790_000_100
HOUR = 3_600
DAYS = 2
LENGTH = DAYS * 24 * HOUR
GAP = range(30 * HOUR, 32 * HOUR)
WEEK = 7 * 24 * HOUR


def scraped(value_at: At) -> At:
    """Return a series that has no sample in the gap."""
    return lambda second: None if second in GAP else value_at(second)


def within(second: int, start: float, minutes: float) -> bool:
    """Return whether a second lies in a span that begins at an hour."""
    return start * HOUR <= second < start * HOUR + minutes * 60


def delta(second: int) -> float:
    """Return the token delta: three leaks, one of them across the gap, and a flap."""
    if within(second, 2, 10):
        return 50
    if within(second, 5, 1):  # shows for two minutes, and must show for 2m30s
        return 50
    if within(second, 10, 10):
        return 3
    return 500 if within(second, 29.75, 150) else 0


def charged(second: int) -> float:
    """Return the counter: 20 tokens per second for two hours, rows that land late."""
    return 20 * min(max(second - 40 * HOUR, 0), 2 * HOUR)


def past() -> dict[str, At]:
    """Return every series of the past; what identity tells is not among them."""
    pool = {"pool": "overflow"}
    always = {
        series(str(names.BUILD_INFO), version="1"): 1.0,
        series(str(names.LEASES_CONFIRMED), **pool): 0.0,
        series(str(names.LEASE_OLDEST_SECONDS), **pool): 0.0,
        series(str(names.SPLIT_SIGNAL)): 0.0,
        series(str(names.SPEND_TOKENS_PER_SECOND)): 100.0,
        series(str(names.GRACE_SECONDS), source="proposal", **pool): 1.0,
        series(str(names.GRACE_SECONDS), source="proposal", pool="paid"): 1.0,
        series(str(names.OVERFLOW_ADMISSION_ALLOWED), **pool): 1.0,
        **{series(str(names.STORE_UP), store=store): 1.0 for store in StoreName},
    }
    cause = {"cause": "client_cancel", "basis": "charged"}
    told: dict[str, At] = {
        series(str(names.TOKEN_DELTA), **pool): delta,
        series(str(names.TOKENS_TOTAL), **pool, **cause): charged,
        **{
            series(str(names.STORE_LAST_SUCCESS), store=store): lambda second: START + second
            for store in StoreName
        },
    }
    constant: dict[str, At] = {name: lambda _, value=value: value for name, value in always.items()}  # type: ignore[misc]  # bound at once
    return {name: scraped(value_at) for name, value_at in (constant | told).items()}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the URL of a Prometheus with the past."""
    folder = tmp_path_factory.mktemp("past")
    write_past(folder, START, LENGTH, past())
    with running_past(folder) as url:
        yield url


@pytest.fixture(scope="module")
def tested(server: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the backtest of the whole past as a JSON document."""
    folder = tmp_path_factory.mktemp("backtest")
    (folder / "orphanwatch.yml").write_text(CONFIG, encoding="utf-8")
    answer = run(
        folder, "alerts", "backtest", "--prometheus.url", server, "--range", "7d", "--at",
        str(START + LENGTH), "--config.file", "orphanwatch.yml", "--format", "json",
    )  # fmt: skip
    assert (answer.code, answer.err) == (0, "")
    document: dict[str, Any] = json.loads(answer.out)
    return document


def outcome(tested: dict[str, Any], name: str, **labels: str) -> dict[str, Any]:
    """Return what is said of one rule."""
    matching: list[dict[str, Any]] = [
        each for each in tested["alerts"] if each["alert"] == name and each["labels"] == labels
    ]
    [found] = matching
    return found


def asked(expr: str) -> tuple[Selection, ...]:
    """Return the selectors of an expression."""
    tree = parsed(expr)
    assert tree is not None, expr
    return tuple(selections(tree))


def counts(found: dict[str, Any], setting: str) -> dict[str, int]:
    """Return how often a rule fired, by the value of a setting."""
    [curve] = [curve for curve in found["neighbours"] if curve["setting"] == setting]
    return {point["value"]: point["fired"] for point in curve["values"]}


pytestmark = pytest.mark.servers


def test_each_leak_is_one_page_and_the_gap_makes_two_of_one(tested: dict[str, Any]) -> None:
    """At 2 h, at 10 h, before and after the gap, and the late rows at 40 h; the flap is none."""
    found = outcome(tested, "OrphanTokensAccruing")
    hours = [leak["at"][8:16] for leak in found["firings"]]
    assert found["fired"] == 5, hours
    assert {tuple(leak["labels"].items()) for leak in found["firings"]} == {
        (("instance", "127.0.0.1:9787"), ("job", "orphanwatch"), ("pool", "overflow"))[1:]
    }


def test_a_week_is_reckoned_by_what_was_seen(tested: dict[str, Any]) -> None:
    """Five pages in two days less the gap; the blind hours are not counted as calm ones."""
    found = outcome(tested, "OrphanTokensAccruing")
    seen = LENGTH - len(GAP)
    assert found["seen_seconds"] == pytest.approx(seen, abs=200)
    assert found["fired_per_week"] == pytest.approx(5 * WEEK / seen, rel=0.01)
    assert tested["scraped_seconds"] == pytest.approx(seen, abs=200)


def test_neighbouring_thresholds_page_less(tested: dict[str, Any]) -> None:
    """Three tokens are above 1 and not above 10; the late rows are 1,200 in a window."""
    found = outcome(tested, "OrphanTokensAccruing")
    assert counts(found, "thresholds.token_delta") == {
        "0": 5, "1": 5, "10": 4, "100": 3, "1000": 1,
    }  # fmt: skip


def test_a_shorter_hold_pages_for_the_flap(tested: dict[str, Any]) -> None:
    """Half of 2m30s is shorter than the flap shows; twice is shorter than any leak."""
    found = outcome(tested, "OrphanTokensAccruing")
    assert counts(found, "for") == {"1m15s": 6, "2m30s": 5, "5m": 5}


def test_the_gap_pages_once_for_each_store(tested: dict[str, Any]) -> None:
    """The detector was blind then, which is seen at any time."""
    found = outcome(tested, "OrphanDetectorBlind")
    assert sorted(one["labels"]["store"] for one in found["firings"]) == sorted(StoreName)
    assert found["seen_seconds"] == pytest.approx(LENGTH, abs=200)


def test_recording_rules_that_the_past_lacks_are_written_out(server: str) -> None:
    """20 of 100 tokens a second for two hours: the budgets of 1 h and of 6 h, no longer one."""
    config = alert_config()
    text = document_text(rule_file(config, (waste_budget_burn.ALERT,)))
    rules = replayed(parse_rule_file("made-up", text))
    assert not any(":" in (found.name or "") for rule in rules for found in asked(rule.expr))
    history, grid = History(server), Grid.over(START, START + LENGTH, 15)
    fired = {
        dict(rule.labels)["window"]: sum(
            len(tuple(firings(times, grid.step, hold_seconds(rule.hold))))
            for times in history.present(rule.expr, grid).values()
        )
        for rule in rules
    }
    assert fired == {"1h": 1, "6h": 1, "1d": 0, "3d": 0}


def test_a_silent_rule_that_saw_is_zero_and_one_that_did_not_is_unknown(
    tested: dict[str, Any],
) -> None:
    """Calm and blind never look alike."""
    calm, blind = (outcome(tested, name) for name in ("OrphanLeasesAlive", "OrphanLedgerMiskeyed"))
    assert (calm["fired"], calm["fired_per_week"]) == (0, 0)
    assert (blind["fired"], blind["fired_per_week"], blind["firings"]) == (None, None, None)
    assert blind["unknown_because"] == "unknown: orphan_unmatched_tokens never shown"


def test_the_text_says_the_answer_first_and_what_is_unknown(server: str, tmp_path: Path) -> None:
    """Pages a week, where the history begins, the gap, bars; and a picture on request."""
    (tmp_path / "orphanwatch.yml").write_text(CONFIG, encoding="utf-8")
    answer = run(
        tmp_path, "alerts", "backtest", "--prometheus.url", server, "--range", "7d", "--at",
        str(START + LENGTH), "--config.file", "orphanwatch.yml", "--svg", "pictures/pages.svg",
    )  # fmt: skip
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[0].startswith("Pages a week: ")
    assert lines[1].startswith("Tickets a week: ")
    assert "history begins at 2026-09-21" in answer.out
    assert "was not scraped for about 1h57m of it (4%): what happened then is unknown" in answer.out
    assert "OrphanTokensAccruing: fired, by thresholds.token_delta" in lines
    [sample] = blocks(section((DOCS / "alerts.md").read_text(encoding="utf-8"), "Backtest"), "text")
    assert [line for line in sample.splitlines() if line not in lines] == []
    svg = (tmp_path / "pictures" / "pages.svg").read_text(encoding="utf-8")
    assert svg.count("OrphanTokensAccruing, by ") == 2


def test_without_a_config_pools_and_stores_come_from_the_past(server: str, tmp_path: Path) -> None:
    """The same pages, and what was assumed is said."""
    answer = run(
        tmp_path, "alerts", "backtest", "--prometheus.url", server, "--range", "2d", "--at",
        str(START + LENGTH), "--format", "json",
    )  # fmt: skip
    document = json.loads(answer.out)
    assert outcome(document, "OrphanTokensAccruing")["fired"] == 5
    assert "every threshold" in document["assumed"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param(("--at", str(START - 86400)), "no history of an exporter", id="a time before"),
        pytest.param(("--selector", 'job="another"', "--at", str(START + LENGTH)),
                     "run orphanwatch serve", id="a service that is not there"),
    ],
)  # fmt: skip
def test_no_history_is_not_calm(
    options: tuple[str, ...], said: str, server: str, tmp_path: Path
) -> None:
    """Where nothing was scraped nothing is told: exit 2, and the remedy."""
    (tmp_path / "orphanwatch.yml").write_text(CONFIG, encoding="utf-8")
    answer = run(
        tmp_path, "alerts", "backtest", "--prometheus.url", server, "--range", "1d",
        "--config.file", "orphanwatch.yml", *options,
    )  # fmt: skip
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
