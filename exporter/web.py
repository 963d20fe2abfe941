"""The pages: which path answers what. Every answer comes from what was last published."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from wsgiref.types import WSGIEnvironment

from orphanwatch.exporter.api import (
    NOTHING_KNOWN,
    orphans_document,
    parse_window,
    verdict_document,
)
from orphanwatch.exporter.board import Board, Published
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.exposition import Exposition, negotiate
from orphanwatch.exporter.gate_page import GatePage
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.latest import Latest
from orphanwatch.exporter.reload import RELOAD_METHODS, RELOAD_PATH, refuse_reload
from orphanwatch.exporter.status.page import StatusPage
from orphanwatch.exporter.web_missing import missing
from orphanwatch.exporter.web_response import HTML, JSON, TEXT, Handler, Response, plain

RUNBOOK: Final = "/runbook/"
FIRST_PAGE: Final = "service-page.html"
GATE: Final = "/gate"
_METHODS: Final = ("GET", "HEAD")


class WebApp:
    """The handler of every path.

    ``document`` makes the JSON view, ``pages`` holds the runbook by file name (``X.html``,
    ``X.md``), ``now`` is the clock that ages are shown by, ``reload`` answers a reload.
    """

    def __init__(
        self,
        *,
        board: Board,
        config: Config,
        document: Callable[[Published], Mapping[str, Any]],
        pages: Mapping[str, bytes],
        now: Callable[[], Instant],
        reload: Handler = refuse_reload,
    ) -> None:
        self._board = board
        self._now = now
        self._pages = pages
        self._exposition = Exposition()
        self._gate = GatePage(config)
        self._status = StatusPage(config)
        self._snapshots = Latest(partial(_json, document))
        self._verdicts = Latest(partial(_json, partial(verdict_document, config=config)))
        self._routes: Mapping[str, Handler] = {
            "/": self._show_status,
            "/metrics": self._show_metrics,
            "/api/v1/snapshot": self._show_snapshot,
            "/api/v1/verdict": self._show_verdict,
            "/api/v1/orphans": self._show_orphans,
            "/-/healthy": self._show_healthy,
            "/-/ready": self._show_ready,
            RELOAD_PATH: reload,
        }

    def __call__(self, environ: WSGIEnvironment) -> Response:
        """Answer a GET or HEAD of a known path (a POST or PUT of a reload), else 404 or 405."""
        path = environ["PATH_INFO"]
        if path == GATE or path.startswith(f"{GATE}/"):
            return self._show_gate(environ)
        handler = self._routes.get(path)
        if path.rstrip("/") == RUNBOOK.rstrip("/") and FIRST_PAGE in self._pages:
            handler = self._show_first_page
        if handler is None and path.startswith(RUNBOOK) and self._page_name(path) in self._pages:
            handler = self._show_page
        if handler is None:
            return missing(environ)
        methods = RELOAD_METHODS if path == RELOAD_PATH else _METHODS
        if environ["REQUEST_METHOD"] not in methods:
            return _not_by(methods)
        return handler(environ)

    def _show_status(self, environ: WSGIEnvironment) -> Response:  # noqa: ARG002  (a Handler)
        page = self._status.page(self._board.current(), self._now())
        return Response(HTTPStatus.OK, page, HTML)

    def _show_metrics(self, environ: WSGIEnvironment) -> Response:
        form = negotiate(environ.get("HTTP_ACCEPT"))
        page = self._exposition.page(self._board.current(), form)
        return Response(HTTPStatus.OK, page.plain, form.value, page.packed)

    def _show_gate(self, environ: WSGIEnvironment) -> Response:
        """Answer by any method, and below the path: some proxies ask by their client's own.

        What a client appends must not choose the pool.
        """
        query = environ.get("QUERY_STRING", "") if environ["PATH_INFO"] == GATE else ""
        return self._gate.answer(self._board.current(), query, self._now())

    def _show_snapshot(self, environ: WSGIEnvironment) -> Response:  # noqa: ARG002  (a Handler)
        published = self._board.current()
        if published.evaluation is None:
            return _nothing_known()
        return Response(HTTPStatus.OK, self._snapshots.of(published), JSON)

    def _show_verdict(self, environ: WSGIEnvironment) -> Response:  # noqa: ARG002  (a Handler)
        published = self._board.current()
        if published.evaluation is None:
            return _nothing_known()
        return Response(HTTPStatus.OK, self._verdicts.of(published), JSON)

    def _show_orphans(self, environ: WSGIEnvironment) -> Response:
        published = self._board.current()
        try:
            window = parse_window(environ.get("QUERY_STRING", ""))
        except ValueError as error:
            return Response(HTTPStatus.BAD_REQUEST, _text({"error": str(error)}), JSON)
        if published.evaluation is None:
            return _nothing_known()
        return Response(HTTPStatus.OK, _text(orphans_document(published, window)), JSON)

    def _show_healthy(self, environ: WSGIEnvironment) -> Response:  # noqa: ARG002  (a Handler)
        return plain(HTTPStatus.OK)

    def _show_ready(self, environ: WSGIEnvironment) -> Response:  # noqa: ARG002  (a Handler)
        ready = self._board.current().evaluation is not None
        return plain(HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE)

    def _show_first_page(self, environ: WSGIEnvironment) -> Response:  # noqa: ARG002  (a Handler)
        return plain(HTTPStatus.FOUND, ("Location", f"{RUNBOOK}{FIRST_PAGE}"))

    def _show_page(self, environ: WSGIEnvironment) -> Response:
        name = self._page_name(environ["PATH_INFO"])
        kind = HTML if name.endswith(".html") else TEXT
        return Response(HTTPStatus.OK, self._pages[name], kind)

    def _page_name(self, path: str) -> str:
        name = path.removeprefix(RUNBOOK)
        return name if name.endswith((".html", ".md")) else f"{name}.html"


def _not_by(methods: Sequence[str]) -> Response:
    status = HTTPStatus.METHOD_NOT_ALLOWED
    said = f"{status.value} {status.phrase}: ask by {' or '.join(methods)}\n"
    return Response(status, said.encode(), headers=(("Allow", ", ".join(methods)),))


def _nothing_known() -> Response:
    return Response(HTTPStatus.SERVICE_UNAVAILABLE, _text(NOTHING_KNOWN), JSON)


def _json(document: Callable[[Published], Mapping[str, Any]], published: Published) -> bytes:
    return _text(document(published))


def _text(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, allow_nan=False).encode() + b"\n"
