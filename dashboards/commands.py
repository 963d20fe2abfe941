"""The ``dashboards`` commands."""

from pathlib import Path

import click

from orphanwatch.exporter.artifacts import outdated, write_files
from orphanwatch.exporter.config_file import load_config


@click.group()
def dashboards() -> None:
    """Grafana dashboards, generated from the config."""


@dashboards.command(
    epilog="Example: orphanwatch dashboards build --config.file orphanwatch.yml --out dashboards/"
)
@click.option(
    "--config.file",
    "config_file",
    type=click.Path(path_type=Path),
    required=True,
    help="The configuration the numbers come from.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="The folder that receives the JSON files.",
)
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if a file is out of date.")
@click.pass_context
def build(context: click.Context, config_file: Path, out: Path, *, check: bool) -> None:
    """Write the Grafana dashboards (classic JSON model), ready to import or provision."""
    # The Grafana library is heavy, and only this command needs it.
    from orphanwatch.dashboards.build import build as build_dashboards  # noqa: PLC0415

    files = build_dashboards(load_config(config_file))
    if not check:
        write_files(files, out)
        for name in files:
            click.echo(out / name)
        return
    old = outdated(files, out)
    for name in old:
        click.echo(f"{out / name} is out of date; run dashboards build again", err=True)
    context.exit(1 if old else 0)
