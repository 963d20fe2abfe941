"""PromQL that pages offer to paste, and what its answers mean.

Replicas are folded, so a page's number is the exporter's number however many there are.
"""

from collections.abc import Mapping
from typing import NamedTuple

from orphanwatch.alerts.timing import stale_age
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import format_duration, seconds
from orphanwatch.exporter.names import Condition, Family


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
    return f"max without ({', '.join(config.replica_labels)}) ({inner})"


def lowest(config: Config, inner: object) -> str:
    """Return the lowest of the replicas."""
    return f"min without ({', '.join(config.replica_labels)}) ({inner})"


def fail_closed(config: Config, condition: Condition) -> str:
    """Return the query that shows one fail-closed condition, by pool."""
    return highest(config, f'{names.FAIL_CLOSED}{{{names.CONDITION}="{condition}"}}')


def page_queries(config: Config) -> Mapping[str, str]:
    """Return every query that a page's steps may name."""
    gauges: dict[str, Family] = {
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
        "queue_depth": names.QUEUE_DEPTH,
        "queue_age": names.QUEUE_AGE_SECONDS,
        "queue_calm": names.QUEUE_CALM,
        "admission_cap": names.QUEUE_ADMISSION_CAP,
        "spend": names.SPEND_TOKENS_PER_SECOND,
        "spend_baseline": names.SPEND_BASELINE_TOKENS_PER_SECOND,
        "spend_rising": names.SPEND_RISING,
        "attached": names.ATTACHED_TASKS,
        "in_flight_gap": names.IN_FLIGHT_GAP,
        "split_signal": names.SPLIT_SIGNAL,
        "shed_due": names.SHED_DUE_LEASES,
        "lease_age": names.LEASE_AGE_SECONDS_MAX,
        "clock_skew": names.STORE_CLOCK_SKEW,
        "grace": names.GRACE_SECONDS,
    }
    window = format_duration(config.delta_window)
    return {
        **{name: highest(config, family) for name, family in gauges.items()},
        "slack": lowest(config, names.DEADLINE_SLACK_SECONDS_MIN),
        "admission": lowest(config, names.OVERFLOW_ADMISSION_ALLOWED),
        "fail_closed": f"{highest(config, names.FAIL_CLOSED)} == 1",
        # One replica with a good read is sight enough.
        "store_up": highest(config, names.STORE_UP),
        "last_read_age": lowest(config, f"time() - {names.STORE_LAST_SUCCESS}"),
        "exporters": f"count without ({', '.join(config.replica_labels)}) ({names.BUILD_INFO})",
        "token_increase": highest(config, f"increase({names.TOKENS_TOTAL}[{window}])"),
        "rejected_rows": highest(config, f"increase({names.ROWS_REJECTED_TOTAL}[1h])"),
        "paid_utilization": (
            f"{highest(config, names.LIVE_LEASES)} / {highest(config, names.LEASE_CAP)}"
        ),
        "zero_for_hold": highest(
            config, f"max_over_time({names.TOKEN_DELTA}[{format_duration(config.reopen_hold)}])"
        ),
    }


def checks_of(config: Config) -> Mapping[str, tuple[Check, ...]]:
    """Return, by alert, the three queries that tell whether the alert is real."""
    query = page_queries(config)
    return {
        "OrphanTokensAccruing": _token_checks(config, query),
        "OrphanLeasesAlive": _lease_checks(query),
        "OrphanDetectorBlind": _blind_checks(config, query),
        "OrphanSplitSignal": _split_checks(query),
    }


def _token_checks(config: Config, query: Mapping[str, str]) -> tuple[Check, ...]:
    limit = f"> {config.thresholds.token_delta:g}"
    return (
        Check(
            "Are tokens charged past a cutoff right now?",
            query["token_delta"],
            "== 0",
            limit,
            "the gateway or the ledger can't be read, so this arm is blind, not calm.",
        ),
        Check(
            "Does the total move, late rows included?",
            query["token_increase"],
            "== 0",
            "> 0",
            "the counter is not scraped; ask the first query of OrphanDetectorBlind.",
        ),
        Check(
            "Does the other arm see it too?",
            query["orphan_leases_confirmed"],
            "== 0",
            "> 0",
            "the lease store can't be read; the token arm alone is enough to act on.",
        ),
    )


def _lease_checks(query: Mapping[str, str]) -> tuple[Check, ...]:
    return (
        Check(
            "Do workers still beat for tasks that were given up?",
            query["orphan_leases_confirmed"],
            "== 0",
            "> 0",
            "the gateway or the lease store can't be read, so this arm is blind, not calm.",
        ),
        Check(
            "For how long past the cutoff?",
            query["oldest_lease"],
            "== 0",
            "> 0",
            "the gateway or the lease store can't be read.",
        ),
        Check(
            "Why does nobody wait?",
            query["orphan_leases"],
            "== 0",
            "> 0",
            "the gateway or the lease store can't be read.",
        ),
    )


def _blind_checks(config: Config, query: Mapping[str, str]) -> tuple[Check, ...]:
    stale = f"{seconds(stale_age(config)):g}"
    return (
        Check(
            "Does any exporter answer?",
            query["exporters"],
            ">= 1",
            None,
            "the exporter is down, or Prometheus does not scrape it: nothing is watched.",
        ),
        Check(
            "Which store can't be read?",
            query["store_up"],
            "== 1",
            "== 0",
            "as above: without an exporter every store is unread.",
        ),
        Check(
            "How old is the last good read, in seconds?",
            query["last_read_age"],
            f"<= {stale}",
            f"> {stale}",
            "the store has not been read once since the exporter started.",
        ),
    )


def _split_checks(query: Mapping[str, str]) -> tuple[Check, ...]:
    return (
        Check(
            "Is the queue calm while spend rises after clients left?",
            query["split_signal"],
            "== 0",
            "== 1",
            "the queue, the gateway or the ledger can't be read.",
        ),
        Check(
            "Does spend rise with nobody to explain it?",
            query["spend_rising"],
            "== 0",
            "== 1",
            "the gateway or the ledger can't be read, or it has too few rows to tell.",
        ),
        Check(
            "Is spend charged to keys that are no known task?",
            query["unmatched_tokens"],
            "== 0",
            "> 0",
            "the ledger can't be read.",
        ),
    )
