"""What an alert is: its name and words, the rules that raise it, the cases that prove them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from orphanwatch.alerts.traces import Series
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import Micros


class Severity(StrEnum):
    """What a person does about it: now, in working time, or when reading anyway."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class Bearing(StrEnum):
    """What an alert says, which decides its rule group and whom it inhibits."""

    EVIDENCE = "evidence"
    """Orphan work exists: capacity alerts are inhibited, nobody scales into the waste."""
    BLINDNESS = "detector"
    """The detector can't see: notices and capacity alerts are inhibited, evidence never."""
    FAULT = "faults"
    """Something is set up so that orphans will come, or won't be seen."""
    NOTICE = "notices"
    """Context that means nothing while the detector is blind."""
    BUDGET = "budget"
    """What waste has added up to over hours and days: it says nothing of now, and mutes nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """One Prometheus recording rule, computed before the alerting rules of its group."""

    record: str
    """Its name, ``level:metric:operations``: the labels that are left, the metric, what was done.

    A rule reads it as ``select(config, recording.record)``, like any other series.
    """
    expr: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One Prometheus alerting rule. An alert has one, or one for each severity and window."""

    expr: str
    hold: Micros
    """The rule's ``for``: how long the expression must hold."""
    severity: Severity
    description: str
    """A template for Prometheus: names the object and the number, says what to do."""
    time_to_page: Micros
    """The longest time from the fact to the firing alert, all intervals at their worst."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Constants that tell two rules of one severity apart, such as ``window: 1h``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """One alert that must be there: its labels, and what its description's templates become.

    Severity and labels also find the rule that raises it. The labels of ``selector`` are added.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    value: float = 1.0
    words: Mapping[str, str] = field(default_factory=dict)
    """Further templates in the description, each with the text that it becomes."""
    severity: Severity = Severity.CRITICAL
    by_absence: bool = False
    """True where ``absent_over_time`` raises it, which knows labels by equality alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What one alert does at one scrape of a case, counted from 0."""

    alert: str
    scrape: int
    firing: tuple[Firing, ...] = ()
    """Empty means that the alert is silent then."""


class Variation(StrEnum):
    """How the scrapes of a case go."""

    PLAIN = "every scrape arrives"
    MISSED = "every fourth scrape is missed"
    REPLICAS = "two replicas"


class Kind(StrEnum):
    """What a case tries on a rule. Every alert has them all, or says why one does not apply.

    Missed scrapes and two replicas are not among them: each case is played in those variations.
    """

    JUST_BELOW = "just below the threshold"
    AT_THRESHOLD = "exactly at the threshold"
    JUST_ABOVE = "just above the threshold"
    COUNTER_RESET = "a counter starts again"
    BORN = "a series is born with its first value"
    STALE = "the series goes away"
    RESTART = "the exporter restarts"
    SOURCE_LOST = "the source can't be read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One story that promtool plays against the rules, once in each variation."""

    name: str
    series: tuple[Series, ...]
    checks: tuple[Check, ...] = ()
    never: tuple[str, ...] = ()
    """Alerts that fire at no time in the whole story."""
    variations: tuple[Variation, ...] = tuple(Variation)
    kinds: tuple[Kind, ...] = ()


def no_recordings(config: Config) -> tuple[Recording, ...]:  # noqa: ARG001  (the signature of the others)
    """Return the recording rules of an alert that needs none."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert of the catalogue; runbook, panel and links are found by its name."""

    name: str
    severity: Severity
    """The highest that its rules use."""
    bearing: Bearing
    summary: str
    """A constant sentence of less than 60 characters."""
    rules: Callable[[Config], tuple[Rule, ...]]
    """None for a config that leaves the alert nothing to look at; then it has no case either."""
    cases: Callable[[Config], tuple[Case, ...]]
    recordings: Callable[[Config], tuple[Recording, ...]] = no_recordings
    excused: Mapping[Kind, str] = field(default_factory=dict)
    """The kinds of case that do not apply, each with the reason why."""
