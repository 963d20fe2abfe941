"""The stories that prove the rules of the waste budget."""

from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import Final

from orphanwatch.alerts import budget, timing
from orphanwatch.alerts.alert import Case, Check, Kind, Severity, Variation
from orphanwatch.alerts.budget import Burn
from orphanwatch.alerts.burn_rules import NAME
from orphanwatch.alerts.burn_traces import (
    SPEND,
    alert_for,
    allowance,
    burns_fast,
    scrapes_held,
    series_of,
    together,
    trickle_of,
    with_room,
)
from orphanwatch.alerts.orphan_tokens import reports_prorated
from orphanwatch.alerts.selector_labels import tells_jobs_apart
from orphanwatch.alerts.traces import ANOTHER_JOB, LEAD, Series, climb, flat, gone, lead, seen
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import SECOND, format_duration

_MARGIN: Final = Decimal("0.02")
"""How far above and below the limit the cases go."""


def _above_the_limit(config: Config, *pairs: Burn) -> Case:
    """Return waste that came at once, loads the long windows just above, and then goes on."""
    trickle = trickle_of(config, pairs[0])
    burst = round(allowance(config, pairs[0]) * (1 + _MARGIN))
    longest = scrapes_held(config, pairs[-1])
    fired = seen(LEAD + longest + 1)
    wasted = burst + trickle * (fired - LEAD)
    firing = (one for burn in pairs for one in alert_for(config, burn, overflow=wasted))
    length = longest + 6
    return Case(
        name=f"just above {_named(pairs)} fires",
        series=series_of(flat(SPEND, LEAD + length), lead(0) + climb(burst, trickle, length)),
        checks=(
            Check(alert=NAME, scrape=LEAD + scrapes_held(config, pairs[0]) - 2),
            Check(alert=NAME, scrape=fired, firing=tuple(firing)),
        ),
        variations=_variations(pairs[-1]),
        kinds=(Kind.JUST_ABOVE,),
    )


def _below_the_limit(config: Config, *pairs: Burn) -> Case:
    length = scrapes_held(config, pairs[-1]) + 6
    # A short window that outlasts the hold needs no more than the burst.
    lasts = all(burn.short > budget.hold(config, burn) for burn in pairs)
    trickle = 0 if lasts else trickle_of(config, pairs[0])
    burst = round(allowance(config, pairs[0]) * (1 - _MARGIN)) - trickle * length
    return Case(
        name=f"just below {_named(pairs)} is silent, although it goes on",
        series=series_of(flat(SPEND, LEAD + length), lead(0) + climb(burst, trickle, length)),
        never=(NAME,),
        variations=_variations(pairs[-1]),
        kinds=(Kind.JUST_BELOW,),
    )


def _named(pairs: tuple[Burn, ...]) -> str:
    return " and ".join(
        f"{burn.factor} times the budget over {format_duration(burn.long)}" for burn in pairs
    )


def _variations(burn: Burn) -> tuple[Variation, ...]:
    # The pairs differ by their numbers alone, and promtool takes its time for hours of scrapes.
    return (
        tuple(Variation)
        if burn.long == min(one.long for one in budget.BURNS)
        else (Variation.PLAIN,)
    )


def _at_the_limit(config: Config, burn: Burn) -> Case:
    """Return waste exactly at the limit, for the whole long window and the hold after it."""
    step = Fraction(config.scrape_interval, SECOND)
    wasted = Fraction(budget.limit(config, burn)) * step
    spend = wasted.denominator * ceil(SPEND / wasted.denominator)
    length = timing.scrapes(config, burn.long) + scrapes_held(config, burn) + 6
    return Case(
        name=f"exactly {burn.factor} times the budget is silent, however long",
        series=series_of(flat(spend, LEAD + length), climb(0, int(spend * wasted), LEAD + length)),
        never=(NAME,),
        variations=(Variation.PLAIN, Variation.MISSED),
        kinds=(Kind.AT_THRESHOLD,),
    )


def _stops(config: Config, burn: Burn) -> Case:
    burning = burns_fast(config, burn)
    after = timing.scrapes(config, burn.short) + 4
    tokens = burning + flat(burning[-1] or 0, after)
    return Case(
        name="waste that has stopped clears as soon as the short window is over",
        series=series_of(flat(SPEND, len(tokens)), tokens),
        checks=(
            Check(
                alert=NAME,
                scrape=seen(len(burning) - 1),
                firing=alert_for(config, burn, overflow=burning[-1] or 0),
            ),
            Check(alert=NAME, scrape=len(tokens) - 1),
        ),
    )


def _straggler(config: Config) -> Case:
    """Return so little traffic that one straggler is above the limit of every page."""
    pages = [burn for burn in budget.burns(config) if burn.severity is Severity.CRITICAL]
    tickets = [burn for burn in budget.burns(config) if burn not in pages]
    length = LEAD + scrapes_held(config, (pages or tickets)[-1]) + 8
    charges = timing.scrapes(config, timing.charge_window(config))
    amount = 300
    tokens = lead(0) + climb(amount, amount, charges)
    tokens += flat(amount * charges, length - len(tokens))
    # Between what the pages and what the tickets allow; where there are no pages, below both.
    most = max((allowance(config, burn) for burn in pages), default=Decimal(0))
    least = min(allowance(config, burn) for burn in tickets)
    spend = amount * charges / ((most + least) / 2 / SPEND)
    return Case(
        name="one straggler at low traffic does not page, although it is above each page's limit",
        series=series_of(flat(float(round(spend, 6)), length), tokens),
        never=(NAME,),
        variations=(Variation.PLAIN, Variation.MISSED),
    )


def _two_pools(config: Config, burn: Burn) -> Case:
    length = scrapes_held(config, burn) + 4
    more = round(allowance(config, burn) * Decimal("0.7"))
    less = round(allowance(config, burn) * Decimal("0.5"))
    half = trickle_of(config, burn)
    fired = seen(LEAD + length - 2)
    grown = half * (fired - LEAD)
    return Case(
        name="two pools that together waste too much fire, each named",
        series=(
            *series_of(flat(SPEND, LEAD + length), lead(0) + climb(more, half, length)),
            *series_of(flat(SPEND, LEAD + length), lead(0) + climb(less, half, length), "paid")[1:],
        ),
        checks=(
            Check(
                alert=NAME,
                scrape=fired,
                firing=alert_for(config, burn, overflow=more + grown, paid=less + grown),
            ),
        ),
    )


def _two_jobs(config: Config, burn: Burn) -> Case:
    tokens = burns_fast(config, burn)
    less = climb(0, trickle_of(config, burn) // 2, len(tokens))
    another = (
        Series(one.family, one.trace, {**one.labels, **ANOTHER_JOB})
        for one in series_of(flat(SPEND, len(tokens)), less, "paid")
    )
    return _fires_last(
        config,
        burn,
        "what another job in the same Prometheus wastes is not told as this one's",
        (*series_of(flat(SPEND, len(tokens)), tokens), *another),
    )


def _counter_reset(config: Config, burn: Burn) -> Case:
    # So steep that what the restart itself loses leaves the short window above.
    held, trickle = scrapes_held(config, burn), 4 * trickle_of(config, burn)
    burst = round(allowance(config, burn) * 2)
    before = climb(burst, trickle, 8)
    tokens = lead(0) + before + gone(2) + climb(0, trickle, held + 4)
    fired = seen(len(tokens) - 2)
    wasted = (before[-1] or 0) + trickle * (fired - LEAD - len(before) - 2)
    return Case(
        name="a restart that loses the count goes on burning",
        series=series_of(flat(SPEND, LEAD + len(before)) + gone(2) + flat(SPEND, held + 4), tokens),
        checks=(Check(alert=NAME, scrape=fired, firing=alert_for(config, burn, overflow=wasted)),),
        kinds=(Kind.COUNTER_RESET, Kind.RESTART),
    )


def _reset_alone(config: Config, burn: Burn) -> Case:
    rest = scrapes_held(config, burn) + 4
    spend = flat(SPEND, rest) + gone(2) + flat(SPEND, rest)
    tokens = flat(10**9, rest) + gone(2) + flat(0, rest)
    return _silent("a restart that loses the count is no waste", series_of(spend, tokens))


def _silent(name: str, series: tuple[Series, ...], *kinds: Kind) -> Case:
    return Case(name=name, series=series, never=(NAME,), kinds=kinds)


def _born(config: Config, burn: Burn) -> Case:
    rest = scrapes_held(config, burn) + 8
    return _silent(
        "a count that was there before Prometheus looked is no waste of these windows",
        series_of(gone(LEAD) + flat(SPEND, rest), gone(LEAD) + flat(10**9, rest)),
        Kind.BORN,
    )


def _goes_away(config: Config, burn: Burn) -> Case:
    burning = burns_fast(config, burn)
    after = gone(timing.scrapes(config, burn.short) + 4)
    return Case(
        name="an exporter that goes away makes no claim: blindness has its own alert",
        series=series_of(flat(SPEND, len(burning)) + after, burning + after),
        checks=(Check(alert=NAME, scrape=len(burning + after) - 1),),
        kinds=(Kind.STALE,),
    )


def _spend_unknown(config: Config, burn: Burn) -> Case:
    tokens = burns_fast(config, burn) + burns_fast(config, burn)
    return _silent(
        "a ledger that is lost leaves no spend to divide by, and is silent",
        series_of(flat(SPEND, 1) + gone(len(tokens) - 1), tokens),
        Kind.SOURCE_LOST,
    )


def _nothing_spent(config: Config, burn: Burn) -> Case:
    zero = flat(0, 2 * scrapes_held(config, burn))
    return _silent("nothing spent and nothing wasted is silent", series_of(zero, zero))


def _reported_only(config: Config, burn: Burn) -> Case:
    tokens = burns_fast(config, burn)
    return _silent(
        "prorated tokens that are only reported burn no budget",
        series_of(flat(SPEND, len(tokens)), tokens, basis=names.Basis.PRORATED),
    )


def _prorated(config: Config, burn: Burn) -> Case:
    tokens = burns_fast(config, burn)
    return _fires_last(
        config,
        burn,
        "prorated tokens burn the budget like charged ones",
        series_of(flat(SPEND, len(tokens)), tokens, basis=names.Basis.PRORATED),
    )


def _fires_last(config: Config, burn: Burn, name: str, series: tuple[Series, ...]) -> Case:
    """Return a case that ends as ``burns_fast`` does: at its last scrape, it fires for overflow."""
    tokens = burns_fast(config, burn)
    firing = alert_for(config, burn, overflow=tokens[-1] or 0)
    return Case(
        name=name,
        series=series,
        checks=(Check(alert=NAME, scrape=len(tokens) - 1, firing=firing),),
        variations=(Variation.PLAIN, Variation.REPLICAS),
    )


def cases(config: Config) -> tuple[Case, ...]:
    """Return the stories that prove the rules; none where every limit is out of reach."""
    pairs = budget.burns(config)
    if not pairs:
        return ()
    return (
        *(_above_the_limit(config, *same) for same in together(config)),
        *(_below_the_limit(config, *same) for same in together(config)),
        _straggler(config),
        *(case for burn in with_room(config) for case in _page_cases(config, burn)),
        _reset_alone(config, pairs[0]),
        _born(config, pairs[0]),
        _nothing_spent(config, pairs[0]),
    )


def _page_cases(config: Config, burn: Burn) -> tuple[Case, ...]:
    """Return what else there is to tell, of one pair: they differ by their numbers alone."""
    return (
        _at_the_limit(config, burn),
        _stops(config, burn),
        _two_pools(config, burn),
        *((_two_jobs(config, burn),) if tells_jobs_apart(config) else ()),
        _counter_reset(config, burn),
        _goes_away(config, burn),
        _spend_unknown(config, burn),
        (_reported_only if reports_prorated(config) else _prorated)(config, burn),
    )
