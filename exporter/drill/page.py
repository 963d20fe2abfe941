"""The page of a drill report: one HTML file that needs nothing else, no script, no request.

All decisions are made here and in ``curves``; the template has loops and words.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from orphanwatch.exporter.drill import curves
from orphanwatch.exporter.drill.compare import (
    NONE,
    UNKNOWN,
    Pair,
    Row,
    number,
    other_knobs,
    pairs,
    warning,
)
from orphanwatch.exporter.drill.curves import Curve, Scale
from orphanwatch.exporter.drill.faults import HOP_WORDS
from orphanwatch.exporter.drill.report import DrillReport, Outcome, TaskReport, verdict_of
from orphanwatch.exporter.drill.report_file import Filed
from orphanwatch.exporter.drill.session import PREFIX
from orphanwatch.exporter.version import VERSION

_RUN: Final = re.compile(rf"^{re.escape(PREFIX)}[0-9a-f]+-")
_LOOKS: Final = {
    Outcome.SHED: "good",
    Outcome.UNEXPECTED_SHED: "warn",
    Outcome.ORPHAN_DECODE: "bad",
    Outcome.CANCEL_MISSED: "bad",
}
_STAYED: Final = "client stayed"


class Cell(NamedTuple):
    """One shown value, and how it looks: ``good``, ``warn``, ``bad``, ``unknown``, ``none``."""

    text: str
    look: str = ""


_BLANK: Final = Cell("\N{EN DASH}", "none")


class Line(NamedTuple):
    """One line of a table."""

    name: str
    cells: tuple[Cell, ...]


class Card(NamedTuple):
    """One task: its name, what became of it, its numbers, its curve."""

    task_id: str
    name: str
    pool: str
    note: Cell
    verdict: Cell
    said: str
    """What the curve shows, for those who can't see it."""
    facts: tuple[Line, ...]
    curve: Curve


class Drill(NamedTuple):
    """One report."""

    name: str
    file: str
    verdict: Cell
    promoted: Cell
    hop: str
    disagreements: tuple[str, ...]
    meta: tuple[Row, ...]
    compared: tuple[Line, ...]
    """What both the exporter and the drill can say."""
    alone: tuple[Line, ...]
    """What the exporter alone shows."""
    summary: tuple[Cell, ...]
    knobs: tuple[Row, ...]
    cards: tuple[Card, ...]


def page(filed: Sequence[Filed]) -> str:
    """Return the page of some reports, those with the same knobs drawn on the same scale."""
    template = Environment(
        loader=PackageLoader("orphanwatch.exporter.drill"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template("report.html.j2")
    promoted = sum(each.report.promoted for each in filed)
    return template.render(
        drills=[_drill(each, _scale(each, filed)) for each in filed],
        answer=f"{promoted} of {len(filed)} {'drill' if len(filed) == 1 else 'drills'} promoted",
        warning=warning(filed),
        other_knobs=[Line(row.name, tuple(map(_cell, row.cells))) for row in other_knobs(filed)],
        box=curves,
        version=VERSION,
    )


def _scale(one: Filed, filed: Sequence[Filed]) -> Scale:
    alike = [each for each in filed if each.report.knobs == one.report.knobs]
    return Scale.of(task for each in alike for task in each.report.tasks)


def _drill(filed: Filed, scale: Scale) -> Drill:
    report = filed.report
    verdict = _verdict(report.verdict)
    promoted = Cell("✔ promoted", "good") if report.promoted else Cell("✖ not promoted", "bad")
    found = pairs(report)
    return Drill(
        name=filed.name,
        file=filed.file,
        verdict=verdict,
        promoted=promoted,
        hop=_hop(report),
        disagreements=report.truth.disagreements,
        meta=(
            Row("started", (report.started_at,)),
            Row("mode", (report.mode,)),
            Row("seed", (str(report.seed),)),
            Row("knobs", (report.knobs_digest,)),
        ),
        compared=tuple(Line(pair.name, _cells(pair)) for pair in found[1:] if pair.is_recorded),
        alone=tuple(Line(pair.name, _cells(pair)[:1]) for pair in found if not pair.is_recorded),
        summary=(
            verdict,
            promoted,
            _hop_cell(found[0]),
            *(cell for pair in found[1:3] for cell in _cells(pair)),
        ),
        knobs=tuple(Row(name, (number(value),)) for name, value in report.knobs.items()),
        cards=tuple(_cards(report, scale)),
    )


def _hop(report: DrillReport) -> str:
    seen, broken = report.hop, report.truth.hop
    if seen is None:
        said = "The exporter names no hop"
        return f"{said}, and none was broken." if broken is None else f"{said}: it was {broken}."
    said = f"The exporter names the hop {seen} ({HOP_WORDS[seen]})"
    if seen == broken:
        return f"{said}, the one that was broken."
    return f"{said}, but {'none was broken' if broken is None else f'it was {broken}'}."


def _cells(pair: Pair) -> tuple[Cell, Cell]:
    """Return what the exporter showed and what was; a difference is marked on the former."""
    if pair.seen == UNKNOWN:
        seen = Cell(UNKNOWN, "unknown")
    elif not pair.is_same:
        seen = Cell(f"≠ {pair.seen}", "bad")
    else:
        seen = _cell(pair.seen)
    return seen, _cell(pair.truth)


def _hop_cell(pair: Pair) -> Cell:
    if pair.is_same:
        return _cell(pair.seen)
    return Cell(f"≠ {_or_none(pair.seen)}, really {_or_none(pair.truth)}", "bad")


def _or_none(text: str) -> str:
    return "none" if text == NONE else text


def _cell(text: str) -> Cell:
    return _BLANK if text == NONE else Cell(text)


def _cards(report: DrillReport, scale: Scale) -> Iterator[Card]:
    first_of: dict[str, str] = {}
    for task in report.tasks:
        name = _short(task.task_id)
        first = first_of.setdefault(task.retry_id, name) if task.retry_id else name
        verdict = Cell(_STAYED) if task.cancel_at_s is None else _task_verdict(report, task)
        yield Card(
            task_id=task.task_id,
            name=name,
            pool=task.pool,
            note=_note(task, name, first),
            verdict=verdict,
            said=_said(task, name, verdict),
            facts=_facts(task),
            curve=scale.curve(task),
        )


def _note(task: TaskReport, name: str, first: str) -> Cell:
    if not task.retry_id:
        return Cell("no retry id", "warn")
    return Cell(f"retry of {first}" if first != name else _short(task.retry_id))


def _task_verdict(report: DrillReport, task: TaskReport) -> Cell:
    return _verdict(verdict_of(report.mode, (task,)))


def _verdict(verdict: Outcome) -> Cell:
    marks = {"good": "✔", "warn": "!", "bad": "✖"}
    return Cell(f"{marks[_LOOKS[verdict]]} {verdict}", _LOOKS[verdict])


def _facts(task: TaskReport) -> tuple[Line, ...]:
    at_cancel, took = task.decode_tokens_at_cancel, task.propagation_s
    never = _BLANK if task.cancel_at_s is None else Cell("never", "bad")
    orphan = Cell(number(task.orphan_tokens), "bad" if task.orphan_tokens else "")
    in_flight = task.in_flight_after_cancel
    facts = (
        ("prompt", Cell(number(task.prompt_tokens))),
        ("at cancel", _BLANK if at_cancel is None else Cell(number(at_cancel))),
        ("at deadline", Cell(number(task.decode_tokens_at_deadline))),
        ("orphan", orphan),
        ("stopped after", never if took is None else Cell(f"{number(took)} s")),
        (
            "past cutoff",
            _BLANK
            if in_flight is None
            else Cell("in flight" if in_flight else "gone", "bad" if in_flight else ""),
        ),
    )
    return tuple(Line(name, (cell,)) for name, cell in facts)


def _said(task: TaskReport, name: str, verdict: Cell) -> str:
    parts = [f"{number(task.decode_tokens_at_deadline)} tokens by the deadline"]
    if task.decode_tokens_at_cancel is not None:
        parts.insert(0, f"{number(task.decode_tokens_at_cancel)} tokens by the cancel")
        parts.append(f"{number(task.orphan_tokens)} orphan tokens")
    return f"{name}, {verdict.text}: {', '.join(parts)}."


def _short(text: str) -> str:
    """Return an id without what all ids of one drill begin with."""
    return _RUN.sub("", text)
