"""Text expositions, scraped: gauges as of now, and counters from one reading to the next."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from orphanwatch.exporter.clock import Clock
from orphanwatch.exporter.config_prometheus import (
    Labels,
    PrometheusLedgerSource,
    PrometheusQueueSource,
    PrometheusSource,
    Series,
)
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import SECOND, Instant, Micros
from orphanwatch.exporter.model import Rejected
from orphanwatch.exporter.names import RejectReason, StoreName
from orphanwatch.exporter.stores.http.access import Answer, HttpPlace
from orphanwatch.exporter.stores.http.live import PRESENT
from orphanwatch.exporter.stores.http.problems import place_of
from orphanwatch.exporter.stores.prometheus.numbers import Counter, Measured, Rises, RunningTotal
from orphanwatch.exporter.stores.questions import Windows

_ACCEPT: Final = "text/plain; version=0.0.4, application/openmetrics-text; version=1.0.0; q=0.5"
_OPENMETRICS: Final = "application/openmetrics-text"
_NO_PAGES: Final = frozenset({"text/html", "application/xhtml+xml", "application/json"})
_NAME: Final = re.compile(r"\s*([a-zA-Z_:][a-zA-Z0-9_:]*)")
_LONGEST_LINE_SHOWN: Final = 200

Group = tuple[tuple[str, str], ...]


class PageGauges:
    """The gauges of one or several pages."""

    def __init__(self, config: PrometheusQueueSource, place: HttpPlace, clock: Clock) -> None:
        self._clock = clock
        self._pages = _Pages(StoreName.QUEUE, config, place)

    def read(self, windows: Windows) -> Mapping[str, Measured | None]:
        """Return each column that is configured, summed over the pages; None is unknown.

        Of the past a page says nothing.
        """
        scraped_at = self._clock()
        pages = self._pages.scrape()
        if abs(scraped_at - windows.at) > PRESENT:
            return {}
        return {
            column: _gauge(series, pages, scraped_at)
            for column, series in self._pages.series.items()
        }

    def rejected(self) -> tuple[Rejected, ...]:
        """Return the lines of the last read that could not be used."""
        return self._pages.rejected(RejectReason.INVALID_NUMBER)


class PageRises:
    """The counters of one or several pages, remembered from reading to reading."""

    def __init__(self, config: PrometheusLedgerSource, place: HttpPlace, clock: Clock) -> None:
        self._clock = clock
        self._pages = _Pages(StoreName.LEDGER, config, place)
        self._totals = {what: RunningTotal() for what in self._pages.series}

    def read(self, windows: Windows) -> Rises:
        """Return the rises in the windows; unknown until the readings reach over them."""
        scraped_at = self._clock()
        pages = self._pages.scrape()
        longest_step = Micros(windows.spend_end - windows.spend_start)
        missing = []
        for what, series in self._pages.series.items():
            counters = _counters(series, pages)
            if counters is None:
                missing.append(what)
            else:
                stamp = _stamp(series, pages, scraped_at)
                self._totals[what].add(
                    stamp, counters, longest_step, are_first_hand=not _are_passed_on(series, pages)
                )
            self._totals[what].forget(Instant(windows.baseline_start - longest_step))
        tokens, rows = self._totals["tokens"], self._totals.get("rows")
        spend = (windows.spend_start, windows.spend_end, longest_step)
        return Rises(
            spend=tokens.rise(*spend),
            baseline=tokens.rise(windows.baseline_start, windows.spend_start, longest_step),
            rows=None if rows is None else rows.rise(*spend),
            missing=tuple(missing),
        )

    def rejected(self) -> tuple[Rejected, ...]:
        """Return the lines of the last read that could not be used."""
        return self._pages.rejected(RejectReason.INVALID_TOKENS)


@dataclass(frozen=True, slots=True)
class _Page:
    """What one page says under the names that were asked for."""

    url: str
    samples: Mapping[str, Sequence[Sample]]
    unreadable: Mapping[str, Sequence[str]]
    """The lines that can't be read, by the name at their beginning."""

    def groups(self, series: Series) -> Mapping[Group, float] | None:
        """Return each number that counts once, under the first name that the page has.

        None where there is no such series, or one of them can't be read or is no number: then
        the sum is unknown.
        """
        samples = self._chosen(series)
        if not samples or not all(math.isfinite(sample.value) for sample in samples):
            return None
        groups: dict[Group, float] = {}
        for sample in samples:
            kept = (label for label in sample.labels.items() if label[0] not in series.same_over)
            group = (("__name__", sample.name), *sorted(kept))
            groups[group] = max(sample.value, groups.get(group, -math.inf))
        return groups

    def stamps(self, series: Series) -> Iterator[float]:
        """Yield the stamps that the series carry themselves, as a federated page's do."""
        return (s.timestamp for s in self._chosen(series) if isinstance(s.timestamp, float))

    def _chosen(self, series: Series) -> Sequence[Sample]:
        for name in series.names:
            if self.unreadable.get(name):
                return ()
            matching = [s for s in self.samples.get(name, ()) if _matches(s, series.labels)]
            if matching:
                return matching
        return ()


class _Pages:
    """Scrapes every page of a config, and keeps the lines that can't be read."""

    def __init__(self, store: StoreName, config: PrometheusSource, place: HttpPlace) -> None:
        self._store = store
        self._urls = config.url
        self._place = place
        self._scraped: Sequence[_Page] = ()
        self.series = {
            name: said.model_copy(update={"labels": {**config.labels, **said.labels}})
            for name, said in config.stated.items()
            if isinstance(said, Series)
        }
        self._wanted = frozenset(name for series in self.series.values() for name in series.names)

    def scrape(self) -> Sequence[_Page]:
        """Return all pages; raises ``StoreError`` where one of them can't be had."""
        self._scraped = ()
        self._scraped = [
            self._read(url, self._place.get(url, accept=_ACCEPT)) for url in self._urls
        ]
        return self._scraped

    def rejected(self, reason: RejectReason) -> tuple[Rejected, ...]:
        """Return the lines of the last scrape that can't be read."""
        return tuple(
            Rejected(self._store, reason, f"{place_of(page.url)} {line[:_LONGEST_LINE_SHOWN]}")
            for page in self._scraped
            for lines in page.unreadable.values()
            for line in lines
        )

    def _read(self, url: str, answer: Answer) -> _Page:
        """Return what the page says under the wanted names; other lines may be as they like."""
        try:
            lines = answer.body.decode().split("\n")
        except UnicodeDecodeError:
            raise self._is_no_page(url, "it is no text") from None
        if answer.content_type in _NO_PAGES:
            raise self._is_no_page(url, f"it is {answer.content_type}")
        samples: dict[str, list[Sample]] = {}
        unreadable: dict[str, list[str]] = {}
        for line in lines:
            name = _NAME.match(line)
            if name is None or name[1] not in self._wanted:
                continue
            sample = _sample(line, has_seconds=answer.content_type == _OPENMETRICS)
            if sample is None:
                unreadable.setdefault(name[1], []).append(line.strip())
            else:
                samples.setdefault(name[1], []).append(sample)
        if not samples and not unreadable and not _is_exposition(lines):
            raise self._is_no_page(url, "its lines are no samples")
        is_whole = "# EOF" in lines[-2:] if answer.content_type == _OPENMETRICS else not lines[-1]
        if not is_whole:  # both formats end each line, the last one too
            raise self._is_no_page(url, "it breaks off before its end")
        return _Page(url, samples, unreadable)

    def _is_no_page(self, url: str, why: str) -> StoreError:
        return StoreError(
            self._store,
            f"the answer of {place_of(url)} is no page of metrics ({why}); "
            "check the url, whose path is /metrics for most programs",
        )


def _sample(line: str, *, has_seconds: bool = False) -> Sample | None:
    """Return a line as a sample, None where it is none.

    The parser reads both formats' names, labels and values. Stamps it takes for milliseconds, as
    only the older format writes them; an exemplar looks like one to it.
    """
    try:
        [family] = text_string_to_metric_families(line)
        [sample] = family.samples
    except (ValueError, IndexError, KeyError, TypeError):
        return None
    return sample._replace(timestamp=None) if has_seconds else sample


def _is_exposition(lines: Sequence[str]) -> bool:
    """Return whether the first sample is one; a page without any has nothing to say yet."""
    first = next((line for line in lines if line.strip() and line.lstrip()[0] != "#"), None)
    return first is None or _sample(first) is not None


def _matches(sample: Sample, labels: Labels) -> bool:
    return all(sample.labels.get(name, "") in wanted for name, wanted in labels.items())


def _gauge(series: Series, pages: Sequence[_Page], scraped_at: Instant) -> Measured | None:
    """Return the sum over all pages; None where one of them does not say its part."""
    total = 0.0
    for page in pages:
        groups = page.groups(series)
        if groups is None:
            return None
        total += sum(groups.values())
    return Measured(total, _stamp(series, pages, scraped_at))


def _counters(series: Series, pages: Sequence[_Page]) -> Mapping[Counter, float] | None:
    counters: dict[Counter, float] = {}
    for page in pages:
        groups = page.groups(series)
        if groups is None:
            return None
        counters.update(
            {((page.url, group[0]), group[1:]): value for group, value in groups.items()}
        )
    return counters


def _are_passed_on(series: Series, pages: Sequence[_Page]) -> bool:
    """Return whether a page shows what another one said: only then samples have stamps."""
    return any(True for page in pages for _ in page.stamps(series))


def _stamp(series: Series, pages: Sequence[_Page], scraped_at: Instant) -> Instant:
    """Return the oldest stamp of the samples, else when they were scraped."""
    stamps = [Instant(round(s * SECOND)) for page in pages for s in page.stamps(series)]
    return min((scraped_at, *stamps))
