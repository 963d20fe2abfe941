"""Where the lines of a token curve go: a task's tokens over time, in the units of an SVG."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from orphanwatch.exporter.drill.report import TaskReport
from orphanwatch.exporter.graph import Flag, Point, Tick, multiples, polyline, round_step

WIDTH: Final = 320
HEIGHT: Final = 210
LEFT: Final = 40
RIGHT: Final = 310
TOP: Final = 52
BOTTOM: Final = 189

_FLAG_ROWS: Final = {"deadline": 10, "cancel": 24, "cutoff": 38}
"""Each line has its label on a row of its own, so that no two can overlap."""


class Curve(NamedTuple):
    """Everything that is drawn of one task; a polyline is text as SVG has it, "" for none."""

    wanted: str
    orphan: str
    area: str
    """Of the orphan tokens, above what was decoded by the cutoff."""
    frozen: str
    """From the last token to the right edge."""
    end: Point | None
    flags: tuple[Flag, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]


class Scale(NamedTuple):
    """Which seconds and tokens the edges of all curves stand for, so that they can be compared."""

    first: float
    last: float
    most: float

    @classmethod
    def of(cls, tasks: Iterable[TaskReport]) -> "Scale":
        """Return the scale that holds everything of every task."""
        times, tokens = [0.0], [1.0]
        for task in tasks:
            times += [at for at, _ in task.curve]
            times += [at for _, at in _instants(task)]
            tokens += [decoded for _, decoded in task.curve]
        first, last = min(times), max(times)
        step = round_step(max(tokens))
        return cls(first, last if last > first else first + 1, math.ceil(max(tokens) / step) * step)

    def x(self, at: float) -> float:
        """Return where an instant is."""
        share = (at - self.first) / (self.last - self.first)
        return round(LEFT + share * (RIGHT - LEFT), 1)

    def y(self, tokens: float) -> float:
        """Return where a number of tokens is."""
        return round(BOTTOM - tokens / self.most * (BOTTOM - TOP), 1)

    def curve(self, task: TaskReport) -> Curve:
        """Return a task's curve on this scale."""
        # Two decoders charge at the same instant: what counts is what was decoded after both.
        points: list[Point] = list(dict(sorted(task.curve)).items())
        wanted, orphan = _split(points, task.cutoff_s)
        last = points[-1] if points else None
        area = [*orphan, (orphan[-1][0], orphan[0][1])] if orphan else []
        return Curve(
            wanted=self._line(wanted),
            orphan=self._line(orphan),
            area=self._line(area),
            frozen="" if last is None else self._line([last, (self.last, last[1])]),
            end=None if last is None else (self.x(last[0]), self.y(last[1])),
            flags=tuple(self._flag(kind, at) for kind, at in _instants(task)),
            across=tuple(
                Tick(self.x(at), f"{at:g}")
                for at in multiples(self.first, self.last, round_step(self.last - self.first))
            ),
            up=tuple(
                Tick(self.y(tokens), f"{tokens:,g}")
                for tokens in multiples(0, self.most, round_step(self.most))
            ),
        )

    def _flag(self, kind: str, at: float) -> Flag:
        x = self.x(at)
        return Flag(kind, x, _FLAG_ROWS[kind], f"{kind} {at:g} s", x > (LEFT + RIGHT) / 2)

    def _line(self, points: Iterable[Point]) -> str:
        return polyline((self.x(at), self.y(tokens)) for at, tokens in _bends(points))


def _instants(task: TaskReport) -> Iterator[tuple[str, float]]:
    yield "deadline", task.deadline_s
    if task.cancel_at_s is not None:
        yield "cancel", task.cancel_at_s
    if task.cutoff_s is not None:
        yield "cutoff", task.cutoff_s


def _split(points: Sequence[Point], cutoff: float | None) -> tuple[list[Point], list[Point]]:
    """Return the points before the cutoff and after it; both meet on the line across it."""
    if cutoff is None:
        return list(points), []
    before = [point for point in points if point[0] <= cutoff]
    after = list(points[len(before) :])
    if before and after:
        (t0, n0), (t1, n1) = before[-1], after[0]
        meeting = (cutoff, n0 + (n1 - n0) * (cutoff - t0) / (t1 - t0))
        before.append(meeting)
        after.insert(0, meeting)
    return before, after


def _bends(points: Iterable[Point]) -> list[Point]:
    """Return the points without those on a straight line between their neighbours."""
    kept: list[Point] = []
    for point in points:
        while len(kept) > 1 and _is_straight(kept[-2], kept[-1], point):
            kept.pop()
        if not kept or kept[-1] != point:
            kept.append(point)
    return kept


def _is_straight(a: Point, b: Point, c: Point) -> bool:
    one, other = (b[0] - a[0]) * (c[1] - a[1]), (c[0] - a[0]) * (b[1] - a[1])
    return a[0] <= b[0] <= c[0] and math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
