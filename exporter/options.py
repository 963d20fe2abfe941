"""What commands share: options, the config to render, and how files are delivered or compared."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from orphanwatch.exporter.artifacts import outdated, write_files
from orphanwatch.exporter.clock import wall_clock
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.config_selector import parse_selector
from orphanwatch.exporter.errors import RenderError
from orphanwatch.exporter.instants import Instant, parse_instant
from orphanwatch.exporter.web_address import OPEN_FLAG

Command = TypeVar("Command", bound=Callable[..., Any])

config_option: Final = click.option(
    "--config.file",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The configuration.",
)

form_option: Final = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="For people, or one JSON document.",
)

open_option: Final = click.option(
    OPEN_FLAG,
    "allow_unauthenticated",
    is_flag=True,
    help="Listen beyond this machine without a login, where the network itself is closed.",
)


def instant_of(_: click.Context, __: click.Parameter, text: str | None) -> Instant | None:
    """Return the instant of ``--at``; None where it is not given."""
    try:
        return None if text is None else parse_instant(text)
    except (ValueError, TypeError) as error:
        raise click.BadParameter(
            f"{text!r} is no instant; write 2026-11-30T02:17:00Z or epoch seconds"
        ) from error


def selector_of(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    """Return the label matchers of ``--selector`` as PromQL; None where it is not given."""
    try:
        return None if text is None else ",".join(str(one) for one in parse_selector(text))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def load_to_render(path: Path) -> Config:
    """Return the configuration of a file that something is generated from now.

    What is generated outlives the moment and can't warn, so a measured grace that the config names
    and that may not be used is refused: raises ``RenderError``, besides ``load_config``'s.
    """
    config = load_config(path).as_of(wall_clock())
    if config.measurement_problem:
        raise RenderError(config.measurement_problem)
    return config


def artifact_options(command: Command) -> Command:
    """Add what every command takes that generates files."""
    for option in (
        click.option(
            "--check", is_flag=True, help="Write nothing; exit 1 if a file is out of date."
        ),
        click.option(
            "--out",
            type=click.Path(path_type=Path, file_okay=False),
            required=True,
            help="The folder that receives the files; it is made where it is missing.",
        ),
        config_option,
    ):
        command = option(command)
    return command


def deliver(files: Mapping[str, str], out: Path, *, check: bool, again: str) -> int:
    """Write the files and name them, or compare them; return the exit code.

    ``again`` is the command that writes what is missing or out of date.
    """
    if not check:
        write_files(files, out)
        for name in files:
            click.echo(out / name)
        return 0
    old = outdated(files, out)
    for name in old:
        state = "is out of date" if (out / name).exists() else "is missing"
        click.echo(f"{out / name} {state}; run orphanwatch {again} again", err=True)
    return 1 if old else 0
