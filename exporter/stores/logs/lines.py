"""Lines of a log: found in a file's bytes, each no longer than bounded, and read as JSON."""

import json
from collections.abc import Iterator
from typing import Any, Final, NoReturn

from orphanwatch.exporter.names import RejectReason
from orphanwatch.exporter.stores.documents import BadDocument

LONGEST_LINE: Final = 2**20
"""A line of more bytes is no record: it is counted and skipped."""

_BLANK: Final = b" \t\r\n\0\xef\xbb\xbf"  # the last three are a byte order mark


def is_blank(line: bytes) -> bool:
    """Return whether a line says nothing; what is left of a truncated file may be zeros."""
    return not line.strip(_BLANK)


def document_of(line: bytes) -> Any:
    """Return the JSON object of a line; raises ``BadDocument`` where there is none.

    What stands before its brace is skipped: a syslog header, the name of a container. So is the
    object in which Docker wraps a line. Bytes that are no UTF-8 are carried along, as they matter
    only where they are part of an id.
    """
    document = _object_in(line)
    if type(document) is dict and "log" in document and "stream" in document:
        wrapped = document["log"]
        return _object_in(wrapped.encode(errors="replace")) if type(wrapped) is str else document
    return document


def _object_in(line: bytes) -> Any:
    start = line.find(b'{"')
    if start < 0:
        start = line.find(b"{")
    if start < 0:
        raise BadDocument(RejectReason.INVALID_RECORD, "has no JSON object")
    text = line[start:].decode("utf-8", "surrogateescape")
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise BadDocument(RejectReason.INVALID_RECORD, "is no JSON") from error


def split(lines: bytes, offset: int) -> Iterator[tuple[int, bytes]]:
    """Yield whole lines without their ends, each with the offset at which the next one begins."""
    for line in lines.removesuffix(b"\n").split(b"\n"):
        offset += len(line) + 1
        yield offset, line


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")


_DECODER: Final = json.JSONDecoder(parse_constant=_refuse)
