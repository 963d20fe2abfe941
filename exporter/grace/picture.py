"""The picture of a measuring: each pool's curve with its band, as one SVG that needs nothing else.

All decisions are made here; the template has loops and words.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from orphanwatch.exporter.grace.estimate import Findings, PoolGrace
from orphanwatch.exporter.grace.telling import about, grace_of, length
from orphanwatch.exporter.graph import Flag, Point, Tick, multiples, polyline, round_step
from orphanwatch.exporter.instants import (
    SECOND,
    Micros,
    format_duration,
    format_instant,
    to_the_second,
)

WIDTH: Final = 720
PANEL: Final = 330
"""The height of one pool's."""
HEAD: Final = 64
LEFT: Final = 60
RIGHT: Final = 700
TOP: Final = 104
BOTTOM: Final = 282

_FLAG_ROWS: Final = (58, 74, 90)
"""Each line has its label on a row of its own, so that no two can overlap."""
_ROOM: Final = 1.15
"""How much further than the last number the time axis reaches."""
_TICKS: Final = 8
_SHARE: Final = 0.7
"""How high the quantile stands."""
_PARTS: Final = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999)
_LABEL: Final = 150
"""The room that the label of a line takes beside it."""
_FINEST: Final = 0.5
"""Steps closer than this, in units of the picture, are one."""


class Panel(NamedTuple):
    """Everything that is drawn of one pool; a path is text as SVG has it, "" for none."""

    name: str
    offset: float
    title: str
    said: str
    line: str
    band: str
    quantile: Tick
    flags: tuple[Flag, ...]
    across: tuple[Tick, ...]
    up: tuple[Tick, ...]


def picture_of(findings: Findings) -> str:
    """Return the SVG of all pools, below each other; the same findings give the same bytes."""
    template = Environment(
        loader=PackageLoader("orphanwatch.exporter.grace"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    ).get_template("grace.svg.j2")
    panels = [_panel(findings, name, number) for number, name in enumerate(findings.pools)]
    return template.render(
        at=format_instant(to_the_second(findings.at)),
        window=format_duration(findings.terms.window),
        panels=panels,
        width=WIDTH,
        height=HEAD + PANEL * len(panels),
        box={"left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM},
    )


def _panel(findings: Findings, name: str, number: int) -> Panel:
    pool, grace = findings.pools[name], grace_of(findings, name)
    last, height = _last(pool, grace), _Height(pool.quantile)
    line, band = _lines(pool, height, last)
    return Panel(
        name=name,
        offset=HEAD + PANEL * number,
        title=f"{name}: {pool.status}",
        said=pool.reason,
        line=line,
        band=band,
        quantile=Tick(height.y(pool.quantile), f"{100 * pool.quantile:g} % of the cancels"),
        flags=tuple(_flags(pool, grace, last)),
        across=tuple(_across(last)),
        up=tuple(height.ticks()),
    )


def _last(pool: PoolGrace, grace: Micros | None) -> float:
    """Return the time at the right edge: a little beyond every number that is shown."""
    known = [number for number in (pool.estimate, pool.upper, grace) if number is not None]
    if pool.estimate is None and pool.longest:
        known.append(pool.longest)
    return _ROOM * max(known, default=SECOND)


class _Height:
    """The upward axis: each nine takes the same room, so that the quantile can be looked at."""

    def __init__(self, quantile: float) -> None:
        self._nines = -math.log10(1 - quantile) / _SHARE

    def y(self, part: float) -> float:
        """Return where a part of the cancels is; what is beyond the top is at the top."""
        nines = -math.log10(1 - part) if part < 1 else self._nines
        return round(BOTTOM - min(1.0, nines / self._nines) * (BOTTOM - TOP), 1)

    def ticks(self) -> Iterator[Tick]:
        """Yield those within the axis."""
        shown = (part for part in _PARTS if -math.log10(1 - part) <= self._nines)
        return (Tick(self.y(part), f"{100 * part:g} %") for part in shown)


def _x(at: float, last: float) -> float:
    return round(LEFT + at / last * (RIGHT - LEFT), 1)


def _lines(pool: PoolGrace, height: _Height, last: float) -> tuple[str, str]:
    """Return the curve, and the band around it; empty where nothing has settled."""
    curve = pool.curve
    if curve is None or not curve.at:
        return "", ""
    stopped, low, high = (
        _stairs(curve.at, [height.y(part) for part in parts], last)
        for parts in (curve.stopped, curve.low, curve.high)
    )
    return polyline(stopped), polyline([*high, *reversed(low)])


def _stairs(at: Sequence[Micros], ys: Sequence[float], last: float) -> list[Point]:
    """Return the corners of a curve that stays until it steps, up to the right edge."""
    corners = [(float(LEFT), float(BOTTOM))]
    for instant, y in zip(at, ys, strict=True):
        if instant > last:
            break
        x = _x(instant, last)
        if x - corners[-1][0] < _FINEST and len(corners) > 1:
            corners[-1] = (corners[-1][0], y)
            continue
        corners += [(x, corners[-1][1]), (x, y)]
    return [*corners, (float(RIGHT), corners[-1][1])]


def _flags(pool: PoolGrace, grace: Micros | None, last: float) -> Iterator[Flag]:
    word = "proposal" if pool.measured is None else "grace"
    numbers = (("estimate", pool.estimate), ("at most", pool.upper), (word, grace))
    for (text, number), row in zip(numbers, _FLAG_ROWS, strict=True):
        if number is not None:
            x = _x(number, last)
            kind = "grace" if text == word else text.replace(" ", "-")
            shown = about(number) if text == "estimate" else length(number)
            yield Flag(kind, x, row, f"{text} {shown}", x > RIGHT - _LABEL)


def _across(last: float) -> Iterator[Tick]:
    span = last / SECOND
    for at in multiples(0, span, round_step(span, _TICKS)):
        yield Tick(_x(at * SECOND, last), f"{at:g}")
