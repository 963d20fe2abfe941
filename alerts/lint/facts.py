"""What the checks know: our metrics, the values of their labels, and what a file records."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from orphanwatch.alerts.lint.model import Facts, Rule, Sampled
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.names import FAMILIES, STORE_REASONS, Kind

SCRAPE_METRICS: Final = frozenset({"up", "ALERTS", "ALERTS_FOR_STATE"})
"""What Prometheus itself has of whatever it scrapes and evaluates."""


def facts_of(config: Config, rules: Iterable[Rule], *, is_ours: bool) -> Facts:
    """Return what is known for a config, and for rules that are evaluated together.

    Where the rules are ours they may read nothing but our metrics and Prometheus' own.
    """
    return Facts(
        config=config,
        samples=dict(_samples()),
        values=_values(config),
        recorded={
            rule.name: rule.expression.read
            for rule in rules
            if not rule.is_alert and rule.expression.read is not None
        },
        foreign=SCRAPE_METRICS if is_ours else None,
    )


def _samples() -> Iterator[tuple[str, Sampled]]:
    for family in FAMILIES:
        is_histogram = family.kind is Kind.HISTOGRAM
        for part in (family.bucket, family.sum, family.count) if is_histogram else (family,):
            yield str(part), Sampled(part.kind, part.labels)


def sample_names() -> tuple[str, ...]:
    """Return the name of every sample that the exporter shows."""
    return tuple(name for name, _ in _samples())


def _values(config: Config) -> Mapping[str, frozenset[str]]:
    return {
        names.POOL: frozenset(config.pool_names),
        names.CAUSE: frozenset(names.Cause),
        names.BASIS: frozenset(names.Basis),
        names.STORE: frozenset(names.StoreName),
        names.REASON: frozenset(one for reasons in STORE_REASONS.values() for one in reasons),
        names.KEY: frozenset(names.KeyKind),
        names.LEDGER: frozenset(names.Join),
        names.TASK: frozenset(names.Join),
        names.SOURCE: frozenset(names.GraceSource),
        names.CONDITION: frozenset(names.Condition),
    }
