"""What promtool plays at once: cases, and the alerts whose rules they are played against.

Every rule against every case is many times the work, and proves no more of a rule: a case says
of no other alert what it does.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple

from orphanwatch.alerts.alert import Alert, Case, Variation
from orphanwatch.alerts.stories import stories
from orphanwatch.exporter.config import Config

WHOLE_STACK: Final = "whole stack"


class Part(NamedTuple):
    """Cases that are played together, each in its variations."""

    subject: str
    """What the cases are about: an alert's name, or the whole stack."""
    alerts: tuple[Alert, ...]
    """The alerts that the cases look at: their rules, and what these record, are enough."""
    cases: tuple[Case, ...]

    def __str__(self) -> str:
        """Return the part as ``alerts test`` names it."""
        return f"{self.subject}, {len(self.cases)} case{'' if len(self.cases) == 1 else 's'}"

    @property
    def scrapes(self) -> int:
        """Return how many scrapes are played, once for each alert: so long it takes."""
        played = (len(case.variations) * _length(case) for case in self.cases)
        return sum(played) * len(self.alerts)

    def plain(self) -> "Part":
        """Return the part with each case in one variation."""
        once = (replace(case, variations=(Variation.PLAIN,)) for case in self.cases)
        return self._replace(cases=tuple(once))


def parts(config: Config, alerts: tuple[Alert, ...]) -> tuple[Part, ...]:
    """Return a part for each alert that has rules, and the healthy stacks against all of them."""
    return (*_own(config, alerts), Part(WHOLE_STACK, alerts, stories(config, alerts)))


def part(config: Config, alert: Alert, alerts: tuple[Alert, ...]) -> Part:
    """Return an alert's own cases, against its rules and those of others that they name."""
    cases = alert.cases(config)
    named = {check.alert for case in cases for check in case.checks}
    named |= {name for case in cases for name in case.never}
    return Part(
        alert.name, tuple(one for one in alerts if one is alert or one.name in named), cases
    )


def _own(config: Config, alerts: tuple[Alert, ...]) -> Iterator[Part]:
    return (part(config, alert, alerts) for alert in alerts if alert.rules(config))


def _length(case: Case) -> int:
    return max((len(series.trace) for series in case.series), default=0)
