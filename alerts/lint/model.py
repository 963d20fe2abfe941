"""What is looked at (expressions, rules, rule files), what is known, and what a check says."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

from promql_parser import Expr

from orphanwatch.alerts.alert import Severity
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import Micros
from orphanwatch.exporter.names import Kind


class Problem(NamedTuple):
    """What is wrong, and what to write instead."""

    wrong: str
    remedy: str


class Finding(NamedTuple):
    """A problem, which check found it, and where."""

    file: str
    place: str
    check: str
    problem: Problem

    def __str__(self) -> str:
        """Return the finding as one line."""
        wrong, remedy = self.problem
        return f"{self.file}: {self.place}: [{self.check}] {wrong}; {remedy}"


class Role(StrEnum):
    """What an expression is for; some checks depend on it."""

    ALERT = "alert"
    RECORDING = "recording"
    WORDS = "words"
    """A query within an alert's description."""
    PANEL = "panel"
    MARKS = "marks"
    """What a dashboard asks for its variables and its marks."""

    @property
    def is_rule(self) -> bool:
        """Return whether a rule evaluates it."""
        return self in {Role.ALERT, Role.RECORDING}


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """One PromQL expression and its place."""

    file: str
    place: str
    text: str
    read: Expr | None
    """None where the text does not parse."""
    role: Role
    hold: Micros
    """The ``for`` of the alert that evaluates it, 0 without."""

    @property
    def tree(self) -> Expr:
        """Return the parsed expression; raises ``ValueError`` where the text does not parse."""
        if self.read is None:
            raise ValueError(f"{self.place} does not parse")
        return self.read


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One alerting or recording rule as it stands in a file."""

    name: str
    is_alert: bool
    expression: Expression
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    words: tuple[Expression, ...]
    """The queries within the annotations."""

    @property
    def file(self) -> str:
        """Return the file it stands in."""
        return self.expression.file

    @property
    def place(self) -> str:
        """Return what a finding calls it."""
        return self.expression.place

    @property
    def severity(self) -> Severity | None:
        """Return its severity; None where it names none of ours."""
        stated = self.labels.get("severity")
        return Severity(stated) if stated in set(Severity) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One rule group."""

    file: str
    name: str
    interval: Micros | None
    """None where the server's default holds."""
    rules: tuple[Rule, ...]

    @property
    def place(self) -> str:
        """Return what a finding calls it."""
        return f"group {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFile:
    """One file of rules."""

    file: str
    groups: tuple[Group, ...]

    @property
    def place(self) -> str:
        """Return what a finding calls it."""
        return "all groups"

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Return the rules of all groups, in their order."""
        return tuple(rule for group in self.groups for rule in group.rules)


class Sampled(NamedTuple):
    """What is known of a sample name of ours."""

    kind: Kind
    """A histogram's buckets, sums and counts are counters."""
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What the checks hold an expression against."""

    config: Config
    samples: Mapping[str, Sampled]
    """Every sample name that the exporter shows."""
    values: Mapping[str, frozenset[str]]
    """The values of the labels whose values are a closed set."""
    recorded: Mapping[str, Expr]
    """What each recording rule records."""
    foreign: frozenset[str] | None
    """Which names of others may be read; None where any may be."""


Subject = TypeVar("Subject")


class Check(NamedTuple, Generic[Subject]):
    """One check: the name that a finding shows, and the function that looks."""

    name: str
    look: Callable[[Subject, Facts], Iterator[Problem]]

    @property
    def says(self) -> str:
        """Return what the check demands, in one sentence: the first line of its function."""
        return (self.look.__doc__ or "").strip().splitlines()[0]
