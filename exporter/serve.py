"""The running exporter: the refresh in the background, the pages in front."""

from collections.abc import Mapping
from pathlib import Path

from orphanwatch.exporter.clock import Clock, wall_clock
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.model import Evaluation, Verdict
from orphanwatch.exporter.process import settle_process
from orphanwatch.exporter.refresh import Refresher
from orphanwatch.exporter.snapshot import document_of
from orphanwatch.exporter.state import CounterBook
from orphanwatch.exporter.web import WebApp
from orphanwatch.exporter.web_address import Address
from orphanwatch.exporter.web_config import WebConfig, WebConfigFile, check_bind
from orphanwatch.exporter.web_server import WebServer


class RunningExporter:
    """An exporter that refreshes and answers until it is stopped."""

    def __init__(self, refresher: Refresher, server: WebServer, book: CounterBook) -> None:
        self._refresher = refresher
        self._server = server
        self._book = book

    @property
    def address(self) -> Address:
        """Where it listens, with the real port."""
        return self._server.address

    @property
    def url(self) -> str:
        """The landing page."""
        return f"{self._server.url}/"

    def evaluation(self) -> Evaluation | None:
        """Return the current evaluation; None before the first and once it is stale."""
        return self._refresher.board.current().evaluation

    def verdict(self) -> Verdict | None:
        """Return the present verdict; None before the first and once it is stale."""
        evaluation = self.evaluation()
        return evaluation.verdict if evaluation is not None else None

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
) -> RunningExporter:
    """Return a running exporter.

    ``pages`` are the runbook's, by file name. Raises ``ConfigError`` for an address or web
    config that can't be used, ``StateError`` for a state file that can't.
    """
    settle_process()

    def check(settings: WebConfig) -> None:
        check_bind(address, settings, allow=allow_unauthenticated)

    web = WebConfigFile(web_config, check)
    book = CounterBook.open(config.state_file, config, clock())
    try:
        refresher = Refresher(config, clock, book)
        app = WebApp(
            board=refresher.board,
            config=config,
            document=document_of,
            pages=pages or {},
            now=clock,
        )
        server = WebServer(app, address, web)
        server.start()
    except BaseException:
        book.close()
        raise
    refresher.start()
    return RunningExporter(refresher, server, book)
