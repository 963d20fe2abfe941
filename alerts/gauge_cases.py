"""The standard set of cases for a rule that holds one number against a threshold."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from orphanwatch.alerts import timing
from orphanwatch.alerts.alert import Case, Check, Firing, Kind, Variation
from orphanwatch.alerts.traces import LEAD, MISSED, Series, Trace, flat, gone, lead
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import Micros

NO_COUNTER: Final = {Kind.COUNTER_RESET: "the rule reads gauges only"}
NEVER_BELOW_ZERO: Final = {Kind.JUST_BELOW: "the threshold is zero, and a count is never below it"}

# So long is every hole that a restart leaves: two scrapes fail.
_RESTART: Final = 2
# Scrapes that a case goes on beyond what the rule needs, so that a missed one decides nothing.
_SLACK: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """A number of a rule, with values around its threshold."""

    alert: str
    hold: Micros
    """The rule's ``for``."""
    series: Callable[[Trace], tuple[Series, ...]]
    """Every series that a case needs, from the trace of the number."""
    firing: Callable[[float], tuple[Firing, ...]]
    """What must fire, from the value that the rule sees."""
    at: float
    above: float
    below: float | None = None
    """None where nothing lies below the threshold."""
    healthy: float = 0.0


def gauge_cases(config: Config, gauge: Gauge, arm: str = "") -> tuple[Case, ...]:
    """Return a case of each kind that a gauge has, and two of an exporter restart.

    A silent case goes on for a few scrapes longer than the alert needs to fire.

    ``arm`` names which number it is, for a rule that holds more than one against a threshold.
    """
    named = f"{arm}, " if arm else ""
    return tuple(replace(case, name=f"{named}{case.name}") for case in _cases(config, gauge))


def once(case: Case) -> Case:
    """Return the case without variations: the cases at and above the threshold have them all."""
    return replace(case, variations=(Variation.PLAIN,))


def wherever(value: float, scraped: Trace) -> Trace:
    """Return one value for every scrape that brought something: another series of its page."""
    return tuple(MISSED if seen is MISSED else value for seen in scraped)


def _cases(config: Config, gauge: Gauge) -> Iterator[Case]:
    long = _held(config, gauge) + _SLACK
    if gauge.below is not None:
        yield once(_silent(gauge, flat(gauge.below, long), Kind.JUST_BELOW, " for longer"))
    yield _silent(gauge, flat(gauge.at, long), Kind.AT_THRESHOLD, " for longer")
    yield _above(config, gauge)
    yield once(_born(config, gauge))
    yield _stale(config, gauge)
    yield _restart(config, gauge)
    calm = flat(gauge.healthy, long)
    yield once(_silent(gauge, calm + gone(_RESTART) + calm, Kind.RESTART, " in calm"))
    lost = flat(gauge.healthy, LEAD) + gone(long)
    yield once(_silent(gauge, lost, Kind.SOURCE_LOST, " in calm"))


def _held(config: Config, gauge: Gauge) -> int:
    """Return how many scrapes the number must show until the alert fires."""
    return timing.scrapes(config, gauge.hold) + _SLACK


def _cleared(config: Config) -> int:
    """Return how many scrapes later the look-back has forgotten."""
    return timing.scrapes(config, timing.lookback(config)) + _SLACK


def _silent(gauge: Gauge, trace: Trace, kind: Kind, how: str) -> Case:
    return Case(
        name=f"{kind}{how}: silent",
        series=gauge.series(trace),
        never=(gauge.alert,),
        kinds=(kind,),
    )


def _fires(gauge: Gauge, scrape: int) -> Check:
    return Check(alert=gauge.alert, scrape=scrape, firing=gauge.firing(gauge.above))


def _above(config: Config, gauge: Gauge) -> Case:
    held, cleared = _held(config, gauge), _cleared(config)
    ends = LEAD + held
    return Case(
        name=f"{Kind.JUST_ABOVE}: fires after its hold and not before, and clears",
        series=gauge.series(
            lead(gauge.healthy) + flat(gauge.above, held) + flat(gauge.healthy, cleared)
        ),
        checks=(
            Check(alert=gauge.alert, scrape=ends - _SLACK - 2),
            _fires(gauge, ends - _SLACK + 1),
            Check(alert=gauge.alert, scrape=ends + cleared - 1),
        ),
        kinds=(Kind.JUST_ABOVE,),
    )


def _born(config: Config, gauge: Gauge) -> Case:
    held = _held(config, gauge)
    return Case(
        name=f"{Kind.BORN}, above the threshold: fires",
        series=gauge.series(gone(LEAD) + flat(gauge.above, held)),
        checks=(
            Check(alert=gauge.alert, scrape=LEAD - 1),
            _fires(gauge, LEAD + held - _SLACK + 1),
        ),
        kinds=(Kind.BORN,),
    )


def _stale(config: Config, gauge: Gauge) -> Case:
    held, cleared = _held(config, gauge), _cleared(config)
    ends = LEAD + held
    return Case(
        name=f"{Kind.STALE} while it fires: the claim ends with the look-back",
        series=gauge.series(lead(gauge.healthy) + flat(gauge.above, held) + gone(cleared)),
        checks=(
            _fires(gauge, ends - _SLACK + 1),
            Check(alert=gauge.alert, scrape=ends + cleared - 1),
        ),
        kinds=(Kind.STALE,),
    )


def _restart(config: Config, gauge: Gauge) -> Case:
    half = _held(config, gauge) // 2 + 2
    shown = flat(gauge.above, half)
    return Case(
        name=f"{Kind.RESTART} while the number is above: the hold goes on",
        series=gauge.series(lead(gauge.healthy) + shown + gone(_RESTART) + shown),
        checks=(_fires(gauge, LEAD + 2 * half + 1),),
        kinds=(Kind.RESTART,),
    )
