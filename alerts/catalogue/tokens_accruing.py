"""OrphanTokensAccruing: tokens keep being charged past the cutoff. The pager alert."""

from typing import Final

from orphanwatch.alerts import timing
from orphanwatch.alerts.alert import Alert, Bearing, Case, Check, Firing, Kind, Rule, Severity
from orphanwatch.alerts.gauge_cases import NEVER_BELOW_ZERO, Gauge, gauge_cases, wherever
from orphanwatch.alerts.orphan_tokens import counter, reports_prorated
from orphanwatch.alerts.promql import across_replicas, number, select, within
from orphanwatch.alerts.traces import LEAD, Series, Trace, climb, flat, gone, lead
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import format_duration

NAME: Final = "OrphanTokensAccruing"

_POOL: Final = {names.POOL: "overflow"}
_CHARGED: Final = {
    **_POOL,
    names.CAUSE: names.Cause.CLIENT_CANCEL,
    names.BASIS: names.Basis.CHARGED,
}
_PRORATED: Final = {**_CHARGED, names.BASIS: names.Basis.PRORATED}


def expr(config: Config, read: str = "max_over_time") -> str:
    """Return the token arm: charges in the delta window, or rows that landed after it.

    ``read`` is the function that reads the gauge over the look-back.
    """
    above = f"> {number(config.thresholds.token_delta)}"
    delta = f"{read}({within(select(config, names.TOKEN_DELTA), timing.lookback(config))})"
    increase = f"increase({within(counter(config), timing.counter_range(config))})"
    # Summed within each replica first, so that the highest replica wins and not the sum of all.
    late = f"sum without ({names.CAUSE}, {names.BASIS}) (\n  {increase}\n)"
    return f"{across_replicas(config, delta)} {above}\nor\n{across_replicas(config, late)} {above}"


def rules(config: Config) -> tuple[Rule, ...]:
    """Return the one rule: longer than a single charge can show."""
    hold = timing.tokens_hold(config)
    window = format_duration(timing.charge_window(config))
    return (
        Rule(
            expr=expr(config),
            hold=hold,
            severity=Severity.CRITICAL,
            description=(
                "Tokens charged in pool {{ $labels.pool }} for tasks that nobody waits for: "
                f"{{{{ $value | humanize }}}} in {window}, and it goes on. "
                "Shed the orphan work and close overflow; do not scale, and do not retry."
            ),
            time_to_page=timing.time_to_page(config, hold, before=config.lag),
        ),
    )


def _above(config: Config) -> float:
    return config.thresholds.token_delta + 1


def _stories(delta: Trace, charged: Trace) -> tuple[Series, ...]:
    return (
        Series(names.TOKEN_DELTA, lead(0) + delta, _POOL),
        Series(names.TOKENS_TOTAL, lead(charged[0] or 0) + charged, _CHARGED),
        Series(names.TOKENS_TOTAL, flat(0, LEAD + len(charged)), _PRORATED),
    )


def _leak(config: Config) -> Case:
    length = timing.scrapes(config, timing.tokens_hold(config)) + 4
    ends = LEAD + length
    clear = timing.scrapes(config, timing.charge_window(config)) + 6
    above = _above(config)
    return Case(
        name="just above the threshold for longer than one delta window fires, and clears",
        series=_stories(
            flat(above, length) + flat(0, clear),
            climb(5000, 1, length) + flat(5000 + length - 1, clear),
        ),
        checks=(
            Check(alert=NAME, scrape=ends - 6),
            Check(alert=NAME, scrape=ends - 3, firing=(Firing(labels=_POOL, value=above),)),
            Check(alert=NAME, scrape=ends + clear - 1),
        ),
    )


def _late_rows(config: Config) -> Case:
    window = timing.counter_range(config)
    length = timing.scrapes(config, timing.tokens_hold(config) + window) + 4
    step = _above(config)
    value = step * window / config.scrape_interval
    return Case(
        name="rows that land after the delta window fire by the counter alone",
        series=_stories(flat(0, length), climb(100 * step, step, length)),
        checks=(
            Check(alert=NAME, scrape=LEAD + length // 3),
            Check(
                alert=NAME,
                scrape=LEAD + length - 1,
                firing=(Firing(labels=_POOL, value=value),),
            ),
        ),
    )


def _straggler(config: Config) -> Case:
    shown = timing.scrapes(config, timing.charge_window(config) + config.refresh_interval)
    rest = timing.scrapes(config, timing.tokens_hold(config)) + 8
    amount = 400 + _above(config)
    return Case(
        name="one straggler's charge, seen for a whole delta window, does not page",
        series=_stories(flat(amount, shown) + flat(0, rest), flat(5000 + amount, shown + rest)),
        never=(NAME,),
    )


def _late_straggler(config: Config) -> Case:
    length = timing.scrapes(config, timing.tokens_hold(config)) + 8
    charged = flat(5000, 4) + flat(5900, length - 4)
    return Case(
        name="one late row does not page",
        series=_stories(flat(0, length), charged),
        never=(NAME,),
    )


def _delta(config: Config) -> Gauge:
    at = config.thresholds.token_delta
    return Gauge(
        alert=NAME,
        hold=timing.tokens_hold(config),
        series=lambda delta: (
            Series(names.TOKEN_DELTA, delta, _POOL),
            Series(names.TOKENS_TOTAL, wherever(5000, delta), _CHARGED),
        ),
        firing=lambda tokens: (Firing(labels=_POOL, value=tokens),),
        below=at - 1 if at >= 1 else None,
        at=at,
        above=_above(config),
    )


def _born_counter(config: Config) -> Case:
    length = timing.scrapes(config, timing.tokens_hold(config)) + 8
    return Case(
        name="a counter that is born with its first value has not increased",
        series=(
            Series(names.TOKEN_DELTA, gone(LEAD) + flat(0, length), _POOL),
            Series(names.TOKENS_TOTAL, gone(LEAD) + flat(5900, length), _CHARGED),
        ),
        never=(NAME,),
        kinds=(Kind.BORN,),
    )


def _restart_while_calm(config: Config) -> Case:
    length = timing.scrapes(config, timing.tokens_hold(config)) + 8
    return Case(
        name="an exporter restart that resets the counter does not page",
        series=_stories(
            flat(0, length) + gone(2) + flat(0, length),
            flat(50000, length) + gone(2) + flat(0, length),
        ),
        never=(NAME,),
        kinds=(Kind.COUNTER_RESET, Kind.RESTART),
    )


def _restart_in_a_leak(config: Config) -> Case:
    half = timing.scrapes(config, timing.tokens_hold(config)) // 2 + 2
    above = _above(config)
    return Case(
        name="a leak goes on paging across an exporter restart",
        series=_stories(
            flat(above, half) + gone(2) + flat(above, half),
            flat(50000, half) + gone(2) + flat(0, half),
        ),
        checks=(
            Check(
                alert=NAME,
                scrape=LEAD + 2 * half + 1,
                firing=(Firing(labels=_POOL, value=above),),
            ),
        ),
    )


def _drained_on_purpose(config: Config) -> Case:
    length = 3 * timing.scrapes(config, timing.tokens_hold(config))
    return Case(
        name="prorated tokens that are only reported do not page",
        series=(
            Series(names.TOKEN_DELTA, flat(0, length), _POOL),
            Series(names.TOKENS_TOTAL, climb(5000, 100, length), _PRORATED),
        ),
        never=(NAME,),
    )


def _source_lost(config: Config) -> Case:
    length = timing.scrapes(config, timing.tokens_hold(config))
    return Case(
        name="a ledger that is lost makes no claim about tokens",
        series=_stories(flat(0, 4) + gone(length), flat(5000, 4) + gone(length)),
        never=(NAME,),
    )


def cases(config: Config) -> tuple[Case, ...]:
    """Return the stories that prove the rule."""
    reported = (_drained_on_purpose(config),) if reports_prorated(config) else ()
    return (
        *gauge_cases(config, _delta(config), "tokens in the delta window"),
        _leak(config),
        _late_rows(config),
        _born_counter(config),
        _straggler(config),
        _late_straggler(config),
        _restart_while_calm(config),
        _restart_in_a_leak(config),
        _source_lost(config),
        *reported,
    )


ALERT: Final = Alert(
    name=NAME,
    severity=Severity.CRITICAL,
    bearing=Bearing.EVIDENCE,
    summary="Tokens are charged for work that nobody waits for.",
    rules=rules,
    cases=cases,
    excused=NEVER_BELOW_ZERO,
)
