"""The history that a Prometheus server has: when an expression gave something, and when nothing."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from orphanwatch.exporter.errors import PrometheusError
from orphanwatch.exporter.instants import micros
from orphanwatch.exporter.prometheus_server import NO_PROMETHEUS, ODD_SHAPES, PrometheusServer

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
        """Return the multiples of a step from a start to an end: the same ones every time.

        None lies before 1970: of that no server knows anything.
        """
        return cls(-(-max(0, start) // step) * step, end // step * step, step)

    @classmethod
    def covering(cls, start: int, end: int, step: int) -> "Grid":
        """Return the same, but with a last instant that is not before the end."""
        return cls.over(start, -(-end // step) * step, step)

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
        self._server = PrometheusServer(url, TIMEOUT, remedy=_SHORTER)

    def present(self, query: str, grid: Grid) -> Mapping[LabelSet, tuple[int, ...]]:
        """Return at which instants of a grid each series of a query was there.

        Raises ``PrometheusError`` where the server can't be asked, or not so much at once.
        """
        found: dict[LabelSet, list[int]] = {}
        for chunk in grid.chunks():
            for labels, times in _series(self._server.ask_range(query, *chunk)):
                found.setdefault(labels, []).extend(times)
        return {labels: tuple(times) for labels, times in found.items()}


def _series(answer: Any) -> Iterator[tuple[LabelSet, list[int]]]:
    try:
        for series in answer:
            times = [round(float(stamp)) for stamp, _ in series["values"]]
            yield tuple(sorted(series["metric"].items())), times
    except ODD_SHAPES:
        raise PrometheusError(NO_PROMETHEUS) from None
