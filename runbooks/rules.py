"""What a page needs to know of the alert it belongs to; the alerts' own catalogue fits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import format_duration
from orphanwatch.runbooks.markdown import block, plain


class PageRule(Protocol):
    """One Prometheus rule of an alert."""

    @property
    def expr(self) -> str:
        """The PromQL that raises it."""

    @property
    def hold(self) -> int:
        """How long the expression must hold, in microseconds."""

    @property
    def severity(self) -> str:
        """Critical, warning or info."""

    @property
    def description(self) -> str:
        """What the pager shows, with Prometheus' own templates in it."""

    @property
    def time_to_page(self) -> int:
        """The worst case from the fact to the firing alert, in microseconds."""


class PageRecording(Protocol):
    """One recording rule that the rules of an alert read."""

    @property
    def record(self) -> str:
        """Its name."""

    @property
    def expr(self) -> str:
        """The PromQL that is recorded."""


class PageStory(Protocol):
    """One story that the rules are tested with."""

    @property
    def name(self) -> str:
        """What happens in it, and what the alert does."""


class PageAlert(Protocol):
    """An alert: its name, which is its page's name too, its words and its rules."""

    @property
    def name(self) -> str:
        """The alert's name."""

    @property
    def severity(self) -> str:
        """The highest of its rules."""

    @property
    def summary(self) -> str:
        """One fixed sentence."""

    @property
    def rules(self) -> Callable[[Config], Sequence[PageRule]]:
        """What gives the rules for a configuration."""

    @property
    def recordings(self) -> Callable[[Config], Sequence[PageRecording]]:
        """What gives the recording rules that they read."""

    @property
    def cases(self) -> Callable[[Config], Sequence[PageStory]]:
        """What gives the stories that prove the rules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleText:
    """A rule as its page shows it: every field is finished Markdown."""

    expr: str
    hold: str
    severity: str
    description: str
    time_to_page: str


def rule_texts(config: Config, alert: PageAlert) -> tuple[RuleText, ...]:
    """Return the rules of an alert, ready for its page."""
    return tuple(
        RuleText(
            expr=block(rule.expr, "promql"),
            hold=format_duration(rule.hold),
            severity=str(rule.severity),
            description=block(rule.description, "text"),
            time_to_page=format_duration(rule.time_to_page),
        )
        for rule in alert.rules(config)
    )


def recording_texts(config: Config, alert: PageAlert) -> tuple[str, ...]:
    """Return the recording rules of an alert, each as a block that names it."""
    return tuple(
        block(f"# {recording.record}\n{recording.expr}", "promql")
        for recording in alert.recordings(config)
    )


def stories(config: Config, alert: PageAlert) -> tuple[str, ...]:
    """Return what the tests of an alert's rules play, one sentence each."""
    return tuple(dict.fromkeys(plain(case.name) for case in alert.cases(config)))
