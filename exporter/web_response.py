"""What the web app answers with, and how an answer goes out."""

import gzip
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple
from wsgiref.types import StartResponse, WSGIEnvironment

from orphanwatch.exporter.status.script import SCRIPT_SOURCE

TEXT: Final = "text/plain; charset=utf-8"
HTML: Final = "text/html; charset=utf-8"
JSON: Final = "application/json"

SECURITY_HEADERS: Final[Mapping[str, str]] = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "deny",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src {SCRIPT_SOURCE}; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""On every answer, errors included. Our pages carry their style inside; one script may run."""

_WORTH_PACKING: Final = 1024


class Response(NamedTuple):
    """One answer; ``packed`` is the body under gzip, where somebody has it ready."""

    status: HTTPStatus
    body: bytes
    content_type: str = TEXT
    packed: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()


Handler = Callable[[WSGIEnvironment], Response]
"""What answers a request: a function, so that a test needs no server."""


def plain(status: HTTPStatus, *headers: tuple[str, str]) -> Response:
    """Return a bare answer that says its status and nothing else."""
    return Response(status, f"{status.value} {status.phrase}\n".encode(), headers=headers)


def send(
    response: Response,
    environ: WSGIEnvironment,
    start_response: StartResponse,
    headers: Mapping[str, str],
) -> Iterable[bytes]:
    """Start the response, and return the body that goes out: packed if asked, none for HEAD."""
    body = response.body
    encoding: tuple[tuple[str, str], ...] = ()
    if len(body) >= _WORTH_PACKING and accepts_gzip(environ.get("HTTP_ACCEPT_ENCODING", "")):
        body = gzip.compress(body, 6, mtime=0) if response.packed is None else response.packed
        encoding = (("Content-Encoding", "gzip"),)
    start_response(
        f"{response.status.value} {response.status.phrase}",
        [
            ("Content-Type", response.content_type),
            ("Content-Length", str(len(body))),
            ("Vary", "Accept, Accept-Encoding"),
            *encoding,
            *headers.items(),
            *response.headers,
        ],
    )
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]


def accepts_gzip(header: str) -> bool:
    """Return whether an ``Accept-Encoding`` header asks for gzip."""
    for entry in header.lower().split(","):
        coding, *parameters = (part.strip() for part in entry.split(";"))
        if coding == "gzip":
            weights = [text[2:].strip(" 0.") for text in parameters if text.startswith("q=")]
            return "" not in weights
    return False
