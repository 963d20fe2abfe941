"""The ``runbook`` commands."""

from pathlib import Path

import click

from orphanwatch.exporter.artifacts import outdated, write_files
from orphanwatch.exporter.config_file import load_config


@click.group()
def runbook() -> None:
    """Runbook pages, generated from the config and the alert rules."""


@runbook.command(
    epilog="Example: orphanwatch runbook render --config.file orphanwatch.yml --out runbook/"
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
    help="The folder that receives the pages.",
)
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if a page is out of date.")
@click.pass_context
def render(context: click.Context, config_file: Path, out: Path, *, check: bool) -> None:
    """Write the service page and one page per alert, each as Markdown and as one HTML file."""
    # Rules and templates are only needed by this command.
    from orphanwatch.runbooks.render import render_all  # noqa: PLC0415

    files = render_all(load_config(config_file))
    if not check:
        write_files(files, out)
        for name in files:
            click.echo(out / name)
        return
    old = outdated(files, out)
    for name in old:
        click.echo(f"{out / name} is out of date; run runbook render again", err=True)
    context.exit(1 if old else 0)
