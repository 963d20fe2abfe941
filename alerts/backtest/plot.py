"""The picture of a backtest: one SVG, a block of bars for each rule and setting."""

from collections.abc import Iterator
from textwrap import wrap
from typing import Final, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from orphanwatch.alerts.alert import Severity
from orphanwatch.alerts.backtest.report import (
    CAVEAT,
    by_reason,
    headline,
    instant,
    length,
    said,
    shown_curves,
    titles,
)
from orphanwatch.alerts.backtest.results import Backtest, Curve, Outcome

WIDTH: Final = 720
LABEL_RIGHT: Final = 150
BAR_LEFT: Final = 162
BAR_WIDTH: Final = 380
ROW: Final = 22
_HEAD: Final = 104
_GAP: Final = 18
_FOOT: Final = 20
MOST_LETTERS: Final = 84
"""Of a note's line: it fits at the widest that a system's font runs."""


class Bar(NamedTuple):
    """One value of a setting."""

    y: int
    value: str
    width: float
    said: str
    is_current: bool


class Block(NamedTuple):
    """The bars of one rule and one setting, or lines of words in their place."""

    y: int
    title: str
    note: tuple[str, ...]
    bars: tuple[Bar, ...]


def picture(tested: Backtest) -> str:
    """Return the backtest as SVG; the same backtest gives the same bytes."""
    blocks = tuple(_blocks(tested))
    height = _bottom(blocks[-1]) + _FOOT if blocks else _HEAD
    environment = Environment(
        loader=PackageLoader("orphanwatch.alerts.backtest"),
        autoescape=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("backtest.svg.j2").render(
        width=WIDTH,
        height=height,
        label_right=LABEL_RIGHT,
        bar_left=BAR_LEFT,
        row=ROW,
        headlines=[headline(tested, one) for one in (Severity.CRITICAL, Severity.WARNING)],
        replayed=f"Replayed {length(tested.length)} up to {instant(tested.end)}",
        caveat=CAVEAT,
        blocks=blocks,
    )


def _blocks(tested: Backtest) -> Iterator[Block]:
    y = _HEAD
    unknown = by_reason(each for each in tested.outcomes if not shown_curves(each))
    for reason, outcomes in unknown.items():
        is_one = len(outcomes) == 1
        title = outcomes[0].title if is_one else f"{len(outcomes)} rules"
        note = reason if is_one else f"{reason}: {titles(outcomes)}"
        yield (block := Block(y, title, tuple(wrap(note, MOST_LETTERS)), ()))
        y = _bottom(block)
    for outcome in tested.outcomes:
        if any(outcome in alike for alike in unknown.values()):
            continue
        for block in _blocks_of(outcome, y):
            yield block
            y = _bottom(block)


def _blocks_of(outcome: Outcome, y: int) -> Iterator[Block]:
    curves = shown_curves(outcome)
    if not curves:
        yield Block(y, outcome.title, ("silent, at the neighbours too",), ())
    for curve in curves:
        block = Block(y, f"{outcome.title}, by {curve.setting}", (), tuple(_bars(curve, y)))
        yield block
        y = _bottom(block)


def _bars(curve: Curve, y: int) -> Iterator[Bar]:
    most = max(point.fired or 0 for point in curve.points)
    for place, point in enumerate(curve.points, start=1):
        share = (point.fired or 0) / most
        yield Bar(
            y=y + place * ROW,
            value=point.value,
            width=round(share * BAR_WIDTH, 1),
            said=said(point),
            is_current=point.is_current,
        )


def _bottom(block: Block) -> int:
    return block.y + ROW * (len(block.bars) + len(block.note) + 1) + _GAP
