"""Loads the config anew while the exporter runs; a bad one changes nothing but what says so.

Everything in the config file may change, save ``state_file``: the counters live in it. It is
loaded and checked at once, in whatever thread asks, and comes into force between two refreshes.
"""

import os
from collections.abc import Callable, Mapping
from http import HTTPStatus
from threading import BoundedSemaphore, Lock
from typing import Final, NamedTuple
from wsgiref.types import WSGIEnvironment

import structlog

from orphanwatch.exporter.board import ConfigReload
from orphanwatch.exporter.clock import Clock
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.errors import ConfigError, OrphanwatchError
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.web_response import TEXT, Handler, Response

RELOAD_PATH: Final = "/-/reload"
RELOAD_METHODS: Final = ("POST", "PUT")
LIFECYCLE_FLAG: Final = "--web.enable-lifecycle"

_REFUSED: Final = "config not reloaded, the one before runs on"
_STATE_STAYS: Final = (
    "can't change while the exporter runs, since its counters live there; put the old one back, "
    "or restart"
)
_AT_ONCE: Final = 2
"""Reloads that the web threads may be busy with: one that runs, one that waits."""


class Loaded(NamedTuple):
    """What a config file says, and the pages that are rendered from it."""

    config: Config
    pages: Mapping[str, bytes]
    """The runbook's, by file name."""


class Reloader:
    """Reloads, one at a time, for any thread."""

    def __init__(
        self,
        load: Callable[[], Loaded],
        take: Callable[[Loaded], None],
        note: Callable[[ConfigReload], None],
        clock: Clock,
        *,
        started_with: Config,
    ) -> None:
        """``take`` puts what was loaded into force, ``note`` is told how it went."""
        self._load, self._take, self._note = load, take, note
        self._clock = clock
        self._state_file = started_with.state_file
        self._succeeded_at: Instant = clock()
        self._one = Lock()

    def reload(self) -> None:
        """Load the config and put it into force.

        Raises ``OrphanwatchError`` with what is wrong, never a secret, where it can't be taken;
        the one before runs on then.
        """
        log = structlog.get_logger()
        with self._one:
            try:
                loaded = self._load()
                self._check_state_file(loaded.config)
                self._take(loaded)
            except OrphanwatchError as error:
                self._note(ConfigReload(is_successful=False, succeeded_at=self._succeeded_at))
                log.error(_REFUSED, problem=str(error))  # noqa: TRY400  (said in full)
                raise
            except Exception as error:
                self._note(ConfigReload(is_successful=False, succeeded_at=self._succeeded_at))
                log.exception(_REFUSED)
                kind = type(error).__name__
                raise OrphanwatchError(f"failed unexpectedly ({kind}); see the log") from error
            self._succeeded_at = self._clock()
            self._note(ConfigReload(is_successful=True, succeeded_at=self._succeeded_at))
            log.info("config reloaded")

    def _check_state_file(self, config: Config) -> None:
        if _real(config.state_file) != _real(self._state_file):
            raise ConfigError("state_file", (_STATE_STAYS,))


def _real(path: str | None) -> str | None:
    return None if path is None else os.path.realpath(path)


def reload_page(reload: Callable[[], None]) -> Handler:
    """Return what answers a reload over HTTP: 200 once it is taken, 500 with what is wrong.

    More of them at once than a thread or two can bear are answered 503.
    """
    busy = BoundedSemaphore(_AT_ONCE)

    def answer(environ: WSGIEnvironment) -> Response:  # noqa: ARG001  (a Handler)
        if not busy.acquire(blocking=False):
            said = "503 other reloads are running; wait for them\n"
            return _say(HTTPStatus.SERVICE_UNAVAILABLE, said, ("Retry-After", "1"))
        try:
            reload()
        except OrphanwatchError as error:
            return _say(HTTPStatus.INTERNAL_SERVER_ERROR, f"failed to reload config: {error}\n")
        finally:
            busy.release()
        return _say(HTTPStatus.OK, "config reloaded; in force from the next evaluation on\n")

    return answer


def refuse_reload(environ: WSGIEnvironment) -> Response:  # noqa: ARG001  (a Handler)
    """Answer where reloads over HTTP are not enabled."""
    said = f"403 reloading over HTTP is not enabled; start with {LIFECYCLE_FLAG}, or send SIGHUP\n"
    return _say(HTTPStatus.FORBIDDEN, said)


def keep_config(environ: WSGIEnvironment) -> Response:  # noqa: ARG001  (a Handler)
    """Answer where no config can be loaded anew at all, as in the demo."""
    said = "403 this exporter keeps the config it was started with; orphanwatch serve can reload\n"
    return _say(HTTPStatus.FORBIDDEN, said)


def _say(status: HTTPStatus, text: str, *headers: tuple[str, str]) -> Response:
    return Response(status, text.encode(errors="replace"), TEXT, headers=headers)
