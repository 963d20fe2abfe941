"""The ``alerts backtest`` command."""

import json
from pathlib import Path

import click

from orphanwatch.exporter.artifacts import write_files
from orphanwatch.exporter.clock import wall_clock
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import SECOND, Instant, parse_duration
from orphanwatch.exporter.options import instant_of, load_to_render, selector_of


def _seconds(_: click.Context, __: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        seconds = parse_duration(text) // SECOND
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if seconds < 1:
        raise click.BadParameter(f"{text!r} is under a second; write for example 30d")
    return seconds


@click.command(
    "backtest",
    short_help="Replay the rules over history: how often they would page.",
    epilog=(
        "Example: orphanwatch alerts backtest --prometheus.url http://127.0.0.1:9090 "
        "--config.file orphanwatch.yml --range 30d"
    ),
)
@click.option("--prometheus.url", "prometheus", required=True, help="The server with the history.")
@click.option(
    "--range",
    "length",
    callback=_seconds,
    default="30d",
    show_default=True,
    help="How far back to go.",
)
@click.option(
    "--config.file",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Replay the rules of this configuration; without it, those of what the history shows.",
)
@click.option(
    "--selector",
    callback=selector_of,
    help='Label matchers that pick one service, in place of the config\'s: service="chat".',
)
@click.option(
    "--at", callback=instant_of, help="The end of the range: ISO 8601 or epoch; without it, now."
)
@click.option(
    "--step",
    callback=_seconds,
    help="Evaluate this often; without it, as often as Prometheus does. Longer is faster, and "
    "misses what is shorter.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="For people, or one JSON document.",
)
@click.option(
    "--svg", type=click.Path(path_type=Path, dir_okay=False), help="Draw a picture into this file."
)
def backtest_command(
    *,
    prometheus: str,
    length: int,
    config_file: Path | None,
    selector: str | None,
    at: Instant | None,
    step: int | None,
    form: str,
    svg: Path | None,
) -> None:
    """Replay the rules over history: how often each would have paged, here and at its neighbours.

    Exit code 0 whenever it was replayed; 2 where there is no history, or it can't be read.
    """
    # The client for Prometheus is heavy, and building rules needs none.
    from orphanwatch.alerts.backtest.assumed import ASSUMED, assumed_config  # noqa: PLC0415
    from orphanwatch.alerts.backtest.history import History  # noqa: PLC0415
    from orphanwatch.alerts.backtest.plot import picture  # noqa: PLC0415
    from orphanwatch.alerts.backtest.report import document_of, lines_of  # noqa: PLC0415
    from orphanwatch.alerts.backtest.run import backtest  # noqa: PLC0415

    history, end = History(prometheus), (at if at is not None else wall_clock()) // SECOND
    if config_file is None:
        config, assumed = assumed_config(history, selector or "", end, length), ASSUMED
    else:
        config, assumed = _chosen(load_to_render(config_file), selector), ""
    tested = backtest(config, history, at=end, length=length, step=step, assumed=assumed)
    if svg is not None:
        write_files({svg.name: picture(tested)}, svg.parent)
    if form == "json":
        click.echo(json.dumps(document_of(tested), indent=2))
    else:
        click.echo("\n".join(lines_of(tested)))


def _chosen(config: Config, selector: str | None) -> Config:
    return config if selector is None else config.model_copy(update={"selector": selector})
