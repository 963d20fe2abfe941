"""Serves a handler over HTTP or HTTPS on cheroot, with a bounded pool of threads.

A client that says nothing costs no thread: new connections wait in the selector until data is
there, and the TLS handshake happens in a worker. cheroot's own error answers carry our headers.
"""

import contextlib
import io
import queue
import socket
import ssl
from collections.abc import Callable
from http import HTTPStatus
from threading import Lock, Thread
from typing import Any, Final

import structlog
from cheroot import errors, server, wsgi
from cheroot.makefile import StreamReader, StreamWriter
from cheroot.ssl import Adapter

from orphanwatch.exporter.errors import ConfigError
from orphanwatch.exporter.web_address import LISTEN_FLAG, Address
from orphanwatch.exporter.web_config import Stamp, Tls, WebConfigFile, stamp_of
from orphanwatch.exporter.web_guard import Guard
from orphanwatch.exporter.web_response import SECURITY_HEADERS, TEXT, Handler

THREADS: Final = 8
"""Requests answered at once; the rest queue."""

_QUEUED: Final = 128
_SILENCE_SECONDS: Final = 10
_STOP_SECONDS: Final = 3
_HEADER_BYTES: Final = 32 * 1024
_BODY_BYTES: Final = 1024  # no page takes a body
_KEPT_ALIVE: Final = 64
_LOG_LEVELS: Final = {40: "error", 30: "warning"}


class WebServer:
    """A server for one handler on one address."""

    def __init__(self, handler: Handler, address: Address, config: WebConfigFile) -> None:
        self._handler = handler
        self._address = address
        self._config = config
        self._tls = config.current().tls
        self._server: _Server | None = None
        self._thread: Thread | None = None

    @property
    def address(self) -> Address:
        """Where it listens; once it has started, with the real port."""
        if self._server is None:
            return self._address
        return Address(self._address.host, int(self._server.bind_addr[1]))

    @property
    def url(self) -> str:
        """The address as a URL, without a slash at the end."""
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://{self.address}"

    def start(self) -> None:
        """Listen, and answer from now on in threads. Raises ``ConfigError`` if that can't be."""
        guard = Guard(self._handler, self._config.current)
        running = _Server((self._address.host, self._address.port), guard)
        if self._tls is not None:
            running.ssl_adapter = _TlsAdapter(Contexts(self._tls, self._config).current)
        try:
            running.prepare()
        except OSError as error:
            raise ConfigError(
                LISTEN_FLAG,
                (f"can't listen on {self._address} ({_say(error)}); choose another, or port 0",),
            ) from error
        self._server = running
        self._thread = Thread(target=running.serve, name="web", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Finish what is being answered, and stop listening."""
        if self._server is not None and self._thread is not None:
            self._server.stop()
            self._thread.join()


class Contexts:
    """TLS contexts, built anew when a certificate or the web config file has changed.

    While the files can't be used, the last good context stays and the fault is logged once.
    """

    def __init__(self, tls: Tls, config: WebConfigFile) -> None:
        """Build the first one. Raises ``ConfigError``."""
        self._config = config
        self._lock = Lock()
        self._seen = _seen(tls)
        self._context = build_context(tls)

    def current(self) -> ssl.SSLContext:
        """Return the context for the next connection."""
        with self._lock, contextlib.suppress(ConfigError):  # a bad web config was logged
            tls = self._config.current().tls
            if tls is not None and _seen(tls) != self._seen:
                self._rebuild(tls)
        return self._context

    def _rebuild(self, tls: Tls) -> None:
        self._seen = _seen(tls)
        try:
            self._context = build_context(tls)
        except ConfigError as error:
            structlog.get_logger().error("certificate not taken", problems=error.problems)


def _seen(tls: Tls) -> tuple[Tls, tuple[Stamp, ...]]:
    return tls, tuple(stamp_of(file) for file in tls.files)


def build_context(tls: Tls) -> ssl.SSLContext:
    """Return the context of the settings. Raises ``ConfigError`` naming the file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[tls.min_version]
    context.maximum_version = _VERSIONS[tls.max_version]
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    try:
        # An empty passphrase, so that an encrypted key fails and never asks a terminal.
        context.load_cert_chain(tls.cert_file, tls.key_file, password="")
    except OSError as error:
        problem = f"with its key {tls.key_file} can't be used ({error}); check both files"
        raise ConfigError(str(tls.cert_file), (problem,)) from error
    if tls.client_ca_file is None:
        return context
    try:
        context.load_verify_locations(tls.client_ca_file)
    except OSError as error:
        raise ConfigError(
            str(tls.client_ca_file), (f"can't be used ({error}); check the file",)
        ) from error
    required = tls.client_auth_type == "RequireAndVerifyClientCert"
    context.verify_mode = ssl.CERT_REQUIRED if required else ssl.CERT_OPTIONAL
    return context


_VERSIONS: Final = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}


class _TlsAdapter(Adapter):
    """Wraps accepted sockets; the handshake is left to the worker that reads first."""

    def __init__(self, context: Callable[[], ssl.SSLContext]) -> None:
        self._context = context

    def bind(self, sock: Any) -> Any:
        return sock

    def wrap(self, sock: Any) -> tuple[ssl.SSLSocket, dict[str, str]]:
        try:
            wrapped = self._context().wrap_socket(
                sock, server_side=True, do_handshake_on_connect=False
            )
        except OSError as error:
            raise errors.FatalSSLAlert(*error.args) from error
        return wrapped, self.get_environ()

    def get_environ(self) -> dict[str, str]:
        return {"wsgi.url_scheme": "https", "HTTPS": "on"}

    def makefile(self, sock: Any, mode: str = "r", bufsize: int = io.DEFAULT_BUFFER_SIZE) -> Any:
        return (StreamReader if "r" in mode else StreamWriter)(sock, mode, bufsize)


def _refusal(status: str) -> bytes:
    """Return a whole answer for a request that never reached the handler."""
    body = f"{status}\n"
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Type: {TEXT}",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *(f"{name}: {text}" for name, text in SECURITY_HEADERS.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode("ascii")


class _Request(server.HTTPRequest):
    def simple_response(self, status: Any, msg: str = "") -> None:  # noqa: ARG002  (details stay inside)
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.conn.wfile.write(_refusal(str(status)))


class _Connection(server.HTTPConnection):
    RequestHandlerClass = _Request
    _greeted = False

    def communicate(self) -> Any:
        if isinstance(self.socket, ssl.SSLSocket) and not self._greeted:
            try:
                self.socket.do_handshake()
            except OSError as error:
                self._explain(error)
                return False
            self._greeted = True
        return super().communicate()  # type: ignore[no-untyped-call]  # cheroot's stubs are bare

    def _explain(self, error: OSError) -> None:
        structlog.get_logger().debug("TLS handshake failed", client=self.remote_addr)
        if getattr(error, "reason", "") == "HTTP_REQUEST":
            with contextlib.suppress(OSError):
                answer = _refusal(f"{HTTPStatus.BAD_REQUEST.value} This port speaks HTTPS")
                socket.socket.sendall(self.socket, answer)


class _Server(wsgi.Server):
    ConnectionClass = _Connection
    max_request_header_size = _HEADER_BYTES
    max_request_body_size = _BODY_BYTES
    keep_alive_conn_limit = _KEPT_ALIVE

    def __init__(self, address: tuple[str, int], app: Guard) -> None:
        super().__init__(
            address,
            app,
            numthreads=THREADS,
            max=THREADS,
            server_name="orphanwatch",
            request_queue_size=_QUEUED,
            timeout=_SILENCE_SECONDS,
            shutdown_timeout=_STOP_SECONDS,
            accepted_queue_size=_QUEUED,
            accepted_queue_timeout=1,
        )

    @staticmethod
    def bind_socket(socket_: Any, bind_addr: Any) -> Any:
        """Bind, and close the socket if that fails, which cheroot forgets."""
        try:
            socket_.bind(bind_addr)
        except OSError:
            socket_.close()
            raise
        return socket_

    def process_conn(self, conn: Any) -> None:
        """Hand a connection to a worker, a new one only once it has said something."""
        if conn.last_used is None:
            self.put_conn(conn)
            return
        try:
            self.requests.put(conn)
        except queue.Full:
            structlog.get_logger().warning("too many requests, one dropped")
            conn.close()

    def error_log(self, msg: str = "", level: int = 20, traceback: bool = False) -> None:  # noqa: FBT001, FBT002  (cheroot's signature)
        """Log what cheroot has to say."""
        log = getattr(structlog.get_logger(), _LOG_LEVELS.get(level, "debug"))
        log(msg, exc_info=traceback)


def _say(error: OSError) -> str:
    in_use = "already in use" in str(error)
    return "another process listens there" if in_use else str(error)
