"""A backtest for people and for programs: lines with small bars, or one JSON document."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from orphanwatch.alerts.alert import Severity
from orphanwatch.alerts.backtest.results import (
    RESPONSE,
    Backtest,
    Curve,
    CurvePoint,
    Outcome,
)
from orphanwatch.exporter.instants import SECOND, Instant, format_duration, format_instant

UNKNOWN: Final = "unknown"
CAVEAT: Final = (
    "Counted for each alert and label set, before Alertmanager groups or inhibits any of them."
)

_MINUTE: Final = 60
_BAR: Final = 24
_FULL: Final = "\N{FULL BLOCK}"
_SPARKS: Final = "▁▂▃▄▅▆▇█"
_BLIND_DAY: Final = "?"
_QUIET_DAY: Final = "\N{MIDDLE DOT}"


def lines_of(tested: Backtest) -> Iterator[str]:
    """Yield the backtest for people: the answer first, then each rule, then the neighbours."""
    yield from _headlines(tested)
    yield ""
    yield from _table(tested)
    for outcome in tested.outcomes:
        yield from _plots(outcome)


def _headlines(tested: Backtest) -> Iterator[str]:
    for severity in (Severity.CRITICAL, Severity.WARNING):
        yield headline(tested, severity)
    yield (
        f"Replayed: {length(tested.length)} up to {instant(tested.end)}, every "
        f"{length(tested.step)}. {CAVEAT}"
    )
    if tested.length + 2 * tested.step < tested.wanted:
        yield (
            f"The exporter's history begins at {instant(tested.start)}: of the "
            f"{length(tested.wanted)} that were asked for, the time before is unknown."
        )
    blind = tested.length - tested.seen
    if blind >= _MINUTE:
        about = length(blind // _MINUTE * _MINUTE)
        yield (
            f"The exporter was not scraped for about {about} of it ({_share(blind, tested)}): "
            "what happened then is unknown."
        )
    if slower := [outcome for outcome in tested.outcomes if outcome.step > tested.step]:
        slowest = length(max(outcome.step for outcome in slower))
        yield (
            f"{len(slower)} rules over long ranges were evaluated less often, down to every "
            f"{slowest}; --step makes it the same for all."
        )
    if tested.assumed:
        yield f"Assumed: {tested.assumed}."


def headline(tested: Backtest, severity: Severity) -> str:
    """Return how often alerts of a severity call somebody in a week."""
    outcomes = [each for each in tested.outcomes if each.severity is severity]
    known = [each.per_week for each in outcomes if each.per_week is not None]
    blind = len(outcomes) - len(known)
    what = f"{RESPONSE[severity].capitalize()}s a week: "
    rest = f"; {blind} of {len(outcomes)} rules saw too little of the past" if blind else ""
    if not known or (blind and not sum(known)):
        # No rule fired, and some were blind: that is no zero.
        return f"{what}{UNKNOWN}{rest}"
    return f"{what}{'at least ' if blind else ''}{rounded(sum(known))}{rest}"


def _table(tested: Backtest) -> Iterator[str]:
    width = max(len(outcome.title) for outcome in tested.outcomes)
    by_day = f"by day ({_QUIET_DAY} none, {_BLIND_DAY} unknown)"
    yield f"{'alert':<{width}}  {'calls':<6}  {'seen':>5}  {'fired':>7}  {'a week':>7}  {by_day}"
    for outcome in tested.outcomes:
        count = UNKNOWN if outcome.count is None else str(outcome.count)
        weekly = UNKNOWN if outcome.per_week is None else rounded(outcome.per_week)
        yield (
            f"{outcome.title:<{width}}  {RESPONSE[outcome.severity]:<6}  "
            f"{_share(outcome.seen, tested):>5}  {count:>7}  {weekly:>7}  {days(outcome)}"
        )
    for reason, outcomes in by_reason(tested.outcomes).items():
        is_all = len(outcomes) == len(tested.outcomes)
        yield f"{f'all {len(outcomes)} rules' if is_all else titles(outcomes)}: {reason}"


def by_reason(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """Return the rules of which nothing can be said, by why: it is told once for all of them."""
    found: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if reason := why_unknown(outcome):
            found.setdefault(reason, []).append(outcome)
    return found


def titles(outcomes: Iterable[Outcome]) -> str:
    """Return the titles of several rules, in one line."""
    return ", ".join(outcome.title for outcome in outcomes)


def why_unknown(outcome: Outcome) -> str:
    """Return why nothing can be said of a rule; "" where something can."""
    if outcome.count is None:
        names = ", ".join(outcome.unseen)
        why = f"{names} never shown" if names else "its metrics were never there together"
        return f"{UNKNOWN}: {why}"
    if outcome.per_week is None:
        return f"{UNKNOWN} for a week: seen for {length(outcome.seen)} only, under a day"
    return ""


def days(outcome: Outcome) -> str:
    """Return one sign for each day: how often it fired, or that nobody can know."""
    most = max((count for count in outcome.days if count), default=0)
    signs = []
    for count in outcome.days:
        if count is None:
            signs.append(_BLIND_DAY)
        elif count == 0:
            signs.append(_QUIET_DAY)
        else:
            signs.append(_SPARKS[-(-count * (len(_SPARKS) - 1) // most)])
    return "".join(signs)


def _plots(outcome: Outcome) -> Iterator[str]:
    for curve in shown_curves(outcome):
        yield ""
        yield f"{outcome.title}: fired, by {curve.setting}"
        yield from _bars(curve)


def shown_curves(outcome: Outcome) -> tuple[Curve, ...]:
    """Return the curves that are not zero, or unknown, all along."""
    return tuple(curve for curve in outcome.curves if any(point.fired for point in curve.points))


def _bars(curve: Curve) -> Iterator[str]:
    width = max(len(point.value) for point in curve.points)
    most = max(point.fired or 0 for point in curve.points)
    for point in curve.points:
        bar = _FULL * -(-(point.fired or 0) * _BAR // most)
        mark = "*" if point.is_current else " "
        yield f"  {point.value:>{width}} {mark} {bar:<{_BAR}}  {said(point)}".rstrip()


def said(point: CurvePoint) -> str:
    """Return a point's number in words."""
    if point.fired is None:
        return UNKNOWN
    weekly = "" if point.per_week is None else f", {rounded(point.per_week)} a week"
    return f"{point.fired}{weekly}"


def rounded(value: float) -> str:
    """Return a weekly number with one decimal, never 0 for what did happen."""
    return "under 0.1" if 0 < value < 0.05 else f"{value:.1f}"  # noqa: PLR2004  (half of it)


def instant(at: int) -> str:
    """Return an instant given in seconds."""
    return format_instant(Instant(at * SECOND))


def length(seconds: int) -> str:
    """Return a length given in seconds."""
    return format_duration(seconds * SECOND)


def _share(part: int, tested: Backtest) -> str:
    share = part / tested.length
    if 0.995 <= share < 1:  # noqa: PLR2004  (what would round to all of it)
        return ">99%"
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"  # noqa: PLR2004  (likewise to nothing)


def document_of(tested: Backtest) -> dict[str, Any]:
    """Return the backtest as a JSON document; null is unknown."""
    return {
        "start": instant(tested.start),
        "end": instant(tested.end),
        "wanted_seconds": tested.wanted,
        "replayed_seconds": tested.length,
        "step_seconds": tested.step,
        "scraped_seconds": tested.seen,
        "assumed": tested.assumed or None,
        "grouped": False,
        "alerts": [_outcome_document(outcome) for outcome in tested.outcomes],
    }


def _outcome_document(outcome: Outcome) -> dict[str, Any]:
    return {
        "alert": outcome.name,
        "labels": dict(outcome.labels),
        "severity": str(outcome.severity),
        "calls": RESPONSE[outcome.severity],
        "for": outcome.hold,
        "step_seconds": outcome.step,
        "seen_seconds": outcome.seen,
        "fired": outcome.count,
        "fired_per_week": outcome.per_week,
        "unknown_because": why_unknown(outcome) or None,
        "firings": None
        if outcome.fired is None
        else [{"at": instant(one.at), "labels": dict(one.labels)} for one in outcome.fired],
        "neighbours": [
            {
                "setting": curve.setting,
                "values": [
                    {
                        "value": point.value,
                        "current": point.is_current,
                        "fired": point.fired,
                        "fired_per_week": point.per_week,
                    }
                    for point in curve.points
                ],
            }
            for curve in outcome.curves
        ],
    }
