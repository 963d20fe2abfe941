"""A connection to a Redis server, and how commands go over it."""

from collections.abc import Callable
from typing import Any, Final, Protocol

from redis.backoff import NoBackoff
from redis.connection import Connection, SSLConnection, UnixDomainSocketConnection
from redis.retry import Retry

from orphanwatch.exporter.config_redis import RedisSource
from orphanwatch.exporter.instants import seconds

ENCODING: Final = ("utf-8", "surrogateescape")
"""Bytes that are no UTF-8 come through and go back as they were; no id is made of them."""

Reply = Any
"""A text, an integer, None, or a list of these."""


class Wire(Protocol):
    """What we use of the driver's connection, which itself says little of its types."""

    def connect(self) -> None:
        """Open it, and say who we are."""

    def disconnect(self) -> None:
        """Close it."""

    def send_packed_command(self, command: list[bytes], check_health: bool) -> None:  # noqa: FBT001  (the driver's)
        """Send commands."""

    def read_response(self) -> Reply:
        """Return the next reply; raises it where it is an error."""


def connection_of(config: RedisSource) -> Wire:
    """Return a connection, not open yet, that gives up after the store's timeout."""
    place, patience = config.place, seconds(config.timeout)
    common: dict[str, Any] = {
        "db": place.database,
        "username": place.username,
        "password": place.password,
        "socket_timeout": patience,
        "socket_connect_timeout": patience,
        "retry": Retry(NoBackoff(), 0),
        "encoding": ENCODING[0],
        "encoding_errors": ENCODING[1],
        "decode_responses": True,
        "protocol": 2,
    }
    if place.socket is not None:
        return _OPEN["unix"](path=place.socket, **common)
    common |= {"host": place.host, "port": place.port}
    if not place.tls:
        return _OPEN["tcp"](**common)
    return _OPEN["tls"](
        ssl_ca_certs=config.ca_file,
        ssl_certfile=config.cert_file,
        ssl_keyfile=config.key_file,
        ssl_cert_reqs="none" if config.insecure_skip_verify else "required",
        ssl_check_hostname=not config.insecure_skip_verify,
        **common,
    )


_OPEN: Final[dict[str, Callable[..., Wire]]] = {
    "tcp": Connection,
    "tls": SSLConnection,
    "unix": UnixDomainSocketConnection,
}


def packed(*words: str) -> bytes:
    """Return a command as it goes over the wire."""
    return b"*%d\r\n%s" % (len(words), b"".join(map(bulk, words)))


def bulk(word: str) -> bytes:
    """Return one word of a command as it goes over the wire."""
    data = word.encode(*ENCODING)
    return b"$%d\r\n%s\r\n" % (len(data), data)
