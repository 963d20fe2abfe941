"""The pages: which path answers what. Every answer comes from what was last published."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any, Final
from wsgiref.types import WSGIEnvironment

from orphanwatch.exporter.board import Board, Published
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.exposition import Exposition, negotiate
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.landing import Landing
from orphanwatch.exporter.latest import Latest
from orphanwatch.exporter.web_response import HTML, JSON, TEXT, Handler, Response, plain

RUNBOOK: Final = "/runbook/"
FIRST_PAGE: Final = "service-page.html"
_METHODS: Final = ("GET", "HEAD")
_ALLOW: Final = ("Allow", ", ".join(_METHODS))


class WebApp:
    """The handler of every path.

    ``document`` makes the JSON view, ``pages`` holds the runbook by file name (``X.html``,
    ``X.md``), ``now`` is the clock that ages are shown by.
    """

    def __init__(
        self,
        *,
        board: Board,
        config: Config,
        document: Callable[[Published], Mapping[str, Any]],
        pages: Mapping[str, bytes],
        now: Callable[[], Instant],
    ) -> None:
        self._board = board
        self._now = now
        self._pages = pages
        self._exposition = Exposition()
        self._landing = Landing(config)
        self._snapshots = Latest(partial(_json, document))
        self._routes: Mapping[str, Handler] = {
            "/": self._show_landing,
            "/metrics": self._show_metrics,
            "/api/v1/snapshot": self._show_snapshot,
            "/-/healthy": self._show_healthy,
            "/-/ready": self._show_ready,
        }

    def __call__(self, environ: WSGIEnvironment) -> Response:
        """Answer a GET or HEAD of a known path, else 404 or 405."""
        path = environ["PATH_INFO"]
        handler = self._routes.get(path)
        if path.rstrip("/") == RUNBOOK.rstrip("/") and FIRST_PAGE in self._pages:
            handler = self._show_first_page
        if handler is None and path.startswith(RUNBOOK) and self._page_name(path) in self._pages:
            handler = self._show_page
        if handler is None:
            return plain(HTTPStatus.NOT_FOUND)
        if environ["REQUEST_METHOD"] not in _METHODS:
            return plain(HTTPStatus.METHOD_NOT_ALLOWED, _ALLOW)
        return handler(environ)

    def _show_landing(self, environ: WSGIEnvironment) -> Response:  # noqa: ARG002  (a Handler)
        page = self._landing.page(self._board.current(), self._now())
        return Response(HTTPStatus.OK, page, HTML)

    def _show_metrics(self, environ: WSGIEnvironment) -> Response:
        form = negotiate(environ.get("HTTP_ACCEPT"))
        page = self._exposition.page(self._board.current(), form)
        return Response(HTTPStatus.OK, page.plain, form.value, page.packed)

    def _show_snapshot(self, environ: WSGIEnvironment) -> Response:  # noqa: ARG002  (a Handler)
        published = self._board.current()
        if published.evaluation is None:
            body = b'{"error": "no current evaluation: nothing is known, treat it as blind"}\n'
            return Response(HTTPStatus.SERVICE_UNAVAILABLE, body, JSON)
        return Response(HTTPStatus.OK, self._snapshots.of(published), JSON)

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


def _json(document: Callable[[Published], Mapping[str, Any]], published: Published) -> bytes:
    return json.dumps(document(published), allow_nan=False).encode() + b"\n"
