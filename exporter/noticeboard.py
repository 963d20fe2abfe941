"""What was last published, and what is shown in its place once it is too old."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Lock
from typing import Final

from orphanwatch.exporter.board import ConfigReload, Published
from orphanwatch.exporter.clock import Clock
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.gate import Gate
from orphanwatch.exporter.history import History, moment_of, remember
from orphanwatch.exporter.instants import Instant, seconds
from orphanwatch.exporter.model import Evaluation
from orphanwatch.exporter.names import Family
from orphanwatch.exporter.snapshot import is_known
from orphanwatch.exporter.state import Counters
from orphanwatch.exporter.version import VERSION

_NO_COUNTERS: Final = Counters(counters={}, histograms={}, exemplars={})


@dataclass(frozen=True, slots=True, eq=False)
class _Shown:
    """What is published, as it is now and as it will be once it is too old."""

    current: Published
    outdated: Published
    expires_at: Instant
    ends: float
    """The same by the steady clock: the wall clock may be set back meanwhile."""


class Noticeboard:
    """What was last published, for the web app: answers at once, never with what is stale.

    One thread publishes; any other may look, and note a reload.
    """

    def __init__(
        self,
        config: Config,
        clock: Clock,
        counters: Counters,
        config_reload: ConfigReload | None = None,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        """``steady`` tells seconds, and is never set back."""
        self._config = config
        self._clock = clock
        self._steady = steady
        self._history: History = ()
        self._reload = config_reload
        self._writing = Lock()
        empty = replace(_page(None, counters), config_reload=config_reload)
        self._shown = _Shown(empty, empty, Instant(0), 0.0)

    def current(self) -> Published:
        """Return what may be served now."""
        shown = self._shown
        is_fresh = self._clock() <= shown.expires_at and self._steady() <= shown.ends
        return shown.current if is_fresh else shown.outdated

    def publish(self, evaluation: Evaluation, counters: Counters, gate: Gate | None = None) -> None:
        """Show an evaluation until the next, or until it is stale."""
        self._history = remember(self._history, moment_of(evaluation, self._config))
        page = replace(_page(evaluation, counters), history=self._history, gate=gate)
        outdated = _page(None, _NO_COUNTERS, evaluation.at)
        with self._writing:
            self._shown = _Shown(
                replace(page, config_reload=self._reload),
                replace(outdated, config_reload=self._reload),
                Instant(evaluation.at + self._config.stale_after),
                self._steady() + seconds(self._config.stale_after),
            )

    def note_reload(self, config_reload: ConfigReload) -> None:
        """Show how the last reload went, from now on."""
        with self._writing:
            self._reload = config_reload
            self._shown = replace(
                self._shown,
                current=replace(self._shown.current, config_reload=config_reload),
                outdated=replace(self._shown.outdated, config_reload=config_reload),
            )

    def follow(self, before: "Noticeboard") -> None:
        """Go on with the history of another board, whose place this one takes."""
        self._history = before._history  # noqa: SLF001  (another one of its own kind)


def _page(
    evaluation: Evaluation | None, counters: Counters, last: Instant | None = None
) -> Published:
    """Return a page; counters that rest on a store that could not be read are left out."""

    def is_shown(family: Family) -> bool:
        return evaluation is None or is_known(family, evaluation)

    return Published(
        version=VERSION,
        evaluation=evaluation,
        counters={f: values for f, values in counters.counters.items() if is_shown(f)},
        histograms={f: values for f, values in counters.histograms.items() if is_shown(f)},
        exemplars=counters.exemplars,
        last_evaluated_at=evaluation.at if evaluation is not None else last,
    )
