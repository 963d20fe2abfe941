"""What a Prometheus server has of the exporter's own page: every gauge's newest value."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from orphanwatch.exporter import names
from orphanwatch.exporter.errors import PrometheusError
from orphanwatch.exporter.instants import Micros, format_duration
from orphanwatch.exporter.model import Sample
from orphanwatch.exporter.names import FAMILIES, Family, Kind
from orphanwatch.exporter.prometheus_server import NO_PROMETHEUS, ODD_SHAPES, PrometheusServer
from orphanwatch.exporter.signals.samples import Gauges

_GAUGES: Final = {str(family): family for family in FAMILIES if family.kind is Kind.GAUGE}


class ScrapedPage(NamedTuple):
    """The gauges as they are now, and the largest that each has been lately."""

    now: Gauges
    lately: Gauges
    hold: Micros
    """How long ``lately`` is."""
    counted: float | None = None
    """Charged orphan tokens that the worst pool's counter rose by lately: rows that land too late
    for the token delta show only there. None where the server has no such counter."""


def read_page(url: str, selector: str, hold: Micros) -> ScrapedPage:
    """Return every gauge of the exporter that the server has, by pool and not by replica.

    Of several replicas the largest value counts, as in the rules: they read the same stores, and
    one that is blind shows less. ``selector`` picks a service among several: label matchers.
    ``lately`` is within ``hold``. A gauge that no replica shows is absent. Raises
    ``PrometheusError`` where the server can't be asked, or has nothing of the exporter at all.
    """
    matchers = ",".join(part for part in ('__name__=~"orphan_.+"', selector) if part)
    server = PrometheusServer(url)
    server.begin()
    now = _gauges(server.ask(f"{{{matchers}}}"), "__name__")
    if names.STORE_UP not in now:
        raise PrometheusError(
            "the server has no orphan_store_up: nothing of an exporter is scraped, or the selector "
            "fits none; see its targets"
        )
    # A function over a range drops the name, which a label of another name keeps.
    lately = server.ask(
        f'max_over_time(label_replace({{{matchers}}}, "family", "$1", "__name__", "(.+)")'
        f"[{format_duration(hold)}:])",
    )
    charged = ",".join(
        part for part in (f'{names.BASIS}="{names.Basis.CHARGED}"', selector) if part
    )
    rises = server.ask(f"max(increase({names.TOKENS_TOTAL}{{{charged}}}[{format_duration(hold)}]))")
    counted = max((value for _, value in _samples(rises)), default=None)
    return ScrapedPage(now, _gauges(lately, "family"), hold, counted)


def _gauges(found: Iterable[Mapping[str, Any]], name_label: str) -> Gauges:
    values: dict[Family, dict[tuple[str, ...], float]] = {}
    for labels, value in _samples(found):
        family = _GAUGES.get(labels.get(name_label, ""))
        if family is not None:
            key = tuple(labels.get(label, "") for label in family.labels)
            by_labels = values.setdefault(family, {})
            by_labels[key] = max(value, by_labels.get(key, value))
    return {
        family: tuple(Sample(key, value) for key, value in sorted(by_labels.items()))
        for family, by_labels in values.items()
    }


def _samples(found: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, str], float]]:
    """Yield labels and value; what is no number says nothing."""
    for series in found:
        try:
            value = float(series["value"][1])
        except ODD_SHAPES:
            raise PrometheusError(NO_PROMETHEUS) from None
        if math.isfinite(value):
            yield series["metric"], value
