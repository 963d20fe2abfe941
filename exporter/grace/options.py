"""How the options of ``grace`` are read."""

import math

import click

from orphanwatch.exporter.instants import Micros, parse_duration


def a_quantile(_: click.Context, __: click.Parameter, part: float | None) -> float | None:
    """Return the quantile; None where it is not given. A range lets what is no number through."""
    if part is not None and math.isnan(part):
        raise click.BadParameter("nan is no number; write for example 0.99")
    return part


def duration(_: click.Context, __: click.Parameter, text: str) -> Micros:
    """Return a length of time that is longer than nothing."""
    try:
        length = parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    if length <= 0:
        raise click.BadParameter("write more than nothing, for example 30d")
    return length


def engines_of(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Return versions by the names of what has them."""
    engines: dict[str, str] = {}
    for text in texts:
        name, sign, version = text.partition("=")
        if not (name and sign and version):
            raise click.BadParameter(f"{text!r} is no name with a version; write vllm=0.11.0")
        engines[name] = version
    return engines
