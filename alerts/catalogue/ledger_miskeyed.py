"""OrphanLedgerMiskeyed: tokens are charged to something that is no task."""

from typing import Final

from orphanwatch.alerts import timing
from orphanwatch.alerts.alert import Alert, Bearing, Case, Check, Firing, Kind, Rule, Severity
from orphanwatch.alerts.gauge_cases import NO_COUNTER, Gauge, gauge_cases, wherever
from orphanwatch.alerts.promql import (
    across_replicas,
    equals,
    highest_seen,
    last_seen,
    number,
    part_of,
    percent,
    seconds,
)
from orphanwatch.alerts.templates import humanized
from orphanwatch.alerts.traces import LEAD, Series, Trace, flat, lead
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import SECOND, format_duration
from orphanwatch.exporter.names import KeyKind

NAME: Final = "OrphanLedgerMiskeyed"

_WORKER: Final = {names.KEY: str(KeyKind.WORKER)}
# Tokens per second in the cases: so many that any usual ratio of them is a whole number.
_SPEND: Final = 1000.0


def rules(config: Config) -> tuple[Rule, ...]:
    """Return the one rule: any token of a worker's, or more keyless ones than are allowed."""
    hold = timing.fault_hold(config)
    return (
        Rule(
            expr=_expr(config),
            hold=hold,
            severity=Severity.WARNING,
            description=(
                f"{_how_much(config)}, so no orphan can be found by them: orphan_token_delta may "
                "read zero and mean nothing. "
                "Mend the ledger's key and close overflow; do not scale on what it shows."
            ),
            time_to_page=timing.time_to_page(config, hold, before=config.lag),
        ),
    )


def _how_much(config: Config) -> str:
    # The one arm counts tokens and keeps the label, the other is a part and has none.
    return (
        f"{{{{ if $labels.{names.KEY} }}}}{{{{ $value | humanize }}}} tokens of the last "
        f"{format_duration(config.delta_window)} were charged to a worker's id"
        "{{ else }}{{ $value | humanizePercentage }} of the tokens of the last "
        f"{format_duration(config.delta_window)} were charged to empty or unknown task ids "
        f"(more than {percent(config.thresholds.unmatched_spend_ratio)})"
        "{{ end }}"
    )


def _expr(config: Config) -> str:
    worker = highest_seen(config, names.UNMATCHED_TOKENS, equals(names.KEY, KeyKind.WORKER))
    keyless = equals(names.KEY, KeyKind.EMPTY, KeyKind.UNKNOWN)
    unmatched = last_seen(config, names.UNMATCHED_TOKENS, keyless)
    # Spend is per second, and unmatched tokens are those of one whole spend window.
    spent = f"{seconds(config.delta_window)} * "
    spent += last_seen(config, names.SPEND_TOKENS_PER_SECOND)
    # Where nothing is spent there is no part of it, rather than 0 / 0.
    part = f"sum without ({names.KEY}) ({unmatched})\n/\n({spent} > 0)"
    ratio = number(config.thresholds.unmatched_spend_ratio)
    return f"{worker} > 0\nor\n{across_replicas(config, part)} > {ratio}"


def _series(worker: Trace, empty: Trace, unknown: Trace) -> tuple[Series, ...]:
    return (
        Series(names.UNMATCHED_TOKENS, worker, _WORKER),
        Series(names.UNMATCHED_TOKENS, empty, {names.KEY: str(KeyKind.EMPTY)}),
        Series(names.UNMATCHED_TOKENS, unknown, {names.KEY: str(KeyKind.UNKNOWN)}),
        Series(names.SPEND_TOKENS_PER_SECOND, wherever(_SPEND, unknown)),
    )


def _worker_firing(config: Config, tokens: float) -> tuple[Firing, ...]:
    window = format_duration(config.delta_window)
    said = f"{humanized(tokens)} tokens of the last {window} were charged to a worker's id"
    return (
        Firing(
            severity=Severity.WARNING,
            labels=_WORKER,
            value=tokens,
            words={_how_much(config): said},
        ),
    )


def _keyless_firing(config: Config, tokens: float) -> tuple[Firing, ...]:
    part = tokens / _spent(config)
    said = (
        f"{part * 100:.4g}% of the tokens of the last {format_duration(config.delta_window)} "
        "were charged to empty or unknown task ids "
        f"(more than {percent(config.thresholds.unmatched_spend_ratio)})"
    )
    return (Firing(severity=Severity.WARNING, value=part, words={_how_much(config): said}),)


def _spent(config: Config) -> float:
    return config.delta_window / SECOND * _SPEND


def _worker_gauge(config: Config) -> Gauge:
    return Gauge(
        alert=NAME,
        hold=timing.fault_hold(config),
        series=lambda worker: _series(worker, wherever(0, worker), wherever(0, worker)),
        firing=lambda tokens: _worker_firing(config, tokens),
        at=0,
        above=1,
    )


def _keyless_gauge(config: Config) -> Gauge:
    at = part_of(config.thresholds.unmatched_spend_ratio, _spent(config))
    return Gauge(
        alert=NAME,
        hold=timing.fault_hold(config),
        series=lambda unknown: _series(wherever(0, unknown), wherever(0, unknown), unknown),
        firing=lambda tokens: _keyless_firing(config, tokens),
        below=at - 1,
        at=at,
        above=at + 1,
    )


def _together(config: Config) -> Case:
    """Return empty and unknown keys that are too many only when taken together."""
    half = _keyless_gauge(config).at / 2 + 1
    length = timing.scrapes(config, timing.fault_hold(config)) + 4
    shown = lead(0) + flat(half, length)
    return Case(
        name="empty and unknown keys that are too many together fire",
        series=_series(wherever(0, shown), shown, shown),
        checks=(
            Check(
                alert=NAME,
                scrape=LEAD + length - 1,
                firing=_keyless_firing(config, 2 * half),
            ),
        ),
    )


def _spend_lost(config: Config) -> Case:
    length = 3 * timing.scrapes(config, timing.fault_hold(config))
    unknown = {names.KEY: str(KeyKind.UNKNOWN)}
    return Case(
        name="without a spend to hold it against, a part of it is unknown and silent",
        series=(Series(names.UNMATCHED_TOKENS, flat(500, length), unknown),),
        never=(NAME,),
        kinds=(Kind.SOURCE_LOST,),
    )


def _nothing_spent(config: Config) -> Case:
    length = 3 * timing.scrapes(config, timing.fault_hold(config))
    zero = flat(0, length)
    series = _series(zero, zero, zero)[:-1]
    return Case(
        name="nothing spent and nothing unmatched is silent",
        series=(*series, Series(names.SPEND_TOKENS_PER_SECOND, zero)),
        never=(NAME,),
    )


def cases(config: Config) -> tuple[Case, ...]:
    """Return the stories that prove the rule, for each of its arms."""
    return (
        *gauge_cases(config, _worker_gauge(config), "a worker's tokens"),
        *gauge_cases(config, _keyless_gauge(config), "keyless tokens"),
        _together(config),
        _spend_lost(config),
        _nothing_spent(config),
    )


ALERT: Final = Alert(
    name=NAME,
    severity=Severity.WARNING,
    bearing=Bearing.FAULT,
    summary="Tokens are charged to keys that are no task.",
    rules=rules,
    cases=cases,
    excused=NO_COUNTER,
)
