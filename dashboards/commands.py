"""The ``dashboards`` commands."""

from pathlib import Path

import click

from orphanwatch.dashboards.model import Model
from orphanwatch.exporter.options import artifact_options, deliver, load_to_render


@click.group(
    epilog="Example: orphanwatch dashboards build --config.file orphanwatch.yml --out dashboards/"
)
def dashboards() -> None:
    """Grafana dashboards, generated from the config."""


@dashboards.command(
    epilog="Example: orphanwatch dashboards build --config.file orphanwatch.yml --out dashboards/"
)
@artifact_options
@click.option(
    "--model",
    type=click.Choice([str(model) for model in Model]),
    default=str(Model.CLASSIC),
    show_default=True,
    help="classic: for Grafana 9 to 13. v2: the resource of Grafana 13's own API.",
)
@click.pass_context
def build(context: click.Context, config_file: Path, out: Path, model: str, *, check: bool) -> None:
    """Write the Grafana dashboards, ready to import or provision.

    Both models show the same panels under the same uids and file names.
    """
    # The Grafana library is heavy, and only this command needs it.
    from orphanwatch.dashboards.build import build as build_dashboards  # noqa: PLC0415

    files = build_dashboards(load_to_render(config_file), Model(model))
    again = "dashboards build" + ("" if model == Model.CLASSIC else f" --model {model}")
    context.exit(deliver(files, out, check=check, again=again))
