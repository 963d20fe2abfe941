"""Which share of the cancels is surely slower than the grace, and the rule on it."""

from decimal import Decimal
from typing import Final

from orphanwatch.alerts import timing
from orphanwatch.alerts.alert import Rule, Severity
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
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import Micros, format_duration, micros

LEAST_SAMPLES: Final = 59
"""ln 0.05 / ln 0.95: fewer can't carry even the 0.95 quantile."""

BUCKET: Final = names.CANCEL_PROPAGATION_SECONDS.bucket
COUNT: Final = names.CANCEL_PROPAGATION_SECONDS.count
# ``increase`` carries float noise; to a millionth, a share that is exactly allowed is allowed.
_MILLIONTH: Final = "0.000001"


def edge_of(grace: Micros) -> float | None:
    """Return the smallest bucket edge at or above a grace, in seconds; None above the last.

    What lies above that edge is surely above the grace; what lies between the two is not counted.
    """
    return next((edge for edge in names.PROPAGATION_BUCKETS if micros(edge) >= grace), None)


def allowed_share(config: Config) -> Decimal:
    """Return the part of a day's cancels that may take longer: twice what the quantile leaves."""
    return 2 * (1 - Decimal(repr(config.grace_quantile)))


def pools_by_edge(config: Config) -> dict[float, list[str]]:
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
        select(config, BUCKET, equals(names.LE, repr(edge)), equals(names.POOL, *pools))
        for edge, pools in pools_by_edge(config).items()
    ]
    # Above a grace that is above all edges nothing can be seen, so nothing is surely slower.
    buckets = judged or [select(config, BUCKET, equals(names.LE, "+Inf"))]
    in_time = "\nor\n".join(_in_a_day(config, bucket) for bucket in buckets)
    every = _in_a_day(config, select(config, COUNT))
    slow = f"{every}\n- ignoring ({names.LE})\n(\n{indented(in_time)}\n)"
    return f"(\n{indented(slow)}\n)\n/ ({every} > 0)"


def _cancels(config: Config) -> str:
    """Return how many cancels there were in a day, each counted once."""
    count = select(config, COUNT)
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
    if not pools_by_edge(config) or allowed_share(config) >= 1:
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
