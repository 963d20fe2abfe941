"""The ``alerts`` commands."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click

from orphanwatch.alerts.artifacts import build as build_alerts
from orphanwatch.alerts.promtool import run_promtool
from orphanwatch.exporter.artifacts import outdated, write_files
from orphanwatch.exporter.config_file import load_config

_CONFIG: Final = click.option(
    "--config.file",
    "config_file",
    type=click.Path(path_type=Path),
    required=True,
    help="The configuration the numbers come from.",
)


@click.group()
def alerts() -> None:
    """Prometheus alert rules, generated from the config.

    Example: orphanwatch alerts build --config.file orphanwatch.yml --out rules/
    """


@alerts.command(
    epilog="Example: orphanwatch alerts build --config.file orphanwatch.yml --out rules/"
)
@_CONFIG
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="The folder that receives the rule files; it is made where it is missing.",
)
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if a file is out of date.")
@click.pass_context
def build(context: click.Context, config_file: Path, out: Path, *, check: bool) -> None:
    """Write rules, their promtool tests, the PrometheusRule and the Alertmanager part."""
    files = build_alerts(load_config(config_file))
    if not check:
        write_files(files, out)
        for name in files:
            click.echo(out / name)
        return
    old = outdated(files, out)
    for name in old:
        click.echo(f"{out / name} is out of date; run alerts build again", err=True)
    context.exit(1 if old else 0)


@alerts.command(epilog="Example: orphanwatch alerts test --config.file orphanwatch.yml")
@_CONFIG
@click.pass_context
def test(context: click.Context, config_file: Path) -> None:
    """Build the rules for this config and prove them with promtool; exit 1 if one fails."""
    files = build_alerts(load_config(config_file))
    with TemporaryDirectory(prefix="orphanwatch-") as folder:
        write_files(files, Path(folder))
        outcomes = run_promtool(Path(folder))
    for outcome in outcomes:
        click.echo(f"{'ok' if outcome.passed else 'FAILED'}: {outcome.command}")
        if outcome.output:
            click.echo(outcome.output)
    context.exit(0 if all(outcome.passed for outcome in outcomes) else 1)
