"""What a backtest says: pages of each rule, how much of the past it could see, and neighbours."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from orphanwatch.alerts.alert import Severity
from orphanwatch.alerts.backtest.history import LabelSet

WEEK: Final = 7 * 86400
SHORTEST: Final = 86400
"""Seconds of sight below which no weekly number is told: it would be made of chance."""

RESPONSE: Final = {
    Severity.CRITICAL: "page",
    Severity.WARNING: "ticket",
    Severity.INFO: "notice",
}
"""What an alert of a severity is to a person."""


class Fired(NamedTuple):
    """One alert that began to fire."""

    at: int
    """Seconds since 1970."""
    labels: LabelSet


def per_week(count: int | None, seen: int) -> float | None:
    """Return a count within some seconds of sight as a weekly number; None is unknown."""
    return None if count is None or seen < SHORTEST else count * WEEK / seen


class CurvePoint(NamedTuple):
    """One value of a setting, and how often its rule would have fired."""

    value: str
    is_current: bool
    fired: int | None
    """None is unknown: there was no sight."""
    per_week: float | None


class Curve(NamedTuple):
    """How often a rule fires, by the value of one setting."""

    setting: str
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One rule, replayed."""

    name: str
    labels: LabelSet
    """The constants that tell it from the alert's other rules."""
    severity: Severity
    hold: str
    step: int
    """Seconds between two evaluations."""
    seen: int
    """Seconds in which it could have spoken."""
    unseen: tuple[str, ...]
    """The metrics that it reads and that were never there."""
    fired: tuple[Fired, ...] | None
    """None is unknown: it never had sight."""
    days: tuple[int | None, ...]
    """Firings in each day of the replay, the last day last; None where it had no sight then."""
    curves: tuple[Curve, ...]

    @property
    def count(self) -> int | None:
        """How often it fired; None is unknown."""
        return None if self.fired is None else len(self.fired)

    @property
    def per_week(self) -> float | None:
        """How often it fires in a week of sight; None is unknown, or too little sight to tell."""
        return per_week(self.count, self.seen)

    @property
    def title(self) -> str:
        """Its name, with the constants."""
        told = ",".join(f"{label}={value}" for label, value in self.labels)
        return f"{self.name}{{{told}}}" if told else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtest:
    """A whole replay. Instants and lengths are seconds."""

    wanted: int
    """How long the past was to be."""
    start: int
    """Where the replay begins: with the first sample of the exporter, or the range."""
    end: int
    step: int
    seen: int
    """For how long of it the exporter was scraped."""
    assumed: str
    """What was taken for granted because no config was named; "" with one."""
    outcomes: tuple[Outcome, ...]

    @property
    def length(self) -> int:
        """Return how much of the past was replayed."""
        return self.end - self.start
