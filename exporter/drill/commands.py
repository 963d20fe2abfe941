"""The ``drill`` commands: ``run``, ``report`` and ``clean``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
from click.core import ParameterSource

from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.drill.clean import clean
from orphanwatch.exporter.drill.faults import Fault, Mode
from orphanwatch.exporter.drill.interrupts import DrillInterruptedError, interrupts
from orphanwatch.exporter.drill.knobs import Knobs, load_knobs
from orphanwatch.exporter.drill.own_stores import config_or_own
from orphanwatch.exporter.drill.pace import real_pace
from orphanwatch.exporter.drill.report import DrillReport
from orphanwatch.exporter.drill.report_command import report_command
from orphanwatch.exporter.drill.report_file import write_report
from orphanwatch.exporter.drill.samples import keep_samples
from orphanwatch.exporter.drill.session import Plan, expected_mode, make_ready, run_drill
from orphanwatch.exporter.drill.target_command import run_target
from orphanwatch.exporter.drill.telling import (
    CLEAN,
    outcome_lines,
    promotion_table,
    rollback_lines,
)
from orphanwatch.exporter.errors import DrillError
from orphanwatch.exporter.logs import configure_logging
from orphanwatch.exporter.progress import progress

_SLOWEST: Final = 1
"""Slower, it would begin ahead of the wall clock: it ends now."""
_FASTEST: Final = 100
_LONGEST_BOUND: Final = 3600

_OF_TARGETS: Final = ("dry_run", "bound")
_NOT_OF_TARGETS: Final = ("mode", "faults", "everything", "speed", "tasks", "seed")

_config_option: Final = click.option(
    "--config.file",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The stores to drill; without it a SQLite file of the drill's own.",
)


@click.group(
    short_help="Rehearse the miss on a small stack, with one hop broken.",
    epilog="Example: orphanwatch drill run --fault drop-cancel --speed 20",
)
def drill() -> None:
    """Rehearse the miss: play a small stack against the stores, with one hop broken."""


@drill.command(
    short_help="Play a drill, and say whether to promote.",
    epilog="Example: orphanwatch drill run --fault drop-cancel --speed 20 --report drill.json",
)
@_config_option
@click.option(
    "--mode",
    type=click.Choice([str(mode) for mode in Mode]),
    help="Whether cancels are to arrive; by default what the fault lets expect.",
)
@click.option(
    "--fault",
    "faults",
    type=click.Choice([str(fault) for fault in Fault]),
    multiple=True,
    help="The hop to break: one at a time.",
)
@click.option("--all", "everything", is_flag=True, help="The shed baseline, then each fault.")
@click.option(
    "--speed",
    type=click.FloatRange(_SLOWEST, _FASTEST),
    default=1.0,
    show_default=True,
    help="How fast the drill's clock moves.",
)
@click.option("--tasks", type=click.IntRange(min=4, max=1000), help="How many tasks; by default 8.")
@click.option("--seed", type=int, default=0, show_default=True, help="Varies delays and order.")
@click.option(
    "--drill.file",
    "drill_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Other knobs, in YAML.",
)
@click.option(
    "--report",
    "report_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write what was found as JSON.",
)
@click.option(
    "--target", metavar="URL", help="Rehearse on this gateway instead; the config must name it."
)
@click.option("--dry-run", is_flag=True, help="With --target: print what would be sent.")
@click.option(
    "--bound",
    type=click.FloatRange(1, _LONGEST_BOUND),
    default=60.0,
    show_default=True,
    help="With --target: for how many seconds to watch at most, once the clients have left.",
)
@click.pass_context
def run(
    ctx: click.Context,
    config_file: Path | None,
    *,
    mode: str | None,
    faults: tuple[str, ...],
    everything: bool,
    speed: float,
    tasks: int | None,
    seed: int,
    drill_file: Path | None,
    report_file: Path | None,
    target: str | None,
    dry_run: bool,
    bound: float,
) -> None:
    """Play a drill, compare what the exporter saw with what was, and say whether to promote.

    Exit code 0 only where it promotes: orphan_token_delta was known and stayed zero, and
    nothing makes that zero doubtful.
    """
    configure_logging("error", "logfmt")  # the drill says itself what happened
    knobs = load_knobs(drill_file) if drill_file is not None else Knobs()
    _refuse_mixed(ctx, is_target=target is not None)
    if target is not None:
        if config_file is None:
            raise click.UsageError("--target needs the --config.file that names it")
        ctx.exit(
            run_target(config_file, target, knobs, bound=bound, dry_run=dry_run, report=report_file)
        )
    if tasks is not None:
        knobs = knobs.model_copy(update={"tasks": tasks})
    plans = _plans(knobs, mode, faults, seed, everything=everything)
    try:
        reports = _play_all(plans, config_file, speed)
    except DrillInterruptedError as interrupted:
        click.echo(f"Interrupted. {CLEAN}", err=True)
        ctx.exit(interrupted.exit_code)
    if report_file is not None:
        documents = [report.model_dump(mode="json") for report in reports]
        write_report(report_file, documents if everything else documents[0])
    if everything:
        click.echo("\n" + "\n".join(promotion_table(reports)))
    promoted = all(report.promoted for report in reports)
    click.echo("\n" + "\n".join(rollback_lines(promoted=promoted)))
    click.echo(CLEAN)
    ctx.exit(0 if promoted else 1)


def _play_all(plans: Sequence[Plan], config_file: Path | None, speed: float) -> list[DrillReport]:
    """Play one drill after the other, and say of each what came of it."""
    reports = []
    with interrupts() as heard, config_or_own(config_file) as (config, folder):
        if len(plans) > 1:
            for plan in plans:
                make_ready(plan, config)  # a drill that can't be run is refused before the first
        for plan in plans:
            heard.check()
            with progress(f"{plan.fault or plan.mode}", plan.knobs.length) as reached:
                report = run_drill(
                    plan,
                    config,
                    folder,
                    lambda length: real_pace(length, speed, reached, heard.check),
                )
            reports.append(report)
            click.echo("\n".join(outcome_lines(report)))
            if config_file is not None:
                click.echo(f"  {keep_samples(report, config)}")
        heard.check()
    return reports


drill.add_command(report_command)


@drill.command("clean", epilog="Example: orphanwatch drill clean --config.file orphanwatch.yml")
@click.option(
    "--config.file",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The configuration.",
)
@click.pass_context
def clean_up(ctx: click.Context, config_file: Path) -> None:
    """Delete every row that a drill left in the stores, and nobody else's.

    A drill that still runs from this config's folder keeps its rows; the exit code is then 1.
    """
    taken = clean(load_config(config_file), config_file.absolute().parent)
    if taken.problems:
        raise DrillError(
            f"{taken.rows} rows of drills were taken away, but not all: "
            f"{'; '.join(taken.problems)}; mend that, and clean again"
        )
    if taken.running:
        click.echo(
            f"{taken.rows} rows of drills were taken away; "
            f"{len(taken.running)} still running, whose rows were left: end it, or wait"
        )
        ctx.exit(1)
    click.echo(f"{taken.rows} rows of drills were taken away; no lease of one is open.")


def _refuse_mixed(ctx: click.Context, *, is_target: bool) -> None:
    """Refuse options of the other kind of drill: on a real gateway nothing is broken on purpose."""
    given = [
        option.opts[0]
        for option in ctx.command.params
        if option.name in (_NOT_OF_TARGETS if is_target else _OF_TARGETS)
        and ctx.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
    ]
    if given:
        where = "is of no use with" if is_target else "only goes with"
        raise click.UsageError(f"{given[0]} {where} --target")


def _plans(
    knobs: Knobs,
    mode: str | None,
    faults: Sequence[str],
    seed: int,
    *,
    everything: bool,
) -> list[Plan]:
    if len(faults) > 1:
        raise click.UsageError(
            "two faults at once hide the hop: run them one after the other, or --all"
        )
    if everything:
        if faults or mode is not None:
            raise click.UsageError("--all runs every fault: leave --fault and --mode out")
        chosen: list[Fault | None] = [None, *Fault]
    else:
        chosen = [Fault(faults[0]) if faults else None]
    return [
        Plan(
            knobs=knobs,
            mode=Mode(mode) if mode is not None else expected_mode(fault),
            fault=fault,
            seed=seed,
        )
        for fault in chosen
    ]
