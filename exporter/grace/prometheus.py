"""Samples from a production Prometheus: the histogram of propagation, and the open ones."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from orphanwatch.exporter import names
from orphanwatch.exporter.errors import PrometheusError
from orphanwatch.exporter.grace.buckets import Increase, Points, increase_of, samples_of
from orphanwatch.exporter.grace.estimate import PoolSamples
from orphanwatch.exporter.instants import (
    SECOND,
    Instant,
    Micros,
    format_duration,
    format_instant,
    micros,
)
from orphanwatch.exporter.measurement import MeasuredFrom
from orphanwatch.exporter.prometheus_page import ask

BUCKETS: Final = f"{names.CANCEL_PROPAGATION_SECONDS}_bucket"
_DAY: Final = Micros(86_400 * SECOND)
_STEP: Final = Micros(60 * SECOND)
_NO_NUMBERS: Final = (
    "the server answers, and not as Prometheus does; check --prometheus.url and --selector"
)

Series = tuple[tuple[str, str], ...]
"""The labels of one series, in order; without ``le`` those of one histogram."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSamples:
    """What a server has: samples by pool, the grace in force as it was scraped, and notes."""

    pools: Mapping[str, PoolSamples]
    in_force: Mapping[str, Micros]
    notes: tuple[str, ...]


class _Question(NamedTuple):
    url: str
    selector: str
    window: Micros
    at: Instant

    @property
    def start(self) -> Instant:
        return Instant(self.at - self.window)

    def series(self, name: str) -> str:
        return f"{name}{{{self.selector}}}"


def samples_of_server(
    url: str,
    selector: str,
    window: Micros,
    at: Instant,
    replica_labels: Iterable[str],
) -> ServerSamples:
    """Return what a server knows of the window before an instant, by pool.

    Of several replicas that of the most samples counts, whole: they saw the same cancels. How long
    an open one has been open is not known there, so it counts as one that never stops. Raises
    ``PrometheusError`` where the server can't be asked or has no histogram of propagation.
    """
    question = _Question(url, selector, window, at)
    histograms = _increases(question)
    if not histograms:
        raise PrometheusError(
            f"the server has no {BUCKETS} of the last {format_duration(window)}: nothing of an "
            "exporter is scraped, or the selector fits none; see its targets"
        )
    open_ones = _by_pool(question, str(names.CANCEL_PROPAGATION_OPEN))
    pools = {
        pool: _pool_samples(increase, open_ones.get(pool))
        for pool, increase in _largest(histograms).items()
    }
    graces = _by_pool(question, str(names.GRACE_SECONDS))
    return ServerSamples(
        pools=pools,
        in_force={pool: micros(grace) for pool, grace in graces.items()},
        notes=(*_reach_note(question), *_service_note(histograms, frozenset(replica_labels))),
    )


def _pool_samples(increase: Increase, open_ones: float | None) -> PoolSamples:
    settled = increase.total
    if open_ones is None:
        return PoolSamples(
            samples=None,
            source=MeasuredFrom.PROMETHEUS,
            settled=settled,
            open=None,
            unknown=f"unknown: {names.CANCEL_PROPAGATION_OPEN} is absent, so nobody knows how many "
            "have not stopped; see the exporter and its stores",
        )
    return PoolSamples(
        samples=samples_of(increase, round(open_ones)),
        source=MeasuredFrom.PROMETHEUS,
        settled=settled,
        open=round(open_ones),
        edges=increase.edges,
    )


def _increases(question: _Question) -> dict[Series, Increase]:
    """Return by how much each histogram rose: of every pool and replica, by its labels."""
    window = format_duration(question.window)
    series = question.series(BUCKETS)
    last = _values(question, f"last_over_time({series}[{window}])", question.at)
    # A day back, so that a gap in the scrapes does not make an old series look new.
    base = _values(question, f"last_over_time({series}[1d])", question.start)
    reach = format_duration(question.window + _DAY)
    reset = _values(question, f"resets({series}[{reach}]) > 0", question.at)
    found: dict[Series, Increase] = {}
    for histogram in sorted(last):
        points: dict[float, Points]
        if histogram in reset:
            points = _points(question, histogram)
        else:
            points = {edge: [value] for edge, value in last[histogram].items()}
        found[histogram] = increase_of(points, base.get(histogram, {}))
    return found


def _points(question: _Question, histogram: Series) -> dict[float, Points]:
    """Return every sample of a histogram that was reset, day by day, so that no answer is huge."""
    matchers = ",".join(f'{name}="{_escaped(value)}"' for name, value in histogram)
    points: dict[float, Points] = {}
    end = question.start
    while end < question.at:
        begin, end = end, Instant(min(question.at, end + _DAY))
        text = f"{BUCKETS}{{{matchers}}}[{format_duration(end - begin)}]"
        for labels, values in _vectors(ask(question.url, text, end)):
            points.setdefault(float(labels["le"]), []).extend(values)
    return points


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _values(question: _Question, query: str, at: Instant) -> dict[Series, dict[float, float]]:
    """Return a value for each bucket of each histogram."""
    found: dict[Series, dict[float, float]] = {}
    for labels, [value] in _vectors(ask(question.url, query, at)):
        found.setdefault(_identity(labels), {})[float(labels["le"])] = value
    return found


def _vectors(answer: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, str], Points]]:
    """Yield the labels and values of each series of an answer, of a vector or a range."""
    try:
        for series in answer:
            pairs = series["values"] if "values" in series else [series["value"]]
            yield series["metric"], [float(value) for _, value in pairs]
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise PrometheusError(_NO_NUMBERS) from None


def _identity(labels: Mapping[str, str]) -> Series:
    return tuple(sorted((k, v) for k, v in labels.items() if k not in {"le", "__name__"}))


def _largest(histograms: Mapping[Series, Increase]) -> dict[str, Increase]:
    """Return for each pool the histogram of the most samples: replicas saw the same cancels."""
    found: dict[str, Increase] = {}
    for labels, increase in histograms.items():
        pool = dict(labels).get(names.POOL, "")
        if pool not in found or found[pool].total < increase.total:
            found[pool] = increase
    return found


def _by_pool(question: _Question, name: str) -> dict[str, float]:
    query = f"max by ({names.POOL}) ({question.series(name)})"
    answer = ask(question.url, query, question.at)
    return {labels.get(names.POOL, ""): value for labels, [value] in _vectors(answer)}


def _reach_note(question: _Question) -> Iterator[str]:
    """Yield how far back the server's samples reach, where that is not all of the window."""
    window, step = format_duration(question.window), format_duration(_STEP)
    series = question.series(str(names.CANCEL_PROPAGATION_OPEN))
    query = f"min(min_over_time(timestamp({series})[{window}:{step}]))"
    oldest = [value for _, [value] in _vectors(ask(question.url, query, question.at))]
    begins = Instant(int(oldest[0]) * SECOND) if oldest else question.at
    if begins > question.start + 10 * _STEP:
        yield (
            f"the server's samples begin at {format_instant(begins)} and not {window} ago: the "
            "exporter is younger, or the server keeps less; what was counted before that is in"
        )


def _service_note(histograms: Iterable[Series], replica_labels: frozenset[str]) -> Iterator[str]:
    """Yield that there are several services, where labels say so that tell no replicas apart."""
    told = replica_labels | {names.POOL}
    services = {tuple(pair for pair in series if pair[0] not in told) for series in histograms}
    if len(services) > 1:
        differing = sorted({name for service in services for name, _ in service})
        yield (
            f"there are {len(services)} services, told apart by {', '.join(differing)}: of each "
            "pool the one with the most samples counts; choose one by --selector"
        )
