"""What a Prometheus server knows of the gate: raw samples, with the instants they were taken at.

Raw, because only they show a gap: a function over a range makes something of whatever is there.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, NamedTuple

from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.errors import PrometheusError
from orphanwatch.exporter.instants import Instant, Micros, format_duration, micros
from orphanwatch.exporter.names import Basis, Family
from orphanwatch.exporter.prometheus_server import NO_PROMETHEUS, ODD_SHAPES, PrometheusServer

LABEL_OF_NAME: Final = "__name__"

_THROUGH_THE_HOLD: Final = (
    names.OVERFLOW_ADMISSION_ALLOWED,
    names.TOKEN_DELTA,
    names.LEASES,
    names.DUPLICATE_IN_FLIGHT,
)
_NEWEST: Final = (names.STORE_UP, names.STORE_LAST_SUCCESS, names.FAIL_CLOSED)
_FAMILIES: Final = {str(family): family for family in (*_THROUGH_THE_HOLD, *_NEWEST)}


class Limits(NamedTuple):
    """How long the gate is held, and how old or apart samples may be."""

    hold: Micros
    reach: Micros
    """The longest that a sample stands for what is now: four scrapes, or what the exporter itself
    calls stale."""
    stale_after: Micros


class Point(NamedTuple):
    """One sample."""

    at: Instant
    value: float


@dataclass(frozen=True, slots=True)
class Series:
    """Samples of one family from one replica, the oldest first, at least one."""

    family: Family
    replica: str
    """Every label that is the scrape's and not the family's own, as PromQL writes them."""
    labels: tuple[str, ...]
    """The values of the family's labels, in the family's order."""
    points: tuple[Point, ...]

    @property
    def newest(self) -> Point:
        """The newest sample."""
        return self.points[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateHistory:
    """What the server has, as of an instant of its own clock."""

    at: Instant
    series: tuple[Series, ...]
    reporting: Mapping[str, str]
    """Replicas whose gate is scraped now, each with the exporter that it is: two may be one that
    is scraped twice. One that went away is marked as gone by the server."""
    counted: Mapping[str, float]
    """Orphan tokens that were counted within the hold, by pool: late rows are among them."""


def limits_of(config: Config) -> Limits:
    """Return the limits of a config."""
    reach = max(config.stale_after, 4 * config.scrape_interval)
    return Limits(config.reopen_hold, Micros(reach), config.stale_after)


def read_history(
    url: str, matchers: str, limits: Limits, replica_labels: Collection[str]
) -> GateHistory:
    """Return what the server has within the hold. Raises ``PrometheusError``.

    ``matchers`` pick a service, as ``selector:`` does; exporters differ in ``replica_labels``.
    """
    server = PrometheusServer(url)
    server.begin()
    at = _now(server)
    long = format_duration(limits.hold + limits.reach)
    short = format_duration(limits.reach)
    raw = [
        *server.ask(f"{_select(_THROUGH_THE_HOLD, matchers)}[{long}]", at),
        *server.ask(f"{_select(_NEWEST, matchers)}[{short}]", at),
    ]
    scraped = server.ask(_select([names.OVERFLOW_ADMISSION_ALLOWED], matchers), at)
    charged = _joined(f'basis="{Basis.CHARGED}"', matchers)
    # At least as far back as a rise can be seen at all.
    span = format_duration(max(limits.hold, limits.reach))
    rises = server.ask(f"max by (pool) (increase({names.TOKENS_TOTAL}{{{charged}}}[{span}]))", at)
    try:
        return GateHistory(
            at=at,
            series=tuple(_series(raw)),
            reporting={
                _replica(each["metric"], _ALLOWED): _exporter(each["metric"], replica_labels)
                for each in scraped
            },
            counted={each["metric"][names.POOL]: float(each["value"][1]) for each in rises},
        )
    except ODD_SHAPES:
        raise PrometheusError(NO_PROMETHEUS) from None


_ALLOWED: Final = names.OVERFLOW_ADMISSION_ALLOWED


def _now(server: PrometheusServer) -> Instant:
    """Return the server's own present: every question is asked as of it."""
    try:
        (told,) = server.ask("vector(time())")
        return _instant(told["value"][1])
    except ODD_SHAPES:
        raise PrometheusError(NO_PROMETHEUS) from None


def _select(families: Iterable[Family], matchers: str) -> str:
    any_of = "|".join(str(family) for family in families)
    named = f'{LABEL_OF_NAME}=~"{any_of}"'
    return f"{{{_joined(named, matchers)}}}"


def _joined(*matchers: str) -> str:
    return ",".join(part for part in matchers if part)


def _series(raw: Iterable[Mapping[str, Any]]) -> Iterator[Series]:
    for each in raw:
        family = _FAMILIES.get(each["metric"].get(LABEL_OF_NAME, ""))
        points = tuple(Point(_instant(at), float(value)) for at, value in each["values"])
        points = tuple(point for point in points if isfinite(point.value))
        if family is not None and points:
            labels = tuple(each["metric"].get(label, "") for label in family.labels)
            yield Series(family, _replica(each["metric"], family), labels, points)


def _instant(epoch: object) -> Instant:
    return Instant(micros(float(str(epoch))))


def _replica(metric: Mapping[str, str], family: Family) -> str:
    own = {LABEL_OF_NAME, *family.labels}
    return _written({name: value for name, value in metric.items() if name not in own})


def _exporter(metric: Mapping[str, str], replica_labels: Collection[str]) -> str:
    """Return which exporter it is: what a second server adds by which it is scraped is dropped."""
    return _written({name: value for name, value in metric.items() if name in replica_labels})


def _written(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in sorted(labels.items())) + "}"
