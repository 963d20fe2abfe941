"""The runbook's pages as they hold now: their numbers are those that the exporter uses."""

from collections.abc import Callable, Iterator, Mapping

from orphanwatch.exporter.clock import Clock
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import Instant

Render = Callable[[Config], Mapping[str, str]]


class RunbookPages(Mapping[str, bytes]):
    """Pages by file name; once the measured grace has expired, those with the proposal.

    Both are rendered at the start: what can't be rendered says so then, and not at 02:17.
    """

    def __init__(self, config: Config, render: Render, now: Clock) -> None:
        measured = config.measurement
        self._now = now
        self._expires_by = measured.expires_by if measured is not None else None
        self._pages = _encoded(render(config))
        self._later = self._pages
        if measured is not None:
            # Not just without it: the pages then say why they show a proposal.
            self._later = _encoded(render(config.as_of(Instant(measured.valid_until + 1))))

    def __getitem__(self, name: str) -> bytes:
        return self._current()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._pages)

    def __len__(self) -> int:
        return len(self._pages)

    def _current(self) -> Mapping[str, bytes]:
        has_expired = self._expires_by is not None and self._expires_by(self._now())
        return self._later if has_expired else self._pages


def _encoded(pages: Mapping[str, str]) -> dict[str, bytes]:
    return {name: text.encode() for name, text in pages.items()}
