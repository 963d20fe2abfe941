"""Made-up series for promtool: one value for each scrape, and their notation."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Final, NamedTuple

from orphanwatch.alerts.promql import number
from orphanwatch.exporter.names import Family

MISSED: Final = None
"""A scrape that failed: Prometheus marks the series stale."""

Trace = tuple[float | None, ...]
"""The values of a series, scrape by scrape."""

LEAD: Final = 5
"""Quiet scrapes before something happens in a case; none of the two around it is a fourth one."""

ANOTHER_JOB: Final = {"job": "another"}
"""Labels of a series that a second exporter, of another stack, shows to the same Prometheus."""

_FOURTH: Final = 3
"""The fourth scrape, counted from 0."""

_SHORTEST_RUN: Final = 3


@dataclass(frozen=True, slots=True)
class Series:
    """One series of a case."""

    family: Family
    trace: Trace
    labels: dict[str, str] = field(default_factory=dict)


class _Run(NamedTuple):
    start: float | None
    step: float
    length: int


def flat(value: float, count: int) -> Trace:
    """Return one value for some scrapes."""
    return (value,) * count


def lead(value: float) -> Trace:
    """Return the quiet scrapes with which a case begins."""
    return flat(value, LEAD)


def climb(start: float, step: float, count: int) -> Trace:
    """Return values that grow by a step at each scrape."""
    return tuple(start + step * scrape for scrape in range(count))


def gone(count: int) -> Trace:
    """Return scrapes that bring nothing."""
    return (MISSED,) * count


def every_fourth_missed(trace: Trace) -> Trace:
    """Return the trace as seen by a Prometheus that loses every fourth scrape."""
    return tuple(MISSED if _missed(scrape) else value for scrape, value in enumerate(trace))


def seen(scrape: int) -> int:
    """Return this scrape, or the next one where ``every_fourth_missed`` misses it."""
    return scrape + 1 if _missed(scrape) else scrape


def _missed(scrape: int) -> bool:
    return scrape % 4 == _FOURTH


def written(trace: Trace) -> str:
    """Return a trace in promtool's notation, runs shortened."""
    return " ".join(_write(run) for run in _runs(trace))


def _runs(trace: Trace) -> Iterator[_Run]:
    position = 0
    while position < len(trace):
        run = _run_at(trace, position)
        if run.start is not MISSED and run.step and run.length < _SHORTEST_RUN:
            run = _Run(run.start, 0, 1)
        yield run
        position += run.length


def _run_at(trace: Trace, begin: int) -> _Run:
    first = trace[begin]
    if first is MISSED:
        return _Run(
            MISSED, 0, sum(1 for _ in takewhile(lambda value: value is MISSED, trace[begin:]))
        )
    following = trace[begin + 1] if begin + 1 < len(trace) else MISSED
    if following is MISSED:
        return _Run(first, 0, 1)
    step, end = following - first, begin + 1
    while end < len(trace) and _continues(trace[end - 1], trace[end], step):
        end += 1
    return _Run(first, step, end - begin)


def _continues(value: float | None, following: float | None, step: float) -> bool:
    return value is not MISSED and following is not MISSED and following - value == step


def _write(run: _Run) -> str:
    if run.start is MISSED:
        return "stale" if run.length == 1 else f"stale _x{run.length - 1}"
    if run.length == 1:
        return number(run.start)
    sign = "-" if run.step < 0 else "+"
    # promtool's "x3" is the first value and three more.
    return f"{number(run.start)}{sign}{number(abs(run.step))}x{run.length - 1}"
