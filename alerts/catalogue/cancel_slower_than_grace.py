"""OrphanCancelSlowerThanGrace: cancels take longer than the grace, so its number is not true."""

from fractions import Fraction
from math import ceil
from typing import Final

from orphanwatch.alerts import timing
from orphanwatch.alerts.alert import Alert, Bearing, Case, Check, Firing, Kind, Severity
from orphanwatch.alerts.slow_cancels import (
    BUCKET,
    COUNT,
    LEAST_SAMPLES,
    allowed_share,
    edge_of,
    pools_by_edge,
    rules,
)
from orphanwatch.alerts.traces import LEAD, Series, Trace, flat, gone, lead
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config

NAME: Final = "OrphanCancelSlowerThanGrace"

# So long that a missed scrape can't make ``increase`` guess a whole sample more.
_QUIET: Final = 150


def _pool(config: Config) -> str:
    """Return a pool that the rule judges, one for overflow where there is one."""
    judged = [pool for pools in pools_by_edge(config).values() for pool in pools]
    return next((pool for pool in config.overflow_pools if pool in judged), judged[0])


def _stories(config: Config, every: Trace, slow: Trace) -> tuple[Series, ...]:
    """Return the histogram of a pool: all cancels, and those slower than the edge of its grace.

    At the edge below none was in time, which must not matter.
    """
    pool = {names.POOL: _pool(config)}
    edge = edge_of(config.grace_of(_pool(config)))
    in_time = tuple(
        None if total is None or late is None else total - late
        for total, late in zip(every, slow, strict=True)
    )
    below = tuple(None if total is None else 0.0 for total in every)
    lower = [one for one in names.PROPAGATION_BUCKETS if edge is not None and one < edge][-1:]
    return (
        Series(COUNT, every, pool),
        Series(BUCKET, in_time, pool | {names.LE: repr(edge)}),
        *(Series(BUCKET, below, pool | {names.LE: repr(one)}) for one in lower),
        Series(BUCKET, every, pool | {names.LE: "+Inf"}),
    )


def _firing(config: Config, share: float) -> tuple[Firing, ...]:
    return (
        Firing(
            labels={names.POOL: _pool(config)},
            value=round(share, 6),
            severity=Severity.WARNING,
        ),
    )


def _whole(config: Config) -> tuple[int, int]:
    """Return a number of cancels that suffices, and how many of them may just be slow."""
    share = Fraction(allowed_share(config))
    every = share.denominator * ceil(LEAST_SAMPLES / share.denominator)
    return every, int(every * share)


def _after(config: Config) -> int:
    return timing.scrapes(config, timing.settling(config)) + 6


def _day(config: Config, every: int, slow: int, *, before: float = 0) -> tuple[Series, ...]:
    """Return a day on which so many cancels end, after a quiet time and all between two scrapes."""
    after = _after(config)
    return _stories(
        config,
        flat(before, _QUIET) + flat(before + every, after),
        flat(before, _QUIET) + flat(before + slow, after),
    )


def _silent(config: Config, name: str, every: int, slow: int, *kinds: Kind) -> Case:
    return Case(name=name, series=_day(config, every, slow), never=(NAME,), kinds=kinds)


def _above(config: Config) -> Case:
    every, slow = _whole(config)
    return Case(
        name="one cancel more than may be slow fires",
        series=_day(config, every, slow + 1),
        checks=(
            Check(alert=NAME, scrape=_QUIET),
            Check(
                alert=NAME,
                scrape=_QUIET + _after(config) - 1,
                firing=_firing(config, (slow + 1) / every),
            ),
        ),
        kinds=(Kind.JUST_ABOVE,),
    )


def _least(config: Config) -> Case:
    return Case(
        name=f"{LEAST_SAMPLES} slow cancels are enough to tell",
        series=_day(config, LEAST_SAMPLES, LEAST_SAMPLES),
        checks=(Check(alert=NAME, scrape=_QUIET + _after(config) - 1, firing=_firing(config, 1)),),
    )


def _counter_reset(config: Config) -> Case:
    after = _after(config)
    every = flat(5000, 4) + flat(5000 + LEAST_SAMPLES, after) + gone(2) + flat(0, 4)
    slow = flat(400, 4) + flat(400 + LEAST_SAMPLES, after) + gone(2) + flat(0, 4)
    return Case(
        name="a restart that loses the counts loses no slow cancel, and goes on telling",
        series=_stories(
            config, every + flat(LEAST_SAMPLES, after), slow + flat(LEAST_SAMPLES, after)
        ),
        checks=(
            Check(
                alert=NAME,
                scrape=len(every) + after - 1,
                firing=_firing(config, 1),
            ),
        ),
        kinds=(Kind.COUNTER_RESET, Kind.RESTART),
    )


def _reset_alone(config: Config) -> Case:
    rest = _after(config)
    return Case(
        name="a restart that loses the counts is no slow cancel",
        series=_stories(
            config,
            flat(5000, rest) + gone(2) + flat(0, rest),
            flat(400, rest) + gone(2) + flat(0, rest),
        ),
        never=(NAME,),
    )


def _born(config: Config) -> Case:
    rest = _after(config)
    return Case(
        name="counts that were there before Prometheus looked are not of this day",
        series=_stories(config, gone(LEAD) + flat(5000, rest), gone(LEAD) + flat(400, rest)),
        never=(NAME,),
        kinds=(Kind.BORN,),
    )


def _stale(config: Config) -> Case:
    after = _after(config)
    every = lead(0) + flat(LEAST_SAMPLES, after) + gone(after)
    return Case(
        name="an exporter that goes away does not take back what the day has shown",
        series=_stories(config, every, every),
        checks=(Check(alert=NAME, scrape=len(every) - 1, firing=_firing(config, 1)),),
        kinds=(Kind.STALE,),
    )


def _source_lost(config: Config) -> Case:
    few = LEAST_SAMPLES // 2
    every = lead(0) + flat(few, 4) + gone(_after(config))
    return Case(
        name="a store that is lost before enough cancels ended makes no claim",
        series=_stories(config, every, every),
        never=(NAME,),
        kinds=(Kind.SOURCE_LOST,),
    )


def cases(config: Config) -> tuple[Case, ...]:
    """Return the stories that prove the rule, none where there is no rule."""
    if not rules(config):
        return ()
    every, slow = _whole(config)
    few = LEAST_SAMPLES - 1
    return (
        _above(config),
        _silent(config, "just as many as may be slow are silent", every, slow, Kind.AT_THRESHOLD),
        _silent(config, "one slow cancel less is silent", every, max(0, slow - 1), Kind.JUST_BELOW),
        _silent(config, f"{few} cancels are too few to tell, all slow", few, few),
        _least(config),
        _counter_reset(config),
        _reset_alone(config),
        _born(config),
        _stale(config),
        _source_lost(config),
    )


ALERT: Final = Alert(
    name=NAME,
    severity=Severity.WARNING,
    bearing=Bearing.FAULT,
    summary="Cancels take longer than the grace in force.",
    rules=rules,
    cases=cases,
)
