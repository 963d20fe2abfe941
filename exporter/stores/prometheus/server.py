"""A Prometheus server, or another that speaks its API, asked by PromQL."""

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import requests
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect

from orphanwatch.exporter.config_prometheus import (
    PrometheusLedgerSource,
    PrometheusQueueSource,
    PrometheusSource,
    Series,
    key_of,
)
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import SECOND, Instant, Micros, seconds
from orphanwatch.exporter.model import Rejected
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.http.access import HttpPlace
from orphanwatch.exporter.stores.http.problems import place_of
from orphanwatch.exporter.stores.prometheus.numbers import Measured, Rises
from orphanwatch.exporter.stores.prometheus.promql import oldest_of, over, rise_of, stamp_of, sum_of
from orphanwatch.exporter.stores.questions import Windows

_LONGEST_REASON: Final = 200
_MILLI: Final = 1000


class ServerGauges:
    """Instant queries at the reading's instant, one number each."""

    def __init__(self, config: PrometheusQueueSource, place: HttpPlace) -> None:
        self._config = config
        self._server = _Server(StoreName.QUEUE, config, place)

    def read(self, windows: Windows) -> Mapping[str, Measured | None]:
        """Return each column that is configured; None where there is no such number."""
        return {
            column: self._measured(column, said, windows.at)
            for column, said in self._config.stated.items()
        }

    def _measured(self, column: str, said: str | Series, at: Instant) -> Measured | None:
        """Return a number with the stamp of its oldest sample, not of the query.

        A query sees samples of the last minutes: what went silent would look fresh by its own.
        """
        key, labels = key_of(column, said), self._config.labels
        query, stamp = (
            (said, stamp_of(said))
            if isinstance(said, str)
            else (sum_of(said, labels), oldest_of(said, labels))
        )
        found = self._server.number(key, query, at)
        if found is None:
            return None
        oldest = self._server.number(key, stamp, at) if found.is_vector else None
        return Measured(found.value, at if oldest is None else micros_of(oldest.value))

    def rejected(self) -> tuple[Rejected, ...]:
        """Return nothing: a server gives numbers or an error."""
        return ()


class ServerRises:
    """How much counters rose, as the server tells it for any window of the past."""

    def __init__(self, config: PrometheusLedgerSource, place: HttpPlace) -> None:
        self._config = config
        self._server = _Server(StoreName.LEDGER, config, place)

    def read(self, windows: Windows) -> Rises:
        """Return how much was spent in the windows."""
        spend, baseline = (
            (windows.spend_start, windows.spend_end),
            (windows.baseline_start, windows.spend_start),
        )
        found = {what: self._rise(what, *spend) for what in self._config.stated}
        return Rises(
            spend=found["tokens"],
            baseline=self._rise("tokens", *baseline),
            rows=found.get("rows"),
            missing=tuple(what for what, rise in found.items() if rise is None),
        )

    def _rise(self, what: str, start: Instant, end: Instant) -> float | None:
        """Return the rise over a window, unknown where nobody counted yet when it began."""
        said = self._config.stated[what]
        key, labels = key_of(what, said), self._config.labels
        if (
            isinstance(said, Series)
            and self._server.number(key, sum_of(said, labels), start) is None
        ):
            return None
        query = said if isinstance(said, str) else rise_of(said, labels)
        found = self._server.number(key, over(query, Micros(end - start)), end)
        if found is not None and found.value < 0:
            raise StoreError(
                StoreName.LEDGER,
                f"{key} gives a negative number; count with increase() of a counter",
            )
        return None if found is None else found.value

    def rejected(self) -> tuple[Rejected, ...]:
        """Return nothing: a server gives numbers or an error."""
        return ()


def micros_of(epoch_seconds: float) -> Instant:
    """Return the instant of a stamp as Prometheus writes it."""
    return Instant(round(epoch_seconds * SECOND))


class _Number(NamedTuple):
    value: float
    is_vector: bool
    """Whether it came as a vector, which knows the stamps of its samples."""


class _Server:
    """Asks for one number at a time."""

    def __init__(self, store: StoreName, config: PrometheusSource, place: HttpPlace) -> None:
        self._store = store
        self._url = config.url[0].rstrip("/")
        self._place = place
        self._client = PrometheusConnect(url=self._url, session=place.session)
        self._parameters = {
            # So that the server stops too when nobody waits any more.
            "timeout": f"{max(1, round(seconds(config.timeout) * _MILLI))}ms",
            # Thanos: what a part of the servers says is no sum.
            "partial_response": "false",
        }

    def number(self, key: str, query: str, at: Instant) -> _Number | None:
        """Return what a query says as of an instant; None where it says nothing, or no number."""
        result = self._ask(key, query, at)
        try:
            is_vector = not result or isinstance(result[0], dict)
            if is_vector and len(result) > 1:
                raise StoreError(
                    self._store,
                    f"{key} gives {len(result)} series where one number is asked for; "
                    "add them up, for example by sum(...)",
                )
            if not result:
                return None
            text = (result[0]["value"] if is_vector else result)[1]
            value = float(text)
        except (ValueError, TypeError, KeyError, IndexError):
            raise StoreError(
                self._store, f"{key} gives no plain number; ask for one by its query"
            ) from None
        return _Number(value, is_vector) if math.isfinite(value) else None

    def _ask(self, key: str, query: str, at: Instant) -> Any:
        # Whole milliseconds, as the server counts them, and never after the instant.
        parameters = {"time": f"{at * _MILLI // SECOND / _MILLI:.3f}", **self._parameters}
        with self._place.telling(self._url):
            try:
                return self._client.custom_query(query, params=parameters)
            except PrometheusApiClientException:
                pass  # what it says holds the whole answer; the answer itself is at hand
            except (requests.exceptions.JSONDecodeError, KeyError, TypeError):
                raise StoreError(self._store, self._is_no_api()) from None
        raise self._refusal(key)

    def _refusal(self, key: str) -> StoreError:
        response = self._place.newest
        status = response.status_code if response is not None else 0
        try:
            said = response.json() if response is not None else {}
            # Both are there, or somebody else answers in its place.
            kind, reason = str(said["errorType"]), str(said["error"])
        except (ValueError, KeyError, TypeError):
            return self._place.refusal(self._url, status)
        shown = "".join(sign if sign.isprintable() else " " for sign in f"{kind}: {reason}")
        return StoreError(
            self._store,
            f"{key} is refused by Prometheus ({shown[:_LONGEST_REASON]}); try it on its own page",
        )

    def _is_no_api(self) -> str:
        return f"{place_of(self._url)} does not answer as Prometheus' API does; check the url"
