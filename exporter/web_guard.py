"""Stands before every page: who may read, which headers go along, what a bug looks like outside.

The health paths need no password, since they say nothing.
"""

import base64
import binascii
import hashlib
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from threading import BoundedSemaphore, Lock
from typing import Final
from wsgiref.types import StartResponse, WSGIEnvironment

import bcrypt
import structlog

from orphanwatch.exporter.errors import ConfigError
from orphanwatch.exporter.web_config import WebConfig
from orphanwatch.exporter.web_response import (
    SECURITY_HEADERS,
    Handler,
    Response,
    plain,
    send,
)

OPEN_PATHS: Final = frozenset({"/-/healthy", "/-/ready"})

_CHALLENGE: Final = ("WWW-Authenticate", 'Basic realm="orphanwatch", charset="UTF-8"')
_BCRYPT_BYTES: Final = 72  # what bcrypt looks at; the library refuses more, others cut it off
_REMEMBERED: Final = 100
_WAITING: Final = 4


class Guard:
    """A WSGI application around a handler."""

    def __init__(self, handler: Handler, config: Callable[[], WebConfig]) -> None:
        self._handler = handler
        self._config = config
        self._passwords = Passwords()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request, whatever happens inside."""
        try:
            config = self._config()
        except ConfigError:  # logged when the file was read; the pages stay closed
            config = None
        try:
            response = self._answer(environ, config)
        except Exception:  # noqa: BLE001  (a bug must cost one answer, and show no trace outside)
            structlog.get_logger().exception("request failed", path=environ["PATH_INFO"])
            response = plain(HTTPStatus.INTERNAL_SERVER_ERROR)
        headers = {**SECURITY_HEADERS, **(config.headers if config else {})}
        return send(response, environ, start_response, headers)

    def _answer(self, environ: WSGIEnvironment, config: WebConfig | None) -> Response:
        if environ["PATH_INFO"] in OPEN_PATHS:
            return self._handler(environ)
        if config is None:
            return plain(HTTPStatus.INTERNAL_SERVER_ERROR)
        return self._refusal(environ, config) or self._handler(environ)

    def _refusal(self, environ: WSGIEnvironment, config: WebConfig) -> Response | None:
        if not config.users:
            return None
        given = credentials(environ.get("HTTP_AUTHORIZATION", ""))
        if given is None:
            return plain(HTTPStatus.UNAUTHORIZED, _CHALLENGE)
        users = {user: secret.get_secret_value() for user, secret in config.users.items()}
        admitted = self._passwords.admit(users, *given)
        if admitted is None:
            return plain(HTTPStatus.SERVICE_UNAVAILABLE, ("Retry-After", "1"))
        return None if admitted else plain(HTTPStatus.UNAUTHORIZED, _CHALLENGE)


def credentials(header: str) -> tuple[str, bytes] | None:
    """Return user and password of an ``Authorization`` header, None if it holds none."""
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
        return (user.decode(), password) if colon else None
    except (binascii.Error, ValueError):
        return None


class Passwords:
    """Checks passwords, one at a time, and remembers those that were right.

    An unknown user costs the same as a known one. Guessing can't hold up a reader whose password
    is remembered, nor occupy more than a few threads.
    """

    def __init__(self) -> None:
        self._key = os.urandom(32)
        self._right: OrderedDict[bytes, None] = OrderedDict()
        self._one = Lock()
        self._waiting = BoundedSemaphore(_WAITING)

    def admit(self, users: Mapping[str, str], user: str, password: bytes) -> bool | None:
        """Return whether the password is the user's; None where too many are being checked."""
        known = user in users
        stored = users[user] if known else _nobody(users)
        mark = self._mark(user, password, stored)
        if mark in self._right:
            return True
        if not self._waiting.acquire(blocking=False):
            return None
        try:
            with self._one:
                right = _matches(password, stored) and known
                if right:
                    self._remember(mark)
        finally:
            self._waiting.release()
        return right

    def _mark(self, user: str, password: bytes, stored: str) -> bytes:
        digest = hashlib.blake2b(key=self._key)
        for part in (user.encode(), password, stored.encode()):
            digest.update(len(part).to_bytes(8) + part)
        return digest.digest()

    def _remember(self, mark: bytes) -> None:
        self._right[mark] = None
        while len(self._right) > _REMEMBERED:
            self._right.popitem(last=False)


def _nobody(users: Mapping[str, str]) -> str:
    """Return a hash that is nobody's, as costly as the costliest of the users'."""
    cost = max(stored[4:6] for stored in users.values())
    return f"$2b${cost}$" + "." * 53


def _matches(password: bytes, stored: str) -> bool:
    return bcrypt.checkpw(password[:_BCRYPT_BYTES], stored.encode())
