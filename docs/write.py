#!/usr/bin/env python3
"""Writes the generated pages of this folder: ``python docs/write.py [FOLDER]``."""

import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Final

import click

from orphanwatch.exporter.cli import orphanwatch
from orphanwatch.exporter.names import (
    CANCEL_PROPAGATION_SECONDS,
    FAMILIES,
    PROPAGATION_BUCKETS,
    REFRESH_BUCKETS,
    REFRESH_DURATION_SECONDS,
    STORE_REASONS,
    Action,
    Basis,
    Cause,
    Condition,
    Family,
    GraceSource,
    Join,
    KeyKind,
    StoreName,
)

_HEAD: Final = """\
<!-- Generated from exporter/names.py by `make docs`, do not edit. -->

# Metrics

A family that is absent is unknown: the store that it rests on can't be read, or doesn't say.
Unknown is never zero.
Every label set that we own exists at 0 from the first scrape.
Task ids, retry ids and worker ids are never labels.
They stand in the JSON view, in logs, on the status page, and as exemplars.
"""

_VALUES: Final = {
    "pool": "a configured pool, or `other`",
    "cause": tuple(Cause),
    "basis": tuple(Basis),
    "store": tuple(StoreName),
    "key": tuple(KeyKind),
    "ledger": tuple(Join),
    "task": tuple(Join),
    "source": tuple(GraceSource),
    "condition": tuple(Condition),
    "version": "of the running program",
}


_COMMANDS_HEAD: Final = """\
<!-- Generated from the commands' own help by `make docs`, do not edit. -->

# Commands

Results go to standard output, everything else to standard error.

| exit code | meaning |
| --- | --- |
| 0 | it did what it was asked |
| 1 | it found something: `check` an error, `gate` that it is closed, `--check` an outdated file |
| 2 | it can't tell: wrong usage, wrong config, or a file or tool that is missing |
"""


def metrics_page() -> str:
    """Return the page of all metrics, labels and buckets."""
    return "\n".join([_HEAD, *_families(), "", *_labels(), "", *_reasons(), "", *_buckets(), ""])


def _families() -> Iterator[str]:
    yield "| metric | type | labels | meaning |"
    yield "| --- | --- | --- | --- |"
    for family in FAMILIES:
        yield f"| `{family}` | {family.kind} | {_shown(family)} | {family.help} |"


def _shown(family: Family) -> str:
    return ", ".join(f"`{label}`" for label in family.labels)


def _labels() -> Iterator[str]:
    yield "## Values of labels"
    yield ""
    yield "| label | values |"
    yield "| --- | --- |"
    for label, values in _VALUES.items():
        words = values if isinstance(values, str) else ", ".join(f"`{value}`" for value in values)
        yield f"| `{label}` | {words} |"
    yield ""
    yield f"The verdict's action is one of {', '.join(f'`{action}`' for action in Action)}."


def _reasons() -> Iterator[str]:
    yield "## Rows that are not used"
    yield ""
    yield "A row that can't be read costs only itself."
    yield "It is counted once, under one of these reasons."
    yield ""
    yield "| store | reasons |"
    yield "| --- | --- |"
    for store, reasons in STORE_REASONS.items():
        yield f"| `{store}` | {', '.join(f'`{reason}`' for reason in reasons)} |"


def _buckets() -> Iterator[str]:
    yield "## Buckets"
    yield ""
    for name, edges in (
        (CANCEL_PROPAGATION_SECONDS, PROPAGATION_BUCKETS),
        (REFRESH_DURATION_SECONDS, REFRESH_BUCKETS),
    ):
        yield f"`{name}`: {', '.join(f'{edge:g}' for edge in edges)}."
        yield ""


def commands_page() -> str:
    """Return the page of all commands, with the words of their own help."""
    return "\n".join([_COMMANDS_HEAD, *_commands(orphanwatch, "orphanwatch")])


def _commands(command: click.Command, name: str) -> Iterator[str]:
    yield f"## {name}\n"
    yield f"{cleandoc(command.help or '')}\n"
    options = [option for option in command.params if isinstance(option, click.Option)]
    if options:
        yield "| option | default | meaning |"
        yield "| --- | --- | --- |"
        yield from (_option(option) for option in options)
        yield ""
    if command.epilog:
        example = command.epilog.removeprefix("Example: ")
        yield f"```console\n$ {example}\n```\n"
    if isinstance(command, click.Group):
        context = click.Context(command)
        for inner in command.list_commands(context):
            found = command.get_command(context, inner)
            if found is not None:
                yield from _commands(found, f"{name} {inner}")


def _option(option: click.Option) -> str:
    kind = option.type
    choices = kind.choices if isinstance(kind, click.Choice) else ()
    values = " or".join(f" `{choice}`" for choice in choices)
    default = "required" if option.required else ""
    if option.show_default:
        default = f"`{option.default}`"
    return f"| `{', '.join(option.opts)}`{values} | {default} | {option.help} |"


PAGES: Final = {"commands.md": commands_page, "metrics.md": metrics_page}

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for page, text in PAGES.items():
        (folder / page).write_text(text().rstrip("\n") + "\n", encoding="utf-8")
