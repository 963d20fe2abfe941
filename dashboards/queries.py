"""PromQL of panels: every selector follows the dashboard's variables, every query folds replicas.

Two exporters that watch one stack report the same numbers. So a query takes the worst replica, and
all other labels (job, cluster, pool) stay. Over the whole time shown an exporter may have had
successors, each with a part of the count: those parts are added (``seen``).
"""

from typing import Final

from orphanwatch.alerts import promql, timing
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import format_duration
from orphanwatch.exporter.names import ARM_STORES, Family

RATE_RANGE: Final = "$__rate_interval"
LOOK_INTERVAL: Final = "$__interval"
SEEN_RANGE: Final = "$__range"
"""The whole time that the dashboard shows."""
SCOPE: Final = ('job=~"$job"', 'instance=~"$instance"')
CHOSEN_POOLS: Final = f'{names.POOL}=~"$pool"'


def select(config: Config, family: Family | str, *matchers: str, every_pool: bool = False) -> str:
    """Return a selector of one sample name, kept to the chosen jobs, instances and pools.

    ``every_pool`` looks past the choice of pools: a verdict holds for the whole stack.
    """
    has_pools = isinstance(family, Family) and names.POOL in family.labels and not every_pool
    pools = (CHOSEN_POOLS,) if has_pools else ()
    return promql.select(config, family, *matchers, *pools, *SCOPE)


def highest(config: Config, inner: str, *labels: str) -> str:
    """Return the highest of the replicas: for evidence, where seeing more is worse."""
    return f"max {promql.without_replicas(config, *labels)} ({inner})"


def lowest(config: Config, inner: str, *labels: str) -> str:
    """Return the lowest of the replicas: for permissions and sight, where less is worse."""
    return f"min {promql.without_replicas(config, *labels)} ({inner})"


def gauge(config: Config, family: Family, *matchers: str) -> str:
    """Return a gauge, the highest of the replicas."""
    return highest(config, select(config, family, *matchers))


def total(inner: str, *labels: str) -> str:
    """Return the sum over labels of ours, of a query whose replicas are folded already."""
    return f"sum without ({', '.join(labels)}) ({inner})"


def arms() -> str:
    """Return the matcher of the stores that the two arms need."""
    return promql.equals(names.STORE, *ARM_STORES)


def per_second(config: Config, family: Family) -> str:
    """Return a counter's rate, the highest of the replicas."""
    return highest(config, f"rate({select(config, family)}[{RATE_RANGE}])")


def seen(config: Config, family: Family, read: str = "increase") -> str:
    """Return what ``read`` counts in the time shown, each replica's, and each successor's once.

    So all are added, and divided by how many there were at once, on average.
    """
    series = select(config, family)
    lookback = format_duration(timing.lookback(config))
    at_once = f"count {promql.without_replicas(config)} (present_over_time({series}[{lookback}]))"
    counted = added(config, f"{read}({series}[{SEEN_RANGE}])")
    return f"{counted} / avg_over_time(({at_once})[{SEEN_RANGE}:{LOOK_INTERVAL}])"


def added(config: Config, inner: str) -> str:
    """Return the sum over the replicas, present and past ones: for shares and for means."""
    return f"sum {promql.without_replicas(config)} ({inner})"


def mean_seconds(config: Config, family: Family) -> str:
    """Return a histogram's mean observation, the highest of the replicas."""
    sums = f"rate({select(config, family.sum)}[{RATE_RANGE}])"
    count = f"rate({select(config, family.count)}[{RATE_RANGE}])"
    return highest(config, f"{sums} / ({count} > 0)")


def quantile_seconds(config: Config, family: Family, quantile: float) -> str:
    """Return a histogram's quantile, the highest of the replicas; no value without a sample.

    Of no sample at all Prometheus makes NaN, which is no number and so is left out.
    """
    buckets = f"rate({select(config, family.bucket)}[{RATE_RANGE}])"
    return highest(config, f"histogram_quantile({promql.number(quantile)}, {buckets}) >= 0")


def bucket_counts(config: Config, family: Family) -> str:
    """Return how many observations fell into each bucket, of all chosen pools and jobs."""
    counts = f"increase({select(config, family.bucket)}[{RATE_RANGE}])"
    return f"sum by ({names.LE}) ({highest(config, counts)})"


def counts(expr: str) -> bool:
    """Return whether a query reads counters, whose samples may carry exemplars."""
    return "rate(" in expr or "increase(" in expr
