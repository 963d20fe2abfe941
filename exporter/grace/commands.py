"""The ``grace`` command: the measured grace, from the stores or from Prometheus."""

import json
from pathlib import Path
from typing import Final

import click

from orphanwatch.exporter.artifacts import write_files
from orphanwatch.exporter.clock import wall_clock
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.grace.estimate import Findings
from orphanwatch.exporter.grace.finding import find_in_prometheus, find_in_stores
from orphanwatch.exporter.grace.options import a_quantile, duration, engines_of
from orphanwatch.exporter.grace.picture import picture_of
from orphanwatch.exporter.grace.saving import measurement_of
from orphanwatch.exporter.grace.telling import Files, document_of, lines_of, next_step
from orphanwatch.exporter.instants import Instant, Micros, format_duration
from orphanwatch.exporter.measurement import VALIDITY
from orphanwatch.exporter.measurement_file import measurement_text
from orphanwatch.exporter.options import form_option, instant_of, selector_of

_FILE: Final = click.Path(path_type=Path, dir_okay=False)
_CANT_TELL: Final = 2


@click.command(
    "grace",
    short_help="Measure how long a cancel takes to reach the worker.",
    epilog="Example: orphanwatch grace --config.file orphanwatch.yml --save grace.yml",
)
@click.option("--config.file", "config_file", type=_FILE, help="Read this configuration's stores.")
@click.option(
    "--prometheus.url",
    "prometheus",
    help="Read what this server has scraped instead; with --config.file too, by its settings.",
)
@click.option(
    "--selector",
    callback=selector_of,
    help='Label matchers that pick one service in Prometheus: service="chat".',
)
@click.option(
    "--quantile",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    callback=a_quantile,
    help="Which part of the cancels it has to cover; without it, the config's grace_quantile.",
)
@click.option(
    "--at",
    callback=instant_of,
    help="As of this instant: ISO 8601 or epoch; without it, now.",
)
@click.option(
    "--include-drill",
    is_flag=True,
    help="Take the samples of drills that broke nothing as well.",
)
@form_option
@click.option("--svg", type=_FILE, help="Draw the curves with their bands into this file.")
@click.option(
    "--save",
    "saved",
    type=_FILE,
    help="Write what was measured into this file, for the config's grace: {file: FILE}.",
)
@click.option(
    "--valid-for",
    "validity",
    default=format_duration(VALIDITY),
    show_default=True,
    callback=duration,
    help="How long what is saved holds.",
)
@click.option(
    "--engine",
    "engines",
    multiple=True,
    callback=engines_of,
    help="What runs the work, to be noted in the file: vllm=0.11.0; may be given again.",
)
def grace(
    config_file: Path | None,
    *,
    prometheus: str | None,
    selector: str | None,
    quantile: float | None,
    at: Instant | None,
    include_drill: bool,
    form: str,
    svg: Path | None,
    saved: Path | None,
    validity: Micros,
    engines: dict[str, str],
) -> int:
    """Measure how long a cancel takes to reach the worker, with what the number rests on.

    Cancels that have not stopped their task yet count as slower than they have lasted. Without
    enough of them the grace stays a proposal, and the reason is said. Exit code 0 whenever it could
    be told, 1 where there is nothing to save, 2 where it can't be told.
    """
    if config_file is None and prometheus is None:
        raise click.UsageError("name --config.file, or --prometheus.url")
    config = None if config_file is None else load_config(config_file)
    _refuse_other_quantile(config, quantile, saved)
    now = wall_clock() if at is None else at
    if prometheus is not None:
        findings = find_in_prometheus(prometheus, selector, config, now, quantile)
    elif config is not None:
        findings = find_in_stores(
            config, now, quantile, include_drill=include_drill, is_present=at is None
        )
    measurement = measurement_of(findings, config, engines, validity)
    if svg is not None:
        write_files({svg.name: picture_of(findings)}, svg.parent, "--svg")
    if saved is not None and measurement is not None:
        write_files({saved.name: measurement_text(measurement)}, saved.parent, "--save")
    _tell(findings, form, Files(config_file, saved, _read_by(config)))
    return _exit_code(findings, saved, is_saved=measurement is not None)


def _tell(findings: Findings, form: str, files: Files) -> None:
    if form == "json":
        click.echo(json.dumps(document_of(findings), indent=2))
        return
    click.echo("\n".join(lines_of(findings)))
    click.echo(f"Next: {next_step(findings, files)}")


def _exit_code(findings: Findings, saved: Path | None, *, is_saved: bool) -> int:
    is_refused = saved is not None and not is_saved
    if is_refused:
        click.echo(f"Error: {saved} is not written: no pool is measured", err=True)
    return _CANT_TELL if findings.unknown else int(is_refused)


def _read_by(config: Config | None) -> Path | None:
    """Return the measurement file that a config reads, if any."""
    grace = config.measured_grace if config is not None else None
    return None if grace is None else Path(grace.file)


def _refuse_other_quantile(
    config: Config | None, quantile: float | None, saved: Path | None
) -> None:
    if config is None or saved is None or quantile in {None, config.grace_quantile}:
        return
    raise click.UsageError(
        f"a grace saved with --quantile {quantile} would not fit the config, which says "
        f"{config.grace_quantile}; set grace_quantile there, or leave one of the two options out"
    )
