"""The exporter's own commands: ``init``, and those that read the stores."""

import json
import os
import signal
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import click

from orphanwatch.exporter.clock import wall_clock
from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.errors import OrphanwatchError
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.options import config_option, instant_of, open_option
from orphanwatch.exporter.presets import PRESETS, preset_of
from orphanwatch.exporter.web_address import DEFAULT_LISTEN, Address, parse_address


def _address(_: click.Context, __: click.Parameter, text: str) -> Address:
    return parse_address(text)


def _presets(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    names = dict.fromkeys(name.strip() for text in texts for name in text.split(","))
    for name in names:
        if name not in PRESETS:
            raise click.BadParameter(f"{name!r} is no preset; these are: {', '.join(PRESETS)}")
    return tuple(names)


@click.command(
    short_help="Serve metrics, status page, gate and runbook until stopped.",
    epilog="Example: orphanwatch serve --config.file orphanwatch.yml",
)
@config_option
@click.option(
    "--web.listen-address",
    "address",
    default=DEFAULT_LISTEN,
    show_default=True,
    callback=_address,
    help="Where to listen; port 0 is any free one.",
)
@click.option(
    "--web.config.file",
    "web_config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="TLS and users, in the format of Prometheus' exporter-toolkit.",
)
@open_option
@click.option(
    "--web.enable-lifecycle",
    "enable_lifecycle",
    is_flag=True,
    help="Let a POST or PUT of /-/reload load the config anew; SIGHUP always does.",
)
def serve(
    config_file: Path,
    address: Address,
    web_config: Path | None,
    *,
    allow_unauthenticated: bool,
    enable_lifecycle: bool,
) -> None:
    """Refresh in the background and serve metrics, status page, gate and runbook until stopped.

    SIGHUP loads the config anew; a bad one is logged, and the one before runs on.
    """
    from orphanwatch.exporter.reload import Loaded  # noqa: PLC0415  (snapshot needs no web server)
    from orphanwatch.exporter.serve import start  # noqa: PLC0415  (likewise)
    from orphanwatch.exporter.web_pages import RunbookPages  # noqa: PLC0415  (likewise no pages)
    from orphanwatch.runbooks.render import SERVED_STATUS_PAGE, render_all  # noqa: PLC0415

    def load() -> Loaded:
        config = load_config(config_file)
        render = partial(render_all, config_file=str(config_file), status_page=SERVED_STATUS_PAGE)
        pages = RunbookPages(config.as_of(wall_clock()), render, wall_clock)
        return Loaded(config, pages)

    signals = _signals()
    config, pages = load()
    running = start(
        config,
        address,
        pages=pages,
        web_config=web_config,
        allow_unauthenticated=allow_unauthenticated,
        load=load,
        enable_lifecycle=enable_lifecycle,
    )
    click.echo(f"orphanwatch is listening on {running.url}", err=True)
    while _next_signal(signals) == signal.SIGHUP:
        with suppress(OrphanwatchError):  # logged, and the one before runs on
            running.reload()
    running.stop()


def _signals() -> SimpleQueue[int]:
    """Return where the signals arrive that end the program or reload its config."""
    # Unlike a lock, a handler may put into it whatever the main thread is at.
    signals: SimpleQueue[int] = SimpleQueue()
    for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, lambda number, _: signals.put(number))
    return signals


def _next_signal(signals: SimpleQueue[int]) -> int:
    """Wait for a signal; of several that wait, many SIGHUP are one, and an end goes before them."""
    waiting = [signals.get()]
    while not signals.empty():
        waiting.append(signals.get())
    return next((number for number in waiting if number != signal.SIGHUP), waiting[0])


@click.command(epilog="Example: orphanwatch snapshot --config.file orphanwatch.yml --format json")
@config_option
@click.option(
    "--at",
    callback=instant_of,
    help="As of this instant: ISO 8601 or epoch; without it, now.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["prometheus", "json"]),
    default="prometheus",
    show_default=True,
    help="The metrics page, or one JSON document with verdict and orphans.",
)
def snapshot(config_file: Path, at: Instant | None, form: str) -> None:
    """Evaluate the stores once and print what is known. Exit code 0 whenever it evaluated."""
    from orphanwatch.exporter.exposition import Format, encode  # noqa: PLC0415  (json needs none)
    from orphanwatch.exporter.snapshot import (  # noqa: PLC0415  (check needs none)
        document_of,
        publish_snapshot,
        take_snapshot,
    )

    config = load_config(config_file)
    evaluation = take_snapshot(config, wall_clock() if at is None else at)
    published = publish_snapshot(evaluation, config)
    if form == "json":
        click.echo(json.dumps(document_of(published), indent=2, allow_nan=False))
    else:
        if problem := config.as_of(evaluation.at).measurement_problem:
            click.echo(f"# the grace is a proposal: {problem}", err=True)
        for name in config.stores.configured():
            if not evaluation.stores[name].up:
                # What is absent from a page is easily missed; in the document the verdict says it.
                problem = evaluation.stores[name].problem
                click.echo(f"# store {name} can't be read: {problem}", err=True)
        sys.stdout.write(encode(published, Format.TEXT).decode())


@click.command(
    short_help="Say what is wrong with config and stores, and the remedy.",
    epilog="Example: orphanwatch check --config.file orphanwatch.yml",
)
@config_option
def check(config_file: Path) -> int:
    """Say what is wrong with config, stores, columns, indexes, clocks and ids, and the remedy.

    Exit code 0 if nothing is wrong, 1 if something is, 2 if the config can't be read.
    """
    from orphanwatch.exporter.check import run_check  # noqa: PLC0415  (the others need none)

    findings = run_check(load_config(config_file), wall_clock())
    for finding in findings:
        click.echo(str(finding))
    return int(any(finding.is_wrong for finding in findings))


@click.command(
    short_help="Write a commented config to start from.",
    epilog="Example: orphanwatch init --preset nginx,litellm,vllm --out orphanwatch.yml",
)
@click.option(
    "--preset",
    "chosen",
    multiple=True,
    callback=_presets,
    help="The systems you run, joined by commas; each store is the first that can be it.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file that receives it; without it, standard output.",
)
@click.option("--force", is_flag=True, help="Overwrite the file of --out where it exists.")
@click.option("--list", "only_list", is_flag=True, help="List the presets and what they can be.")
def init(chosen: tuple[str, ...], out: Path | None, *, force: bool, only_list: bool) -> None:
    """Write a commented config to start from; without presets, for tables in a SQLite file.

    The comments say what each system can't see, and what to set so that ids join.
    """
    from orphanwatch.exporter import init as starting  # noqa: PLC0415  (the others need none)
    from orphanwatch.exporter.artifacts import write_files  # noqa: PLC0415  (likewise)

    if only_list:
        click.echo(starting.preset_table(), nl=False)
        return
    text = starting.starting_config([preset_of(name) for name in chosen])
    if out is None:
        click.echo(text, nl=False)
        return
    if not force and os.path.lexists(out):
        raise click.UsageError(f"{out} exists; choose another --out, or overwrite it with --force")
    write_files({out.name: text}, out.parent)
    click.echo(out)
