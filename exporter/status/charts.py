"""Two small charts on one time axis: what the queue says, and what is spent.

Lines are in the units of a stretched SVG, 900 wide and 100 high. The axis is the shortest span that
holds what was seen so far. Where a value is unknown the line has a gap, drawn as one.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from orphanwatch.exporter.history import SPAN, History, Moment
from orphanwatch.exporter.instants import Instant, Micros, micros, seconds
from orphanwatch.exporter.names import Action
from orphanwatch.exporter.status.cells import UNKNOWN, clock, number, stamp

WIDTH: Final = 900
HEIGHT: Final = 100
_SPANS: Final = (micros(180), micros(360), SPAN)
"""Each a number of minutes that three divides."""
_STEPS: Final = (1, 2, 2.5, 5, 10)

Read = Callable[[Moment], float | None]


class Line(NamedTuple):
    """One value over time: a polyline for each stretch in which it was known."""

    look: str
    """``main``, ``limit`` or ``orphan``."""
    strokes: tuple[str, ...]


class Stretch(NamedTuple):
    """A part of the time axis, from an edge over a width."""

    x: float
    width: float
    look: str
    words: str = ""


class Key(NamedTuple):
    """What a line is called, and what it is now."""

    look: str
    name: str
    now: str


class Chart(NamedTuple):
    """One chart: its lines, what can't be known, and the same in words."""

    title: str
    unit: str
    top: str
    """What the upper edge stands for."""
    lines: tuple[Line, ...]
    gaps: tuple[Stretch, ...]
    keys: tuple[Key, ...]
    summary: str


class Charts(NamedTuple):
    """Everything above the one time axis."""

    charts: tuple[Chart, ...]
    verdicts: tuple[Stretch, ...]
    verdict_words: str
    since: str
    """From when on anything is known, in words."""
    minutes: tuple[int, int, int]
    """How long ago the axis begins, and its two marks before now."""


class _Series(NamedTuple):
    look: str
    name: str
    read: Read


_QUEUE: Final = (
    _Series("main", "depth", lambda moment: moment.depth),
    _Series("limit", "calm up to", lambda moment: moment.calm_limit),
)
_SPEND: Final = (
    _Series("main", "spent", lambda moment: moment.spend),
    _Series("limit", "baseline", lambda moment: moment.baseline),
    _Series("orphan", "on orphans", lambda moment: moment.orphan),
)


def charts_of(history: History, now: Instant, longest_silence: Micros) -> Charts | None:
    """Return what to draw up to now; None before there is anything.

    Where nothing was evaluated for longer than ``longest_silence``, nothing is known.
    """
    axis = _Axis(history, now, longest_silence)
    if not axis.moments:
        return None
    return Charts(
        charts=(
            axis.chart("Queue depth", "waiting", _QUEUE),
            axis.chart("Spend", "tokens/s", _SPEND),
        ),
        verdicts=tuple(axis.verdicts()),
        verdict_words=axis.verdict_words(),
        since=stamp(axis.moments[0].at),
        minutes=axis.minutes(),
    )


class _Axis:
    """The shared time axis: where an instant is, and how far a moment reaches."""

    def __init__(self, history: History, now: Instant, longest_silence: Micros) -> None:
        self._now = now
        self._silence = longest_silence
        self.moments = tuple(each for each in history if now - SPAN <= each.at <= now)
        seen = now - self.moments[0].at if self.moments else 0
        self._span = next(span for span in _SPANS if seen <= span)
        self._begin = now - self._span

    def x(self, at: int) -> float:
        """Return where an instant is."""
        return round((at - self._begin) / self._span * WIDTH, 1)

    def minutes(self) -> tuple[int, int, int]:
        """Return how long ago the axis begins, and its two marks before now."""
        third = round(seconds(self._span) / 180)
        return 3 * third, 2 * third, third

    def chart(self, title: str, unit: str, series: tuple[_Series, ...]) -> Chart:
        """Return one chart, all of its lines on one scale."""
        values = [
            value
            for each in series
            for moment in self.moments
            if (value := each.read(moment)) is not None
        ]
        top = _round_top(max(values, default=0.0))
        newest = self.moments[-1]
        first = series[0]
        return Chart(
            title=title,
            unit=unit,
            top=number(top),
            lines=tuple(Line(each.look, tuple(self._strokes(each.read, top))) for each in series),
            gaps=tuple(self._gaps(first.read)),
            keys=tuple(Key(each.look, each.name, _said(each.read(newest))) for each in series),
            summary=self._summary(title, first, unit),
        )

    def _summary(self, title: str, series: _Series, unit: str) -> str:
        known = [value for moment in self.moments if (value := series.read(moment)) is not None]
        now = _said(series.read(self.moments[-1]))
        if not known:
            return f"{title}: unknown."
        return (
            f"{title}: now {now}, lowest {number(min(known))}, highest {number(max(known))} {unit}."
        )

    def _strokes(self, read: Read, top: float) -> Iterator[str]:
        for run in self._runs(lambda moment: read(moment) is not None):
            points = [(self.x(moment.at), read(moment) or 0.0) for moment in run]
            end = self._reach(run[-1])
            # What was read last holds until the next reading: the line goes on to there.
            points.append((end, points[-1][1]))
            yield " ".join(f"{x:g},{_y(value, top):g}" for x, value in points)

    def _gaps(self, read: Read) -> Iterator[Stretch]:
        for run in self._runs(lambda moment: read(moment) is None):
            begin, end = self.x(run[0].at), self._reach(run[-1])
            yield Stretch(begin, round(end - begin, 1), UNKNOWN)
        ends = (*(moment.at for moment in self.moments), self._now)
        for before, after in pairwise(ends):
            if after - before > self._silence:
                begin = self.x(before)
                yield Stretch(begin, round(self.x(after) - begin, 1), UNKNOWN)
        first = self.x(self.moments[0].at)
        if first > 0:
            yield Stretch(0.0, first, "before")

    def verdicts(self) -> Iterator[Stretch]:
        """Yield the verdicts along the axis, equal neighbours as one."""
        for action, moments in groupby(self.moments, key=lambda moment: moment.action):
            run = tuple(moments)
            begin, end = self.x(run[0].at), self._reach(run[-1])
            yield Stretch(begin, round(end - begin, 1), str(action), str(action))

    def verdict_words(self) -> str:
        """Return the verdicts along the axis in one sentence."""
        changes: list[tuple[Action, Instant]] = []
        for moment in self.moments:
            if not changes or changes[-1][0] is not moment.action:
                changes.append((moment.action, moment.at))
        told = [f"{action} from {clock(at)}" for action, at in changes[-_TOLD:]]
        earlier = "earlier changes, " if len(changes) > _TOLD else ""
        return f"Verdicts: {earlier}{', '.join(told)}."

    def _runs(self, holds: Callable[[Moment], bool]) -> Iterable[list[Moment]]:
        """Return the stretches of moments for which something holds, without long silences."""
        run: list[Moment] = []
        for moment in self.moments:
            if run and (not holds(moment) or moment.at - run[-1].at > self._silence):
                yield run
                run = []
            if holds(moment):
                run.append(moment)
        if run:
            yield run

    def _reach(self, moment: Moment) -> float:
        """Return where a moment ends: at the next one, else now; never after a long silence."""
        later = (each.at for each in self.moments if each.at > moment.at)
        end = next(later, self._now)
        return self.x(end if end - moment.at <= self._silence else moment.at)


_TOLD: Final = 6


def _y(value: float, top: float) -> float:
    return round(HEIGHT - min(value, top) / top * HEIGHT, 1)


def _round_top(most: float) -> float:
    """Return a round number that holds the largest value."""
    if most <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    return next(step * power for step in _STEPS if step * power >= most)


def _said(value: float | None) -> str:
    return UNKNOWN if value is None else number(value)
