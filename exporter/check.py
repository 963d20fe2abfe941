"""``check``: what is wrong with config, stores, indexes, clocks and ids, and the remedy."""

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from orphanwatch.exporter.channel import Channel, Channels
from orphanwatch.exporter.check_identity import identity_findings, joins_badly
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.findings import Finding, Level
from orphanwatch.exporter.id_samples import stored_ids
from orphanwatch.exporter.instants import Instant, format_instant, seconds
from orphanwatch.exporter.names import ARM_STORES, StoreName
from orphanwatch.exporter.reading import read_stores
from orphanwatch.exporter.readings import Readings
from orphanwatch.exporter.stores.questions import Inspection, Windows

# Beyond this, besides the configured allowance, a cutoff is off by more than a usual grace.
_TOLERATED_SKEW_SECONDS: Final = 1.0


_UNSTATED: Final[dict[tuple[StoreName, str], str]] = {
    (StoreName.GATEWAY, "cancelled_at"): "client cancels are unseen, only deadlines stop a task",
    (StoreName.GATEWAY, "deadline_at"): "deadlines, slack and shed due are unknown",
    (StoreName.GATEWAY, "finished_at"): "no task ever finishes: attached tasks only grow",
    (StoreName.GATEWAY, "submitted_at"): "attached tasks, gap and split signal are unknown",
    (StoreName.GATEWAY, "retry_id"): "retries, siblings and duplicates can't be joined",
    (StoreName.GATEWAY, "attempt"): "retries without a retry id are unseen",
    (StoreName.GATEWAY, "pool"): "a task's pool is its first lease's",
    (StoreName.LEASES, "heartbeat_at"): "a lease lives until its release, crashed workers too",
    (StoreName.LEASES, "released_at"): "a lease ends by its heartbeat, or when it vanishes",
    (StoreName.LEASES, "acquired_at"): "a lease counts as held since before its task's stop",
    (StoreName.LEASES, "worker_id"): "workers can't be named, and a ledger keyed by them not told",
    (StoreName.LEASES, "pool"): "work in the wrong pool is unseen",
    (StoreName.QUEUE, "sampled_at"): "the newest sample can't be told: its age is unknown",
    (StoreName.QUEUE, "depth"): "calm, gap and the split signal are unknown",
    (StoreName.QUEUE, "in_flight"): "the in-flight gap is unknown",
}
"""What is unknown or weaker without a column."""


def run_check(config: Config, at: Instant) -> list[Finding]:
    """Return what was found, in the order of the stores.

    Asks each store once, and for a sample of ids again where they don't all join.
    """
    channels, windows = Channels(config), Windows.ending(at, config)
    try:
        readings = read_stores(channels, config, at).readings
        inspections = {
            channel.name: _inspect(channel, windows) for channel in channels.all() if channel.is_up
        }
        samples = stored_ids(config, at, channels, readings) if joins_badly(readings) else {}
    finally:
        channels.stop()
    return [
        *_config_findings(config.as_of(at)),
        *_store_findings(config, readings, inspections),
        *identity_findings(config, readings, samples),
    ]


def _inspect(channel: Channel[Any], windows: Windows) -> Inspection | None:
    channel.begin(windows)
    try:
        return channel.ask(lambda store: store.inspect())
    finally:
        channel.end()


def _config_findings(config: Config) -> Iterator[Finding]:
    yield Finding(Level.OK, "config", f"{len(config.pools)} pools, service {config.service}")
    if not config.overflow_pools:
        yield Finding(Level.NOTE, "pools", "none has role overflow: there is nothing to shed from")
    for key, url in (
        ("runbook_base_url", config.links.runbook_base_url),
        ("dashboard_base_url", config.links.dashboard_base_url),
    ):
        if urlsplit(url).hostname in {"127.0.0.1", "localhost", "::1"}:
            yield Finding(
                Level.NOTE,
                f"links.{key}",
                f"{url} is this machine only; set it to where the on-call can open it",
            )
    yield from _grace_findings(config)
    if config.state_file is None:
        yield Finding(
            Level.NOTE, "state_file", "is not set: counters start at 0 with each start of serve"
        )


def _grace_findings(config: Config) -> Iterator[Finding]:
    measured = config.measurement
    if config.measurement_problem:
        where, _, said = config.measurement_problem.partition(": ")
        yield Finding(Level.WRONG, where, f"{said}; until then the grace is a proposal")
    elif measured is not None:
        said = f"{', '.join(measured.pools)} measured, until {format_instant(measured.valid_until)}"
        yield Finding(Level.OK, "grace.file", said)


def _store_findings(
    config: Config, readings: Readings, inspections: dict[StoreName, Inspection | None]
) -> Iterator[Finding]:
    for name in StoreName:
        where = f"stores.{name}"
        health = readings.stores[name]
        if name not in config.stores.configured():
            level = Level.WRONG if name in ARM_STORES else Level.NOTE
            yield Finding(level, where, "is not configured; add it, or stay blind to what it says")
        elif not health.up:
            yield Finding(Level.WRONG, where, f"can't be read: {health.problem}")
        else:
            yield Finding(Level.OK, where, f"read as of {format_instant(readings.at)}")
            yield from _inspection_findings(name, where, inspections.get(name))
            if name is StoreName.LEDGER:
                yield from _spend_findings(where, readings)
            yield from _skew_findings(config, where, health.clock_skew_seconds)
    for row in readings.rejected:
        yield Finding(
            Level.NOTE, f"stores.{row.store}", f"{row.count} row not used ({row.reason}): {row.key}"
        )


def _inspection_findings(
    name: StoreName, where: str, inspection: Inspection | None
) -> Iterator[Finding]:
    if inspection is None:
        return
    for column in inspection.unstated:
        words = _UNSTATED.get((name, column))
        if words is not None:
            yield Finding(
                Level.NOTE, f"{where}.columns", f"{column} is not stated: {words}; map it if it is"
            )
    for statement in inspection.advised:
        yield Finding(Level.NOTE, f"{where}.relation", f"an index is missing; {statement};")
    for note in inspection.notes:
        yield Finding(Level.NOTE, where, note)


def _spend_findings(where: str, readings: Readings) -> Iterator[Finding]:
    """Yield what a ledger can't say that does not name the task of a charge."""
    if readings.is_unkeyed:
        yield Finding(
            Level.WRONG,
            where,
            "states no charges by task, so the token arm is blind: orphan tokens, unmatched "
            "tokens and propagation are unknown; read a ledger that names the task of each charge",
        )


def _skew_findings(config: Config, where: str, skew: float | None) -> Iterator[Finding]:
    if skew is None:
        return
    allowed = seconds(config.clock_skew_allowance) + _TOLERATED_SKEW_SECONDS
    if abs(skew) > allowed:
        yield Finding(
            Level.WRONG,
            where,
            f"its clock is {skew:+.1f} s off ours; set both by NTP, or raise clock_skew_allowance",
        )
