"""The ``drill report`` command."""

import shutil
from pathlib import Path
from typing import Final

import click

from orphanwatch.exporter.drill.compare import table
from orphanwatch.exporter.drill.page import page
from orphanwatch.exporter.drill.report_file import read_reports
from orphanwatch.exporter.errors import DrillError

_WIDTH: Final = 100
"""Where there is no terminal whose width could be asked for."""


@click.command(
    "report",
    short_help="Show reports of drills side by side.",
    epilog="Example: orphanwatch drill report before.json after.json --html drill.html",
)
@click.argument(
    "files",
    metavar="FILE...",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
)
@click.option(
    "--html",
    "page_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a page too, with the token curve of each task against cancel and cutoff.",
)
def report_command(files: tuple[Path, ...], page_file: Path | None) -> None:
    """Show reports of drills side by side; each file holds one, or a list of them."""
    if page_file is not None and page_file.resolve() in {file.resolve() for file in files}:
        raise click.UsageError(f"--html {page_file} is one of the reports: choose another file")
    filed = read_reports(files)
    width = shutil.get_terminal_size((_WIDTH, 0)).columns
    click.echo("\n".join(table(filed, width)))
    if page_file is not None:
        try:
            page_file.write_text(page(filed), encoding="utf-8")
        except OSError as error:
            raise DrillError(
                f"{page_file} can't be written: {error.strerror}; choose another --html"
            ) from error
        click.echo(f"\n{page_file}")
