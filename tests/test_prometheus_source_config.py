"""What may be written of a store that is known by metrics, and how a mistake is told."""

from pathlib import Path
from typing import Any

import pytest
from metric_stores import config_of

from orphanwatch.exporter.config_prometheus import Series
from orphanwatch.exporter.config_stores import PrometheusLedgerStore, PrometheusQueueStore
from orphanwatch.exporter.errors import ConfigError

PAGE = "http://127.0.0.1:8000/metrics"
QUEUE = {"type": "prometheus", "form": "exposition", "url": PAGE, "metrics": {"depth": "waiting"}}
LEDGER = {**QUEUE, "metrics": {"tokens": "made_total"}}


def problems(folder: Path, **stores: dict[str, Any]) -> str:
    """Return what is said of a config."""
    with pytest.raises(ConfigError) as error:
        config_of(folder, **stores)
    return "\n".join(error.value.problems)


def without(settings: dict[str, Any], *keys: str) -> dict[str, Any]:
    """Return the settings without some of them."""
    return {key: value for key, value in settings.items() if key not in keys}


@pytest.mark.parametrize(
    ("queue", "said"),
    [
        pytest.param(
            without(QUEUE, "form"),
            "stores.queue.form: is missing; write promql for a Prometheus server, or exposition",
            id="which of the two it is",
        ),
        pytest.param(without(QUEUE, "url"), "stores.queue.url: is missing", id="no address"),
        pytest.param(
            {**QUEUE, "url": "127.0.0.1:8000/metrics"},
            "is no HTTP address; write for example http://127.0.0.1:8000/metrics",
            id="an address without its scheme",
        ),
        pytest.param(
            {**QUEUE, "url": "http://me:secret@127.0.0.1/metrics"},
            "holds credentials; write them as username and password_file",
            id="a password in the address",
        ),
        pytest.param({**QUEUE, "url": []}, "url is an empty list", id="no address at all"),
        pytest.param(
            {**QUEUE, "url": [PAGE, "x"]}, "stores.queue.url.1: is no HTTP", id="the second of two"
        ),
        pytest.param(
            {**QUEUE, "url": 8000}, "stores.queue.url: write a text, or a list", id="a number"
        ),
        pytest.param(
            {**QUEUE, "metrics": {"depth": 5}},
            "stores.queue.metrics.depth: write the name of a metric",
            id="a number for a series",
        ),
        pytest.param(
            {**QUEUE, "metrics": {"depth": []}},
            "stores.queue.metrics.depth.names: is empty",
            id="no name for a series",
        ),
        pytest.param({**QUEUE, "url": [PAGE, PAGE]}, "stands twice", id="an address twice"),
        pytest.param(
            {**QUEUE, "form": "promql", "url": [PAGE, f"{PAGE}2"]},
            "PromQL is sent to one server; write one address",
            id="two servers",
        ),
        pytest.param(
            without(QUEUE, "metrics"), "says nothing yet; write metrics", id="no series at all"
        ),
        pytest.param(
            {**without(QUEUE, "metrics"), "form": "promql"},
            "says nothing yet; write queries or metrics",
            id="no query at all",
        ),
        pytest.param(
            {**QUEUE, "queries": {"in_flight": "running"}},
            "queries are for form: promql; of an exposition write metrics",
            id="a query for a page",
        ),
        pytest.param(
            {**QUEUE, "metrics": {"depth": 'waiting{engine="0"}'}},
            "is no name of a metric; labels are written apart, under labels",
            id="labels beside a name",
        ),
        pytest.param(
            {**QUEUE, "metrics": {"waiting": "waiting"}},
            "stores.queue.metrics.waiting: is no key we know; check its spelling",
            id="an unknown column",
        ),
        pytest.param(
            {**QUEUE, "labels": {"model-name": "a"}}, "is no name of a label", id="a label's name"
        ),
        pytest.param(
            {**QUEUE, "form": "promql", "queries": {"depth": " "}},
            "stores.queue.queries.depth: is empty; write PromQL",
            id="an empty query",
        ),
        pytest.param(
            {**QUEUE, "username": "me"}, "username and password belong together", id="no password"
        ),
        pytest.param(
            {**QUEUE, "token": "a", "headers": {"authorization": "b"}},
            "exclude each other; keep one of them",
            id="two credentials",
        ),
        pytest.param(
            {**QUEUE, "key_file": "a.key"}, "key_file is of no use without", id="a key alone"
        ),
        pytest.param(
            {**QUEUE, "ca_file": "a.crt", "insecure_skip_verify": True},
            "insecure_skip_verify makes ca_file pointless; keep ca_file",
            id="trust nobody and everybody",
        ),
    ],
)
def test_a_mistake_in_a_queue_is_told(tmp_path: Path, queue: dict[str, Any], said: str) -> None:
    """By its key and with the remedy, and no value of the file."""
    told = problems(tmp_path, queue=queue)
    assert said in told
    assert "secret" not in told


@pytest.mark.parametrize(
    ("ledger", "said"),
    [
        pytest.param(
            {**LEDGER, "shape": "cumulative"}, "a counter of whole engines is read by", id="totals"
        ),
        pytest.param(
            {**LEDGER, "shape": "final"}, "a final shape needs rows beside tokens", id="no rows"
        ),
        pytest.param(
            {**LEDGER, "form": "promql", "queries": {"tokens": "sum(increase(made_total[1m]))"}},
            "needs $window where the length of the window goes; write for example sum(increase(",
            id="a window of its own",
        ),
        pytest.param(
            {**LEDGER, "metrics": {"depth": "waiting"}}, "is no key we know", id="a queue's column"
        ),
        pytest.param(
            {**LEDGER, "metrics": {"rows": "done_total"}, "shape": "increments"},
            "tokens is missing; write the counter of tokens",
            id="rows alone",
        ),
    ],
)
def test_a_mistake_in_a_ledger_is_told(tmp_path: Path, ledger: dict[str, Any], said: str) -> None:
    """By its key and with the remedy."""
    assert said in problems(tmp_path, ledger=ledger)


def test_a_gateway_is_not_known_by_metrics(tmp_path: Path) -> None:
    """Metrics know no task."""
    told = problems(tmp_path, gateway=QUEUE)
    assert told == (
        "stores.gateway.type: write one of sql, redis, jsonl, http_json, or name a preset"
    )


def test_series_can_be_written_short(tmp_path: Path) -> None:
    """A name, a list of names, or the whole."""
    metrics = {
        "depth": "waiting",
        "in_flight": ["running", "active"],
        "age_seconds": {"names": ["age"], "labels": {"a": ["b", "c"]}, "same_over": ["tp"]},
    }
    store = config_of(tmp_path, queue={**QUEUE, "metrics": metrics}).stores.queue
    assert isinstance(store, PrometheusQueueStore)
    assert store.stated == {
        "depth": Series(names=("waiting",)),
        "in_flight": Series(names=("running", "active")),
        "age_seconds": Series(names=("age",), labels={"a": ("b", "c")}, same_over=("tp",)),
    }


def test_what_is_beside_a_preset_goes_before_it(tmp_path: Path) -> None:
    """Series by series; what a preset says of the others stays."""
    queue = {"preset": "vllm", "url": PAGE, "metrics": {"depth": "waiting", "admission_cap": "cap"}}
    ledger = {"preset": "vllm", "form": "promql", "url": "http://127.0.0.1:9090", "lag": "30s"}
    stores = config_of(tmp_path, queue=queue, ledger=ledger).stores
    assert isinstance(stores.queue, PrometheusQueueStore)
    assert stores.queue.form == "exposition"
    assert stores.queue.stated == {
        "depth": Series(names=("waiting",)),
        "in_flight": Series(names=("vllm:num_requests_running",)),
        "admission_cap": Series(names=("cap",)),
    }
    assert isinstance(stores.ledger, PrometheusLedgerStore)
    assert stores.ledger.form == "promql"


def test_secrets_do_not_show_in_a_config(tmp_path: Path) -> None:
    """However it is printed."""
    (tmp_path / "key").write_text("horse\n", encoding="utf-8")
    queue = {**QUEUE, "username": "me", "password_file": "key", "headers": {"X-Key": "battery"}}
    shown = repr(config_of(tmp_path, queue=queue))
    assert "horse" not in shown
    assert "battery" not in shown
