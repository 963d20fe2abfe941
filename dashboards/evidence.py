"""The rows of evidence: the split, the tokens, the leases, and the work behind them."""

from typing import Final

from orphanwatch.dashboards import lines, panels, queries
from orphanwatch.dashboards.links import Panel
from orphanwatch.dashboards.panels import AnyPanel, Canvas, Frame, Query, State
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import format_duration

# One half of the split alone is no fault, so its "yes" is not red.
HALVES: Final = (State(0, "no", panels.BLUE), State(1, "yes", panels.YELLOW))
SIGNALS: Final = (State(0, "no", panels.BLUE), State(1, "yes", panels.RED))


def split(config: Config) -> list[AnyPanel]:
    """Return the picture of 02:17: depth and spend on one time axis, and what is made of them."""
    return [_depth_and_spend(config), _signals(config)]


def _depth_and_spend(config: Config) -> AnyPanel:
    panel = (
        Canvas(config)
        .graph(
            Frame(
                Panel.SPLIT,
                "Queue depth and token spend",
                "The two graphs that contradict each other at 02:17. Left: requests waiting, and "
                "the admission cap (dashed). Right: tokens charged per second, and their "
                "baseline (dashed). Calm depth under climbing spend is no capacity shortage.",
                "the queue or the ledger can't be read; the first row says which.",
                width=24,
                height=10,
            ),
            "short",
            (
                Query("A", queries.gauge(config, names.QUEUE_DEPTH), "queue depth · {{job}}"),
                Query(
                    "B", queries.gauge(config, names.QUEUE_ADMISSION_CAP), "admission cap · {{job}}"
                ),
                Query("C", queries.gauge(config, names.SPEND_TOKENS_PER_SECOND), "spend · {{job}}"),
                Query(
                    "D",
                    queries.gauge(config, names.SPEND_BASELINE_TOKENS_PER_SECOND),
                    "spend baseline · {{job}}",
                ),
            ),
        )
        .axis_label("requests waiting")
    )
    for ref in ("B", "D"):
        panel = lines.limit_line(panel, ref)
    for ref in ("C", "D"):
        panel = lines.right_axis(panel, ref, "cps", "tokens per second", "orange")
    return panel


def _signals(config: Config) -> AnyPanel:
    rise, flat = config.rise_ratio, config.thresholds.flat_ratio
    panel = Canvas(config).timeline(
        Frame(
            Panel.SPLIT_SIGNAL,
            "Split signal",
            f"Calm: depth at most {config.thresholds.calm_depth_ratio:g} of the admission cap. "
            f"Rising: spend at {rise:g} times its baseline with nobody to explain it, or at "
            f"{flat:g} times what the remaining clients explain. Split: both, after clients left.",
            "a store that the signal needs can't be read, or too little has been seen to judge.",
            width=24,
            height=5,
        ),
        (
            Query("A", queries.gauge(config, names.SPLIT_SIGNAL), "SPLIT · {{job}}"),
            Query("B", queries.gauge(config, names.QUEUE_CALM), "queue calm · {{job}}"),
            Query("C", queries.gauge(config, names.SPEND_RISING), "spend rising · {{job}}"),
        ),
        SIGNALS,
    )
    for ref in ("B", "C"):
        # One of the two alone is no fault, so its "yes" is not red.
        panel = lines.restate(panel, ref, HALVES)
    return panel


def tokens(config: Config) -> list[AnyPanel]:
    """Return the proof: the delta with the page's threshold, and the counter by cause."""
    window = format_duration(config.delta_window)
    threshold = config.thresholds.token_delta
    return [
        lines.threshold_line(
            Canvas(config).graph(
                Frame(
                    Panel.TOKEN_DELTA,
                    "Orphan token delta by pool",
                    f"Tokens charged in the last {window} to tasks past their cutoff: the signal "
                    f"that must stay at zero. The page's threshold, {threshold:g}, is the line.",
                    "the gateway or the ledger can't be read: unknown, so don't scale on it.",
                    width=12,
                ),
                "short",
                (Query("A", queries.gauge(config, names.TOKEN_DELTA), "{{pool}} · {{job}}"),),
            ),
            threshold,
        ),
        Canvas(config).graph(
            Frame(
                Panel.TOKENS_BY_CAUSE,
                "Orphan tokens per second by cause",
                "The counter's rate, late rows included. Cause says why nobody waits; basis "
                "prorated is the even share of a row that straddles the cutoff, not a reading.",
                "the exporter isn't scraped, or has been scraped only once.",
                width=12,
            ),
            "cps",
            (
                Query(
                    "A",
                    queries.total(queries.per_second(config, names.TOKENS_TOTAL), names.POOL),
                    "{{cause}} · {{basis}}",
                ),
            ),
        ),
    ]


def leases(config: Config) -> list[AnyPanel]:
    """Return the second arm: leases that outlive their cutoff, and the oldest."""
    return [_orphan_leases(config), _oldest_lease(config)]


def _orphan_leases(config: Config) -> AnyPanel:
    leases = config.stores.leases
    ttl = (
        f" Without a heartbeat for {format_duration(leases.lease_ttl)} it expires."
        if leases
        else ""
    )
    alive, confirmed = (
        queries.total(queries.gauge(config, family), names.POOL)
        for family in (names.LEASES, names.LEASES_CONFIRMED)
    )
    return Canvas(config).graph(
        Frame(
            Panel.ORPHAN_LEASES,
            "Orphan leases by cause",
            "Live leases of tasks that nobody waits for, past the cutoff. Confirmed: its "
            f"heartbeat came after the cutoff, so the worker is alive and at it.{ttl}",
            "the gateway or the leases can't be read: unknown, so don't scale on it.",
            width=12,
        ),
        "short",
        (Query("A", alive, "{{cause}}"), Query("B", confirmed, "confirmed")),
    )


def _oldest_lease(config: Config) -> AnyPanel:
    return Canvas(config).graph(
        Frame(
            Panel.OLDEST_LEASE,
            "Oldest orphan lease, past its cutoff",
            "The longest time any orphan lease has outlived its cutoff. A line that climbs "
            "at the pace of the clock is one worker that never heard.",
            "the gateway or the leases can't be read.",
            width=12,
        ),
        "s",
        (Query("A", queries.gauge(config, names.LEASE_OLDEST_SECONDS), "{{pool}} · {{job}}"),),
    )


def work(config: Config) -> list[AnyPanel]:
    """Return who waits, what is held beyond that, and what runs twice."""
    attached = Canvas(config).graph(
        Frame(
            Panel.ATTACHED,
            "Attached tasks and the gap",
            "Tasks that somebody waits for, now and in the baseline (dashed), and what queue and "
            "engine hold beyond that: orphan work seen without any join by id.",
            "the gateway can't be read, or has no row while a request runs (an access log).",
            width=12,
        ),
        "short",
        (
            Query("A", queries.gauge(config, names.ATTACHED_TASKS), "attached · {{job}}"),
            Query("B", queries.gauge(config, names.ATTACHED_BASELINE_TASKS), "baseline · {{job}}"),
            Query("C", queries.gauge(config, names.IN_FLIGHT_GAP), "gap · {{job}}"),
        ),
    )
    return [
        lines.limit_line(attached, "B"),
        Canvas(config).graph(
            Frame(
                Panel.DUPLICATES,
                "Duplicates in flight by pool",
                "Live leases beyond the first for one request: a second decoder that nobody needs.",
                "the gateway or the leases can't be read.",
                width=12,
            ),
            "short",
            (Query("A", queries.gauge(config, names.DUPLICATE_IN_FLIGHT), "{{pool}} · {{job}}"),),
        ),
    ]
