"""A Prometheus server that a command asks: bounded in time and size, no secret in an error.

What the environment says of logins (``.netrc``), authorities (``REQUESTS_CA_BUNDLE``) and proxies
holds here: a command runs as somebody, unlike a store, whose config says all of it.
"""

import math
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

import requests
import urllib3.exceptions
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect

from orphanwatch.exporter.config_source import HttpAccess
from orphanwatch.exporter.errors import PrometheusError
from orphanwatch.exporter.instants import Instant, Micros, format_duration, micros
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.http.access import HttpPlace
from orphanwatch.exporter.stores.http.problems import ElsewhereError, OverlongError

TIMEOUT: Final = micros(10)
NO_PROMETHEUS: Final = (
    "the server answers, and not as Prometheus does; check --prometheus.url and --selector"
)
ODD_SHAPES: Final = (
    KeyError,
    TypeError,
    ValueError,
    IndexError,
    AttributeError,
    OverflowError,
    RecursionError,
)
"""What reading JSON of another shape than expected raises: an infinite time, nesting without end
and the like among it."""

_NO_URL: Final = (
    "--prometheus.url is no address of a server; write for example http://127.0.0.1:9090"
)
_OURSELVES: Final = "orphanwatch"  # how the exporter's own web server signs
_IT_IS_US: Final = (
    "that is orphanwatch itself, not Prometheus; write the address of the Prometheus that scrapes "
    "it as --prometheus.url"
)
_LONGEST_REASON: Final = 300
# Thanos: what a part of the servers says may lack the very replica that is asked about.
_WHOLE: Final[Mapping[str, str]] = {"partial_response": "false"}
_BUNDLES: Final = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


class PrometheusServer:
    """One server. Every answer is bounded, and whatever goes wrong is a ``PrometheusError``."""

    def __init__(
        self, url: str, timeout: Micros = TIMEOUT, *, remedy: str = "see what keeps it busy"
    ) -> None:
        """``remedy`` is what to do where it answers too late or too much.

        Raises ``PrometheusError`` where the URL is none.
        """
        _check(url)
        self._timeout, self._remedy = timeout, remedy
        # The store's name stands in errors of the place only, which are not used here.
        self._place = HttpPlace(StoreName.QUEUE, HttpAccess(), timeout)
        self._page = _page_of(url)
        session = self._place.session
        session.trust_env = True
        session.verify = next(filter(None, map(os.environ.get, _BUNDLES)), session.verify)
        self._client = PrometheusConnect(url=url.rstrip("/"), session=session)

    def begin(self) -> None:
        """Let time run: all that is asked from now on shares one timeout."""
        self._place.begin()

    def ask(self, query: str, at: Instant | None = None) -> list[dict[str, Any]]:
        """Return what the server answers to a query, as of an instant, or now.

        Every series has its labels, and stamps with numbers: all else is no Prometheus.
        """
        # Whole milliseconds, as the server counts them, and never after the instant.
        time = {} if at is None else {"time": f"{at // 1000 / 1000:.3f}"}
        return self._told(lambda: self._client.custom_query(query, params={**_WHOLE, **time}))

    def ask_range(self, query: str, start: int, end: int, step: int) -> list[dict[str, Any]]:
        """Return what it answers for every step from a start to an end, in whole seconds."""
        return self._told(
            lambda: self._client.custom_query_range(
                query, _stamp(start), _stamp(end), str(step), params=dict(_WHOLE)
            )
        )

    def _told(self, question: Callable[[], Any]) -> list[dict[str, Any]]:
        # Never "from error": its text may hold what stands in the URL.
        try:
            answer = question()
        except PrometheusApiClientException:
            raise PrometheusError(self._refusal()) from None
        except _FAILURES as error:
            raise PrometheusError(self._problem(error)) from None
        if not isinstance(answer, list) or not all(map(_is_series, answer)):
            raise PrometheusError(self._stranger(NO_PROMETHEUS))
        return answer

    def _problem(self, error: Exception) -> str:
        if isinstance(error, requests.Timeout | urllib3.exceptions.TimeoutError):
            within = format_duration(self._timeout)
            return f"the server does not answer within {within}; {self._remedy}"
        if isinstance(error, OverlongError):
            return f"the server's answer is too long; {self._remedy}"
        said = next((said for kind, said in _PROBLEMS if isinstance(error, kind)), NO_PROMETHEUS)
        return self._stranger(said) if said == NO_PROMETHEUS else said

    def _refusal(self) -> str:
        response = self._place.newest
        status = response.status_code if response is not None else 0
        try:
            said = str(response.json()["error"]) if response is not None else ""
        except ODD_SHAPES:
            rest = "check --prometheus.url, and who may read there"
            return self._stranger(f"the server answers {status}; {rest}")
        shown = "".join(sign if sign.isprintable() else " " for sign in said)[:_LONGEST_REASON]
        return f"the server refuses a query: {shown}; {self._remedy}"

    def _stranger(self, otherwise: str) -> str:
        """Return why an answer is not Prometheus' own, where its sender or the URL shows it."""
        response = self._place.newest
        if response is not None and response.headers.get("Server") == _OURSELVES:
            return _IT_IS_US
        is_elsewhere = response is None or response.ok or response.status_code in _NO_SUCH_PLACE
        if not self._page or not is_elsewhere:
            return otherwise
        return (
            f"no Prometheus answers below {self._page}: --prometheus.url takes its address only, "
            "as http://127.0.0.1:9090, with the prefix if it has one, and no page of it"
        )


_NO_SUCH_PLACE: Final = frozenset({404, 405})
_PAGES: Final = frozenset(
    {"alerts", "classic", "config", "flags", "graph", "metrics", "query", "rules"}
    | {"service-discovery", "status", "targets", "tsdb-status"}
)
"""Prometheus' own, one of which is easily copied with its address."""

_FAILURES: Final = (
    requests.RequestException,
    urllib3.exceptions.HTTPError,
    OSError,
    *ODD_SHAPES,
)
_PROBLEMS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (ElsewhereError, "the server sends us elsewhere; write its own URL as --prometheus.url"),
    (
        requests.exceptions.SSLError,
        "its TLS can't be trusted; does it speak HTTPS, signed by whom REQUESTS_CA_BUNDLE names?",
    ),
    # Before OSError, which it is too.
    (requests.exceptions.JSONDecodeError, NO_PROMETHEUS),
    (
        requests.ConnectionError,
        "the server can't be reached; check that it runs, and --prometheus.url",
    ),
    (requests.RequestException, NO_PROMETHEUS),
    (urllib3.exceptions.HTTPError, "the server broke off its answer; ask again"),
    (OSError, "the certificates of REQUESTS_CA_BUNDLE can't be read; check that file"),
)


def _page_of(url: str) -> str:
    """Return what stands behind the address, if anything; what may be a secret stays unsaid."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    if path.rpartition("/")[2] in _PAGES:
        return f"/{path.rpartition('/')[2]}"
    return "the url's path" if path or parts.query or parts.fragment else ""


def _check(url: str) -> None:
    try:
        parts = urlsplit(url)
        is_sound = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_sound = False
    if not is_sound or not url.isprintable() or " " in url:
        raise PrometheusError(_NO_URL)


def _is_series(each: Any) -> bool:
    """Return whether labels and points are there, read as numbers; of a vector or a range."""
    try:
        labels = each["metric"].items()
        points = each["values"] if "values" in each else [each["value"]]
        numbers = [(float(stamp), float(value)) for stamp, value in points]
    except ODD_SHAPES:
        return False
    is_labelled = all(isinstance(part, str) for pair in labels for part in pair)
    return is_labelled and bool(numbers) and all(math.isfinite(stamp) for stamp, _ in numbers)


def _stamp(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
