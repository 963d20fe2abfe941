"""Is it real? The checks of the alerts that say that orphan work exists, or that sight is lost."""

from orphanwatch.alerts.timing import stale_age
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import seconds
from orphanwatch.runbooks.queries import Check, page_queries


def tokens_accruing(config: Config) -> tuple[Check, ...]:
    """Return what tells whether tokens are charged past a cutoff."""
    query = page_queries(config)
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


def leases_alive(config: Config) -> tuple[Check, ...]:
    """Return what tells whether leases outlive their cutoff."""
    query = page_queries(config)
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


def detector_blind(config: Config) -> tuple[Check, ...]:
    """Return what tells whether the detector is blind, and to which store."""
    query = page_queries(config)
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


def split_signal(config: Config) -> tuple[Check, ...]:
    """Return what tells whether queue and spend contradict each other."""
    query = page_queries(config)
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
