"""The presets of engines: pages written by hand after each engine's sources, served over HTTP.

No engine runs here: what is tested is that these pages are read as their documentation means them.
"""

# ruff: noqa: E501  (the pages stand as engines write them)

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from documentation import DOCS
from metric_stores import LedgerReader, QueueReader, at, prometheus_with, since_zero
from pages import Pages, Reply, page, serving
from servers import wait_until

from orphanwatch.exporter.model import QueueSample
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.presets import preset_of

VLLM = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"} 7.0
vllm:num_requests_running{engine="1",model_name="meta-llama/Llama-3.1-8B-Instruct"} 5.0
# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"} 2.0
vllm:num_requests_waiting{engine="1",model_name="meta-llama/Llama-3.1-8B-Instruct"} 1.0
# HELP vllm:num_requests_waiting_by_reason Number of waiting requests by reason.
# TYPE vllm:num_requests_waiting_by_reason gauge
vllm:num_requests_waiting_by_reason{engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct",reason="capacity"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct",reason="deferred"} 1.0
vllm:num_requests_waiting_by_reason{engine="1",model_name="meta-llama/Llama-3.1-8B-Instruct",reason="capacity"} 1.0
# HELP vllm:generation_tokens_total Number of generation tokens processed.
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"} 1e+06
vllm:generation_tokens_total{engine="1",model_name="meta-llama/Llama-3.1-8B-Instruct"} 2e+06
# HELP vllm:generation_tokens_created Number of generation tokens processed.
# TYPE vllm:generation_tokens_created gauge
vllm:generation_tokens_created{engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"} 1.8e+09
# HELP vllm:iteration_tokens_total Histogram of number of tokens per engine_step.
# TYPE vllm:iteration_tokens_total histogram
vllm:iteration_tokens_total_bucket{engine="0",le="+Inf",model_name="meta-llama/Llama-3.1-8B-Instruct"} 9.0
vllm:iteration_tokens_total_sum{engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"} 5.0
"""

OLDER_VLLM = """\
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="llama"} 12.0
# TYPE vllm:num_requests_swapped gauge
vllm:num_requests_swapped{model_name="llama"} 4.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="llama"} 3.0
# TYPE vllm:gpu_cache_usage_perc gauge
vllm:gpu_cache_usage_perc{model_name="llama"} 0.4
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{model_name="llama"} 3e+06
"""

NEWER_VLLM = "".join(
    line
    for line in VLLM.splitlines(keepends=True)
    if not line.startswith("vllm:num_requests_waiting{")
)
"""Without the number that the numbers by reason add up to."""

SGLANG = """\
# HELP sglang:num_running_reqs The number of running requests.
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{dp_rank="0",engine_type="unified",moe_ep_rank="0",model_name="m",pp_rank="0",tp_rank="0"} 8.0
sglang:num_running_reqs{dp_rank="0",engine_type="unified",moe_ep_rank="1",model_name="m",pp_rank="0",tp_rank="1"} 8.0
sglang:num_running_reqs{dp_rank="1",engine_type="unified",moe_ep_rank="0",model_name="m",pp_rank="0",tp_rank="0"} 4.0
# HELP sglang:num_queue_reqs The number of requests in the waiting queue.
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{dp_rank="0",engine_type="unified",moe_ep_rank="0",model_name="m",pp_rank="0",tp_rank="0"} 2.0
sglang:num_queue_reqs{dp_rank="0",engine_type="unified",moe_ep_rank="1",model_name="m",pp_rank="0",tp_rank="1"} 2.0
sglang:num_queue_reqs{dp_rank="1",engine_type="unified",moe_ep_rank="0",model_name="m",pp_rank="0",tp_rank="0"} 1.0
# HELP sglang:num_grammar_queue_reqs The number of requests in the grammar waiting queue.
# TYPE sglang:num_grammar_queue_reqs gauge
sglang:num_grammar_queue_reqs{dp_rank="0",engine_type="unified",moe_ep_rank="0",model_name="m",pp_rank="0",tp_rank="0"} 9.0
# HELP sglang:generation_tokens_total Number of generation tokens processed.
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{model_name="m"} 3e+06
"""

OLDER_SGLANG = """\
# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="m"} 12
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{model_name="m"} 3
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{model_name="m"} 3e+06
"""

TGI = """\
# TYPE tgi_batch_current_size gauge
tgi_batch_current_size 12
# TYPE tgi_batch_current_max_tokens gauge
tgi_batch_current_max_tokens 48000
# TYPE tgi_queue_size gauge
tgi_queue_size 3
# TYPE tgi_request_generated_tokens histogram
tgi_request_generated_tokens_bucket{le="+Inf"} 900
tgi_request_generated_tokens_sum 3000000
tgi_request_generated_tokens_count 900
"""

LLAMACPP = """\
# HELP llamacpp:tokens_predicted_total Number of generation tokens processed.
# TYPE llamacpp:tokens_predicted_total counter
llamacpp:tokens_predicted_total 3000000
# HELP llamacpp:requests_processing Number of requests processing.
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 12
# HELP llamacpp:requests_deferred Number of requests deferred.
# TYPE llamacpp:requests_deferred gauge
llamacpp:requests_deferred 3
"""

LITELLM = """\
# HELP litellm_in_flight_requests Number of HTTP requests currently in-flight on this uvicorn worker
# TYPE litellm_in_flight_requests gauge
litellm_in_flight_requests 12.0
# HELP litellm_output_tokens_metric_total Total number of output tokens from LLM requests
# TYPE litellm_output_tokens_metric_total counter
litellm_output_tokens_metric_total{api_key_alias="a",end_user="None",model="gpt",team="x"} 1e+06
litellm_output_tokens_metric_total{api_key_alias="b",end_user="None",model="gpt",team="x"} 2e+06
# HELP litellm_proxy_total_requests_metric_total Total number of requests made to the proxy server
# TYPE litellm_proxy_total_requests_metric_total counter
litellm_proxy_total_requests_metric_total{api_key_alias="a",status_code="200"} 600.0
litellm_proxy_total_requests_metric_total{api_key_alias="b",status_code="429"} 300.0
"""

OLDER_LITELLM = """\
# TYPE litellm_requests_metric_total counter
litellm_requests_metric_total{end_user="None",model="gpt"} 900.0
# TYPE litellm_output_tokens_total counter
litellm_output_tokens_total{end_user="None",model="gpt"} 3e+06
"""

QUEUES = [
    pytest.param("vllm", VLLM, 3, 12, id="vLLM"),
    pytest.param("vllm", OLDER_VLLM, 3, 12, id="an older vLLM"),
    pytest.param("vllm", NEWER_VLLM, 3, 12, id="a vLLM that only says who waits why"),
    pytest.param("sglang", SGLANG, 3, 12, id="SGLang, whose ranks say everything twice"),
    pytest.param("sglang", OLDER_SGLANG, 3, 12, id="an older SGLang"),
    pytest.param("tgi", TGI, 3, 12, id="TGI"),
    pytest.param("llamacpp", LLAMACPP, 3, 12, id="llama.cpp"),
    pytest.param("litellm-metrics", LITELLM, None, 12, id="LiteLLM, which has no queue"),
    pytest.param("litellm-metrics", OLDER_LITELLM, None, None, id="an older LiteLLM"),
    pytest.param("vllm", "", None, None, id="a server that has only just started"),
]
LEDGERS = [
    pytest.param("vllm", VLLM, None, id="vLLM"),
    pytest.param("vllm", OLDER_VLLM, None, id="an older vLLM"),
    pytest.param("sglang", SGLANG, None, id="SGLang"),
    pytest.param("sglang", OLDER_SGLANG, None, id="an older SGLang"),
    pytest.param("tgi", TGI, 0.9, id="TGI"),
    pytest.param("litellm-metrics", LITELLM, 0.9, id="LiteLLM"),
    pytest.param("litellm-metrics", OLDER_LITELLM, 0.9, id="an older LiteLLM"),
]


def engine(text: str) -> dict[str, Reply]:
    """Return a server's pages; the one without a slash leads to the other, as FastAPI's does."""
    moved = Reply(status=307, headers={"Location": "/metrics/"})
    return {"/metrics": moved, "/metrics/": page(text)}


def expected(depth: float | None, in_flight: float | None, stamp: Any) -> QueueSample | None:
    """Return the sample of a page that says so much."""
    if depth is None and in_flight is None:
        return None
    return QueueSample(stamp, depth, None, in_flight, None)


@pytest.mark.parametrize(("preset", "text", "depth", "in_flight"), QUEUES)
def test_a_queue_by_its_page(
    tmp_path: Path, preset: str, text: str, depth: float | None, in_flight: float | None
) -> None:
    """Depth is what waits, in flight what runs; age and cap are said by none of them."""
    with serving(engine(text)) as pages:
        reader = QueueReader(tmp_path, preset=preset, url=pages.url())
        assert reader.read() == expected(depth, in_flight, at(0))


@pytest.mark.parametrize(("preset", "text", "rows"), LEDGERS)
def test_a_ledger_by_its_page(tmp_path: Path, preset: str, text: str, rows: float | None) -> None:
    """Three millions of tokens in the time of a window, by requests that count where they end."""
    with serving(engine(with_counters(text, 0))) as pages:
        reader = LedgerReader(tmp_path, preset=preset, url=pages.url())
        assert reader.read(0).spend_tokens is None
        pages.replies = engine(text)
        window = reader.read(60)
        assert window.spend_tokens == 3_000_000
        assert window.spend_rows == (None if rows is None else 1000 * rows)


def with_counters(text: str, value: float) -> str:
    """Return a page with a value in the place of each."""
    return "".join(
        line if line.startswith("#") else f"{line.rpartition(' ')[0]} {value}\n"
        for line in text.splitlines(keepends=True)
    )


@pytest.fixture(scope="module")
def fleet() -> Iterator[Pages]:
    """Return one page with what all engines say, each of them newest and older."""
    texts = {text: None for _, text, *_ in (case.values for case in QUEUES)}
    lines = {line: None for text in texts for line in str(text).splitlines() if line[0] != "#"}
    with serving({"/metrics": page("".join(f"{line}\n" for line in lines))}) as pages:
        yield pages


@pytest.mark.servers
def test_every_preset_can_be_asked_of_a_prometheus(tmp_path: Path, fleet: Pages) -> None:
    """``form: promql`` asks for the same series of a server that scraped them.

    Of vLLM and SGLang the page says what an older and a newer version would: both add up.
    """
    with prometheus_with(tmp_path, scrape=fleet.port) as url:
        asked = {"form": "promql", "url": url}
        vllm = QueueReader(tmp_path, preset="vllm", **asked)
        wait_until("a scrape", lambda: vllm.read(since_zero()) is not None, 30)
        found = {}
        for preset in ("vllm", "sglang", "tgi", "llamacpp", "litellm-metrics"):
            sample = QueueReader(tmp_path, preset=preset, **asked).read(since_zero())
            assert sample is not None
            found[preset] = (sample.depth, sample.in_flight)
    assert found == {
        "vllm": (6, 24),
        "sglang": (6, 24),
        "tgi": (3, 12),
        "llamacpp": (3, 12),
        "litellm-metrics": (None, 12),
    }


@pytest.mark.parametrize("preset", ["vllm", "sglang", "tgi", "litellm-metrics"])
def test_each_page_says_that_no_engine_ran(preset: str) -> None:
    """What was tested against is told where a user looks."""
    text = (DOCS / "presets" / f"{preset}.md").read_text(encoding="utf-8")
    assert "\nNot run against the " in text.partition("## Tested with\n")[2]


@pytest.mark.parametrize("preset", ["vllm", "sglang", "tgi", "litellm-metrics"])
def test_each_page_names_the_series_that_are_read(preset: str) -> None:
    """None is read that is not told of, in the order in which they are looked for."""
    text = (DOCS / "presets" / f"{preset}.md").read_text(encoding="utf-8")
    for store in (StoreName.QUEUE, StoreName.LEDGER):
        metrics = preset_of(preset).stores.get(store, {}).get("metrics", {})
        for series in metrics.values():
            names = series["names"] if isinstance(series, dict) else series
            assert ", ".join(f"`{name}`" for name in names) in text
