"""Lists over HTTP, watched the way ``serve`` does it, on a clock that a test sets.

Instants are seconds after ``ZERO``; the gateway is the table of a SQLite file unless a test says
otherwise.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import yaml
from pages import Reply
from stack_file import ZERO, Document, StackFile

from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.instants import Instant, instant_of_epoch
from orphanwatch.exporter.refresh import Refresher
from orphanwatch.exporter.snapshot import document_of
from orphanwatch.exporter.state import CounterBook

Settings = dict[str, Any]
JSON = "application/json; charset=utf-8"
GATEWAY: Settings = {"type": "sql", "url": "sqlite:///stack.db", "relation": "tasks"}


def at(offset: float) -> Instant:
    """Return an instant."""
    return instant_of_epoch(ZERO + offset)


def answer(document: object, **headers: str) -> Reply:
    """Return a document as JSON."""
    return Reply(body=json.dumps(document).encode(), headers={"Content-Type": JSON, **headers})


def in_turn(*documents: object) -> Reply:
    """Return one document a request, in their order; None is an error of the server."""
    rest = iter(documents)

    def write(handler: BaseHTTPRequestHandler) -> None:
        document = next(rest)
        body = b"" if document is None else json.dumps(document).encode()
        handler.send_response(503 if document is None else 200)
        handler.send_header("Content-Type", JSON)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return Reply(raw=write)


def write_config(folder: Path, **stores: Settings) -> Path:
    """Write a config with these stores beside those of an empty stack; return its file."""
    file = folder / "orphanwatch.yml"
    document = {
        "pools": {"paid": {"role": "paid"}, "overflow": {"role": "overflow"}},
        "stores": {"gateway": GATEWAY, **stores},
    }
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    return file


class Watch:
    """A stack that is refreshed as often as a test likes."""

    def __init__(self, folder: Path, **stores: Settings) -> None:
        self.tables = StackFile(folder)
        self._config = load_config(write_config(folder, **stores))
        self._now = 0.0
        book = CounterBook.open(None, self._config, at(0))
        self._refresher = Refresher(self._config, lambda: at(self._now), book)

    def look(self, offset: float) -> Document:
        """Return what is published after a refresh at an instant."""
        self._now = offset
        self._evaluation = self._refresher.refresh()
        return document_of(self._refresher.board.current())

    def problem(self, store: str) -> str:
        """Return what the last refresh said of a store that it could not read."""
        return next(h.problem for name, h in self._evaluation.stores.items() if name == store)

    def stop(self) -> None:
        """End the lanes of the stores."""
        self._refresher.stop()


@contextmanager
def watching(folder: Path, **stores: Settings) -> Iterator[Watch]:
    """Watch until the block ends."""
    watch = Watch(folder, **stores)
    try:
        yield watch
    finally:
        watch.stop()
