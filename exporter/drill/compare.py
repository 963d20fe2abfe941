"""Drills side by side: which of their numbers can be compared, and a table of them."""

import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

from orphanwatch.exporter.drill.report import DrillReport, TaskReport
from orphanwatch.exporter.drill.report_file import Filed

UNKNOWN: Final = "unknown"
NONE: Final = "-"
"""There is no such thing: no cancel, no hop, no counterpart."""

_WIDEST_CELL: Final = 16
_LONGEST_CELL: Final = 80
_GAP: Final = 2


class Pair(NamedTuple):
    """One number, as the exporter showed it and by the drill's own record."""

    name: str
    seen: str
    truth: str
    is_same: bool = True
    """False where both are known and differ."""
    is_seen: bool = True
    """Whether the exporter shows such a number at all."""
    is_recorded: bool = True
    """Whether the drill's record has it."""


class Row(NamedTuple):
    """One line of the table: a name, and a cell for each report."""

    name: str
    cells: tuple[str, ...]


def number(value: float | None) -> str:
    """Return a number with its thousands apart, or the word for an unknown one."""
    return UNKNOWN if value is None else f"{value:,.12g}"


def yes_no(*, value: bool) -> str:
    """Return the word."""
    return "yes" if value else "no"


def pairs(report: DrillReport) -> tuple[Pair, ...]:
    """Return every number of a report, the telemetry beside the truth."""
    seen, truth = report.telemetry, report.truth
    both = (
        ("orphan_token_delta", seen.orphan_token_delta, truth.orphan_token_delta),
        ("duplicate_in_flight", seen.duplicate_in_flight, truth.duplicate_in_flight),
    )
    alone = (
        ("unmatched_tokens", seen.unmatched_tokens),
        ("retries_without_retry_id", seen.retries_without_retry_id),
        ("lease_age_ms", seen.lease_age_ms),
        ("deadline_slack_ms", seen.deadline_slack_ms),
    )
    return (
        Pair("hop", report.hop or NONE, truth.hop or NONE, report.hop == truth.hop),
        *(Pair(name, number(a), number(b), a is None or a == b) for name, a, b in both),
        Pair("orphan_leases", NONE, number(truth.orphan_leases), is_seen=False),
        *(Pair(name, number(value), NONE, is_recorded=False) for name, value in alone),
        Pair("blind", yes_no(value=seen.blind), NONE, is_recorded=False),
    )


def warning(filed: Sequence[Filed]) -> str:
    """Return why the reports can't be compared, in a sentence; empty where they can be."""
    digests = list(dict.fromkeys(each.report.knobs_digest for each in filed))
    if len(digests) > 1:
        return (
            f"These drills had different knobs ({', '.join(digests)}): "
            "their numbers can't be compared."
        )
    if other_knobs(filed):
        return (
            f"These reports say the same digest of their knobs ({digests[0]}) but other knobs: "
            "one was edited, so their numbers can't be compared."
        )
    return ""


def other_knobs(filed: Sequence[Filed]) -> tuple[Row, ...]:
    """Return the knobs that are not the same in all reports."""
    names = dict.fromkeys(name for each in filed for name in each.report.knobs)
    values = ((name, [each.report.knobs.get(name) for each in filed]) for name in names)
    return tuple(
        Row(name, tuple(NONE if value is None else number(value) for value in found))
        for name, found in values
        if len(set(found)) > 1
    )


def table(filed: Sequence[Filed], width: int) -> Iterator[str]:
    """Yield the lines of a table with a column for each report.

    Columns that don't fit into ``width`` signs stand underneath, under the same names.
    """
    said = warning(filed)
    if said:
        yield from (*textwrap.wrap(said, width), "")
    groups = _groups(filed)
    rows = [row for group in groups for row in group]
    first = max(len(row.name) for row in rows)
    widths = [
        max(len(line) for row in rows for line in _wrapped(row.cells[column]))
        for column in range(len(filed))
    ]
    for number_of_block, block in enumerate(_blocks(widths, width - first)):
        if number_of_block:
            yield ""
        for number_of_group, group in enumerate(groups):
            if number_of_group:
                yield ""
            for row in group:
                yield from _lines(row, first, [(column, widths[column]) for column in block])
    for each in filed:
        for sentence in each.report.truth.disagreements:
            yield f"\n{each.name} ({each.file}): the exporter and the drill disagree: {sentence}"


def _groups(filed: Sequence[Filed]) -> tuple[tuple[Row, ...], ...]:
    reports = [each.report for each in filed]
    head = (
        Row("drill", tuple(each.name for each in filed)),
        Row("file", tuple(each.file for each in filed)),
        Row("started", tuple(report.started_at.replace("T", " ") for report in reports)),
        Row("mode", tuple(report.mode for report in reports)),
        Row("seed", tuple(str(report.seed) for report in reports)),
        Row("knobs", tuple(report.knobs_digest for report in reports)),
    )
    answer = (
        Row("verdict", tuple(report.verdict for report in reports)),
        Row("promoted", tuple(yes_no(value=report.promoted) for report in reports)),
    )
    tasks = tuple(
        Row(name, tuple(cells))
        for name, *cells in zip(_TASK_ROWS, *(_tasks(report) for report in reports), strict=True)
    )
    knobs = tuple(Row(f"knob {row.name}", row.cells) for row in other_knobs(filed))
    groups = (head, answer, tuple(_pair_rows(reports)), tasks, knobs)
    return tuple(group for group in groups if group)


def _pair_rows(reports: Sequence[DrillReport]) -> Iterator[Row]:
    for found in zip(*(pairs(report) for report in reports), strict=True):
        name = found[0].name
        if found[0].is_seen:
            yield Row(name, tuple(pair.seen for pair in found))
        if found[0].is_recorded:
            really = "  really" if found[0].is_seen else f"{name}, really"
            yield Row(really, tuple(pair.truth for pair in found))


_TASK_ROWS: Final = (
    "cancelled tasks",
    "in flight past the cutoff",
    "decoded at the cancel",
    "decoded at the deadline",
    "propagation_s",
    "orphan tokens of all",
)


def _tasks(report: DrillReport) -> tuple[str, ...]:
    """Return the cells of ``_TASK_ROWS``."""
    left = [task for task in report.tasks if task.cancel_at_s is not None]
    in_flight = sum(task.in_flight_after_cancel is True for task in left)
    return (
        f"{len(left)} of {len(report.tasks)}",
        number(in_flight),
        _span([task.decode_tokens_at_cancel for task in left]),
        _span([task.decode_tokens_at_deadline for task in left]),
        _propagation(left),
        number(sum(task.orphan_tokens for task in report.tasks)),
    )


def _propagation(left: Sequence[TaskReport]) -> str:
    """Return how long cancels took; a cancel that never arrived is told apart."""
    known = [task.propagation_s for task in left if task.propagation_s is not None]
    never = len(left) - len(known)
    parts = [_span(known)] if known else []
    if never:
        parts.append(f"{never} never")
    return ", ".join(parts) or NONE


def _span(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return NONE
    least, most = min(known), max(known)
    return number(least) if least == most else f"{number(least)} to {number(most)}"


def _blocks(widths: Sequence[int], room: int) -> Iterator[list[int]]:
    """Yield the columns that fit side by side, at least one at a time."""
    block: list[int] = []
    used = 0
    for column, width in enumerate(widths):
        if block and used + _GAP + width > room:
            yield block
            block, used = [], 0
        block.append(column)
        used += _GAP + width
    yield block


def _lines(row: Row, first: int, columns: Sequence[tuple[int, int]]) -> Iterator[str]:
    cells = [_wrapped(row.cells[column]) for column, _ in columns]
    for number_of_line, parts in enumerate(zip_longest(*cells, fillvalue="")):
        line = f"{'' if number_of_line else row.name:<{first}}"
        for part, (_, width) in zip(parts, columns, strict=True):
            line += f"{part:>{width + _GAP}}"
        yield line.rstrip()


def _wrapped(cell: str) -> list[str]:
    if len(cell) > _LONGEST_CELL:
        cell = f"{cell[: _LONGEST_CELL - 1]}…"
    return textwrap.wrap(cell, _WIDEST_CELL, break_on_hyphens=False) or [""]
