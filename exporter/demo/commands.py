"""The ``demo`` command."""

import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final

import click

from orphanwatch.exporter.clock import Clock
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.demo.clock import running_clock
from orphanwatch.exporter.demo.prometheus import find_prometheus
from orphanwatch.exporter.demo.settings import CONFIG
from orphanwatch.exporter.demo.show import DemoError, Options, Surroundings, show
from orphanwatch.exporter.instants import Micros, parse_duration
from orphanwatch.exporter.logs import configure_logging
from orphanwatch.exporter.options import open_option
from orphanwatch.exporter.serve import RunningExporter, start
from orphanwatch.exporter.web_address import DEFAULT_LISTEN, Address, parse_address
from orphanwatch.runbooks.render import SERVED_STATUS_PAGE, render_all

_SLOWEST: Final = 0.1
_FASTEST: Final = 5


def _duration(_: click.Context, __: click.Parameter, text: str | None) -> Micros | None:
    try:
        return None if text is None else parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _address(_: click.Context, __: click.Parameter, text: str) -> Address:
    return parse_address(text)


@click.command(
    short_help="Run a small live stack, and the exporter on it.",
    epilog="Example: orphanwatch demo --with-prometheus",
)
@click.option(
    "--web.listen-address",
    "address",
    default=DEFAULT_LISTEN,
    show_default=True,
    callback=_address,
    help="Where the exporter listens; port 0 is any free one.",
)
@open_option
@click.option(
    "--with-prometheus",
    is_flag=True,
    help="Run Prometheus beside it, with the generated rules (the program must be on PATH).",
)
@click.option(
    "--speed",
    type=click.FloatRange(_SLOWEST, _FASTEST),
    default=1.0,
    show_default=True,
    help="How fast the demo's clock moves.",
)
@click.option("--for", "length", callback=_duration, help="Stop by itself after, say, 3m.")
@click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep database, config and rules here; without it they are gone at the end.",
)
def demo(
    address: Address,
    *,
    allow_unauthenticated: bool,
    with_prometheus: bool,
    speed: float,
    length: Micros | None,
    folder: Path | None,
) -> None:
    """Run a small live stack that loses its cancels and mends, and the exporter on it.

    Needs no configuration. The verdict on the status page goes from scale to shed, to hold,
    and back to scale within two minutes.
    """
    configure_logging("warn", "logfmt")  # the demo says itself what the verdict is
    if with_prometheus:
        if speed != 1:
            raise click.UsageError("Prometheus has a clock of its own: leave --speed at 1.")
        find_prometheus()
    stopping = threading.Event()
    with _signals_set(stopping), _kept_or_temporary(folder) as kept:
        around = Surroundings(
            clock=running_clock(speed),
            say=click.echo,
            stopping=stopping,
            start_exporter=partial(
                _start_exporter,
                config_file=str(kept / CONFIG),
                allow_unauthenticated=allow_unauthenticated,
            ),
            write_rules=_write_rules,
        )
        options = Options(
            folder=kept,
            address=address,
            speed=speed,
            length=length,
            with_prometheus=with_prometheus,
        )
        show(options, around)


def _start_exporter(
    config: Config,
    address: Address,
    clock: Clock,
    *,
    config_file: str,
    allow_unauthenticated: bool,
) -> RunningExporter:
    files = render_all(config, config_file, SERVED_STATUS_PAGE)
    pages = {name: text.encode() for name, text in files.items()}
    return start(config, address, clock, pages=pages, allow_unauthenticated=allow_unauthenticated)


def _write_rules(config: Config, folder: Path) -> Path:
    # Only with Prometheus beside it does the demo need the rules.
    from orphanwatch.alerts.artifacts import RULES, build  # noqa: PLC0415
    from orphanwatch.exporter.artifacts import write_files  # noqa: PLC0415

    write_files(build(config), folder)
    return folder / RULES


@contextmanager
def _kept_or_temporary(folder: Path | None) -> Iterator[Path]:
    if folder is not None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DemoError(
                f"{folder} can't be made ({error.strerror}); name another --dir"
            ) from error
        yield folder.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="orphanwatch-demo-") as temporary:
        yield Path(temporary)


@contextmanager
def _signals_set(stopping: threading.Event) -> Iterator[None]:
    """Let Ctrl-C and a polite kill end the demo in good order."""

    def stop(_: int, __: FrameType | None) -> None:
        stopping.set()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
