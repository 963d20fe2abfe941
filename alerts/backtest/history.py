"""The history that a Prometheus server has: when an expression gave something, and when nothing."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, Protocol

import requests
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect

from orphanwatch.exporter.config_source import HttpAccess
from orphanwatch.exporter.errors import PrometheusError
from orphanwatch.exporter.instants import format_duration, micros
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.prometheus_page import NO_PROMETHEUS, ODD_SHAPES
from orphanwatch.exporter.stores.http.access import HttpPlace
from orphanwatch.exporter.stores.http.problems import OverlongError

TIMEOUT: Final = micros(120)
"""What Prometheus itself gives a query by default; a replay of hours may need it."""
MOST_POINTS: Final = 10_000
"""Points of one answer; Prometheus refuses more than 11,000 of a series."""
_SHORTER: Final = "shorten --range, or raise --step"

LabelSet = tuple[tuple[str, str], ...]
"""The labels of one series, sorted."""


class Grid(NamedTuple):
    """The instants at which something is evaluated, in seconds since 1970, both ends included."""

    start: int
    end: int
    step: int

    @classmethod
    def over(cls, start: int, end: int, step: int) -> "Grid":
        """Return the multiples of a step from a start to an end: the same ones every time."""
        return cls(-(-start // step) * step, end // step * step, step)

    @property
    def times(self) -> range:
        """Return the instants."""
        return range(self.start, self.end + 1, self.step)

    def chunks(self) -> Iterator["Grid"]:
        """Yield the grid in parts that a server answers at once."""
        length = MOST_POINTS * self.step
        for start in range(self.start, self.end + 1, length):
            yield Grid(start, min(start + length - self.step, self.end), self.step)


class Reader(Protocol):
    """Whoever knows the past."""

    def present(self, query: str, grid: Grid) -> Mapping[LabelSet, tuple[int, ...]]:
        """Return at which instants of a grid each series of a query was there."""


class History:
    """What a server answers. Every answer is bounded in time and in size."""

    def __init__(self, url: str) -> None:
        # The store's name stands in errors of the place only, which are not used here.
        self._place = HttpPlace(StoreName.QUEUE, HttpAccess(), TIMEOUT)
        self._server = PrometheusConnect(url=url.rstrip("/"), session=self._place.session)

    def present(self, query: str, grid: Grid) -> Mapping[LabelSet, tuple[int, ...]]:
        """Return at which instants of a grid each series of a query was there.

        Raises ``PrometheusError`` where the server can't be asked, or not so much at once.
        """
        found: dict[LabelSet, list[int]] = {}
        for chunk in grid.chunks():
            for labels, times in _series(self._ask(query, chunk)):
                found.setdefault(labels, []).extend(times)
        return {labels: tuple(times) for labels, times in found.items()}

    def _ask(self, query: str, grid: Grid) -> Any:
        try:
            return self._server.custom_query_range(
                query, _stamp(grid.start), _stamp(grid.end), str(grid.step)
            )
        except PrometheusApiClientException:
            raise PrometheusError(self._refusal()) from None
        # Not "from error", below: its text may hold what stands in the URL.
        except requests.Timeout:
            raise PrometheusError(
                f"the server does not answer within {format_duration(TIMEOUT)}; {_SHORTER}"
            ) from None
        except OverlongError:
            raise PrometheusError(f"the server's answer is too long; {_SHORTER}") from None
        except requests.exceptions.JSONDecodeError:
            raise PrometheusError(NO_PROMETHEUS) from None
        except requests.ConnectionError:
            raise PrometheusError(
                "the server can't be reached; check that it runs, and --prometheus.url"
            ) from None
        except (requests.RequestException, OSError, *ODD_SHAPES):
            raise PrometheusError(NO_PROMETHEUS) from None

    def _refusal(self) -> str:
        response = self._place.newest
        status = response.status_code if response is not None else 0
        try:
            said = str(response.json()["error"]) if response is not None else ""
        except ODD_SHAPES:
            return f"the server answers {status}; check --prometheus.url, and who may read there"
        shown = "".join(sign if sign.isprintable() else " " for sign in said)
        return f"the server refuses a query: {shown}; {_SHORTER}"


def _stamp(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _series(answer: Any) -> Iterator[tuple[LabelSet, list[int]]]:
    try:
        for series in answer:
            times = [round(float(stamp)) for stamp, _ in series["values"]]
            yield tuple(sorted(series["metric"].items())), times
    except ODD_SHAPES:
        raise PrometheusError(NO_PROMETHEUS) from None
