"""The ``gate`` command: may overflow be admitted, by what a Prometheus server knows?"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from orphanwatch.exporter.config import Config, default_config
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.gate_history import Limits, limits_of, read_history
from orphanwatch.exporter.gate_verdict import Answer, GateVerdict, judge
from orphanwatch.exporter.instants import (
    SECOND,
    Instant,
    format_duration,
    format_instant,
    seconds,
)
from orphanwatch.exporter.options import form_option, selector_of

CODES: Final = {Answer.OPEN: 0, Answer.CLOSED: 1, Answer.UNKNOWN: 2}

_WORDS: Final = {
    Answer.OPEN: "OPEN: overflow may be admitted.",
    Answer.CLOSED: "CLOSED: admit no overflow.",
    Answer.UNKNOWN: "UNKNOWN: it can't be told, so treat it as closed.",
}


@click.command(
    "gate",
    short_help="Say whether overflow may be admitted, for scripts and CI.",
    epilog="Example: orphanwatch gate --prometheus.url http://127.0.0.1:9090 --replicas 2",
)
@click.option("--prometheus.url", "prometheus", required=True, help="The server to ask.")
@click.option(
    "--config.file",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Take pools, reopen_hold, replicas, scrape_interval and the like from this configuration.",
)
@click.option("--pool", help="One overflow pool; without it, all of them must be open.")
@click.option(
    "--replicas",
    type=click.IntRange(min=1),
    help="How many exporters must report; without it the config's, or 1.",
)
@click.option(
    "--selector",
    callback=selector_of,
    help='Label matchers that pick one service, in place of the config\'s: service="chat".',
)
@form_option
def gate_command(
    *,
    prometheus: str,
    config_file: Path | None,
    pool: str | None,
    replicas: int | None,
    selector: str | None,
    form: str,
) -> int:
    """Say whether overflow may be admitted, for scripts and CI, with every reason.

    Exit code 0 open; 1 closed; 2 it can't be told (blind, stale, absent, unreachable, or a usage
    error): treat that as closed.
    """
    config = None if config_file is None else load_config(config_file)
    pools = _pools(config, pool)
    settings = config or default_config()
    limits = limits_of(settings)
    matchers = settings.selector if selector is None else selector
    needed = settings.replicas if replicas is None else replicas
    history = read_history(prometheus, matchers, limits, settings.replica_labels)
    verdict = judge(history, limits, replicas=needed, pools=pools)
    if form == "json":
        click.echo(json.dumps(document_of(verdict, limits, needed), indent=2))
    else:
        reasons = (f"  {reason}" for reason in verdict.reasons)
        click.echo("\n".join((_WORDS[verdict.answer], *reasons, *opening_lines(verdict))))
    return CODES[verdict.answer]


def _pools(config: Config | None, pool: str | None) -> tuple[str, ...] | None:
    if pool is None:
        return None if config is None else _overflow_pools(config)
    if config is not None and pool not in config.overflow_pools:
        known = ", ".join(config.overflow_pools) or "none"
        raise click.UsageError(f"{pool!r} is no overflow pool of the config; these are: {known}")
    return (pool,)


def _overflow_pools(config: Config) -> tuple[str, ...]:
    if not config.overflow_pools:
        raise click.UsageError(
            "no pool of the config has the role overflow: there is nothing to admit to"
        )
    return config.overflow_pools


def opening_lines(verdict: GateVerdict) -> Iterator[str]:
    """Yield when a gate that is not open may open, or that this is unknown; nothing if it is."""
    if verdict.answer is Answer.OPEN:
        return
    if verdict.opens_at is None:
        yield "When it may open is unknown."
        return
    at = Instant(-(-verdict.opens_at // SECOND) * SECOND)
    wait = format_duration(-((verdict.at - verdict.opens_at) // SECOND) * SECOND)
    yield f"It may open at {format_instant(at)}, in {wait}, at the earliest."


def document_of(verdict: GateVerdict, limits: Limits, needed: int) -> dict[str, Any]:
    """Return the verdict as a JSON document; ``opens_at`` is null where open, or unknown."""
    return {
        "answer": str(verdict.answer),
        "open": verdict.answer is Answer.OPEN,
        "reasons": list(verdict.reasons),
        "at": seconds(verdict.at),
        "hold_seconds": seconds(limits.hold),
        "opens_at": None if verdict.opens_at is None else seconds(verdict.opens_at),
        "pools": list(verdict.pools),
        "replicas": {"reporting": verdict.reporting, "needed": needed},
    }
