"""OrphanLeasesAlive: workers hold leases past the cutoff, tokens or no tokens."""

from typing import Final

from orphanwatch.alerts import timing
from orphanwatch.alerts.alert import Alert, Bearing, Case, Check, Firing, Rule, Severity
from orphanwatch.alerts.gauge_cases import NO_COUNTER, Gauge, gauge_cases, wherever
from orphanwatch.alerts.promql import across_replicas, seconds, select, within
from orphanwatch.alerts.traces import LEAD, Series, Trace, climb, flat, gone, lead
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import SECOND, format_duration

NAME: Final = "OrphanLeasesAlive"

_POOL: Final = {names.POOL: "overflow"}


def expr(config: Config, read: str = "max_over_time") -> str:
    """Return the lease arm: a heartbeat after the cutoff, or more than a dead worker can show.

    ``read`` is the function that reads the gauges over the look-back.
    A worker that crashed leaves a lease without a heartbeat after the cutoff, which expires
    before it is past the cutoff for longer than its time to live.
    """
    lookback = timing.lookback(config)
    beating = within(select(config, names.LEASES_CONFIRMED), lookback)
    past = within(select(config, names.LEASE_OLDEST_SECONDS), lookback)
    confirmed = across_replicas(config, f"{read}({beating})")
    oldest = across_replicas(config, f"{read}({past})")
    # "bool" makes the second arm a number of leases as well: at least this one.
    return f"{confirmed} > 0\nor\n{oldest} > bool {seconds(timing.lease_ttl(config))} == 1"


def rules(config: Config) -> tuple[Rule, ...]:
    """Return the one rule: a few graces, so that a straggler may still stop."""
    hold = timing.leases_hold(config)
    ttl = timing.lease_ttl(config)
    return (
        Rule(
            expr=expr(config),
            hold=hold,
            severity=Severity.CRITICAL,
            description=(
                "Leases alive in pool {{ $labels.pool }} past the cancel cutoff: at least "
                "{{ $value | humanize }}, by a heartbeat after it or for longer than "
                f"{format_duration(ttl)}. Workers decode for clients that left. "
                "Shed these leases and close overflow; do not scale, and do not retry."
            ),
            time_to_page=timing.time_to_page(config, hold, before=ttl),
        ),
    )


def _stories(confirmed: Trace, oldest: Trace) -> tuple[Series, ...]:
    return (
        Series(names.LEASES_CONFIRMED, lead(0) + confirmed, _POOL),
        Series(names.LEASE_OLDEST_SECONDS, lead(0) + oldest, _POOL),
    )


def _step(config: Config) -> float:
    return config.scrape_interval / SECOND


def _confirmed(config: Config) -> Case:
    length = timing.scrapes(config, timing.leases_hold(config)) + 4
    ends = LEAD + length
    return Case(
        name="one confirmed lease fires after a few graces, tokens or no tokens, and clears",
        series=_stories(flat(1, length) + flat(0, 8), climb(0, _step(config), length) + flat(0, 8)),
        checks=(
            Check(alert=NAME, scrape=ends - 6),
            Check(alert=NAME, scrape=ends - 3, firing=(Firing(labels=_POOL),)),
            Check(alert=NAME, scrape=ends + 7),
        ),
    )


def _unconfirmed(config: Config) -> Case:
    expires = timing.scrapes(config, timing.lease_ttl(config))
    length = expires + timing.scrapes(config, timing.leases_hold(config)) + 4
    return Case(
        name="a lease past the cutoff for longer than its time to live fires without heartbeat",
        series=_stories(flat(0, length), climb(0, _step(config), length)),
        checks=(
            Check(alert=NAME, scrape=LEAD + expires),
            Check(
                alert=NAME,
                scrape=LEAD + length - 1,
                firing=(Firing(labels=_POOL),),
            ),
        ),
    )


def _crashed(config: Config) -> Case:
    shown = timing.lease_ttl(config) // config.scrape_interval + 1
    rest = timing.scrapes(config, timing.leases_hold(config)) + 4
    return Case(
        name="a crashed worker's lease expires and does not page",
        series=_stories(flat(0, shown + rest), climb(0, _step(config), shown) + flat(0, rest)),
        never=(NAME,),
    )


def _beating(config: Config) -> Gauge:
    return Gauge(
        alert=NAME,
        hold=timing.leases_hold(config),
        series=lambda confirmed: (
            Series(names.LEASES_CONFIRMED, confirmed, _POOL),
            Series(names.LEASE_OLDEST_SECONDS, wherever(0, confirmed), _POOL),
        ),
        firing=lambda leases: (Firing(labels=_POOL, value=leases),),
        at=0,
        above=1,
    )


def _past(config: Config) -> Gauge:
    at = timing.lease_ttl(config) / SECOND
    return Gauge(
        alert=NAME,
        hold=timing.leases_hold(config),
        series=lambda oldest: (
            Series(names.LEASES_CONFIRMED, wherever(0, oldest), _POOL),
            Series(names.LEASE_OLDEST_SECONDS, oldest, _POOL),
        ),
        # However long past, this arm knows of one lease at least.
        firing=lambda _: (Firing(labels=_POOL),),
        below=at - 1,
        at=at,
        above=at + 1,
    )


def _straggler(config: Config) -> Case:
    shown = timing.scrapes(config, timing.few_graces(config)) - 1
    rest = timing.scrapes(config, timing.leases_hold(config)) + 6
    return Case(
        name="one straggler that stops within a few graces does not page",
        series=_stories(
            flat(1, shown) + flat(0, rest), climb(1, _step(config), shown) + flat(0, rest)
        ),
        never=(NAME,),
    )


def _short_orphans(config: Config) -> Case:
    rounds = timing.scrapes(config, timing.leases_hold(config)) // 2 + 3
    confirmed: Trace = (2, 0) * rounds
    return Case(
        name="orphans that each live briefly but keep coming fire",
        series=_stories(confirmed, confirmed),
        checks=(
            Check(
                alert=NAME,
                scrape=LEAD + len(confirmed) - 1,
                firing=(Firing(labels=_POOL, value=2),),
            ),
        ),
    )


def _restart(config: Config) -> Case:
    half = timing.scrapes(config, timing.leases_hold(config)) // 2 + 2
    age = _step(config)
    return Case(
        name="a live orphan goes on paging across an exporter restart",
        series=_stories(
            flat(3, half) + gone(2) + flat(3, half),
            climb(0, age, half) + gone(2) + climb(age * (half + 2), age, half),
        ),
        checks=(
            Check(
                alert=NAME,
                scrape=LEAD + 2 * half + 1,
                firing=(Firing(labels=_POOL, value=3),),
            ),
        ),
    )


def _source_lost(config: Config) -> Case:
    length = timing.scrapes(config, timing.leases_hold(config)) + 4
    return Case(
        name="a lease store that is lost makes no claim about leases",
        series=_stories(flat(0, 4) + gone(length), flat(0, 4) + gone(length)),
        never=(NAME,),
    )


def cases(config: Config) -> tuple[Case, ...]:
    """Return the stories that prove the rule."""
    return (
        *gauge_cases(config, _beating(config), "confirmed leases"),
        *gauge_cases(config, _past(config), "seconds past the cutoff"),
        _confirmed(config),
        _unconfirmed(config),
        _crashed(config),
        _straggler(config),
        _short_orphans(config),
        _restart(config),
        _source_lost(config),
    )


ALERT: Final = Alert(
    name=NAME,
    severity=Severity.CRITICAL,
    bearing=Bearing.EVIDENCE,
    summary="Workers hold leases for work that nobody waits for.",
    rules=rules,
    cases=cases,
    excused=NO_COUNTER,
)
