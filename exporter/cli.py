"""The program: one command for each thing to be done, errors turned into exit codes.

Exit codes: 0 done; 1 a finding (a check failed, a file differs); 2 wrong usage or configuration,
or it can't be told.
"""

import importlib
import sys
from typing import Any, Final

import click

from orphanwatch.exporter.errors import OrphanwatchError
from orphanwatch.exporter.logs import configure_logging
from orphanwatch.exporter.version import VERSION

EXIT_USAGE: Final = 2

# By name, so that a command costs only what it imports itself.
_COMMANDS: Final = {
    "alerts": "orphanwatch.alerts.commands:alerts",
    "check": "orphanwatch.exporter.commands:check",
    "dashboards": "orphanwatch.dashboards.commands:dashboards",
    "demo": "orphanwatch.exporter.demo.commands:demo",
    "diagnose": "orphanwatch.exporter.diagnose:diagnose_command",
    "drill": "orphanwatch.exporter.drill.commands:drill",
    "gate": "orphanwatch.exporter.gate_command:gate_command",
    "grace": "orphanwatch.exporter.grace.commands:grace",
    "init": "orphanwatch.exporter.commands:init",
    "runbook": "orphanwatch.runbooks.commands:runbook",
    "serve": "orphanwatch.exporter.commands:serve",
    "snapshot": "orphanwatch.exporter.commands:snapshot",
}


class _LazyGroup(click.Group):
    """Loads a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  (click's signature)
        if cmd_name not in _COMMANDS:
            return None
        module, attribute = _COMMANDS[cmd_name].split(":")
        command: Any = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{_COMMANDS[cmd_name]} is no command")
        return command


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: orphanwatch demo",
)
@click.version_option(VERSION, prog_name="orphanwatch")
@click.option(
    "--log.level",
    "level",
    type=click.Choice(["debug", "info", "warn", "error"]),
    default="info",
    show_default=True,
    help="Least severity that is logged.",
)
@click.option(
    "--log.format",
    "form",
    type=click.Choice(["logfmt", "json"]),
    default="logfmt",
    show_default=True,
    help="How log lines are written, to standard error.",
)
def orphanwatch(level: str, form: str) -> None:
    """Find LLM work that nobody waits for any more, page about it, and say what to do."""
    configure_logging(level, form)


def main() -> None:
    """Run the program."""
    try:
        code = orphanwatch.main(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("Aborted.", err=True)
        sys.exit(EXIT_USAGE)
    except click.ClickException as error:
        error.show()
        sys.exit(EXIT_USAGE)
    except OrphanwatchError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_USAGE)
    sys.exit(code if isinstance(code, int) else 0)
