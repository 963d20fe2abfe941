"""Tokens that burn the waste budget, scrape by scrape, and the alert that they must raise."""

from decimal import Decimal
from typing import Final

from orphanwatch.alerts import budget, timing
from orphanwatch.alerts.alert import Firing
from orphanwatch.alerts.budget import Burn
from orphanwatch.alerts.burn_rules import WINDOW, pools_sentence
from orphanwatch.alerts.templates import humanized
from orphanwatch.alerts.traces import Series, Trace, climb, lead
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import SECOND, Micros, format_duration

SPEND: Final = 100
"""All tokens per second, in most of the stories."""


def _labels(pool: str, basis: names.Basis) -> dict[str, str]:
    return {
        names.POOL: pool,
        names.CAUSE: str(names.Cause.CLIENT_CANCEL),
        names.BASIS: str(basis),
    }


def series_of(
    spend: Trace, tokens: Trace, pool: str = "overflow", basis: names.Basis = names.Basis.CHARGED
) -> tuple[Series, ...]:
    """Return what an exporter shows of all tokens, and of the orphan ones of a pool."""
    return (
        Series(names.SPEND_TOKENS_PER_SECOND, spend),
        Series(names.TOKENS_TOTAL, tokens, _labels(pool, basis)),
    )


def _seconds(length: Micros) -> Decimal:
    return Decimal(length) / SECOND


def scrapes_held(config: Config, burn: Burn) -> int:
    """Return how many scrapes a pair must be above until it fires."""
    return timing.scrapes(config, budget.hold(config, burn))


def trickle_of(config: Config, burn: Burn) -> int:
    """Return tokens for each scrape that keep a pair's short window above, and no faster pair's."""
    wasted = budget.limit(config, burn) * SPEND * Decimal("1.5")
    return round(wasted * _seconds(config.scrape_interval))


def allowance(config: Config, burn: Burn) -> Decimal:
    """Return how many tokens may be wasted within the long window at ``SPEND``."""
    return budget.limit(config, burn) * _seconds(burn.long) * SPEND


def together(config: Config) -> tuple[tuple[Burn, ...], ...]:
    """Return the pairs, those that allow the same amount together: hours are played once."""
    found: dict[Decimal, list[Burn]] = {}
    for burn in budget.burns(config):
        found.setdefault(allowance(config, burn), []).append(burn)
    return tuple(map(tuple, found.values()))


def with_room(config: Config) -> tuple[Burn, ...]:
    """Return the fastest pair, if it can be reached and its long window has room for a story."""
    return tuple(
        burn
        for burn in budget.burns(config)
        if burn.factor == budget.BURNS[0].factor and burn.long > 2 * budget.hold(config, burn)
    )


def alert_for(config: Config, burn: Burn, **wasted: float) -> tuple[Firing, ...]:
    """Return the alert for tokens wasted within the long window, by pool, the most first."""
    long = float(_seconds(burn.long))
    spoken = "".join(
        f" Pool {pool} wastes {humanized(tokens / long)} tokens per second."
        for pool, tokens in wasted.items()
    )
    return (
        Firing(
            labels={WINDOW: format_duration(burn.long)},
            value=sum(wasted.values()) / long / SPEND,
            words={pools_sentence(config, burn): spoken},
            severity=burn.severity,
        ),
    )


def burns_fast(config: Config, burn: Burn) -> Trace:
    """Return a counter that burns well above the limit till it fires."""
    burst = round(allowance(config, burn) * 2)
    return lead(0) + climb(burst, trickle_of(config, burn), scrapes_held(config, burn) + 3)
