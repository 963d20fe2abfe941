"""The running exporter: the refresh in the background, the pages in front."""

from collections.abc import Callable, Mapping
from pathlib import Path
from wsgiref.types import WSGIEnvironment

from orphanwatch.exporter.board import ConfigReload
from orphanwatch.exporter.clock import Clock, wall_clock
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.model import Evaluation, Verdict
from orphanwatch.exporter.noticeboard import Noticeboard
from orphanwatch.exporter.process import settle_process
from orphanwatch.exporter.refresh import Refresher
from orphanwatch.exporter.reload import (
    Loaded,
    Reloader,
    keep_config,
    refuse_reload,
    reload_page,
)
from orphanwatch.exporter.snapshot import document_of
from orphanwatch.exporter.state import CounterBook
from orphanwatch.exporter.web import WebApp
from orphanwatch.exporter.web_address import Address
from orphanwatch.exporter.web_config import WebConfig, WebConfigFile, check_bind
from orphanwatch.exporter.web_response import Handler, Response
from orphanwatch.exporter.web_server import WebServer

Load = Callable[[], Loaded]
"""Reads the config file; raises ``OrphanwatchError`` where it can't be used."""


class Front:
    """What answers now: the pages of one config and the board that it fills, swapped as one."""

    def __init__(self, clock: Clock, reload: Handler) -> None:
        self._clock = clock
        self._reload = reload
        self._app: WebApp | None = None

    def __call__(self, environ: WSGIEnvironment) -> Response:
        """Answer one request, all of it by one config."""
        if self._app is None:
            raise RuntimeError("nothing to show yet")
        return self._app(environ)

    def pages_of(self, loaded: Loaded, board: Noticeboard) -> WebApp:
        """Return the pages of a config, all made; nobody sees them yet."""
        return WebApp(
            board=board,
            config=loaded.config,
            document=document_of,
            pages=loaded.pages,
            now=self._clock,
            reload=self._reload,
        )

    def show(self, app: WebApp) -> None:
        """Answer by these pages from now on."""
        self._app = app


class RunningExporter:
    """An exporter that refreshes and answers until it is stopped."""

    def __init__(
        self, refresher: Refresher, server: WebServer, book: CounterBook, reloader: Reloader
    ) -> None:
        self._refresher = refresher
        self._server = server
        self._book = book
        self._reloader = reloader

    @property
    def address(self) -> Address:
        """Where it listens, with the real port."""
        return self._server.address

    @property
    def url(self) -> str:
        """The status page."""
        return f"{self._server.url}/"

    def evaluation(self) -> Evaluation | None:
        """Return the current evaluation; None before the first and once it is stale."""
        return self._refresher.board.current().evaluation

    def verdict(self) -> Verdict | None:
        """Return the present verdict; None before the first and once it is stale."""
        evaluation = self.evaluation()
        return evaluation.verdict if evaluation is not None else None

    def reload(self) -> None:
        """Load the config anew. Raises ``OrphanwatchError``; then the one before runs on."""
        self._reloader.reload()

    def stop(self) -> None:
        """Stop answering, let a running refresh end, close the state file."""
        self._server.stop()
        self._refresher.stop()
        self._book.close()


def start(
    config: Config,
    address: Address,
    clock: Clock = wall_clock,
    *,
    pages: Mapping[str, bytes] | None = None,
    web_config: Path | None = None,
    allow_unauthenticated: bool = False,
    load: Load | None = None,
    enable_lifecycle: bool = False,
) -> RunningExporter:
    """Return a running exporter.

    ``pages`` are the runbook's, by file name. ``load`` reads config and pages anew for a reload,
    without it the same ones are taken again; ``enable_lifecycle`` lets HTTP ask for one. Raises
    ``ConfigError`` for an address or web config that can't be used, ``StateError`` for a state
    file that can't.
    """
    settle_process()

    def check(settings: WebConfig) -> None:
        check_bind(address, settings, allow=allow_unauthenticated)

    web = WebConfigFile(web_config, check)
    first = Loaded(config, pages or {})
    book = CounterBook.open(config.state_file, config, clock())
    try:
        loaded_at = ConfigReload(is_successful=True, succeeded_at=clock())
        refresher = Refresher(config, clock, book, loaded_at)
        reloader = Reloader(
            load or (lambda: first),
            lambda loaded: _take(loaded, refresher, front),
            refresher.note_reload,
            clock,
            started_with=config,
        )
        refuse = keep_config if load is None else refuse_reload
        front = Front(clock, reload_page(reloader.reload) if enable_lifecycle else refuse)
        front.show(front.pages_of(first, refresher.board))
        server = WebServer(front, address, web)
        server.start()
    except BaseException:
        book.close()
        raise
    refresher.start()
    return RunningExporter(refresher, server, book, reloader)


def _take(loaded: Loaded, refresher: Refresher, front: Front) -> None:
    """Let the refresher go on by another config, and its pages be shown once it has."""
    board = refresher.new_board(loaded.config)
    app = front.pages_of(loaded, board)
    refresher.adopt(refresher.prepare(loaded.config, board, lambda: front.show(app)))
