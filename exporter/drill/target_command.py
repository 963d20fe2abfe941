"""``drill run --target``: what stands between the command line and a real gateway."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from orphanwatch.exporter.clock import wall_clock
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.drill.knobs import Knobs
from orphanwatch.exporter.drill.report_file import write_report
from orphanwatch.exporter.drill.target import rehearse
from orphanwatch.exporter.drill.target_report import TargetReport, target_lines, target_report_of
from orphanwatch.exporter.drill.target_requests import (
    TargetPlan,
    body_of,
    in_seconds,
    plan_of,
    shown_address,
    shown_headers,
    target_named,
)
from orphanwatch.exporter.drill.target_samples import keep_target_samples
from orphanwatch.exporter.drill.target_verdict import judge
from orphanwatch.exporter.instants import micros

_EXIT_CANT_TELL: Final = 2
_SHOWN_PROMPT: Final = 60


def run_target(
    config_file: Path, url: str, knobs: Knobs, *, bound: float, dry_run: bool, report: Path | None
) -> int:
    """Rehearse on the gateway at a URL, say what was found, and return the exit code.

    0 is promoted, 1 that it is not, 2 that it can't be told. Raises ``DrillError`` where the
    config does not name the URL, or a cap would be passed.
    """
    config = load_config(config_file).as_of(wall_clock())
    plan = plan_of(target_named(config.drill.targets, url), knobs)
    if dry_run:
        click.echo("\n".join(dry_lines(plan, bound)))
        return 0
    length = micros(bound)
    rehearsed = rehearse(plan, config, length, wall_clock, _say)
    judgement = judge(rehearsed, config, length)
    found = target_report_of(rehearsed, judgement)
    kept = keep_target_samples(rehearsed, judgement, config)
    click.echo("\n".join(target_lines(found, kept)))
    if report is not None:
        write_report(report, found.model_dump(mode="json"))
    return _exit_code(found)


def _exit_code(report: TargetReport) -> int:
    if report.verdict is None:
        return _EXIT_CANT_TELL
    return 0 if report.promoted else 1


def dry_lines(plan: TargetPlan, bound: float) -> Iterator[str]:
    """Yield what would be sent, without credentials and most of the prompt."""
    target, knobs = plan.target, plan.knobs
    requests = len(plan.asks)
    shown = plan.prompt
    if len(shown) > _SHOWN_PROMPT:
        shown = f"{shown[:_SHOWN_PROMPT]}... ({len(shown)} characters)"
    yield f"Nothing is sent. A drill would send {requests} requests to {shown_address(target.url)}:"
    yield (
        f"  {target.clients} at once, whose clients close the connection "
        f"{in_seconds(knobs.cancel_at)} later"
    )
    yield (
        f"  1 retry of the first, {in_seconds(knobs.retry_after)} after that, which is read "
        "to its end"
    )
    yield (
        f"  at most {plan.prompt_tokens} prompt and {knobs.answer_tokens} answer tokens each, "
        f"{requests * plan.tokens_each} in all; the caps are {target.most_requests} requests and "
        f"{target.most_tokens} tokens"
    )
    yield f"Then it would watch the stores until tokens freeze, for at most {bound:g} s."
    for ask in plan.asks:
        yield ""
        yield f"POST {target.path.partition('?')[0]}"
        yield from (f"{name}: {value}" for name, value in shown_headers(target, ask).items())
        yield json.dumps(body_of(plan, shown), ensure_ascii=False)


def _say(line: str) -> None:
    if sys.stderr.isatty():
        click.echo(line, err=True)
