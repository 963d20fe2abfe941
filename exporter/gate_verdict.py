"""Whether overflow may be admitted, by what Prometheus knows: pure, from a ``GateHistory``.

Open asks for proof: enough replicas that report, all of them open now and through the hold, no
sign of an orphan within it, every needed store read lately, and no gap in what is known.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Final, NamedTuple

from orphanwatch.exporter import names
from orphanwatch.exporter.gate_history import GateHistory, Limits, Series
from orphanwatch.exporter.instants import SECOND, Instant, Micros, format_duration, micros
from orphanwatch.exporter.names import ARM_STORES, Condition, Family
from orphanwatch.exporter.signals.verdict import CONDITION_WORDS

_SIGNS: Final = (names.TOKEN_DELTA, names.LEASES, names.DUPLICATE_IN_FLIGHT)
"""What must have been zero, in whatever pool: the verdict is the service's, not a pool's."""


class Answer(StrEnum):
    """What is said of the gate; only one of the three admits anything."""

    OPEN = "open"
    CLOSED = "closed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateVerdict:
    """The answer, and everything that speaks for it."""

    answer: Answer
    reasons: tuple[str, ...]
    at: Instant
    pools: tuple[str, ...]
    """The overflow pools that were looked at."""
    reporting: int
    """Replicas that report now: one that is scraped twice is one."""
    opens_at: Instant | None
    """When it may open at the earliest; None where it is open, or where that can't be told."""


class _Closing(NamedTuple):
    """What closes the gate."""

    said: str
    at: Instant | None
    """When it did so last; None is somewhen within the hold."""


def judge(
    history: GateHistory, limits: Limits, *, replicas: int, pools: Collection[str] | None
) -> GateVerdict:
    """Return the answer for these pools; for all that are reported, where none are named.

    Any replica that says closed makes it closed, whatever else is unknown.
    """
    sight = _Sight(history, limits)
    wanted = tuple(sorted(pools if pools is not None else sight.pools))
    closed = (*_closed(sight, wanted), *_signs(sight))
    unknown = tuple(_unknown(sight, wanted, replicas))
    if closed:
        answer, reasons = Answer.CLOSED, (*(closing.said for closing in closed), *unknown)
    elif unknown:
        answer, reasons = Answer.UNKNOWN, unknown
    else:
        hold = format_duration(limits.hold)
        said = f"nothing closes {_listed(wanted)}, nor did any sign within {hold}"
        answer, reasons = Answer.OPEN, (said,)
    return GateVerdict(
        answer=answer,
        reasons=tuple(dict.fromkeys(reasons)),
        at=history.at,
        pools=wanted,
        reporting=sight.exporters,
        opens_at=_opens_at(sight, closed),
    )


def _opens_at(sight: "_Sight", closed: Collection[_Closing]) -> Instant | None:
    """Return the end of the hold after what closed it last; never before the present."""
    known = [closing.at for closing in closed if closing.at is not None]
    return Instant(max(sight.at, max(known) + sight.limits.hold)) if known else None


class _Sight:
    """What the rules ask of a history."""

    def __init__(self, history: GateHistory, limits: Limits) -> None:
        self.history, self.limits = history, limits
        self.at = history.at
        self.fresh_from = Instant(history.at - limits.reach)
        self.hold_start = Instant(history.at - limits.hold)

    def of(self, family: Family, replica: str | None = None) -> Iterator[Series]:
        """Yield the series of a family, of one replica or of all, old ones too."""
        for series in self.history.series:
            if series.family is family and replica in {None, series.replica}:
                yield series

    def fresh(self, family: Family, replica: str) -> Iterator[Series]:
        """Yield those that say something about now."""
        return (each for each in self.of(family, replica) if each.newest.at >= self.fresh_from)

    @property
    def reporting(self) -> tuple[str, ...]:
        """The replicas that tell of the gate now."""
        return tuple(
            replica
            for replica in sorted(self.history.reporting)
            if any(self.fresh(names.OVERFLOW_ADMISSION_ALLOWED, replica))
        )

    @property
    def exporters(self) -> int:
        """How many exporters they are."""
        return len({self.history.reporting[replica] for replica in self.reporting})

    @property
    def pools(self) -> frozenset[str]:
        """The overflow pools that any of them tells of."""
        return frozenset(
            series.labels[0]
            for replica in self.reporting
            for series in self.fresh(names.OVERFLOW_ADMISSION_ALLOWED, replica)
        )

    def allowed(self, pool: str) -> Iterator[Series]:
        """Yield what was said of a pool, by whichever replica."""
        for series in self.of(names.OVERFLOW_ADMISSION_ALLOWED):
            if series.labels == (pool,):
                yield series

    def conditions(self, replica: str, pool: str) -> frozenset[str]:
        """Return the conditions that a replica says hold for a pool, of another version too."""
        return frozenset(
            series.labels[1]
            for series in self.fresh(names.FAIL_CLOSED, replica)
            if series.labels[0] == pool and series.newest.value > 0
        )

    def ago(self, instant: Instant) -> str:
        """Return how long ago an instant is, in whole seconds."""
        return format_duration(round((self.at - instant) / SECOND) * SECOND)

    @property
    def within(self) -> str:
        """Where a sign lies that is not over yet, in words."""
        return f"within the hold of {format_duration(self.limits.hold)}"


def _closed(sight: _Sight, wanted: Collection[str]) -> Iterator[_Closing]:
    """Yield what closes a pool, now or since within the hold."""
    for pool in wanted:
        for series in sight.allowed(pool):
            is_now = series.replica in sight.reporting and series.newest.at >= sight.fresh_from
            if is_now and series.newest.value < 1:
                for said in _closed_now(sight, series.replica, pool):
                    yield _Closing(said, sight.at)
                continue
            # What closed it may be over; a replica that has gone said so all the same.
            shut = [p.at for p in series.points if p.value < 1 and p.at > sight.hold_start]
            if shut:
                said = f"pool {pool} was closed until {sight.ago(max(shut))} ago, {sight.within}"
                yield _Closing(said, max(shut))


def _closed_now(sight: _Sight, replica: str, pool: str) -> Iterator[str]:
    holding = sight.conditions(replica, pool)
    for condition in sorted(holding - {Condition.BLIND}):
        yield f"pool {pool} fails closed: {_words_of(condition)}"
    if not holding:
        yield f"pool {pool} admits nothing, and why is not shown: something is unknown to {replica}"


def _signs(sight: _Sight) -> Iterator[_Closing]:
    """Yield the signs of orphans within the hold, in any pool."""
    for family in _SIGNS:
        newest: dict[str, Instant] = {}
        for series in sight.of(family):
            seen = [p.at for p in series.points if p.value > 0 and p.at > sight.hold_start]
            if not seen and series.newest.value > 0 and series.newest.at >= sight.fresh_from:
                seen = [series.newest.at]
            if seen:
                pool = series.labels[0]
                newest[pool] = max(*seen, newest.get(pool, Instant(0)))
        for pool, at in sorted(newest.items()):
            said = f"{family} was above zero in pool {pool} {sight.ago(at)} ago, {sight.within}"
            yield _Closing(said, at)
    for pool, tokens in sorted(sight.history.counted.items()):
        if tokens > 0:
            yield _Closing(f"orphan tokens were counted in pool {pool}, {sight.within}", None)


def _unknown(sight: _Sight, wanted: Collection[str], replicas: int) -> Iterator[str]:
    """Yield everything that would have to be known."""
    if sight.exporters < replicas:
        yield (
            f"{sight.exporters} of {replicas} replicas report {names.OVERFLOW_ADMISSION_ALLOWED}: "
            "see whether they run, are scraped, and have an overflow pool"
        )
    for replica in sight.reporting:
        yield from _blind_spots(sight, replica, wanted)
    for pool in wanted:
        yield from _gaps(sight, pool)


def _blind_spots(sight: _Sight, replica: str, wanted: Collection[str]) -> Iterator[str]:
    reported = {s.labels[0] for s in sight.fresh(names.OVERFLOW_ADMISSION_ALLOWED, replica)}
    known = ", ".join(sorted(reported)) or "none"
    for pool in sorted(set(wanted) - reported):
        yield f"{pool} is no overflow pool that {replica} reports; these are: {known}"
    for family in _SIGNS:
        if not any(sight.fresh(family, replica)):
            yield f"{family} is absent from {replica}: it can't be seen"
    up = {s.labels[0]: s.newest for s in sight.fresh(names.STORE_UP, replica)}
    read = {s.labels[0]: s.newest for s in sight.fresh(names.STORE_LAST_SUCCESS, replica)}
    for store in ARM_STORES:
        if store not in up or store not in read or not up[store].value:
            yield f"store {store} is not readable for {replica}"
            continue
        age = Micros(read[store].at - micros(read[store].value))
        if age > sight.limits.stale_after:
            yield f"store {store} was last read {format_duration(age)} before, by {replica}"
        elif age < -sight.limits.stale_after:
            ahead = format_duration(Micros(-age))
            yield f"the clock of {replica} is {ahead} ahead of Prometheus': set both by NTP"
    if any(Condition.BLIND in sight.conditions(replica, pool) for pool in wanted):
        yield f"{replica} is blind: {CONDITION_WORDS[Condition.BLIND]}"


def _gaps(sight: _Sight, pool: str) -> Iterator[str]:
    """Yield the stretches of the hold in which no replica said anything about a pool.

    Between two samples one may be missed; before the first of all nothing was ever said.
    """
    told = sorted({point.at for series in sight.allowed(pool) for point in series.points})
    if not told and sight.reporting:
        return  # each of them is said not to report it, which is the reason
    before = [at for at in told if at <= sight.hold_start]
    inside = [at for at in told if at > sight.hold_start]
    edges = [max(before, default=sight.hold_start), *inside, sight.at]
    for number, (start, end) in enumerate(pairwise(edges)):
        is_unsaid = number == 0 and not before
        if is_unsaid or end - start > sight.limits.reach:
            yield (
                f"nothing is known of pool {pool} from {sight.ago(start)} to {sight.ago(end)} "
                f"ago, {sight.within}"
            )


def _words_of(condition: str) -> str:
    return next((said for known, said in CONDITION_WORDS.items() if known == condition), condition)


def _listed(pools: Collection[str]) -> str:
    return f"pool{'s' if len(pools) > 1 else ''} {', '.join(pools)}"
