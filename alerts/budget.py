"""The waste budget: how much of all tokens may be orphan over 30 days, and how fast it may burn.

Windows and factors are those of "multiwindow, multi-burn-rate alerts" in *The Site Reliability
Workbook*, chapter 5 "Alerting on SLOs", with the pair for one day that kubernetes-mixin and Sloth
add. A factor of 1 spends the budget in just its period; 14.4 over 1 h spends 2 % of it.
"""

from decimal import Decimal
from typing import Final, NamedTuple

from orphanwatch.alerts import timing
from orphanwatch.alerts.alert import Severity
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import Micros, micros

PERIOD: Final = micros(30 * 86400)
"""What the budget is for."""

LONGEST_HOLD: Final = micros(3600)
_HOUR: Final = 3600


class Burn(NamedTuple):
    """One pair of windows: the long one shows how much was wasted, the short one that it lasts."""

    factor: Decimal
    """How many times too fast."""
    long: Micros
    short: Micros
    severity: Severity


BURNS: Final = (
    Burn(Decimal("14.4"), micros(_HOUR), micros(300), Severity.CRITICAL),
    Burn(Decimal(6), micros(6 * _HOUR), micros(1800), Severity.CRITICAL),
    Burn(Decimal(3), micros(24 * _HOUR), micros(2 * _HOUR), Severity.WARNING),
    Burn(Decimal(1), micros(72 * _HOUR), micros(6 * _HOUR), Severity.WARNING),
)


def burns(config: Config) -> tuple[Burn, ...]:
    """Return the pairs that can be reached, no window shorter than four scrapes.

    With a generous budget some factor stands for more than all tokens: its rule could never fire.
    """
    least = timing.lookback(config)
    return tuple(
        burn._replace(long=max(burn.long, least), short=max(burn.short, least))
        for burn in BURNS
        if limit(config, burn) < 1
    )


def windows(config: Config) -> tuple[Micros, ...]:
    """Return every window once, the shortest first."""
    return tuple(sorted({length for burn in burns(config) for length in (burn.long, burn.short)}))


def limit(config: Config, burn: Burn) -> Decimal:
    """Return the part of all tokens above which the budget burns too fast, exactly."""
    return burn.factor * Decimal(repr(config.thresholds.waste_budget_ratio))


def gone_after(burn: Burn) -> Micros:
    """Return how long a whole budget lasts at the factor."""
    return Micros(int(PERIOD / burn.factor))


def hold(config: Config, burn: Burn) -> Micros:
    """Return how long both windows must be above: longer than one straggler shows in the short one.

    At low traffic a single orphan is a large part of all tokens, and no page: its charges may
    last for a delta window, and each then shows for as long as the short window is. A ticket
    waits for an hour at most: it may be one straggler's, where that alone is days of budget.
    """
    shown = burn.short + timing.charge_window(config) + timing.settling(config)
    return timing.whole_scrapes(config, min(shown, LONGEST_HOLD))


def time_to_page(config: Config, burn: Burn) -> Micros:
    """Return the longest time to the page, for waste just above the factor: the long window."""
    return timing.time_to_page(config, hold(config, burn), before=burn.long + config.lag)
