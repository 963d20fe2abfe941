"""What an alert is: its name and words, the rules that raise it, the cases that prove them."""

from collections.abc import Callable
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """One alert that must be there: its labels, and what its description's templates become."""

    labels: dict[str, str] = field(default_factory=dict)
    value: float = 1.0
    words: dict[str, str] = field(default_factory=dict)
    """Further templates in the description, each with the text that it becomes."""
    severity: Severity = Severity.CRITICAL


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One story that promtool plays against the rules, once in each variation."""

    name: str
    series: tuple[Series, ...]
    checks: tuple[Check, ...] = ()
    never: tuple[str, ...] = ()
    """Alerts that fire at no time in the whole story."""
    variations: tuple[Variation, ...] = tuple(Variation)


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
    cases: Callable[[Config], tuple[Case, ...]]
