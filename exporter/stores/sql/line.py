"""The connection of an engine as another thread may cut it, whatever its driver waits for."""

import errno
import os
import socket
from typing import Any, Final

from sqlalchemy import Dialect, Engine, event

_CLOSED: Final = (errno.ENOTCONN, errno.EBADF)


class Line:
    """The newest connection of an engine.

    Something between us and the server may acknowledge all that we say and let nothing come
    back: no keepalive notices that, and a driver without a limit of its own waits for ever.
    """

    def __init__(self) -> None:
        self._driver: Any = None

    def watch(self, engine: Engine) -> None:
        """Take note of each connection before anything is asked over it."""
        event.listen(engine, "connect", self._note, insert=True)
        if engine.dialect.driver == "pymysql":
            event.listen(engine, "do_connect", self._connect)

    def cut(self) -> bool:
        """Shut its socket, so that its driver gives up; return whether nothing is in flight then.

        That is so, too, where there is no connection yet. A file has no socket: it stays.
        """
        driver = self._driver
        if driver is None:
            return True
        wire = getattr(driver, "_sock", driver)  # PyMySQL's own, None while it is not connected
        if wire is not None and not hasattr(wire, "fileno"):
            return False
        try:
            # A descriptor of our own, so that its end leaves the driver's open.
            with socket.socket(fileno=os.dup(wire.fileno())) as line:
                line.shutdown(socket.SHUT_RDWR)
        except OSError as error:
            return error.errno in _CLOSED
        except Exception:  # noqa: BLE001  (each driver says in its own way that it is closed)
            return True
        return True

    def _note(self, driver: Any, _record: Any) -> None:
        self._driver = driver

    def _connect(self, dialect: Dialect, _record: Any, words: Any, options: Any) -> Any:
        """Connect by PyMySQL, which waits for a greeting longer than for a connection."""
        self._driver = dialect.loaded_dbapi.connect(*words, defer_connect=True, **options)
        self._driver.connect()
        return self._driver
