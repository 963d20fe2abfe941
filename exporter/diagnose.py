"""The ``diagnose`` command: which hop lost the cancel, from the stores or from Prometheus."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from orphanwatch.exporter import names
from orphanwatch.exporter.clock import wall_clock
from orphanwatch.exporter.config import ACTION_WORDS, default_config
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.diagnosis import Diagnosis, diagnose, words_of
from orphanwatch.exporter.instants import format_duration
from orphanwatch.exporter.names import ARM_STORES, Action, Condition
from orphanwatch.exporter.options import form_option, selector_of
from orphanwatch.exporter.prometheus_page import ScrapedPage, read_page
from orphanwatch.exporter.signals.samples import Gauges
from orphanwatch.exporter.signals.verdict import CONDITION_WORDS, doubts_of, orphan_reasons


@click.command(
    "diagnose",
    short_help="Say the verdict, the hop that lost the cancel, what to do.",
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
    "--selector",
    default="",
    callback=selector_of,
    help='Label matchers that pick one service: service="chat".',
)
@form_option
def diagnose_command(
    config_file: Path | None, *, prometheus: str | None, selector: str, form: str
) -> None:
    """Say the verdict, the hop that lost the cancel, the evidence, and the next safe action.

    Exit code 0 whenever it could be told; 2 where it can't.
    """
    if (config_file is None) == (prometheus is None):
        raise click.UsageError("name one of --config.file and --prometheus.url")
    if prometheus is not None:
        page = read_page(prometheus, selector, default_config().reopen_hold)
        diagnosis = diagnose(page.now, *verdict_of(page))
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


def verdict_of(page: ScrapedPage) -> tuple[Action, tuple[str, ...]]:
    """Return the verdict that gauges alone tell: the first row of the contract's table that holds.

    What the first row asks for and is not shown makes it blind.
    """
    gauges = page.now
    if shed := orphan_reasons(gauges):
        return Action.SHED, shed
    if blind := tuple(_blindness(gauges)):
        return Action.BLIND, blind
    if holding := tuple(_holding(page)):
        return Action.HOLD, holding
    calm = "no orphan tokens, no orphan lease and no duplicate in flight"
    return Action.SCALE, (calm, *doubts_of(gauges))


_NEEDED: Final = (names.TOKEN_DELTA, names.LEASES, names.DUPLICATE_IN_FLIGHT)
"""What is to be zero for anything but shedding."""


def _blindness(gauges: Gauges) -> Iterator[str]:
    up = {sample.labels[0]: sample.value for sample in gauges.get(names.STORE_UP, ())}
    yield from (f"store {name} is not readable" for name in ARM_STORES if not up.get(str(name)))
    yield from (
        f"{family} is absent: it can't be seen" for family in _NEEDED if family not in gauges
    )


def _holding(page: ScrapedPage) -> Iterator[str]:
    hold = format_duration(page.hold)
    for family in (names.TOKEN_DELTA, names.LEASES):
        if any(sample.value > 0 for sample in page.lately.get(family, ())):
            yield f"{family} was above zero within the hold of {hold}"
    if page.counted:
        yield f"{names.TOKENS_TOTAL} counted charged tokens within the hold of {hold}"
    closed = [sample for sample in page.now.get(names.FAIL_CLOSED, ()) if sample.value > 0]
    for sample in closed:
        words = CONDITION_WORDS[Condition(sample.labels[1])]
        yield f"overflow pool {sample.labels[0]} fails closed: {words}"
    for sample in page.now.get(names.OVERFLOW_ADMISSION_ALLOWED, ()):
        if sample.value == 0 and not closed:
            yield f"overflow pool {sample.labels[0]} admits nothing, and why is not shown"


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
