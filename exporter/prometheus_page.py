"""What a Prometheus server has of the exporter's own page: every gauge's newest value."""

from typing import Any, Final

import requests
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect
from urllib3.util import Retry

from orphanwatch.exporter import names
from orphanwatch.exporter.errors import PrometheusError
from orphanwatch.exporter.model import Sample
from orphanwatch.exporter.names import FAMILIES, Family, Kind

Gauges = dict[Family, tuple[Sample, ...]]

TIMEOUT_SECONDS: Final = 10
_GAUGES: Final = {str(family): family for family in FAMILIES if family.kind is Kind.GAUGE}


def read_page(url: str, selector: str = "") -> Gauges:
    """Return every gauge of the exporter that the server has now, by pool and not by replica.

    Of several replicas the largest value counts, as in the rules: they read the same stores, and
    one that is blind shows less. ``selector`` picks a service among several: label matchers.
    A gauge that no replica shows is absent. Raises ``PrometheusError`` where the server can't be
    asked, or has nothing of the exporter at all.
    """
    matchers = ",".join(part for part in ('__name__=~"orphan_.+"', selector) if part)
    found: dict[Family, dict[tuple[str, ...], float]] = {}
    for series in _ask(url, f"{{{matchers}}}"):
        labels = series["metric"]
        family = _GAUGES.get(labels.get("__name__", ""))
        if family is not None:
            key = tuple(labels.get(label, "") for label in family.labels)
            values = found.setdefault(family, {})
            value = float(series["value"][1])
            values[key] = max(value, values.get(key, value))
    if names.STORE_UP not in found:
        raise PrometheusError(
            "the server has no orphan_store_up: nothing of an exporter is scraped, or the selector "
            "fits none; see its targets"
        )
    return {
        family: tuple(Sample(key, value) for key, value in sorted(values.items()))
        for family, values in found.items()
    }


def _ask(url: str, query: str) -> list[dict[str, Any]]:
    server = PrometheusConnect(url=url, retry=Retry(0), timeout=TIMEOUT_SECONDS)
    try:
        answer: list[dict[str, Any]] = server.custom_query(query)
    # Not "from error", below: its text may hold what stands in the URL.
    except (PrometheusApiClientException, ValueError):
        raise PrometheusError(
            "the server answers, and not as Prometheus does; check --prometheus.url and --selector"
        ) from None
    except requests.RequestException:
        raise PrometheusError(
            f"the server does not answer within {TIMEOUT_SECONDS} s; "
            "check --prometheus.url, and that it runs"
        ) from None
    return answer
