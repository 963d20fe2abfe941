"""The ``dashboards`` commands."""

from pathlib import Path

import click

from orphanwatch.exporter.options import artifact_options, deliver, load_to_render


@click.group()
def dashboards() -> None:
    """Grafana dashboards, generated from the config."""


@dashboards.command(
    epilog="Example: orphanwatch dashboards build --config.file orphanwatch.yml --out dashboards/"
)
@artifact_options
@click.pass_context
def build(context: click.Context, config_file: Path, out: Path, *, check: bool) -> None:
    """Write the Grafana dashboards (classic JSON model), ready to import or provision."""
    # The Grafana library is heavy, and only this command needs it.
    from orphanwatch.dashboards.build import build as build_dashboards  # noqa: PLC0415

    files = build_dashboards(load_to_render(config_file))
    context.exit(deliver(files, out, check=check, again="dashboards build"))
