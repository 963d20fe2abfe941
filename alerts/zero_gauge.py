"""Rules on a gauge that is zero in health, and the cases that prove them: most faults are so."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from orphanwatch.alerts import timing
from orphanwatch.alerts.alert import Case, Firing, Rule, Severity
from orphanwatch.alerts.gauge_cases import Gauge, gauge_cases
from orphanwatch.alerts.promql import equals, highest_seen
from orphanwatch.alerts.traces import Series, Trace
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import Micros
from orphanwatch.exporter.names import Family


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroGauge:
    """A gauge above zero, in any replica, is a fault that a person mends in working time."""

    alert: str
    family: Family
    hold: Callable[[Config], Micros]
    """The rule's ``for``."""
    pool: str = "overflow"
    """Whose series the cases show."""
    only: Mapping[str, str] = field(default_factory=dict)
    """The labels of which the rule takes one value alone."""

    def rule(self, config: Config, description: str, before: int = 0) -> Rule:
        """Return the rule; ``before`` is how long the fact may last until the gauge shows it."""
        hold = self.hold(config)
        matchers = [equals(label, value) for label, value in self.only.items()]
        return Rule(
            expr=f"{highest_seen(config, self.family, *matchers)} > 0",
            hold=hold,
            severity=Severity.WARNING,
            description=description,
            time_to_page=timing.time_to_page(config, hold, before=before),
        )

    def series(self, trace: Trace, **other: str) -> tuple[Series, ...]:
        """Return the gauge with this trace; ``other`` are labels with another value."""
        return (Series(self.family, trace, {**self._labels, **other}),)

    def firing(self, value: float) -> tuple[Firing, ...]:
        """Return what must fire at this value."""
        return (Firing(severity=Severity.WARNING, labels=self._labels, value=value),)

    def cases(self, config: Config) -> tuple[Case, ...]:
        """Return the standard cases: zero is silent, one fires after the hold."""
        return gauge_cases(
            config,
            Gauge(
                alert=self.alert,
                hold=self.hold(config),
                series=self.series,
                firing=self.firing,
                at=0,
                above=1,
            ),
        )

    @property
    def _labels(self) -> dict[str, str]:
        return {names.POOL: self.pool, **self.only}
