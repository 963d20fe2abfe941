"""A ledger and a queue by metrics in the whole program: an unkeyed ledger is half a detector."""

import json
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_session import run
from metric_stores import openmetrics, prometheus_with
from pages import Reply, basic, page, serving
from servers import fetch, free_port, running_exporter, wait_until
from stack_file import ZERO, StackFile, lease, task

pytestmark = pytest.mark.servers


def rising_by(rate: float) -> Callable[[float], float]:
    """Return a counter that rises evenly."""
    return lambda t: rate * (t + 600)


HISTORY = openmetrics(
    ("vllm:num_requests_waiting", "gauge", {'engine="0"': lambda t: 4}),  # noqa: ARG005  (it stays)
    ("vllm:num_requests_running", "gauge", {'engine="0"': lambda t: 6}),  # noqa: ARG005  (likewise)
    (
        "vllm:generation_tokens_total",
        "counter",
        {'engine="0"': lambda t: 10 * (t + 600) if t < 0 else 6000 + 20 * t},
    ),
    *(
        (name, "counter", {f'instance="{which}"': rising_by(by)})
        for name, which, by in (
            ("tgi_request_generated_tokens_sum", "few", 10),
            ("tgi_request_generated_tokens_sum", "many", 10),
            ("tgi_request_generated_tokens_count", "few", 29 / 60),
            ("tgi_request_generated_tokens_count", "many", 31 / 60),
        )
    ),
)
"""An engine that doubles its rate at zero; two more that finish 29 and 31 requests a minute."""

UNKEYED = (
    "store ledger states no charges by task: it adds up whole engines, so orphan tokens can't be "
    "seen; read a ledger that names the task of each charge"
)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return a Prometheus that knows what the engines did from -600 to +60."""
    with prometheus_with(tmp_path_factory.mktemp("history"), HISTORY) as url:
        yield url


def stack(folder: Path, *, ledger: Any, queue: Any, **settings: Any) -> StackFile:
    """Return a stack whose gateway and leases are tables: one task was cancelled at +30."""
    made = StackFile(folder, stores={"ledger": None, "queue": None}, **settings)
    document = yaml.safe_load(made.config_file.read_text(encoding="utf-8"))
    document["stores"] |= {"ledger": ledger, "queue": queue}
    made.config_file.write_text(yaml.safe_dump(document), encoding="utf-8")
    made.add("tasks", task("x", submitted_at=-400, cancelled_at=30))
    made.add("tasks", task("h", submitted_at=-400, deadline_at=500))
    return made


def asked(url: str, preset: str = "vllm", **settings: Any) -> dict[str, Any]:
    """Return a store that is asked of a Prometheus."""
    return {"preset": preset, "form": "promql", "url": url, **settings}


def snapshot(folder: Path, *arguments: str) -> dict[str, Any]:
    """Return the document of the real program."""
    command = ("snapshot", "--config.file", "orphanwatch.yml", "--format", "json", *arguments)
    answer = run(folder, *command)
    assert answer.code == 0, answer.err
    document: dict[str, Any] = json.loads(answer.out)
    return document


def values(document: dict[str, Any], family: str) -> dict[str, float] | None:
    """Return the samples of a family by their labels; None where it is absent."""
    samples = document["metrics"].get(family)
    if samples is None:
        return None
    return {" ".join(sample["labels"].values()): sample["value"] for sample in samples}


AT_60 = str(ZERO + 60)


def test_an_unkeyed_ledger_knows_spend_and_no_task(tmp_path: Path, history: str) -> None:
    """What rests on charges by task is absent, never 0; spend, rising and split work."""
    queue = asked(history, admission_cap=64)
    stack(tmp_path, ledger=asked(history), queue=queue).add("leases", lease("h", heartbeat_at=59))

    document = snapshot(tmp_path, "--at", AT_60)

    known = {
        "orphan_spend_tokens_per_second": {"": 20},
        "orphan_spend_baseline_tokens_per_second": {"": 10},
        "orphan_spend_rising": {"": 1},
        "orphan_queue_depth": {"": 4},
        "orphan_queue_in_flight": {"": 6},
        "orphan_queue_admission_cap": {"": 64},
        "orphan_queue_calm": {"": 1},
        "orphan_split_signal": {"": 1},
        "orphan_leases": {
            f"{pool} {cause}": 0
            for pool in ("paid", "overflow", "other")
            for cause in (
                *("client_cancel", "deadline", "sibling_completed"),
                *("started_after_stop", "after_finish"),
            )
        },
        "orphan_store_up": {"gateway": 1, "leases": 1, "ledger": 1, "queue": 1},
        "orphan_overflow_admission_allowed": {"overflow": 0},
    }
    assert {family: values(document, family) for family in known} == known
    absent = [
        "orphan_token_delta",
        "orphan_tokens_total",
        "orphan_straddling_tokens_total",
        "orphan_unmatched_tokens",
        "orphan_join_abandoned_tasks",
        "orphan_join_ledger_rows",
        "orphan_cancel_propagation_seconds_bucket",
        "orphan_cancel_propagation_seconds_count",
        "orphan_queue_age_seconds",
    ]
    assert [family for family in absent if values(document, family) is not None] == []
    closed = values(document, "orphan_fail_closed")
    assert closed is not None
    assert closed["overflow blind"] == 1
    assert {"overflow ledger_keyed_by_host", "overflow orphan_tokens"}.isdisjoint(closed)
    assert document["verdict"] == {"action": "blind", "reasons": [UNKEYED]}
    assert any(note.startswith("the ledger does not say whom it") for note in document["notes"])


def test_leases_alone_still_shed(tmp_path: Path, history: str) -> None:
    """The lease arm needs no ledger; what it can't see is said beside it."""
    made = stack(tmp_path, ledger=asked(history), queue=asked(history))
    made.add("leases", lease("x", heartbeat_at=59))

    document = snapshot(tmp_path, "--at", AT_60)

    assert document["verdict"]["action"] == "shed"
    assert document["verdict"]["reasons"] == [
        "1 orphan lease in pool overflow: workers hold tasks that nobody waits for",
        UNKEYED,
    ]
    [orphan] = document["orphans"]
    assert (orphan["task_id"], orphan["orphan_tokens"], orphan["lease_live"]) == ("x", None, True)
    assert values(document, "orphan_cancel_propagation_open") == {
        "paid": 0, "overflow": 1, "other": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("instance", "rising"),
    [
        pytest.param("few", None, id="29 requests in the window are too few to tell"),
        pytest.param("many", {"": 0}, id="31 are enough"),
    ],
)
def test_a_counter_that_moves_at_the_end_needs_rows(
    tmp_path: Path, history: str, instance: str, rising: dict[str, float] | None
) -> None:
    """The shape is final: rows are finished requests."""
    ledger = asked(history, "tgi", labels={"instance": instance})
    stack(tmp_path, ledger=ledger, queue=asked(history))

    document = snapshot(tmp_path, "--at", AT_60)

    assert values(document, "orphan_spend_tokens_per_second") == {"": 10}
    assert values(document, "orphan_spend_rising") == rising


def test_absent_series_are_unknown(tmp_path: Path, history: str) -> None:
    """A Prometheus that has never heard of the engine: everything is up, and nothing is known."""
    nowhere = asked(history, labels={"job": "elsewhere"})
    stack(tmp_path, ledger=nowhere, queue=nowhere)

    document = snapshot(tmp_path, "--at", AT_60)

    assert values(document, "orphan_store_up") == {
        "gateway": 1,
        "leases": 1,
        "ledger": 1,
        "queue": 1,
    }
    assert [
        family
        for family in document["metrics"]
        if family.startswith(("orphan_queue_", "orphan_spend_", "orphan_split_", "orphan_in_fl"))
    ] == []


def test_a_queue_sample_that_is_too_old_is_absent(tmp_path: Path, history: str) -> None:
    """The server still answers with it: its stamp tells."""
    stack(tmp_path, ledger=asked(history), queue=asked(history))
    fresh, old = (snapshot(tmp_path, "--at", str(ZERO + after)) for after in (120, 121))
    assert values(fresh, "orphan_queue_depth") == {"": 4}
    assert values(old, "orphan_queue_depth") is None


PAGE = """\
vllm:num_requests_waiting{engine="0"} 4
vllm:num_requests_running{engine="0"} 6
vllm:generation_tokens_total{engine="0"} 5000
"""


def test_check_says_what_an_unkeyed_ledger_is_worth(tmp_path: Path) -> None:
    """It is wrong as the only ledger, and a page is too young to tell spend; exit code 1."""
    with serving({"/metrics": page(PAGE)}) as pages:
        page_of = {"preset": "vllm", "url": pages.url()}
        stack(tmp_path, ledger=page_of, queue=page_of, write=lambda t: t + time.time())
        answer = run(tmp_path, "check", "--config.file", "orphanwatch.yml")
    assert answer.code == 1
    told = [line for line in answer.out.splitlines() if "stores.ledger" in line]
    assert sorted(line.partition(";")[0] for line in told[1:]) == [
        (
            "note   stores.ledger: spend is not known yet: a page says what a counter stands at, "
            "so serve sees it rise from one reading to the next, and one look sees nothing"
        ),
        (
            "wrong  stores.ledger: states no charges by task, so the token arm is blind: "
            "orphan tokens, unmatched tokens and propagation are unknown"
        ),
    ]
    assert "ledger keys" not in answer.out
    assert not any(line.startswith("note   stores.queue") for line in answer.out.splitlines())


def test_check_names_what_a_page_does_not_say(tmp_path: Path) -> None:
    """A queue without depth is no queue to judge by; what is configured and absent is named."""
    with serving({"/metrics": page("litellm_in_flight_requests 3\n")}) as pages:
        queue = {"preset": "litellm-metrics", "url": pages.url()}
        stack(tmp_path, ledger={"preset": "vllm", "url": pages.url()}, queue=queue)
        answer = run(tmp_path, "check", "--config.file", "orphanwatch.yml")
    told = answer.out.splitlines()
    assert (
        "note   stores.queue.columns: depth is not stated: calm, gap and the split signal are "
        "unknown; map it if it is"
    ) in told
    absent = "metrics.tokens finds no counter; check names and labels"
    assert f"note   stores.ledger: {absent}" in told


def test_wrong_credentials_are_told_and_not_shown(tmp_path: Path, history: str) -> None:
    """By ``check``, with its exit code; a page of the same server says it likewise."""
    (tmp_path / "password").write_text("correct horse\n", encoding="utf-8")
    with serving({"/metrics": page(PAGE)}) as pages:
        pages.key = basic("watch", "another")
        login = {"username": "watch", "password_file": "password"}
        queue = {"preset": "vllm", "url": pages.url(), **login}
        stack(tmp_path, ledger=asked(history), queue=queue)
        answer = run(tmp_path, "check", "--config.file", "orphanwatch.yml")
        document = snapshot(tmp_path)
    assert answer.code == 1
    assert (
        f"wrong  stores.queue: can't be read: 127.0.0.1:{pages.port} refuses our credentials "
        "(401 Unauthorized); check them, and what they may read"
    ) in answer.out.splitlines()
    assert "horse" not in answer.out + answer.err + json.dumps(document)
    assert values(document, "orphan_store_up") == {
        "gateway": 1,
        "leases": 1,
        "ledger": 1,
        "queue": 0,
    }


def test_a_query_that_is_refused_costs_its_store_alone(tmp_path: Path, history: str) -> None:
    """The key is named where the on-call looks."""
    queries = {"tokens": "sum(increase(made[$window])"}
    ledger = {"type": "prometheus", "form": "promql", "url": history, "queries": queries}
    stack(tmp_path, ledger=ledger, queue=asked(history))
    document = snapshot(tmp_path, "--at", AT_60)
    [reason] = document["verdict"]["reasons"]
    assert reason.startswith("store ledger can't be read: queries.tokens is refused by Prometheus")
    assert values(document, "orphan_queue_depth") == {"": 4}


def test_serve_learns_spend_from_reading_to_reading(tmp_path: Path) -> None:
    """A page's counter says nothing at first; then the spend, and later its baseline."""
    started = time.time()

    def shows(handler: BaseHTTPRequestHandler) -> None:
        made = 1000 * (time.time() - started)
        handler.wfile.write(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n")
        handler.wfile.write(f"{PAGE}vllm:generation_tokens_total {made}\n".encode())

    with serving({"/metrics": Reply(raw=shows)}) as pages:
        page_of = {"preset": "vllm", "url": pages.url()}
        windows = {"delta_window": "2s", "baseline_window": "2s", "scrape_interval": "500ms"}
        stack(tmp_path, ledger=page_of, queue=page_of, refresh_interval="250ms", **windows)
        with running_exporter(tmp_path / "orphanwatch.yml", free_port()) as url:

            def spend() -> dict[str, float]:
                lines = (line.split() for line in fetch(f"{url}/metrics")[1].splitlines())
                return {
                    line[0]: float(line[1]) for line in lines if line[0].startswith("orphan_spend_")
                }

            def is_whole() -> bool:
                seen.append(spend())
                return len(seen[-1]) > 2

            seen = [spend()]
            wait_until("the baseline", is_whole, 20)
    steps = [frozenset(each) for each in seen]
    rate, baseline = "orphan_spend_tokens_per_second", "orphan_spend_baseline_tokens_per_second"
    assert list(dict.fromkeys(steps)) == [
        frozenset(),
        frozenset({rate}),
        frozenset({rate, baseline, "orphan_spend_rising"}),
    ]
    assert seen[-1][rate] == pytest.approx(1000, rel=0.2)
    assert seen[-1][baseline] == pytest.approx(1000, rel=0.2)
