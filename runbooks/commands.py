"""The ``runbook`` commands."""

from pathlib import Path

import click

from orphanwatch.exporter.options import artifact_options, deliver, load_to_render


@click.group(
    epilog="Example: orphanwatch runbook render --config.file orphanwatch.yml --out runbook/"
)
def runbook() -> None:
    """Runbook pages, generated from the config and the alert rules."""


@runbook.command(
    short_help="Write the service page, and one page for each alert.",
    epilog="Example: orphanwatch runbook render --config.file orphanwatch.yml --out runbook/",
)
@artifact_options
@click.pass_context
def render(context: click.Context, config_file: Path, out: Path, *, check: bool) -> None:
    """Write the service page and one page per alert, each as Markdown and as one HTML file.

    The commands on the pages name the configuration's path as it is given here.
    """
    # Rules and templates are only needed by this command.
    from orphanwatch.runbooks.render import render_all  # noqa: PLC0415

    files = render_all(load_to_render(config_file), str(config_file))
    context.exit(deliver(files, out, check=check, again="runbook render"))
