"""PromQL that pages offer to paste, and what its answers mean.

Replicas are folded, so a page's number is the exporter's number however many there are.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

from orphanwatch.alerts.promql import equals, select, within, without_replicas
from orphanwatch.alerts.timing import lookback
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import Micros, micros
from orphanwatch.exporter.names import Condition, Family

_AN_HOUR: Final = micros(3600)
_GAUGES: Final[Mapping[str, Family]] = {
    "token_delta": names.TOKEN_DELTA,
    "orphan_leases": names.LEASES,
    "orphan_leases_confirmed": names.LEASES_CONFIRMED,
    "oldest_lease": names.LEASE_OLDEST_SECONDS,
    "expired_leases": names.EXPIRED_LEASES,
    "leaked_leases": names.LEAKED_LEASES,
    "heartbeat_period": names.HEARTBEAT_PERIOD_SECONDS,
    "duplicates": names.DUPLICATE_IN_FLIGHT,
    "unmatched_tokens": names.UNMATCHED_TOKENS,
    "retries_without_id": names.RETRIES_WITHOUT_RETRY_ID,
    "propagation_open": names.CANCEL_PROPAGATION_OPEN,
    "queue_age": names.QUEUE_AGE_SECONDS,
    "spend": names.SPEND_TOKENS_PER_SECOND,
    "spend_rising": names.SPEND_RISING,
    "attached": names.ATTACHED_TASKS,
    "in_flight_gap": names.IN_FLIGHT_GAP,
    "split_signal": names.SPLIT_SIGNAL,
    "shed_due": names.SHED_DUE_LEASES,
    "lease_age": names.LEASE_AGE_SECONDS_MAX,
    "clock_skew": names.STORE_CLOCK_SKEW,
    "grace": names.GRACE_SECONDS,
    "abandoned": names.ABANDONED_TASKS,
    "deadline_budget": names.DEADLINE_BUDGET_SECONDS,
    "uncancellable_on_overflow": names.UNCANCELLABLE_ON_OVERFLOW,
    "workers_in_both_pools": names.WORKERS_IN_BOTH_POOLS,
    "leases_outside_pool": names.LEASES_OUTSIDE_POOL,
}
"""The gauges that pages show as they are, the highest of the replicas, by their names there."""


class Check(NamedTuple):
    """A question, the query that answers it, and how each answer reads.

    ``healthy`` and ``real`` are comparisons such as ``> 0``; None means "no answer at all".
    """

    question: str
    expr: str
    healthy: str | None
    real: str | None
    no_answer: str


def highest(config: Config, inner: object) -> str:
    """Return the highest of the replicas."""
    return f"max {without_replicas(config)} ({inner})"


def lowest(config: Config, inner: object) -> str:
    """Return the lowest of the replicas."""
    return f"min {without_replicas(config)} ({inner})"


def on_overflow(config: Config, family: Family) -> str:
    """Return the selector of a family's series of the overflow pools; all where none is one."""
    pools = config.overflow_pools
    return select(config, family, *((equals(names.POOL, *pools),) if pools else ()))


def fail_closed(config: Config, condition: Condition) -> str:
    """Return the query that shows one fail-closed condition, by pool."""
    return highest(config, select(config, names.FAIL_CLOSED, equals(names.CONDITION, condition)))


def zero_range(config: Config) -> Micros:
    """Return the range over which the token delta must be zero before overflow reopens."""
    # A hold of less than a few scrapes would find no sample, and no sample is no zero.
    return max(config.reopen_hold, lookback(config))


def page_queries(config: Config) -> Mapping[str, str]:
    """Return every query that a page's steps may name."""
    series = partial(select, config)
    return {
        **{name: highest(config, series(family)) for name, family in _GAUGES.items()},
        # One for each fail-closed condition: 1, 0, or no answer where it can't be told.
        **{f"closed_by_{condition}": fail_closed(config, condition) for condition in Condition},
        "slack": lowest(config, series(names.DEADLINE_SLACK_SECONDS_MIN)),
        "admission": lowest(config, series(names.OVERFLOW_ADMISSION_ALLOWED)),
        "fail_closed": f"{highest(config, series(names.FAIL_CLOSED))} == 1",
        # One replica with a good read is sight enough.
        "store_up": highest(config, series(names.STORE_UP)),
        "last_read_age": lowest(config, f"time() - {series(names.STORE_LAST_SUCCESS)}"),
        "exporters": f"count {without_replicas(config)} ({series(names.BUILD_INFO)})",
        "token_increase": highest(
            config, f"increase({within(series(names.TOKENS_TOTAL), config.delta_window)})"
        ),
        "rejected_rows": highest(
            config, f"increase({within(series(names.ROWS_REJECTED_TOTAL), _AN_HOUR)})"
        ),
        "paid_utilization": (
            f"{highest(config, series(names.LIVE_LEASES))}"
            f" / {highest(config, series(names.LEASE_CAP))}"
        ),
        "zero_for_hold": highest(
            config, f"max_over_time({within(series(names.TOKEN_DELTA), zero_range(config))})"
        ),
    }
