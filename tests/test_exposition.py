"""What a scrape reads: formats, families, exemplars, and that unknown is absent."""

import shutil
import subprocess
from dataclasses import replace

import made_up_boards as made_up
import pytest
from golden_pages import golden
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text
from structlog.testing import capture_logs

from orphanwatch.exporter import names
from orphanwatch.exporter.board import Exemplar, Published
from orphanwatch.exporter.exposition import (
    Exposition,
    Format,
    encode,
    families,
    fit_exemplar,
    negotiate,
)
from orphanwatch.exporter.model import Sample
from orphanwatch.exporter.names import FAMILIES, Action, Kind


def parse_openmetrics(page: str) -> list[Metric]:
    """Return the families as the strict parser reads them."""
    return list(read_openmetrics(page))  # type: ignore[no-untyped-call]  # untyped there


TOKENS = ("overflow", "client_cancel", "charged")
PROMETHEUS_ACCEPT = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        pytest.param(None, Format.TEXT, id="no header is text"),
        pytest.param("", Format.TEXT, id="an empty header is text"),
        pytest.param("*/*", Format.TEXT, id="anything is text"),
        pytest.param("text/html", Format.TEXT, id="a browser gets text"),
        pytest.param(PROMETHEUS_ACCEPT, Format.OPENMETRICS, id="Prometheus gets OpenMetrics"),
        pytest.param(
            "text/plain;q=0.3, application/openmetrics-text;version=1.0.0;q=0.9",
            Format.OPENMETRICS,
            id="the heavier entry wins though it comes second",
        ),
        pytest.param(
            "application/openmetrics-text;version=1.0.0;q=0.2, text/plain;q=0.3",
            Format.TEXT,
            id="the lighter entry loses though it comes first",
        ),
        pytest.param(
            "application/openmetrics-text, text/plain", Format.OPENMETRICS, id="a tie goes in order"
        ),
        pytest.param(
            "application/openmetrics-text;version=2.0.0", Format.OPENMETRICS, id="2.0 is clamped"
        ),
        pytest.param(
            'APPLICATION/OpenMetrics-Text; Version="1.0.0"', Format.OPENMETRICS, id="case is free"
        ),
        pytest.param("application/openmetrics-text;version=0.0.1", Format.TEXT, id="0.0.1 is text"),
        pytest.param("application/openmetrics-text;version=x", Format.TEXT, id="no version number"),
        pytest.param(
            "application/openmetrics-text;version=²", Format.TEXT, id="a digit that isn't"
        ),
        pytest.param("application/openmetrics-text;q=0", Format.TEXT, id="q=0 is a refusal"),
        pytest.param("application/openmetrics-text;q=nan", Format.TEXT, id="q=nan is no weight"),
        pytest.param("application/openmetrics-text;q=high", Format.TEXT, id="a word is no weight"),
        pytest.param("application/vnd.google.protobuf", Format.TEXT, id="protobuf is not offered"),
        pytest.param(";;,=,;q=,", Format.TEXT, id="rubbish is text"),
    ],
)
def test_negotiation(accept: str | None, expected: Format) -> None:
    """The best format that we speak is chosen by weight."""
    assert negotiate(accept) is expected


def test_content_types_are_our_own_words() -> None:
    """The answer states type and version, and nothing that a client sent."""
    assert Format.TEXT.value == "text/plain; version=0.0.4; charset=utf-8"
    assert Format.OPENMETRICS.value == (
        "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores"
    )


@pytest.mark.parametrize(
    ("form", "name"), [(Format.TEXT, "metrics.txt"), (Format.OPENMETRICS, "metrics.openmetrics")]
)
def test_whole_page(form: Format, name: str) -> None:
    """The page with every family reads as committed, byte for byte."""
    page = encode(made_up.whole_page(), form)
    assert page == golden(name, page)


def test_openmetrics_parses_strictly() -> None:
    """The strict parser reads every family, with its type and without creation stamps."""
    page = encode(made_up.whole_page(), Format.OPENMETRICS).decode()
    read = {family.name: family for family in parse_openmetrics(page)}
    for family in FAMILIES:
        assert read[family.name.removesuffix("_total")].type == family.kind
    assert len(read) == len(FAMILIES)
    assert "_created" not in page
    assert page.endswith("# EOF\n")


def test_text_parses() -> None:
    """The text parser reads every sample by the name that the contract gives it."""
    page = encode(made_up.whole_page(), Format.TEXT).decode()
    samples = {sample.name for family in parse_text(page) for sample in family.samples}
    for family in FAMILIES:
        suffixes = ("_bucket", "_sum", "_count") if family.kind is Kind.HISTOGRAM else ("",)
        assert {f"{family.name}{suffix}" for suffix in suffixes} <= samples
    assert "_created" not in page
    assert "_total_total" not in page


def test_promtool_finds_nothing() -> None:
    """Prometheus's own linter has no complaint about any family."""
    promtool = shutil.which("promtool")
    assert promtool is not None, "promtool is missing; install the Debian package prometheus"
    page = encode(made_up.whole_page(), Format.TEXT)
    done = subprocess.run(
        [promtool, "check", "metrics"], input=page, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")


def test_bucket_edges_are_cumulative_and_complete() -> None:
    """A histogram ends in +Inf, which is its count."""
    published = made_up.published(None)
    (family,) = (f for f in families(published) if f.type == "histogram")
    buckets = [sample for sample in family.samples if sample.name.endswith("_bucket")]
    assert [sample.labels["le"] for sample in buckets[:3]] == ["0.05", "0.1", "0.25"]
    assert (buckets[-2].labels["le"], buckets[-1].labels["le"]) == ("600.0", "+Inf")
    assert [sample.value for sample in buckets] == [*range(1, 19), 18]


def lines(published: Published, form: Format = Format.TEXT) -> list[str]:
    """Return the page's samples, its comments left out."""
    page = encode(published, form).decode()
    return [line for line in page.splitlines() if not line.startswith("#")]


def test_without_an_evaluation_every_store_is_down() -> None:
    """Before the first evaluation and after the last the page is blind, not empty and not calm."""
    assert lines(made_up.nothing_yet()) == [
        'orphan_store_up{store="gateway"} 0.0',
        'orphan_store_up{store="leases"} 0.0',
        'orphan_store_up{store="ledger"} 0.0',
        'orphan_store_up{store="queue"} 0.0',
        'orphanwatch_build_info{version="0.1.0"} 1.0',
    ]


def test_counters_stay_when_the_evaluation_is_stale() -> None:
    """A counter once shown goes on being shown: it holds what was counted."""
    counted = 'orphan_tokens_total{basis="charged",cause="client_cancel",pool="overflow"} 2479.0'
    assert counted in lines(made_up.stale())


def test_unknown_is_absent() -> None:
    """A family that the evaluation does not hold, and a value that is no number, are not shown."""
    page = lines(made_up.blind())
    assert not [line for line in page if line.startswith("orphan_token_delta")]
    nan = {names.TOKEN_DELTA: (Sample(("paid",), float("nan")), Sample(("overflow",), 0.0))}
    published = made_up.published(made_up.evaluation(Action.SCALE, gauges=nan))
    assert "orphan_token_delta" in "".join(lines(published))
    assert "nan" not in "".join(lines(published)).lower()


def test_one_broken_family_does_not_cost_the_page() -> None:
    """A family with wrong labels is left out and logged; the others are served."""
    broken = {names.TOKEN_DELTA: (Sample((), 1.0),), names.QUEUE_CALM: (Sample((), 1.0),)}
    published = made_up.published(made_up.evaluation(Action.SCALE, gauges=broken))
    with capture_logs() as logs:
        page = lines(published)
    assert "orphan_queue_calm 1.0" in page
    assert not [line for line in page if line.startswith("orphan_token_delta")]
    assert [(log["log_level"], log["family"]) for log in logs] == [("error", "orphan_token_delta")]


def test_label_values_are_escaped() -> None:
    """Quotes, backslashes, line ends and broken text in a pool's name do not break the page."""
    pool = 'a"b\\c\nd\ud800'
    gauges = {names.TOKEN_DELTA: (Sample((pool,), 3.0),)}
    published = made_up.published(made_up.evaluation(Action.SHED, gauges=gauges))
    for form, parse in ((Format.TEXT, parse_text), (Format.OPENMETRICS, parse_openmetrics)):
        page = encode(published, form).decode()
        (family,) = (f for f in parse(page) if f.name == "orphan_token_delta")
        assert family.samples[0].labels == {"pool": 'a"b\\c\nd?'}


def test_exemplars_stand_in_openmetrics_only() -> None:
    """The orphan counter names a task and its request, in the format that has exemplars."""
    published = made_up.published(None)
    (line,) = (x for x in lines(published, Format.OPENMETRICS) if "orphan_tokens_total" in x)
    assert line.endswith(' 2479.0 # {retry_id="req-1",task_id="chatcmpl-1"} 2479.0 1700000000.5')
    assert "chatcmpl" not in "".join(lines(published, Format.TEXT))


@given(
    task_id=st.text(st.characters(exclude_categories=[]), max_size=300),
    retry_id=st.text(st.characters(exclude_categories=[]), max_size=300),
)
def test_exemplars_fit(task_id: str, retry_id: str) -> None:
    """Whatever the ids hold, the exemplar parses strictly and stays within 128 characters."""
    exemplar = Exemplar(labels={"task_id": task_id, "retry_id": retry_id}, value=1.0)
    published = replace(made_up.published(None), exemplars={(names.TOKENS_TOTAL, TOKENS): exemplar})
    page = encode(published, Format.OPENMETRICS).decode()
    (family,) = (f for f in parse_openmetrics(page) if f.name == "orphan_tokens")
    shown = family.samples[0].exemplar
    assert shown is not None
    assert sum(len(name) + len(value) for name, value in shown.labels.items()) <= 128


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param({"a": "x" * 127}, {"a": "x" * 127}, id="128 characters fit whole"),
        pytest.param({"a": "x" * 128}, {"a": "x" * 126 + "…"}, id="129 are cut, visibly"),
        pytest.param(
            {"a": "x" * 200, "b": "y"}, {"a": "x" * 124 + "…", "b": "y"}, id="short ones stay whole"
        ),
        pytest.param(
            {"a": "x" * 200, "b": "y" * 200},
            {"a": "x" * 62 + "…", "b": "y" * 62 + "…"},
            id="long ones share",
        ),
        pytest.param({"a": "x\ny\0"}, {"a": "x�y�"}, id="what does not print is replaced"),
        pytest.param({"a": 'x"y\\'}, {"a": "x�y�"}, id="what needs an escape is replaced"),
        pytest.param({"n" * 128: "x"}, {}, id="no room is no exemplar"),
    ],
)
def test_fitting(labels: dict[str, str], expected: dict[str, str]) -> None:
    """Values are cut, never the page broken."""
    assert fit_exemplar(labels) == expected


def test_the_page_is_rendered_once() -> None:
    """Asking again for what is published gives the very same bytes; a new value, new ones."""
    exposition, first = Exposition(), made_up.published(None)
    page = exposition.page(first, Format.TEXT)
    assert exposition.page(first, Format.TEXT) is page
    assert exposition.page(first, Format.OPENMETRICS).plain != page.plain
    second = replace(first, counters={names.TOKENS_TOTAL: {TOKENS: 2480.0}})
    assert b" 2480.0\n" in exposition.page(second, Format.TEXT).plain
