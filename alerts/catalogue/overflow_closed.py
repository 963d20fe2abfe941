"""OrphanOverflowClosed: overflow admission fails closed, and why."""

from typing import Final

from orphanwatch.alerts import timing
from orphanwatch.alerts.alert import Alert, Bearing, Case, Check, Firing, Kind, Rule, Severity
from orphanwatch.alerts.gauge_cases import NO_COUNTER
from orphanwatch.alerts.promql import across_replicas, highest_seen, indented, select, within
from orphanwatch.alerts.traces import LEAD, Series, Trace, flat, gone, lead
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.names import Condition

NAME: Final = "OrphanOverflowClosed"

_POOL: Final = {names.POOL: "overflow"}
_WHY: Final = (
    "{{ with $labels.condition }}condition {{ . }} holds{{ else }}a condition can't be told, "
    "which is never open{{ end }}"
)
_UNKNOWN: Final = "a condition can't be told, which is never open"


def _expr(config: Config) -> str:
    """Return an alert for each pool and condition, or for the pool where no condition is known.

    Any replica that sees admission closed is enough: a gate that asks it stays closed.
    """
    allowed = within(select(config, names.OVERFLOW_ADMISSION_ALLOWED), timing.lookback(config))
    holds = f"{highest_seen(config, names.FAIL_CLOSED)} == 1"
    # 1 where admission is closed, so that every arm counts the same.
    closed = f"{across_replicas(config, f'1 - min_over_time({allowed})')} == 1"
    untold = f"{indented(closed)}\n  unless ignoring ({names.CONDITION})\n{indented(holds)}"
    return f"{holds}\nor\n(\n{untold}\n)"


def rules(config: Config) -> tuple[Rule, ...]:
    """Return the one rule; the condition is a label of a closed set, no value."""
    hold = timing.fault_hold(config)
    return (
        Rule(
            expr=_expr(config),
            hold=hold,
            severity=Severity.INFO,
            description=(
                f"Overflow admission of pool {{{{ $labels.pool }}}} is closed: {_WHY}. "
                "Nothing is urgent: batch work waits. Do not scale, and do not open it by hand; "
                "its page says how to clear each condition."
            ),
            time_to_page=timing.time_to_page(config, hold),
        ),
    )


def _stories(allowed: Trace, **conditions: Trace) -> tuple[Series, ...]:
    """Return admission and the conditions that are known; those not named are 0."""
    zero = flat(0, len(allowed))
    return (
        Series(names.OVERFLOW_ADMISSION_ALLOWED, allowed, _POOL),
        *(
            Series(
                names.FAIL_CLOSED,
                conditions.get(condition, zero),
                {**_POOL, names.CONDITION: str(condition)},
            )
            for condition in Condition
        ),
    )


def _firing(*conditions: Condition) -> tuple[Firing, ...]:
    return tuple(
        Firing(
            labels={**_POOL, names.CONDITION: str(condition)},
            words={_WHY: f"condition {condition} holds"},
            severity=Severity.INFO,
        )
        for condition in conditions
    )


_FIRING_UNKNOWN: Final = (Firing(labels=_POOL, words={_WHY: _UNKNOWN}, severity=Severity.INFO),)


def _length(config: Config) -> int:
    return timing.scrapes(config, timing.fault_hold(config)) + 4


def _one_condition(config: Config) -> Case:
    length = _length(config)
    ends = LEAD + length
    closed = lead(0) + flat(1, length) + flat(0, 10)
    return Case(
        name="closed by a condition fires for it, and clears",
        series=_stories(
            lead(1) + flat(0, length) + flat(1, 10), **{Condition.SECOND_DECODER: closed}
        ),
        checks=(
            Check(alert=NAME, scrape=LEAD + 3),
            Check(alert=NAME, scrape=ends - 1, firing=_firing(Condition.SECOND_DECODER)),
            Check(alert=NAME, scrape=ends + 9),
        ),
        kinds=(Kind.AT_THRESHOLD,),
    )


def _two_conditions(config: Config) -> Case:
    length = _length(config)
    closed = lead(0) + flat(1, 2 * length)
    later = lead(0) + flat(0, length) + flat(1, length)
    both = (Condition.RETRY_ID_MISSING, Condition.ORPHAN_TOKENS)
    return Case(
        name="a second condition does not begin the wait of the first anew",
        series=_stories(
            lead(1) + flat(0, 2 * length), **dict(zip(both, (closed, later), strict=True))
        ),
        checks=(
            Check(alert=NAME, scrape=LEAD + length - 1, firing=_firing(both[0])),
            Check(alert=NAME, scrape=LEAD + length + 2, firing=_firing(both[0])),
            Check(alert=NAME, scrape=LEAD + 2 * length - 1, firing=_firing(*both)),
        ),
    )


def _unknown(config: Config) -> Case:
    length = _length(config)
    return Case(
        name="closed because conditions are unknown fires without one",
        series=(
            Series(names.OVERFLOW_ADMISSION_ALLOWED, lead(1) + flat(0, length), _POOL),
            Series(
                names.FAIL_CLOSED,
                lead(0) + flat(0, length),
                {**_POOL, names.CONDITION: str(Condition.BLIND)},
            ),
        ),
        checks=(
            Check(alert=NAME, scrape=LEAD + 3),
            Check(alert=NAME, scrape=LEAD + length - 1, firing=_FIRING_UNKNOWN),
        ),
    )


def _open(config: Config) -> Case:
    return Case(
        name="open is silent, however long",
        series=_stories(flat(1, 3 * _length(config))),
        never=(NAME,),
        kinds=(Kind.JUST_ABOVE,),
    )


def _blink(config: Config) -> Case:
    shown = max(1, timing.scrapes(config, timing.fault_hold(config) - timing.lookback(config)) - 1)
    rest = _length(config)
    return Case(
        name="closed for a moment is silent",
        series=_stories(
            lead(1) + flat(0, shown) + flat(1, rest),
            **{Condition.ORPHAN_TOKENS: lead(0) + flat(1, shown) + flat(0, rest)},
        ),
        never=(NAME,),
    )


def _born(config: Config) -> Case:
    length = _length(config)
    return Case(
        name="an exporter that comes up closed fires",
        series=_stories(
            gone(LEAD) + flat(0, length), **{Condition.BLIND: gone(LEAD) + flat(1, length)}
        ),
        checks=(
            Check(alert=NAME, scrape=LEAD + 3),
            Check(alert=NAME, scrape=LEAD + length - 1, firing=_firing(Condition.BLIND)),
        ),
        kinds=(Kind.BORN,),
    )


def _restart(config: Config) -> Case:
    half = timing.scrapes(config, timing.fault_hold(config)) // 2 + 2
    closed = flat(0, half) + gone(2) + flat(0, half)
    holds = flat(1, half) + gone(2) + flat(1, half)
    return Case(
        name="an exporter restart does not begin the wait anew",
        series=_stories(lead(1) + closed, **{Condition.NO_CANCEL_CHANNEL: lead(0) + holds}),
        checks=(
            Check(
                alert=NAME,
                scrape=LEAD + 2 * half + 1,
                firing=_firing(Condition.NO_CANCEL_CHANNEL),
            ),
        ),
        kinds=(Kind.RESTART,),
    )


def _gone(config: Config) -> Case:
    length = _length(config)
    return Case(
        name="an exporter that goes away takes its alert along: blindness has its own",
        series=_stories(
            lead(1) + flat(0, length) + gone(10),
            **{Condition.ORPHAN_TOKENS: lead(0) + flat(1, length) + gone(10)},
        ),
        checks=(Check(alert=NAME, scrape=LEAD + length + 9),),
        kinds=(Kind.STALE,),
    )


def _source_lost(config: Config) -> Case:
    length = _length(config)
    blind = lead(0) + flat(1, length)
    return Case(
        name="a store that is lost closes admission, and that is told as blindness",
        series=_stories(lead(1) + flat(0, length), **{Condition.BLIND: blind}),
        checks=(Check(alert=NAME, scrape=LEAD + length - 1, firing=_firing(Condition.BLIND)),),
        kinds=(Kind.SOURCE_LOST,),
    )


def cases(config: Config) -> tuple[Case, ...]:
    """Return the stories that prove the rule."""
    return (
        _one_condition(config),
        _two_conditions(config),
        _unknown(config),
        _open(config),
        _blink(config),
        _born(config),
        _restart(config),
        _gone(config),
        _source_lost(config),
    )


ALERT: Final = Alert(
    name=NAME,
    severity=Severity.INFO,
    bearing=Bearing.NOTICE,
    summary="Overflow admission fails closed.",
    rules=rules,
    cases=cases,
    excused=NO_COUNTER | {Kind.JUST_BELOW: "admission is 0 or 1, and fires at 0"},
)
