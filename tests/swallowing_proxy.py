"""A balancer that acknowledges all that is said to it, and lets nothing through any more."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class SwallowingProxy:
    """Forwards connections to a port of the loopback, until it swallows what they say."""

    def __init__(self, target: int) -> None:
        self.swallows_new = False
        """Whether a connection that comes now is swallowed from its start."""
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._passing: set[socket.socket] = set()
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def swallow(self) -> None:
        """Let nothing through on the connections that are open, in either direction."""
        with self._lock:
            self._passing.clear()

    def stop(self) -> None:
        """Close everything."""
        with self._lock:
            for line in (self._listener, *self._open):
                with suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)
                line.close()

    def _accept(self) -> None:
        with suppress(OSError):  # the end
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                with self._lock:
                    self._open += (client, server)
                    if not self.swallows_new:
                        self._passing |= {client, server}
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._forward, args=pair, daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):  # closed meanwhile
            while data := source.recv(65536):
                with self._lock:
                    passes = source in self._passing
                if passes:
                    target.sendall(data)
            with self._lock:
                passes = source in self._passing
            if passes:
                target.shutdown(socket.SHUT_WR)


@contextmanager
def swallowing_proxy(target: int) -> Iterator[SwallowingProxy]:
    """Run a proxy until the block ends."""
    proxy = SwallowingProxy(target)
    try:
        yield proxy
    finally:
        proxy.stop()
