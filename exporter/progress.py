"""How far a long command has come: one line, on a terminal only."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click


@contextmanager
def progress(label: str, length: int) -> Iterator[Callable[[int], None]]:
    """Show a bar while something runs; what is yielded takes how much of the length is done.

    It is written to standard error, so that what a command says can be read by a program.
    """
    with click.progressbar(
        length=length, label=f"{label:<16}", file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as bar:
        yield lambda done: bar.update(done - bar.pos)
