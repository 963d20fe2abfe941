"""The stories that prove the rules of the waste budget."""

from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import Final

from orphanwatch.alerts import budget, timing
from orphanwatch.alerts.alert import Case, Check, Firing, Kind, Severity, Variation
from orphanwatch.alerts.budget import Burn
from orphanwatch.alerts.burn_rules import NAME, WINDOW, pools_sentence
from orphanwatch.alerts.orphan_tokens import reports_prorated
from orphanwatch.alerts.templates import humanized
from orphanwatch.alerts.traces import LEAD, Series, Trace, climb, flat, gone, lead
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import SECOND, Micros, format_duration

_SPEND: Final = 100
_MARGIN: Final = Decimal("0.02")
"""How far above and below the limit the cases go."""


def _labels(pool: str, basis: names.Basis) -> dict[str, str]:
    return {
        names.POOL: pool,
        names.CAUSE: str(names.Cause.CLIENT_CANCEL),
        names.BASIS: str(basis),
    }


def _stories(
    spend: Trace, tokens: Trace, pool: str = "overflow", basis: names.Basis = names.Basis.CHARGED
) -> tuple[Series, ...]:
    return (
        Series(names.SPEND_TOKENS_PER_SECOND, spend),
        Series(names.TOKENS_TOTAL, tokens, _labels(pool, basis)),
    )


def _seconds(length: Micros) -> Decimal:
    return Decimal(length) / SECOND


def _held(config: Config, burn: Burn) -> int:
    return timing.scrapes(config, budget.hold(config, burn))


def _trickle(config: Config, burn: Burn) -> int:
    """Return tokens for each scrape that keep a pair's short window above, and no faster pair's."""
    wasted = budget.limit(config, burn) * _SPEND * Decimal("1.5")
    return round(wasted * _seconds(config.scrape_interval))


def _budget(config: Config, burn: Burn) -> Decimal:
    """Return how many tokens may be wasted within the long window at ``_SPEND``."""
    return budget.limit(config, burn) * _seconds(burn.long) * _SPEND


def _firing(config: Config, burn: Burn, **wasted: float) -> tuple[Firing, ...]:
    """Return the alert for tokens wasted within the long window, by pool, the most first."""
    long = float(_seconds(burn.long))
    spoken = "".join(
        f" Pool {pool} wastes {humanized(tokens / long)} tokens per second."
        for pool, tokens in wasted.items()
    )
    return (
        Firing(
            labels={WINDOW: format_duration(burn.long)},
            value=sum(wasted.values()) / long / _SPEND,
            words={pools_sentence(config, burn): spoken},
            severity=burn.severity,
        ),
    )


def _above_the_limit(config: Config, *pairs: Burn) -> Case:
    """Return waste that came at once, loads the long windows just above, and then goes on."""
    trickle = _trickle(config, pairs[0])
    burst = round(_budget(config, pairs[0]) * (1 + _MARGIN))
    longest = _held(config, pairs[-1])
    fired = _seen(LEAD + longest + 1)
    wasted = burst + trickle * (fired - LEAD)
    firing = (one for burn in pairs for one in _firing(config, burn, overflow=wasted))
    length = longest + 6
    return Case(
        name=f"just above {_named(pairs)} fires",
        series=_stories(flat(_SPEND, LEAD + length), lead(0) + climb(burst, trickle, length)),
        checks=(
            Check(alert=NAME, scrape=LEAD + _held(config, pairs[0]) - 2),
            Check(alert=NAME, scrape=fired, firing=tuple(firing)),
        ),
        variations=_variations(pairs[-1]),
        kinds=(Kind.JUST_ABOVE,),
    )


def _below_the_limit(config: Config, *pairs: Burn) -> Case:
    length = _held(config, pairs[-1]) + 6
    # A short window that outlasts the hold needs no more than the burst.
    lasts = all(burn.short > budget.hold(config, burn) for burn in pairs)
    trickle = 0 if lasts else _trickle(config, pairs[0])
    burst = round(_budget(config, pairs[0]) * (1 - _MARGIN)) - trickle * length
    return Case(
        name=f"just below {_named(pairs)} is silent, although it goes on",
        series=_stories(flat(_SPEND, LEAD + length), lead(0) + climb(burst, trickle, length)),
        never=(NAME,),
        variations=_variations(pairs[-1]),
        kinds=(Kind.JUST_BELOW,),
    )


def _named(pairs: tuple[Burn, ...]) -> str:
    return " and ".join(
        f"{burn.factor} times the budget over {format_duration(burn.long)}" for burn in pairs
    )


def _together(config: Config) -> tuple[tuple[Burn, ...], ...]:
    """Return the pairs, those that allow the same amount together: hours are played once."""
    found: dict[Decimal, list[Burn]] = {}
    for burn in budget.burns(config):
        found.setdefault(_budget(config, burn), []).append(burn)
    return tuple(map(tuple, found.values()))


def _variations(burn: Burn) -> tuple[Variation, ...]:
    # The pairs differ by their numbers alone, and promtool takes its time for hours of scrapes.
    return (
        tuple(Variation)
        if burn.long == min(one.long for one in budget.BURNS)
        else (Variation.PLAIN,)
    )


def _seen(scrape: int) -> int:
    """Return this scrape or the next that no variation misses."""
    return scrape + 1 if scrape % 4 == 3 else scrape  # noqa: PLR2004  (the fourth, from 0)


def _at_the_limit(config: Config, burn: Burn) -> Case:
    """Return waste exactly at the limit, for the whole long window and the hold after it."""
    step = Fraction(config.scrape_interval, SECOND)
    wasted = Fraction(budget.limit(config, burn)) * step
    spend = wasted.denominator * ceil(_SPEND / wasted.denominator)
    length = timing.scrapes(config, burn.long) + _held(config, burn) + 6
    return Case(
        name=f"exactly {burn.factor} times the budget is silent, however long",
        series=_stories(flat(spend, LEAD + length), climb(0, int(spend * wasted), LEAD + length)),
        never=(NAME,),
        variations=(Variation.PLAIN, Variation.MISSED),
        kinds=(Kind.AT_THRESHOLD,),
    )


def _fast(config: Config, burn: Burn, *rest: float | None) -> Trace:
    """Return a counter that burns well above the limit till it fires, and then the rest."""
    burst = round(_budget(config, burn) * 2)
    return lead(0) + climb(burst, _trickle(config, burn), _held(config, burn) + 3) + rest


def _stops(config: Config, burn: Burn) -> Case:
    burning = _fast(config, burn)
    after = timing.scrapes(config, burn.short) + 4
    tokens = burning + flat(burning[-1] or 0, after)
    return Case(
        name="waste that has stopped clears as soon as the short window is over",
        series=_stories(flat(_SPEND, len(tokens)), tokens),
        checks=(
            Check(
                alert=NAME,
                scrape=_seen(len(burning) - 1),
                firing=_firing(config, burn, overflow=burning[-1] or 0),
            ),
            Check(alert=NAME, scrape=len(tokens) - 1),
        ),
    )


def _straggler(config: Config) -> Case:
    """Return so little traffic that one straggler is above the limit of every page."""
    pages = [burn for burn in budget.burns(config) if burn.severity is Severity.CRITICAL]
    tickets = [burn for burn in budget.burns(config) if burn not in pages]
    length = LEAD + _held(config, (pages or tickets)[-1]) + 8
    charges = timing.scrapes(config, timing.charge_window(config))
    amount = 300
    tokens = lead(0) + climb(amount, amount, charges)
    tokens += flat(amount * charges, length - len(tokens))
    # Between what the pages and what the tickets allow; where there are no pages, below both.
    most = max((_budget(config, burn) for burn in pages), default=Decimal(0))
    least = min(_budget(config, burn) for burn in tickets)
    spend = amount * charges / ((most + least) / 2 / _SPEND)
    return Case(
        name="one straggler at low traffic does not page, although it is above each page's limit",
        series=_stories(flat(float(round(spend, 6)), length), tokens),
        never=(NAME,),
        variations=(Variation.PLAIN, Variation.MISSED),
    )


def _two_pools(config: Config, burn: Burn) -> Case:
    length = _held(config, burn) + 4
    more = round(_budget(config, burn) * Decimal("0.7"))
    less = round(_budget(config, burn) * Decimal("0.5"))
    half = _trickle(config, burn)
    fired = _seen(LEAD + length - 2)
    grown = half * (fired - LEAD)
    return Case(
        name="two pools that together waste too much fire, each named",
        series=(
            *_stories(flat(_SPEND, LEAD + length), lead(0) + climb(more, half, length)),
            *_stories(flat(_SPEND, LEAD + length), lead(0) + climb(less, half, length), "paid")[1:],
        ),
        checks=(
            Check(
                alert=NAME,
                scrape=fired,
                firing=_firing(config, burn, overflow=more + grown, paid=less + grown),
            ),
        ),
    )


def _counter_reset(config: Config, burn: Burn) -> Case:
    # So steep that what the restart itself loses leaves the short window above.
    held, trickle = _held(config, burn), 4 * _trickle(config, burn)
    burst = round(_budget(config, burn) * 2)
    before = climb(burst, trickle, 8)
    tokens = lead(0) + before + gone(2) + climb(0, trickle, held + 4)
    fired = _seen(len(tokens) - 2)
    wasted = (before[-1] or 0) + trickle * (fired - LEAD - len(before) - 2)
    return Case(
        name="a restart that loses the count goes on burning",
        series=_stories(
            flat(_SPEND, LEAD + len(before)) + gone(2) + flat(_SPEND, held + 4), tokens
        ),
        checks=(Check(alert=NAME, scrape=fired, firing=_firing(config, burn, overflow=wasted)),),
        kinds=(Kind.COUNTER_RESET, Kind.RESTART),
    )


def _reset_alone(config: Config, burn: Burn) -> Case:
    rest = _held(config, burn) + 4
    spend = flat(_SPEND, rest) + gone(2) + flat(_SPEND, rest)
    return Case(
        name="a restart that loses the count is no waste",
        series=_stories(spend, flat(10**9, rest) + gone(2) + flat(0, rest)),
        never=(NAME,),
    )


def _born(config: Config, burn: Burn) -> Case:
    rest = _held(config, burn) + 8
    return Case(
        name="a count that was there before Prometheus looked is no waste of these windows",
        series=_stories(
            gone(LEAD) + flat(_SPEND, rest),
            gone(LEAD) + flat(10**9, rest),
        ),
        never=(NAME,),
        kinds=(Kind.BORN,),
    )


def _goes_away(config: Config, burn: Burn) -> Case:
    burning = _fast(config, burn)
    after = gone(timing.scrapes(config, burn.short) + 4)
    return Case(
        name="an exporter that goes away makes no claim: blindness has its own alert",
        series=_stories(flat(_SPEND, len(burning)) + after, burning + after),
        checks=(Check(alert=NAME, scrape=len(burning + after) - 1),),
        kinds=(Kind.STALE,),
    )


def _spend_unknown(config: Config, burn: Burn) -> Case:
    tokens = _fast(config, burn) + _fast(config, burn)
    return Case(
        name="a ledger that is lost leaves no spend to divide by, and is silent",
        series=_stories(flat(_SPEND, 1) + gone(len(tokens) - 1), tokens),
        never=(NAME,),
        kinds=(Kind.SOURCE_LOST,),
    )


def _nothing_spent(config: Config, burn: Burn) -> Case:
    zero = flat(0, 2 * _held(config, burn))
    return Case(
        name="nothing spent and nothing wasted is silent",
        series=_stories(zero, zero),
        never=(NAME,),
    )


def _reported_only(config: Config, burn: Burn) -> Case:
    tokens = _fast(config, burn)
    return Case(
        name="prorated tokens that are only reported burn no budget",
        series=_stories(flat(_SPEND, len(tokens)), tokens, basis=names.Basis.PRORATED),
        never=(NAME,),
    )


def _prorated(config: Config, burn: Burn) -> Case:
    tokens = _fast(config, burn)
    return Case(
        name="prorated tokens burn the budget like charged ones",
        series=_stories(flat(_SPEND, len(tokens)), tokens, basis=names.Basis.PRORATED),
        checks=(
            Check(
                alert=NAME,
                scrape=len(tokens) - 1,
                firing=_firing(config, burn, overflow=tokens[-1] or 0),
            ),
        ),
        variations=(Variation.PLAIN, Variation.REPLICAS),
    )


def cases(config: Config) -> tuple[Case, ...]:
    """Return the stories that prove the rules; none where every limit is out of reach."""
    pairs = budget.burns(config)
    if not pairs:
        return ()
    return (
        *(_above_the_limit(config, *same) for same in _together(config)),
        *(_below_the_limit(config, *same) for same in _together(config)),
        _straggler(config),
        *(case for burn in _pages(config) for case in _page_cases(config, burn)),
        _reset_alone(config, pairs[0]),
        _born(config, pairs[0]),
        _nothing_spent(config, pairs[0]),
    )


def _pages(config: Config) -> tuple[Burn, ...]:
    """Return the fastest pair, if it can be reached and its long window has room for a story."""
    return tuple(
        burn
        for burn in budget.burns(config)
        if burn.factor == budget.BURNS[0].factor and burn.long > 2 * budget.hold(config, burn)
    )


def _page_cases(config: Config, burn: Burn) -> tuple[Case, ...]:
    """Return what else there is to tell, of one pair: they differ by their numbers alone."""
    return (
        _at_the_limit(config, burn),
        _stops(config, burn),
        _two_pools(config, burn),
        _counter_reset(config, burn),
        _goes_away(config, burn),
        _spend_unknown(config, burn),
        (_reported_only if reports_prorated(config) else _prorated)(config, burn),
    )
