"""PromQL of panels: every selector follows the dashboard's variables, every query folds replicas.

Two exporters that watch one stack report the same numbers. So nothing is summed over the replica
labels: a query takes the worst replica, and all other labels (job, cluster, pool) stay.
"""

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.names import Family

RATE_RANGE = "$__rate_interval"
SCOPE = 'job=~"$job",instance=~"$instance"'


def select(family: Family | str, matchers: str = "") -> str:
    """Return a selector of one sample name, kept to the chosen jobs and instances."""
    return f"{family}{{{matchers + ',' if matchers else ''}{SCOPE}}}"


def replicas(config: Config) -> str:
    """Return the grouping that folds replicas into one."""
    return f"without ({', '.join(config.replica_labels)})"


def highest(config: Config, inner: str) -> str:
    """Return the highest of the replicas: for evidence, where seeing more is worse."""
    return f"max {replicas(config)} ({inner})"


def lowest(config: Config, inner: str) -> str:
    """Return the lowest of the replicas: for permissions and sight, where less is worse."""
    return f"min {replicas(config)} ({inner})"


def gauge(config: Config, family: Family, matchers: str = "") -> str:
    """Return a gauge, the highest of the replicas."""
    return highest(config, select(family, matchers))


def per_second(config: Config, family: Family) -> str:
    """Return a counter's rate, the highest of the replicas."""
    return highest(config, f"rate({select(family)}[{RATE_RANGE}])")


def mean_seconds(config: Config, family: Family) -> str:
    """Return a histogram's mean observation, the highest of the replicas."""
    total = f"rate({select(f'{family}_sum')}[{RATE_RANGE}])"
    count = f"rate({select(f'{family}_count')}[{RATE_RANGE}])"
    return highest(config, f"{total} / ({count} > 0)")


def quantile_seconds(config: Config, family: Family, quantile: float) -> str:
    """Return a histogram's quantile, the highest of the replicas."""
    buckets = f"rate({select(f'{family}_bucket')}[{RATE_RANGE}])"
    return highest(config, f"histogram_quantile({quantile}, {buckets})")
