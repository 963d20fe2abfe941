"""Renders what was published as Prometheus text or OpenMetrics.

The families are built afresh for each ``Published``, and the bytes are kept until the next one, so
that a scrape costs a look-up. A value that is not a number is left out: unknown is absent.
"""

import gzip
import math
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import partial
from typing import Final, NamedTuple

import structlog
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar as ClientExemplar

from orphanwatch.exporter.board import (
    BUCKET_EDGES,
    Exemplar,
    HistogramValue,
    LabelValues,
    Published,
)
from orphanwatch.exporter.instants import seconds
from orphanwatch.exporter.latest import Latest
from orphanwatch.exporter.model import Sample
from orphanwatch.exporter.names import (
    BUILD_INFO,
    CONFIG_RELOAD_SUCCEEDED_AT,
    CONFIG_RELOAD_SUCCESSFUL,
    FAMILIES,
    STORE_UP,
    Family,
    Kind,
    StoreName,
)

EXEMPLAR_CHARACTERS: Final = 128
"""OpenMetrics 1.0: label names and values of one exemplar, all together."""

_OPENMETRICS_TYPE: Final = "application/openmetrics-text"
_CUT: Final = "…"


class Format(Enum):
    """What a scrape may be answered in; the value is the whole content type."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = f"{_OPENMETRICS_TYPE}; version=1.0.0; charset=utf-8; escaping=underscores"


class Page(NamedTuple):
    """The body of a scrape, and the same packed by gzip."""

    plain: bytes
    packed: bytes


def negotiate(accept: str | None) -> Format:
    """Return the format that an ``Accept`` header likes best; text where it is missing or odd.

    Any OpenMetrics version from 1.0.0 on is answered by 1.0.0. Nothing of the header comes back.
    """
    best = (0.0, Format.TEXT)
    for entry in (accept or "").split(","):
        media, *parameters = (part.strip().lower() for part in entry.split(";"))
        wanted = _format_of(media, dict(_pair(parameter) for parameter in parameters))
        weight = _weight(parameters)
        if wanted is not None and weight > best[0]:
            best = (weight, wanted)
    return best[1]


def _pair(parameter: str) -> tuple[str, str]:
    name, _, value = parameter.partition("=")
    return name.strip(), value.strip().strip('"')


def _format_of(media: str, parameters: Mapping[str, str]) -> Format | None:
    if media in {"text/plain", "text/*", "*/*"}:
        return Format.TEXT
    if media != _OPENMETRICS_TYPE:
        return None
    major = parameters.get("version", "1.0.0").partition(".")[0]
    supported = major.isascii() and major.isdigit() and int(major[:6]) >= 1
    return Format.OPENMETRICS if supported else None


def _weight(parameters: list[str]) -> float:
    """Return the entry's q, 0 where it can't be read: such an entry is not chosen."""
    text = dict(_pair(parameter) for parameter in parameters).get("q", "1")
    try:
        weight = float(text)
    except ValueError:
        return 0.0
    return weight if 0.0 <= weight <= 1.0 else 0.0


def families(published: Published) -> Iterator[Metric]:
    """Yield the families of one scrape, in the order of the page; what is unknown is left out.

    Without an evaluation every store counts as not readable, and no other gauge is there.
    """
    gauges = _gauges(published)
    for family in FAMILIES:
        try:
            metric = _metric(family, published, gauges)
        except Exception:  # noqa: BLE001  (one broken family must not cost the scrape)
            structlog.get_logger().exception("family left out of the page", family=family.name)
            continue
        if metric is not None:
            yield metric


def _gauges(published: Published) -> Mapping[Family, tuple[Sample, ...]]:
    own = {BUILD_INFO: (Sample((published.version,), 1.0),), **_reload(published)}
    if published.evaluation is None:
        return {STORE_UP: tuple(Sample((store,), 0.0) for store in StoreName), **own}
    return {**published.evaluation.gauges, **own}


def _reload(published: Published) -> Mapping[Family, tuple[Sample, ...]]:
    if published.config_reload is None:
        return {}
    is_successful, succeeded_at = published.config_reload
    return {
        CONFIG_RELOAD_SUCCESSFUL: (Sample((), float(is_successful)),),
        CONFIG_RELOAD_SUCCEEDED_AT: (Sample((), seconds(succeeded_at)),),
    }


def _metric(
    family: Family, published: Published, gauges: Mapping[Family, tuple[Sample, ...]]
) -> Metric | None:
    if family.kind is Kind.GAUGE:
        return _gauge(family, gauges[family]) if family in gauges else None
    if family.kind is Kind.COUNTER:
        values = published.counters.get(family)
        return None if values is None else _counter(family, values, published.exemplars)
    histograms = published.histograms.get(family)
    return None if histograms is None else _histogram(family, histograms)


def _gauge(family: Family, samples: tuple[Sample, ...]) -> Metric:
    metric = GaugeMetricFamily(family.name, family.help, labels=family.labels)
    for sample in samples:
        if not math.isnan(sample.value):
            metric.add_metric(_checked(family, sample.labels), sample.value)
    return metric


def _counter(
    family: Family,
    values: Mapping[LabelValues, float],
    exemplars: Mapping[tuple[Family, LabelValues], Exemplar],
) -> Metric:
    metric = CounterMetricFamily(family.name, family.help, labels=family.labels)
    for labels, value in values.items():
        if not math.isnan(value):
            exemplar = _exemplar(exemplars.get((family, labels)))
            metric.add_metric(_checked(family, labels), value, exemplar=exemplar)
    return metric


def _histogram(family: Family, values: Mapping[LabelValues, HistogramValue]) -> Metric:
    metric = HistogramMetricFamily(family.name, family.help, labels=family.labels)
    edges = [repr(edge) for edge in BUCKET_EDGES[family]]  # 1.0, as both formats write it
    for labels, value in values.items():
        if not math.isnan(value.sum):
            buckets = [*zip(edges, value.buckets, strict=True), ("+Inf", value.count)]
            metric.add_metric(_checked(family, labels), buckets, value.sum)
    return metric


def _checked(family: Family, labels: LabelValues) -> LabelValues:
    if len(labels) != len(family.labels):
        raise ValueError(f"{family.name} has labels {family.labels}, not {len(labels)} of them")
    return tuple(_encodable(label) for label in labels)


def _encodable(text: str) -> str:
    """Return the text with lone surrogates replaced: they have no place in UTF-8."""
    return text.encode(errors="replace").decode()


def _exemplar(exemplar: Exemplar | None) -> ClientExemplar | None:
    if exemplar is None or math.isnan(exemplar.value):
        return None
    labels = fit_exemplar(exemplar.labels)
    if not labels:
        return None
    return ClientExemplar(labels, exemplar.value, exemplar.timestamp)


def fit_exemplar(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels within 128 characters in all, a cut value ending in an ellipsis.

    Short values keep their length and long ones share the rest. Characters that do not print or
    would need an escape are replaced: clients choose these ids, and a parser that stumbles over
    one of them loses the whole scrape. Empty where the names alone are too long.
    """
    room = EXEMPLAR_CHARACTERS - sum(len(name) for name in labels)
    printable = {name: "".join(map(_harmless, value)) for name, value in labels.items()}
    fitted: dict[str, str] = {}
    for left, name in zip(
        range(len(printable), 0, -1),
        sorted(printable, key=lambda key: len(printable[key])),
        strict=True,
    ):
        share = room // left
        if share < len(_CUT):
            return {}
        value = printable[name]
        fitted[name] = value if len(value) <= share else value[: share - len(_CUT)] + _CUT
        room -= len(fitted[name])
    return {name: fitted[name] for name in labels}


def _harmless(sign: str) -> str:
    return sign if sign.isprintable() and sign not in '"\\' else "\N{REPLACEMENT CHARACTER}"


class _Families(Collector):
    """A collector over families that stand already."""

    def __init__(self, metrics: tuple[Metric, ...]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        return iter(self._metrics)


def encode(published: Published, form: Format) -> bytes:
    """Return the page in one format; exemplars stand in OpenMetrics only."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(tuple(families(published))))
    if form is Format.TEXT:
        return generate_latest(registry)
    page: bytes = generate_openmetrics(registry)  # type: ignore[no-untyped-call]  # untyped there
    return page


class Exposition:
    """Pages of what is published now, each rendered once for as long as it is current."""

    def __init__(self) -> None:
        self._pages = {form: Latest(partial(_page, form=form)) for form in Format}

    def page(self, published: Published, form: Format) -> Page:
        """Return the page in one format."""
        return self._pages[form].of(published)


def _page(published: Published, form: Format) -> Page:
    plain = encode(published, form)
    return Page(plain, gzip.compress(plain, compresslevel=6, mtime=0))
