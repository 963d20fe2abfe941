"""OrphanCancelSlowerThanGrace: cancels take longer than the grace, so its number is not true."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import Final

from orphanwatch.alerts import timing
from orphanwatch.alerts.alert import Alert, Bearing, Case, Check, Firing, Kind, Rule, Severity
from orphanwatch.alerts.context_timing import PROPAGATION_RANGE, sample_delay
from orphanwatch.alerts.promql import (
    equals,
    indented,
    number,
    per_exporter,
    select,
    summed,
    within,
)
from orphanwatch.alerts.traces import LEAD, Series, Trace, flat, gone, lead
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import Micros, format_duration, micros

NAME: Final = "OrphanCancelSlowerThanGrace"

LEAST_SAMPLES: Final = 59
"""ln 0.05 / ln 0.95: fewer can't carry even the 0.95 quantile."""

_LE: Final = "le"
_BUCKET: Final = replace(
    names.CANCEL_PROPAGATION_SECONDS, name=f"{names.CANCEL_PROPAGATION_SECONDS}_bucket"
)
_COUNT: Final = replace(
    names.CANCEL_PROPAGATION_SECONDS, name=f"{names.CANCEL_PROPAGATION_SECONDS}_count"
)
# ``increase`` carries float noise; to a millionth, a share that is exactly allowed is allowed.
_MILLIONTH: Final = "0.000001"
# So long that a missed scrape can't make ``increase`` guess a whole sample more.
_QUIET: Final = 150


def edge_of(grace: Micros) -> float | None:
    """Return the smallest bucket edge at or above a grace, in seconds; None above the last.

    What lies above that edge is surely above the grace; what lies between the two is not counted.
    """
    return next((edge for edge in names.PROPAGATION_BUCKETS if micros(edge) >= grace), None)


def allowed_share(config: Config) -> Decimal:
    """Return the part of a day's cancels that may take longer: twice what the quantile leaves."""
    return 2 * (1 - Decimal(repr(config.grace_quantile)))


def _pools_by_edge(config: Config) -> dict[float, list[str]]:
    """Return the pools whose grace the histogram can judge, by the edge that judges it."""
    found: dict[float, list[str]] = {}
    for pool in config.pool_names:
        edge = edge_of(config.grace_of(pool))
        if edge is not None:
            found.setdefault(edge, []).append(pool)
    return dict(sorted(found.items()))


def _in_a_day(config: Config, selector: str) -> str:
    # Of a pod and its successors together; a share of two replicas is that of one.
    return summed(config, f"increase({within(selector, PROPAGATION_RANGE)})")


def slow_share(config: Config) -> str:
    """Return the share of a day's cancels that were surely slower than their pool's grace."""
    # As the exporter writes an edge: 1.0, and not 1.
    judged = [
        select(config, _BUCKET, equals(_LE, repr(edge)), equals(names.POOL, *pools))
        for edge, pools in _pools_by_edge(config).items()
    ]
    # Above a grace that is above all edges nothing can be seen, so nothing is surely slower.
    buckets = judged or [select(config, _BUCKET, equals(_LE, "+Inf"))]
    in_time = "\nor\n".join(_in_a_day(config, bucket) for bucket in buckets)
    every = _in_a_day(config, select(config, _COUNT))
    slow = f"{every}\n- ignoring ({_LE})\n(\n{indented(in_time)}\n)"
    return f"(\n{indented(slow)}\n)\n/ ({every} > 0)"


def _cancels(config: Config) -> str:
    """Return how many cancels there were in a day, each counted once."""
    count = select(config, _COUNT)
    return per_exporter(
        config,
        f"increase({within(count, PROPAGATION_RANGE)})",
        f"present_over_time({within(count, timing.lookback(config))})",
        PROPAGATION_RANGE,
        timing.looks_over(config, PROPAGATION_RANGE),
    )


def _expr(config: Config) -> str:
    share = f"round(\n{indented(slow_share(config))},\n  {_MILLIONTH}\n)"
    too_many = f"{share} > {number(float(allowed_share(config)))}"
    # Half a sample less: ``increase`` may see 59 as 58.99.
    enough = f"(\n{indented(_cancels(config))}\n) > {number(LEAST_SAMPLES - 0.5)}"
    return f"{too_many}\nand\n{enough}"


def rules(config: Config) -> tuple[Rule, ...]:
    """Return the one rule, an alert for each pool.

    There is none where every grace is above all buckets, or the quantile lets all be slow.
    """
    if not _pools_by_edge(config) or allowed_share(config) >= 1:
        return ()
    hold = timing.settling(config)
    day = format_duration(PROPAGATION_RANGE)
    allowed = f"{100 * float(allowed_share(config)):.4g}%"
    return (
        Rule(
            expr=_expr(config),
            hold=hold,
            severity=Severity.WARNING,
            description=(
                "In pool {{ $labels.pool }} {{ $value | humanizePercentage }} of the cancels of "
                f"{day} took longer than its grace, and {allowed} may: the shed rule is no longer "
                "true. Mend the cancel path, or measure the grace again with `orphanwatch grace`; "
                "do not scale by the old number."
            ),
            time_to_page=timing.time_to_page(
                config, hold, before=PROPAGATION_RANGE + sample_delay(config)
            ),
        ),
    )


def _pool(config: Config) -> str:
    """Return a pool that the rule judges, one for overflow where there is one."""
    judged = [pool for pools in _pools_by_edge(config).values() for pool in pools]
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
        Series(_COUNT, every, pool),
        Series(_BUCKET, in_time, pool | {_LE: repr(edge)}),
        *(Series(_BUCKET, below, pool | {_LE: repr(one)}) for one in lower),
        Series(_BUCKET, every, pool | {_LE: "+Inf"}),
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
