"""Samples from a production Prometheus: the histogram of propagation, and the open ones."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from orphanwatch.exporter import names
from orphanwatch.exporter.errors import PrometheusError
from orphanwatch.exporter.grace.buckets import Increase, Scrape, samples_of
from orphanwatch.exporter.grace.estimate import PoolSamples
from orphanwatch.exporter.grace.succession import Life, increase_of_lives
from orphanwatch.exporter.instants import (
    SECOND,
    Instant,
    Micros,
    format_duration,
    format_instant,
    micros,
)
from orphanwatch.exporter.measurement import MeasuredFrom
from orphanwatch.exporter.prometheus_server import ODD_SHAPES, PrometheusServer

BUCKETS: Final = str(names.CANCEL_PROPAGATION_SECONDS.bucket)
_DAY: Final = Micros(86_400 * SECOND)
_STEP: Final = Micros(60 * SECOND)
_ALL: Final = 'le="+Inf"'
_ODD_BUCKET: Final = (
    f"a series of {BUCKETS} has no upper edge as its label le; see what relabels or records it, or "
    "leave it out by --selector"
)

Series = tuple[tuple[str, str], ...]
"""The labels of one series, in order; without ``le`` those of one histogram."""

_Points = list[tuple[float, float]]
"""Stamps, in epoch seconds, and values, the oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSamples:
    """What a server has: samples by pool, the grace in force as it was scraped, and notes."""

    pools: Mapping[str, PoolSamples]
    in_force: Mapping[str, Micros]
    notes: tuple[str, ...]


class _Question(NamedTuple):
    server: PrometheusServer
    selector: str
    window: Micros
    at: Instant

    @property
    def start(self) -> Instant:
        return Instant(self.at - self.window)

    def series(self, name: str, *matchers: str) -> str:
        return f"{name}{{{','.join(part for part in (*matchers, self.selector) if part)}}}"


def samples_of_server(
    url: str,
    selector: str,
    window: Micros,
    at: Instant,
    replica_labels: Iterable[str],
) -> ServerSamples:
    """Return what a server knows of the window before an instant, by pool.

    Of several replicas that of the most samples counts, whole: they saw the same cancels. Exporters
    that followed one another count together: see ``succession``. How long an open one has been open
    is not known there, so it counts as one that never stops. Raises ``PrometheusError`` where the
    server can't be asked or has no histogram of propagation.
    """
    question = _Question(PrometheusServer(url), selector, window, at)
    replicas = frozenset(replica_labels)
    lives = _lives(question)
    if not lives:
        raise PrometheusError(
            f"the server has no {BUCKETS} of the last {format_duration(window)}: nothing of an "
            "exporter is scraped, or the selector fits none; see its targets"
        )
    open_ones = _by_pool(question, str(names.CANCEL_PROPAGATION_OPEN))
    pools = {
        pool: _pool_samples(increase, open_ones.get(pool))
        for pool, increase in _largest(lives, replicas).items()
    }
    graces = _by_pool(question, str(names.GRACE_SECONDS))
    return ServerSamples(
        pools=pools,
        in_force={pool: micros(grace) for pool, grace in graces.items()},
        notes=(*_reach_note(question), *_service_note(lives, replicas)),
    )


def _pool_samples(increase: Increase, open_ones: float | None) -> PoolSamples:
    unknown = ""
    if not increase.is_whole:
        unknown = (
            f'unknown: {BUCKETS} has no le="+Inf", so nobody knows how many took longer than its '
            "last edge; keep all buckets when relabelling"
        )
    if open_ones is None:
        unknown = (
            f"unknown: {names.CANCEL_PROPAGATION_OPEN} is absent, so nobody knows how many have "
            "not stopped; see the exporter and its stores"
        )
    samples = None if unknown or open_ones is None else samples_of(increase, round(open_ones))
    return PoolSamples(
        samples=samples,
        source=MeasuredFrom.PROMETHEUS,
        settled=increase.total if increase.is_whole else None,
        open=None if open_ones is None else round(open_ones),
        slow=increase.counts[-1],
        unknown=unknown,
        edges=increase.edges,
    )


def _lives(question: _Question) -> dict[Series, Life]:
    """Return each histogram of the window, of every pool and replica, by its labels."""
    window = format_duration(question.window)
    series = question.series(BUCKETS)
    last = _values(question, f"last_over_time({series}[{window}])", question.at)
    # The least of a counter that was never reset is what it began with.
    least = _values(question, f"min_over_time({series}[{window}])", question.at)
    # A day back, so that a gap in the scrapes does not make an old series look new.
    base = _values(question, f"last_over_time({series}[1d])", question.start)
    reach = format_duration(question.window + _DAY)
    reset = _values(question, f"resets({series}[{reach}]) > 0", question.at)
    spans = _spans(question)
    found: dict[Series, Life] = {}
    for histogram in sorted(last):
        scrapes: list[Scrape] = [least.get(histogram, {}), last[histogram]]
        if histogram in reset:
            scrapes = _scrapes(question, histogram) or scrapes
        # One that was hardly seen, or not by its +Inf, is a replica of all others.
        first, end = spans.get(histogram, (question.start, question.at))
        found[histogram] = Life(
            first=first, last=end, scrapes=scrapes, base=base.get(histogram, {})
        )
    return found


def _spans(question: _Question) -> dict[Series, tuple[Instant, Instant]]:
    """Return when each histogram was there within the window, first and last."""
    stamp = f"timestamp({question.series(BUCKETS, _ALL)})"
    within = f"({stamp}[{format_duration(question.window)}:{format_duration(_STEP)}])"
    first = _values(question, f"min_over_time{within}", question.at)
    last = _values(question, f"max_over_time{within}", question.at)
    now = _values(question, stamp, question.at)
    return {
        series: (
            _instant(min(begin.values())),
            _instant(max((*last[series].values(), *now.get(series, {}).values()))),
        )
        for series, begin in first.items()
        if series in last
    }


def _instant(stamp: float) -> Instant:
    return Instant(micros(stamp))


def _scrapes(question: _Question, histogram: Series) -> list[Scrape]:
    """Return every scrape of a histogram, asked for day by day, so that no answer is huge."""
    matchers = ",".join(f'{name}="{_escaped(value)}"' for name, value in histogram)
    scrapes: dict[float, dict[float, float]] = {}
    end = question.start
    while end < question.at:
        begin, end = end, Instant(min(question.at, end + _DAY))
        text = f"{BUCKETS}{{{matchers}}}[{format_duration(end - begin)}]"
        for labels, points in _vectors(question.server.ask(text, end)):
            for stamp, value in points:
                scrapes.setdefault(stamp, {})[_edge(labels)] = value
    return [scrapes[stamp] for stamp in sorted(scrapes)]


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _values(question: _Question, query: str, at: Instant) -> dict[Series, dict[float, float]]:
    """Return a value for each bucket of each histogram."""
    found: dict[Series, dict[float, float]] = {}
    for labels, value in _newest(question, query, at):
        found.setdefault(_identity(labels), {})[_edge(labels)] = value
    return found


def _edge(labels: Mapping[str, str]) -> float:
    """Return the upper edge of a bucket."""
    try:
        edge = float(labels[names.LE])
    except ODD_SHAPES:
        edge = math.nan
    if not edge > -math.inf:
        raise PrometheusError(_ODD_BUCKET)
    return edge


def _newest(
    question: _Question, query: str, at: Instant
) -> Iterator[tuple[Mapping[str, str], float]]:
    """Yield labels and the newest value of each series of an answer."""
    for labels, points in _vectors(question.server.ask(query, at)):
        yield labels, points[-1][1]


def _vectors(answer: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, str], _Points]]:
    """Yield labels and points of each series of an answer, of a vector or a range.

    What is no number says nothing, and a series of nothing else is none.
    """
    for series in answer:
        pairs = series["values"] if "values" in series else [series["value"]]
        points = [(float(stamp), float(value)) for stamp, value in pairs]
        known = [point for point in points if math.isfinite(point[1])]
        if known:
            yield series["metric"], known


def _identity(labels: Mapping[str, str]) -> Series:
    return tuple(sorted((k, v) for k, v in labels.items() if k not in {names.LE, "__name__"}))


def _largest(lives: Mapping[Series, Life], replicas: frozenset[str]) -> dict[str, Increase]:
    """Return for each pool the service's increase of the most samples, if there are several."""
    services: dict[tuple[str, Series], list[Life]] = {}
    for labels, life in lives.items():
        pool = dict(labels).get(names.POOL, "")
        services.setdefault((pool, _service(labels, replicas)), []).append(life)
    found: dict[str, Increase] = {}
    for (pool, _), together in services.items():
        increase = increase_of_lives(together)
        if pool not in found or found[pool].total < increase.total:
            found[pool] = increase
    return found


def _service(series: Series, replicas: frozenset[str]) -> Series:
    """Return the labels that tell neither replicas nor pools apart."""
    return tuple(pair for pair in series if pair[0] not in replicas and pair[0] != names.POOL)


def _by_pool(question: _Question, name: str) -> dict[str, float]:
    query = f"max by ({names.POOL}) ({question.series(name)})"
    found = _newest(question, query, question.at)
    return {labels.get(names.POOL, ""): value for labels, value in found}


def _reach_note(question: _Question) -> Iterator[str]:
    """Yield how far back the server's samples reach, where that is not all of the window."""
    window, step = format_duration(question.window), format_duration(_STEP)
    series = question.series(str(names.CANCEL_PROPAGATION_OPEN))
    query = f"min(min_over_time(timestamp({series})[{window}:{step}]))"
    oldest = [value for _, value in _newest(question, query, question.at)]
    begins = Instant(min(int(oldest[0]) * SECOND, question.at)) if oldest else question.at
    if begins > question.start + 10 * _STEP:
        yield (
            f"the server's samples begin at {format_instant(begins)} and not {window} ago: the "
            "exporter is younger, or the server keeps less; what was counted before that is in"
        )


def _service_note(lives: Iterable[Series], replicas: frozenset[str]) -> Iterator[str]:
    """Yield that there are several services, where labels say so that tell no replicas apart."""
    services = {_service(series, replicas) for series in lives}
    if len(services) > 1:
        differing = sorted({name for service in services for name, _ in service})
        yield (
            f"there are {len(services)} services, told apart by {', '.join(differing)}: of each "
            "pool the one with the most samples counts; choose one by --selector"
        )
