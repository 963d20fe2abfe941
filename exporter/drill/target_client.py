"""Clients that ask a real gateway, read the stream, and leave by closing the connection."""

import http.client
import socket
import ssl
import threading
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import requests
from requests.utils import DEFAULT_CA_BUNDLE_PATH

from orphanwatch.exporter.clock import Clock
from orphanwatch.exporter.config_drill import DrillTarget
from orphanwatch.exporter.drill.target_requests import Ask, headers_of
from orphanwatch.exporter.errors import DrillError
from orphanwatch.exporter.instants import Instant, Micros, format_duration, seconds
from orphanwatch.exporter.stores.http.problems import (
    place_of,
    problem_of,
    refusal_of,
    trusted_certificates,
    unreadable_of,
)

_LONGEST_LINE: Final = 1024 * 1024
_NOT_TAKEN: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)
_EVENT: Final = b"data:"
_LAST_EVENT: Final = b"[DONE]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What one client saw of its request. None is "has none"."""

    sent_at: Instant
    """When it was on its way."""
    first_at: Instant | None
    """The first event of the stream."""
    events: int
    """Each holds a token, or more."""
    left_at: Instant | None
    """When the client closed the connection; None where the answer ended before."""
    ended_at: Instant | None
    """When the answer ended, as it should."""
    answered_id: str | None
    """What stood in the header in which the gateway says its own id."""
    problem: str = ""
    """Why there was no answer, or not all of it, with the remedy."""


class Client:
    """One client and its one connection; ``leave`` may be called from any thread."""

    def __init__(self, target: DrillTarget, clock: Clock) -> None:
        """Raises ``DrillError`` where a certificate's file can't be read."""
        self._target = target
        self._clock = clock
        self._connection = _connection(target)
        self._sock: socket.socket | None = None
        self._lock = threading.Lock()
        self._left_at: Instant | None = None
        self._is_through = False
        self._first_at: Instant | None = None
        self._events = 0

    def ask(self, ask: Ask, body: bytes, leave_after: Micros) -> Told:
        """Send a request and read its stream, until it ends or ``leave_after`` is over.

        Never raises for the gateway's sake: what went wrong is in the answer.
        """
        timer = threading.Timer(seconds(leave_after), self.leave)
        timer.daemon = True
        response: http.client.HTTPResponse | None = None
        sent_at, problem = self._clock(), ""
        try:
            self._connection.connect()
            # Kept, since http.client hands it over to an answer that ends with the connection.
            self._sock = self._connection.sock
            self._sock.settimeout(None)  # the timer ends it
            if self._left_at is not None:
                return self._told(sent_at, None, "")
            sent_at = self._clock()
            timer.start()
            self._connection.request("POST", self._target.path, body, headers_of(self._target, ask))
            response = self._connection.getresponse()
            problem = self._read(response)
        # ValueError: a header that can't be sent; its text would show the header.
        except (OSError, http.client.HTTPException, ValueError) as error:
            problem = "" if self._left_at is not None else self._problem_of(error)
        finally:
            timer.cancel()
            with self._lock:
                self._is_through = True
            if response is not None:
                response.close()
            self._connection.close()
        return self._told(sent_at, response, problem)

    def leave(self) -> None:
        """Close the connection, whatever is on it; nothing where the answer has ended."""
        with self._lock:
            if self._is_through or self._left_at is not None:
                return
            self._left_at = self._clock()
        if self._sock is not None:
            try:
                # The socket's own: TLS would take its leave in words that a crash does not say.
                socket.socket.shutdown(self._sock, socket.SHUT_RDWR)
            except OSError:  # the gateway was faster
                return

    def _read(self, response: http.client.HTTPResponse) -> str:
        """Count the events of a stream up to its end; return what was wrong with it."""
        place = place_of(self._target.url)
        if response.status in _NOT_TAKEN:
            return (
                f"{place} does not take the request ({response.status}); check "
                "model, max_tokens_key and ignore_eos"
            )
        if response.status == HTTPStatus.TOO_MANY_REQUESTS:
            return f"{place} lets no more requests in now (429); drill when its limits allow it"
        if response.status != HTTPStatus.OK:
            return refusal_of(response.status, place, self._target)
        kind = response.headers.get_content_type()
        if kind != "text/event-stream":
            return f"{place} does not stream its answer (it is {kind}); check what model is behind"
        while line := response.readline(_LONGEST_LINE):
            if not line.startswith(_EVENT):
                continue
            if line.removeprefix(_EVENT).strip() == _LAST_EVENT:
                break
            self._events += 1
            self._first_at = self._first_at or self._clock()
        else:
            if self._left_at is None and self._events == 0:
                return f"{place} ended the answer before its first token; see its log"
        with self._lock:
            self._is_through = True
        return ""

    def _told(
        self, sent_at: Instant, response: http.client.HTTPResponse | None, problem: str
    ) -> Told:
        name = self._target.answer_id_header
        left = self._left_at
        return Told(
            sent_at=sent_at,
            first_at=self._first_at,
            events=self._events,
            left_at=left,
            ended_at=None if problem or left is not None else self._clock(),
            answered_id=response.headers.get(name) if response is not None and name else None,
            problem=problem,
        )

    def _problem_of(self, error: Exception) -> str:
        place = place_of(self._target.url)
        if isinstance(error, TimeoutError):
            longest = format_duration(self._target.timeout)
            return f"{place} can't be reached within {longest}; check the url, or raise timeout"
        if isinstance(error, ValueError) and not isinstance(error, OSError):
            return f"a header for {place} can't be sent; look for line breaks in headers and token"
        # In the words that a store over HTTP has for it.
        wrapped = requests.ConnectionError(error)
        return problem_of(wrapped, place, self._target, self._target.timeout)


def _connection(target: DrillTarget) -> http.client.HTTPConnection:
    parts = urlsplit(target.url)
    host, timeout = parts.hostname or "", seconds(target.timeout)
    if parts.scheme == "http":
        return http.client.HTTPConnection(host, parts.port, timeout=timeout)
    return http.client.HTTPSConnection(host, parts.port, timeout=timeout, context=_tls(target))


def _tls(target: DrillTarget) -> ssl.SSLContext:
    trusted = trusted_certificates(target)
    where = DEFAULT_CA_BUNDLE_PATH if trusted is True else trusted or None
    is_folder = where is not None and Path(where).is_dir()
    try:
        context = ssl.create_default_context(
            cafile=None if is_folder else where, capath=where if is_folder else None
        )
    except OSError:
        named = f"ca_file {where}" if target.ca_file is not None else f"the system's file {where}"
        said = unreadable_of(target) or f"{named} holds no certificates in PEM; check it"
        raise DrillError(f"drill.targets: {said}") from None
    if target.cert_file is not None:
        try:
            context.load_cert_chain(target.cert_file, target.key_file)
        except OSError:
            said = unreadable_of(target) or _pair_problem(target.cert_file, target.key_file)
            raise DrillError(f"drill.targets: {said}") from None
    if trusted is False:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _pair_problem(cert_file: str, key_file: str | None) -> str:
    """Return what is wrong with two files that can both be read."""
    try:
        ssl.create_default_context(cafile=cert_file)
    except ssl.SSLError:
        return f"cert_file {cert_file} holds no certificate in PEM; check it"
    if key_file is None:
        return f"cert_file {cert_file} holds no key of its certificate; write key_file"
    return f"key_file {key_file} holds no key of the certificate in cert_file; check it"
