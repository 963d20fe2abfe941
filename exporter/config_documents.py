"""Stores whose records are JSON documents: the lines of a log, or a list asked for over HTTP."""

from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from orphanwatch.exporter.config_source import HttpAccess, HttpUrl, Source
from orphanwatch.exporter.config_values import Duration
from orphanwatch.exporter.document_rules import Rule, rule_problems
from orphanwatch.exporter.instants import micros

DERIVED: Final = ("started_at", "ended_at", "duration", "deadline_after")
"""What a document may say of a request besides the canonical columns."""

Unit = Literal["s", "ms", "us", "ns"]

Paths = Annotated[str, Field(min_length=1)] | Annotated[list[str], Field(min_length=1)]
"""The path of a field, or several: the first that the document states counts."""


def _read_rules(rules: list[Rule]) -> list[Rule]:
    problems = [problem for rule in rules for problem in rule_problems(rule)]
    if problems:
        raise ValueError("; ".join(problems))
    return rules


Rules = Annotated[list[Rule], AfterValidator(_read_rules)]
"""Rules that can match something; a document matches them where it matches one."""


class DocumentSource(Source):
    """Which fields of a document say what."""

    columns: dict[str, Paths] = Field(default={})
    """Canonical column to the path of a field: ``a.b`` is ``a.b`` itself, or ``b`` within ``a``.

    Besides the canonical columns: ``started_at``, ``ended_at`` and ``duration`` of a request, of
    which any two tell the third, and ``deadline_after``, the time that it was given."""
    where: Rules = Field(default=[])
    """Documents that match none of these are not ours; no rule at all lets everything in."""
    duration_unit: Unit = "s"
    deadline_unit: Unit = "s"
    """The unit of ``deadline_after``."""
    cancelled_when: Rules = Field(default=[])
    """The request ended because nobody waited for it any more: its end is ``cancelled_at``."""
    failed_when: Rules = Field(default=[])
    """The request ended with an error."""

    @model_validator(mode="after")
    def _ends_are_told(self) -> Self:
        if self.cancelled_when and not self.tells_ends:
            raise ValueError(
                "cancelled_when: needs the end of a request; map ended_at, or started_at and "
                "duration, under columns:"
            )
        if "deadline_after" in self.columns and not self.tells_starts:
            raise ValueError(
                "columns.deadline_after: counts from the start of a request; map started_at, or "
                "ended_at and duration, too"
            )
        return self

    @property
    def tells_ends(self) -> bool:
        """Whether a document says when its request ended."""
        return "ended_at" in self.columns or {"started_at", "duration"} <= self.columns.keys()

    @property
    def tells_starts(self) -> bool:
        """Whether a document says when its request started."""
        return bool({"started_at", "submitted_at"} & self.columns.keys()) or (
            {"ended_at", "duration"} <= self.columns.keys()
        )


class JsonlSource(DocumentSource):
    """A log file with one JSON object a line."""

    type: Literal["jsonl"]
    path: str = Field(min_length=1)
    flush: Duration = micros(60)
    """How long after the end that it states a line may be written: the writer's buffer."""


class HttpJsonSource(DocumentSource, HttpAccess):
    """A JSON document asked for over HTTP: a list of records, or one record."""

    type: Literal["http_json"]
    url: HttpUrl
    list_path: str = ""
    """Where the list of records is within the answer; empty is the answer itself."""
    expects: list[Paths] = Field(default=[])
    """Fields that every record has, whether it is ours or not: one without can't be read."""
