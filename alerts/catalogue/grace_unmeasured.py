"""OrphanGraceUnmeasured: the number behind cutoff and shed rule is a guess, or has grown old."""

from typing import Final

from orphanwatch.alerts import timing
from orphanwatch.alerts.alert import Alert, Bearing, Case, Check, Firing, Kind, Rule, Severity
from orphanwatch.alerts.gauge_cases import NO_COUNTER
from orphanwatch.alerts.promql import across_replicas, equals, highest_seen, select, within
from orphanwatch.alerts.traces import LEAD, Series, Trace, flat, gone, lead
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import SECOND
from orphanwatch.exporter.names import GraceSource

NAME: Final = "OrphanGraceUnmeasured"


def _pools(config: Config) -> tuple[str, ...]:
    """Return the configured pools: nobody measures ``other``, unless there is nothing else."""
    return tuple(sorted(config.pools)) or config.pool_names


def _expr(config: Config) -> str:
    """Return the arms: a proposal, or a measurement that is older than its validity."""
    pools = equals(names.POOL, *_pools(config))
    proposal = equals(names.SOURCE, GraceSource.PROPOSAL)
    grace = within(select(config, names.GRACE_SECONDS, proposal, pools), timing.lookback(config))
    # Without the source, so that a measurement that runs out and becomes a proposal is one alert.
    proposed = f"max without ({names.SOURCE}) (max_over_time({grace}))"
    until = highest_seen(config, names.GRACE_VALID_UNTIL, pools)
    return f"{across_replicas(config, proposed)} > 0\nor\ntime() - {until} > 0"


def rules(config: Config) -> tuple[Rule, ...]:
    """Return the one rule, an alert for each pool."""
    hold = timing.fault_hold(config)
    return (
        Rule(
            expr=_expr(config),
            hold=hold,
            severity=Severity.INFO,
            description=(
                "The cancel grace of pool {{ $labels.pool }} is a proposal, or its measurement "
                "is no longer valid: its cutoff and shed rule rest on a guess. Nothing is urgent. "
                "In working time, measure it with `orphanwatch grace`, and do not scale "
                "by this number until then."
            ),
            time_to_page=timing.time_to_page(config, hold),
        ),
    )


def _series(config: Config, source: GraceSource, trace: Trace) -> Series:
    labels = {names.POOL: _pools(config)[0], names.SOURCE: str(source)}
    return Series(names.GRACE_SECONDS, trace, labels)


def _valid(config: Config, trace: Trace) -> Series:
    return Series(names.GRACE_VALID_UNTIL, trace, {names.POOL: _pools(config)[0]})


def _firing(config: Config) -> tuple[Firing, ...]:
    return (Firing(labels={names.POOL: _pools(config)[0]}, severity=Severity.INFO),)


def _length(config: Config) -> int:
    return timing.scrapes(config, timing.fault_hold(config)) + 4


def _proposal(config: Config) -> Case:
    length = _length(config)
    measured = gone(LEAD + length) + flat(2, 10)
    return Case(
        name="a proposal fires, and clears when it is measured",
        series=(
            _series(config, GraceSource.PROPOSAL, flat(1, LEAD + length) + gone(10)),
            _series(config, GraceSource.MEASURED, measured),
        ),
        checks=(
            Check(alert=NAME, scrape=2),
            Check(alert=NAME, scrape=LEAD + length - 1, firing=_firing(config)),
            Check(alert=NAME, scrape=LEAD + length + 9),
        ),
        kinds=(Kind.BORN, Kind.STALE),
    )


def _runs_out(config: Config) -> Case:
    """Return a measurement that is valid up to the last quiet scrape, which is not yet too late."""
    hold = timing.scrapes(config, timing.fault_hold(config))
    length = LEAD + hold + 4
    last = LEAD - 1
    until = last * config.scrape_interval / SECOND
    return Case(
        name="a measurement fires one scrape after its validity, not at its end",
        series=(
            _series(config, GraceSource.MEASURED, flat(2, length)),
            _valid(config, flat(until, length)),
        ),
        checks=(
            Check(alert=NAME, scrape=last + hold),
            Check(alert=NAME, scrape=last + 1 + hold, firing=_firing(config)),
        ),
        kinds=(Kind.AT_THRESHOLD, Kind.JUST_ABOVE),
    )


def _falls_back(config: Config) -> Case:
    hold = timing.scrapes(config, timing.fault_hold(config))
    until = (LEAD - 1) * config.scrape_interval / SECOND
    after = hold + 4
    return Case(
        name="a measurement that runs out and becomes a proposal is one alert, told once",
        series=(
            _series(config, GraceSource.MEASURED, flat(2, LEAD + 2) + gone(after)),
            _valid(config, flat(until, LEAD + 2) + gone(after)),
            _series(config, GraceSource.PROPOSAL, gone(LEAD + 2) + flat(1, after)),
        ),
        checks=(Check(alert=NAME, scrape=LEAD + hold, firing=_firing(config)),),
    )


def _still_valid(config: Config) -> Case:
    length = 2 * _length(config)
    until = length * config.scrape_interval / SECOND
    return Case(
        name="a measurement is silent up to the end of its validity",
        series=(
            _series(config, GraceSource.MEASURED, flat(2, length)),
            _valid(config, flat(until, length)),
        ),
        never=(NAME,),
        kinds=(Kind.JUST_BELOW,),
    )


def _restart(config: Config) -> Case:
    half = timing.scrapes(config, timing.fault_hold(config)) // 2 + 2
    return Case(
        name="an exporter restart does not begin the wait anew",
        series=(_series(config, GraceSource.PROPOSAL, flat(1, half) + gone(2) + flat(1, half)),),
        checks=(Check(alert=NAME, scrape=2 * half + 1, firing=_firing(config)),),
        kinds=(Kind.RESTART,),
    )


def _other_pool(config: Config) -> Case:
    return Case(
        name="a proposal of a pool that is not configured is silent",
        series=(
            Series(
                names.GRACE_SECONDS,
                flat(1, 2 * _length(config)),
                {names.POOL: "not-configured", names.SOURCE: str(GraceSource.PROPOSAL)},
            ),
        ),
        never=(NAME,),
    )


def _source_lost(config: Config) -> Case:
    return Case(
        name="an exporter that is gone makes no claim about grace",
        series=(
            _series(config, GraceSource.PROPOSAL, flat(1, 1) + gone(_length(config))),
            _valid(config, lead(0)[:1] + gone(_length(config))),
        ),
        never=(NAME,),
        kinds=(Kind.SOURCE_LOST,),
    )


def cases(config: Config) -> tuple[Case, ...]:
    """Return the stories that prove the rule."""
    return (
        _proposal(config),
        _runs_out(config),
        _falls_back(config),
        _still_valid(config),
        _restart(config),
        _other_pool(config),
        _source_lost(config),
    )


ALERT: Final = Alert(
    name=NAME,
    severity=Severity.INFO,
    bearing=Bearing.NOTICE,
    summary="The cancel grace is not measured.",
    rules=rules,
    cases=cases,
    excused=NO_COUNTER,
)
