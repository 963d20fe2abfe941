"""The ``diagnose`` command: which hop lost the cancel, from the stores or from Prometheus."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from orphanwatch.exporter import names
from orphanwatch.exporter.clock import wall_clock
from orphanwatch.exporter.config import ACTION_WORDS
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.diagnosis import Diagnosis, diagnose, words_of
from orphanwatch.exporter.names import ARM_STORES, Action
from orphanwatch.exporter.prometheus_page import Gauges, read_page


@click.command(
    "diagnose",
    epilog="Example: orphanwatch diagnose --prometheus.url http://127.0.0.1:9090",
)
@click.option(
    "--config.file",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Read the stores of this configuration.",
)
@click.option("--prometheus.url", "prometheus", help="Read what this server has scraped instead.")
@click.option(
    "--selector", default="", help='Label matchers that pick one service: service="chat".'
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="For people, or one JSON document.",
)
def diagnose_command(
    config_file: Path | None, *, prometheus: str | None, selector: str, form: str
) -> None:
    """Say the verdict, the hop that lost the cancel, the evidence, and the next safe action.

    Exit code 0 whenever it could be told; 2 where it can't.
    """
    if (config_file is None) == (prometheus is None):
        raise click.UsageError("name one of --config.file and --prometheus.url")
    if prometheus is not None:
        gauges = read_page(prometheus, selector)
        diagnosis = diagnose(gauges, *verdict_of(gauges))
    elif config_file is not None:
        diagnosis = _from_stores(config_file)
    if form == "json":
        click.echo(json.dumps(document_of(diagnosis), indent=2))
    else:
        click.echo("\n".join(lines_of(diagnosis)))


def _from_stores(config_file: Path) -> Diagnosis:
    from orphanwatch.exporter.snapshot import take_snapshot  # noqa: PLC0415  (Prometheus needs none)

    evaluation = take_snapshot(load_config(config_file), wall_clock())
    return diagnose(evaluation.gauges, evaluation.verdict.action, evaluation.verdict.reasons)


def verdict_of(gauges: Gauges) -> tuple[Action, tuple[str, ...]]:
    """Return the verdict that gauges alone tell: the contract's table, as far as they reach."""
    shed = [
        f"{family} is {total:g}"
        for family in (names.TOKEN_DELTA, names.LEASES, names.DUPLICATE_IN_FLIGHT)
        if (total := sum(sample.value for sample in gauges.get(family, ()))) > 0
    ]
    if shed:
        return Action.SHED, tuple(shed)
    up = {sample.labels[0]: sample.value for sample in gauges.get(names.STORE_UP, ())}
    blind = [f"store {name} is not readable" for name in ARM_STORES if not up.get(str(name))]
    if names.TOKEN_DELTA not in gauges and not blind:
        blind = [f"{names.TOKEN_DELTA} is absent: the token arm can't see"]
    if blind:
        return Action.BLIND, tuple(blind)
    closed = [
        f"overflow pool {sample.labels[0]} fails closed: {sample.labels[1]}"
        for sample in gauges.get(names.FAIL_CLOSED, ())
        if sample.value > 0
    ]
    if closed:
        return Action.HOLD, tuple(closed)
    return Action.SCALE, ("no orphan tokens, no orphan lease and no duplicate in flight",)


def document_of(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the diagnosis as a JSON document; null is "can't be told"."""
    return {
        "verdict": {"action": str(diagnosis.action), "reasons": list(diagnosis.reasons)},
        "hop": None if diagnosis.hop is None else str(diagnosis.hop),
        "evidence": [
            {"hop": str(finding.hop), "broken": finding.is_broken, "said": finding.said}
            for finding in diagnosis.findings
        ],
        "next": diagnosis.next_step,
    }


def lines_of(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield the diagnosis for people: the answer first."""
    yield f"{str(diagnosis.action).upper()}: {ACTION_WORDS[diagnosis.action]}"
    for reason in diagnosis.reasons:
        yield f"  {reason}"
    yield ""
    if diagnosis.hop is None:
        is_known = all(finding.is_broken is not None for finding in diagnosis.findings)
        yield f"Hop: none {'' if is_known else 'of those that can be told '}shows itself broken."
    else:
        yield f"Hop: {diagnosis.hop} ({words_of(diagnosis.hop)})"
    marks = {True: "broken", False: "sound", None: "unknown"}
    for finding in diagnosis.findings:
        yield f"  {marks[finding.is_broken]:<8}{finding.hop:<16}{finding.said}"
    yield ""
    yield f"Next: {diagnosis.next_step}"
