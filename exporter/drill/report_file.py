"""The files that ``drill run --report`` writes and ``drill report`` reads, and does not trust."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from orphanwatch.exporter.drill.report import DrillReport, printable
from orphanwatch.exporter.errors import DrillError

_MOST_PROBLEMS: Final = 8
_LONGEST_KEY: Final = 100
_ONE: Final = TypeAdapter(DrillReport)
_MANY: Final = TypeAdapter(tuple[DrillReport, ...])


class Filed(NamedTuple):
    """A report, and the file that it stands in."""

    file: str
    """By its name alone where no other file has the same."""
    report: DrillReport

    @property
    def name(self) -> str:
        """What was drilled, as ``drill run`` calls it."""
        return str(self.report.fault or f"{self.report.mode} baseline")


def read_reports(files: Sequence[Path]) -> tuple[Filed, ...]:
    """Return every report of every file, in their order.

    Raises ``DrillError`` that names the file, and each key that is wrong in it.
    """
    names = Counter(file.name for file in set(files))
    return tuple(
        Filed(printable(file.name if names[file.name] == 1 else str(file)), report)
        for file in files
        for report in _read(file)
    )


def _read(file: Path) -> tuple[DrillReport, ...]:
    try:
        text = file.read_bytes()
    except OSError as error:
        raise DrillError(f"{file}: can't be read: {error.strerror}") from error
    try:
        if not text.lstrip().startswith(b"["):
            return (_ONE.validate_json(text, strict=True),)
        reports = _MANY.validate_json(text, strict=True)
    except ValidationError as error:
        problems = error.errors(include_input=False, include_url=False, include_context=False)
        raise DrillError("\n".join(_lines(file, problems))) from None
    if not reports:
        raise DrillError(f"{file}: is an empty list; orphanwatch drill run --report writes reports")
    return reports


def _lines(file: Path, problems: Sequence[ErrorDetails]) -> Iterator[str]:
    for problem in problems[:_MOST_PROBLEMS]:
        key = printable(".".join(map(str, problem["loc"])))[:_LONGEST_KEY]
        yield f"{file}: {key or 'is no drill report'}: {printable(problem['msg'])}"
    if len(problems) > _MOST_PROBLEMS:
        yield f"{file}: and {len(problems) - _MOST_PROBLEMS} more"
    yield "give files as orphanwatch drill run --report writes them"


def write_report(file: Path, document: object) -> None:
    """Write what a drill found as JSON; raises ``DrillError`` where that can't be."""
    try:
        file.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise DrillError(
            f"{file} can't be written: {error.strerror}; choose another --report"
        ) from error
