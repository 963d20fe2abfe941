"""A real Prometheus as a queue and as a ledger: what it scraped, and what it knows of the past."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from metric_stores import (
    LedgerReader,
    QueueReader,
    at,
    openmetrics,
    prometheus_with,
    since_zero,
)
from pages import Pages, Reply, basic, page, serving
from servers import fetch, wait_until

from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.model import LedgerWindow, QueueSample

pytestmark = pytest.mark.servers

ENGINE = """\
vllm:num_requests_waiting{engine="0",model_name="a"} 2
vllm:num_requests_waiting{engine="1",model_name="a+b"} 3
vllm:num_requests_waiting_by_reason{engine="0",model_name="a",reason="capacity"} 1
vllm:num_requests_waiting_by_reason{engine="0",model_name="a",reason="deferred"} 1
vllm:num_requests_waiting_by_reason{engine="1",model_name="a+b",reason="capacity"} 3
copies{dp="0",tp="0"} 4
copies{dp="0",tp="1"} 5
copies{dp="1",tp="0"} 1
broken NaN
"""


@pytest.fixture(scope="module")
def engine() -> Iterator[Pages]:
    """Return a page of an engine's metrics."""
    with serving({"/metrics": page(ENGINE)}) as pages:
        yield pages


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory, engine: Pages) -> Iterator[str]:
    """Return a Prometheus that has scraped the page."""
    with prometheus_with(tmp_path_factory.mktemp("scraped"), scrape=engine.port) as url:
        query = f"{url}/api/v1/query?query=count(broken)"
        wait_until("a scrape", lambda: json.loads(fetch(query)[1])["data"]["result"] != [], 30)
        yield url


def ask(folder: Path, url: str, **settings: Any) -> QueueSample | None:
    """Return what a server says of the queue now."""
    return QueueReader(folder, form="promql", url=url, **settings).read(since_zero())


@pytest.mark.parametrize(
    ("depth", "labels", "expected"),
    [
        pytest.param("vllm:num_requests_waiting", {}, 5, id="series add up"),
        pytest.param("vllm:num_requests_waiting_by", {}, None, id="names are whole names"),
        pytest.param(
            ["vllm:num_requests_waiting", "vllm:num_requests_waiting_by_reason"],
            {},
            5,
            id="the first that is there counts alone, whatever labels the second has",
        ),
        pytest.param(
            ["vllm:unheard_of", "vllm:num_requests_waiting_by_reason", "copies"],
            {},
            5,
            id="the next where the first is absent",
        ),
        pytest.param("copies", {}, 10, id="copies that are not known as such"),
        pytest.param(
            {"names": ["unheard_of", "copies"], "same_over": ["tp"]}, {}, 6, id="copies count once"
        ),
        pytest.param("vllm:num_requests_waiting", {"engine": "1"}, 3, id="one engine"),
        pytest.param(
            "vllm:num_requests_waiting", {"model_name": ["a+b", "c"]}, 3, id="one of several"
        ),
        pytest.param("vllm:num_requests_waiting", {"job": "other"}, None, id="another job"),
        pytest.param("broken", {}, None, id="no number"),
    ],
)
def test_series_become_promql(
    tmp_path: Path, scraped: str, depth: Any, labels: dict[str, str], expected: float | None
) -> None:
    """The same words as for a page, sent to a server that scraped it."""
    sample = ask(tmp_path, scraped, metrics={"depth": depth}, labels=labels)
    assert (sample.depth if sample else None) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param("sum(vllm:num_requests_waiting) # all of them", 5, id="an expression"),
        pytest.param('vllm:num_requests_waiting{engine="1"}', 3, id="one series"),
        pytest.param("64", 64, id="a constant"),
        pytest.param("scalar(unheard_of)", None, id="a constant that is no number"),
        pytest.param("sum(unheard_of)", None, id="nothing"),
        pytest.param("1 / (sum(copies) - 10)", None, id="infinite"),
    ],
)
def test_a_query_gives_a_number(
    tmp_path: Path, scraped: str, query: str, expected: float | None
) -> None:
    """PromQL of the user's own; it goes before the series of the same name."""
    metrics = {"admission_cap": "copies"}
    sample = ask(tmp_path, scraped, queries={"admission_cap": query}, metrics=metrics)
    assert (sample.admission_cap if sample else None) == expected


@pytest.mark.parametrize(
    ("query", "said"),
    [
        pytest.param(
            "sum(vllm:num_requests_waiting",
            'is refused by Prometheus (bad_data: invalid parameter "query": 1:30: parse error: '
            "unclosed left parenthesis); try it on its own page",
            id="no PromQL",
        ),
        pytest.param(
            "copies * on (dp) group_left () copies",
            "is refused by Prometheus (execution: ",
            id="no result",
        ),
        pytest.param(
            "vllm:num_requests_waiting",
            "gives 2 series where one number is asked for; add them up, for example by sum(...)",
            id="several series",
        ),
        pytest.param("copies[1m]", "gives 3 series where one number", id="several ranges"),
        pytest.param("broken[1m]", "gives no plain number; ask for one by its query", id="a range"),
        pytest.param("'x'", "gives no plain number; ask for one by its query", id="a text"),
    ],
)
def test_a_query_that_gives_no_number_is_named(
    tmp_path: Path, scraped: str, query: str, said: str
) -> None:
    """By its key, with what the server says of it."""
    with pytest.raises(StoreError) as error:
        ask(tmp_path, scraped, queries={"depth": query})
    assert error.value.problem.startswith("queries.depth ")
    assert said in error.value.problem


def test_a_sample_is_as_old_as_its_scrape(tmp_path: Path, scraped: str, engine: Pages) -> None:
    """Not as the query; the server's clock is ours here, and an engine that is gone is absent."""
    reader = QueueReader(tmp_path, form="promql", url=scraped, metrics={"depth": "copies"})
    now = since_zero()
    sample = reader.read(now)
    assert sample is not None
    assert sample.sampled_at is not None
    assert at(now - 3) < sample.sampled_at <= at(now)
    assert reader.skew == 0
    engine.replies["/metrics"] = Reply(status=500)
    try:
        wait_until("the end of the series", lambda: reader.read(since_zero()) is None, 15)
    finally:
        engine.replies["/metrics"] = page(ENGINE)
    wait_until("the series' return", lambda: reader.read(since_zero()) is not None, 15)


HISTORY = openmetrics(
    ("waiting", "gauge", {'instance="a"': lambda t: 7 if t >= 0 else 3}),
    (
        "made_total",
        "counter",
        {
            'instance="a"': lambda t: 10 * (t + 600) if t < 0 else 6000 + 20 * t,
            'instance="b"': lambda t: 2 * ((t + 600) % 500),
        },
    ),
    ("late_total", "counter", {'instance="a"': lambda t: 5 * (t + 200) if t >= -200 else None}),
    ("idle_total", "counter", {'instance="a"': lambda t: 5}),  # noqa: ARG005  (it stays)
    ("copied_total", "counter", {f'tp="{n}"': lambda t: 10 * (t + 600) for n in (0, 1)}),
)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return a Prometheus that knows what counters were like from -600 to +60."""
    with prometheus_with(tmp_path_factory.mktemp("history"), HISTORY) as url:
        yield url


def spent(folder: Path, url: str, offset: float, tokens: Any, **settings: Any) -> LedgerWindow:
    """Return the ledger's window as of an instant."""
    metrics = {"tokens": tokens}
    reader = LedgerReader(folder, form="promql", url=url, metrics=metrics, **settings)
    return reader.read(offset)


@pytest.mark.parametrize(
    ("tokens", "offset", "settings", "spend", "baseline"),
    [
        pytest.param("made_total", 60, {"labels": {"instance": "a"}}, 1200, 3000, id="it rises"),
        pytest.param("made_total", 0, {"labels": {"instance": "a"}}, 600, 3000, id="it does not"),
        pytest.param(
            "made_total",
            60,
            {"labels": {"instance": "a"}, "lag": "60s"},
            600,
            3000,
            id="late rows: both windows end earlier",
        ),
        pytest.param(
            "made_total", 60, {"labels": {"instance": "b"}}, 120, 580, id="it begins again at 0"
        ),
        pytest.param("made_total", 60, {}, 1320, 3580, id="engines add up"),
        pytest.param(["unheard_of", "made_total"], 60, {}, 1320, 3580, id="by its older name"),
        pytest.param("idle_total", 60, {}, 0, 0, id="nothing moved: zero"),
        pytest.param("unheard_of", 60, {}, None, None, id="absent: unknown"),
        pytest.param("late_total", 60, {}, 300, None, id="nobody counted when the baseline began"),
        pytest.param(
            {"names": ["copied_total"], "same_over": ["tp"]}, 60, {}, 600, 3000, id="copies"
        ),
    ],
)
def test_spend_is_the_rise_of_counters(
    tmp_path: Path,
    history: str,
    *,
    tokens: Any,
    offset: float,
    settings: dict[str, Any],
    spend: float | None,
    baseline: float | None,
) -> None:
    """Over the spend window of 60 s, and over the 300 s before it, as of any instant."""
    window = spent(tmp_path, history, offset, tokens, **settings)
    assert (window.is_keyed, window.by_key) == (False, {})
    assert window.spend_tokens == (None if spend is None else pytest.approx(spend, rel=0.01))
    assert window.baseline_tokens == (
        None if baseline is None else pytest.approx(baseline, rel=0.01)
    )


def test_a_query_counts_over_each_window(tmp_path: Path, history: str) -> None:
    """``$window`` is its length."""
    query = 'sum(increase(made_total{instance="a"}[$window]))'
    reader = LedgerReader(tmp_path, form="promql", url=history, queries={"tokens": query})
    window = reader.read(60)
    assert (window.spend_tokens, window.baseline_tokens) == (1200, 3000)
    falls = LedgerReader(tmp_path, form="promql", url=history, queries={"tokens": f"-{query}"})
    with pytest.raises(StoreError, match=r"queries\.tokens gives a negative number"):
        falls.read(60)


@pytest.mark.parametrize(
    ("offset", "depth", "stamp"),
    [
        pytest.param(-1, 3, -10, id="before it rose"),
        pytest.param(5, 7, 0, id="after"),
        pytest.param(200, 7, 60, id="long after the last sample: it says so"),
        pytest.param(400, None, None, id="beyond what a query sees"),
    ],
)
@pytest.mark.parametrize("way", ["metrics", "queries"])
def test_the_past_can_be_asked_for(
    tmp_path: Path, history: str, *, way: str, offset: float, depth: float, stamp: float | None
) -> None:
    """``snapshot --at`` sees what was then, with the stamp that it had."""
    reader = QueueReader(tmp_path, form="promql", url=history, **{way: {"depth": "waiting"}})
    sample = reader.read(offset)
    assert sample == (None if stamp is None else QueueSample(at(stamp), depth, None, None, None))


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        pytest.param(
            Reply(body=b"<html>", headers={"Content-Type": "text/html"}),
            "HOST does not answer as Prometheus' API does; check the url",
            id="a login page",
        ),
        pytest.param(
            Reply(body=b'{"status": "success"}'), "does not answer as Prometheus'", id="no data"
        ),
        pytest.param(Reply(body=b'["x"]'), "does not answer as Prometheus'", id="other JSON"),
        pytest.param(
            Reply(body=b'{"data": {"result": {"a": 1}}}'), "no plain number", id="another result"
        ),
        pytest.param(
            Reply(status=404), "HOST has nothing at the url's path (404 Not Found)", id="no API"
        ),
        pytest.param(
            Reply(
                status=503,
                body=b'{"status":"error","errorType":"timeout","error":"query\\ntimed out"}',
            ),
            "metrics.depth is refused by Prometheus (timeout: query timed out)",
            id="it took too long",
        ),
        pytest.param(
            Reply(status=401, body=b'{"error": "who are you?"}'),
            "HOST wants credentials (401 Unauthorized)",
            id="a guard that speaks JSON",
        ),
        pytest.param(
            Reply(status=502, body=b"bad gateway"),
            "HOST answers with an error of its own (502 Bad Gateway); see its log",
            id="a proxy in between",
        ),
    ],
)
def test_a_place_that_is_no_prometheus(tmp_path: Path, reply: Reply, said: str) -> None:
    """Whatever answers there instead, told with its remedy, and asked once."""
    with serving({"/api/v1/query": reply}) as pages:
        with pytest.raises(StoreError) as error:
            ask(tmp_path, pages.url(""), metrics={"depth": "waiting"})
        assert said.replace("HOST", f"127.0.0.1:{pages.port}") in error.value.problem
        assert len(pages.asked) == 1


def test_a_prometheus_behind_a_proxy(tmp_path: Path) -> None:
    """It may live below a path, want a password and a tenant; it is told to stop in time."""
    answer = {"status": "success", "data": {"resultType": "scalar", "result": [0, "5"]}}
    with serving({"/prom/api/v1/query": Reply(body=json.dumps(answer).encode())}) as pages:
        pages.key = basic("watch", "secret")
        sample = ask(
            tmp_path,
            pages.url("/prom/"),
            queries={"depth": "5"},
            username="watch",
            password="secret",  # noqa: S106  (made up)
            headers={"X-Scope-OrgID": "team"},
            timeout="1500ms",
        )
        assert sample is not None
        assert sample.depth == 5
        [(path, headers)] = pages.asked
        assert headers["X-Scope-OrgID"] == "team"
        assert "timeout=1500ms" in path
        assert "partial_response=false" in path


def test_a_clock_that_is_off_is_told(tmp_path: Path) -> None:
    """By the date of the answer, in whole seconds."""
    answer = Reply(
        body=b'{"data": {"result": []}}', headers={"Date": "Fri, 15 Jan 2027 08:00:00 GMT"}
    )
    with serving({"/api/v1/query": answer}) as pages:
        reader = QueueReader(tmp_path, form="promql", url=pages.url(""), queries={"depth": "x"})
        assert reader.read() is None
        assert reader.skew == pytest.approx(-since_zero(), abs=2)
