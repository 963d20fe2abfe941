"""Queues and ledgers that are known by metrics, of a Prometheus server or of expositions.

A queue's metrics are gauges. A ledger's are counters of whole engines: they say what is spent,
and no task that it was spent on.
"""

from collections.abc import Collection, Mapping
from typing import ClassVar, Final, Protocol

from orphanwatch.exporter.clock import Clock
from orphanwatch.exporter.columns import COLUMNS
from orphanwatch.exporter.config_prometheus import (
    PrometheusLedgerSource,
    PrometheusQueueSource,
    PrometheusSource,
    key_of,
)
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.model import Charges, Cutoff, LedgerWindow, QueueSample, Rejected
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.http.access import HttpPlace
from orphanwatch.exporter.stores.prometheus.numbers import NO_RISES, Measured, Rises
from orphanwatch.exporter.stores.prometheus.pages import PageGauges, PageRises
from orphanwatch.exporter.stores.prometheus.server import ServerGauges, ServerRises
from orphanwatch.exporter.stores.questions import Inspection, Ledger, Queue, Windows

_SAMPLED_AT: Final = "sampled_at"


def prometheus_queue(config: PrometheusQueueSource, clock: Clock) -> Queue:
    """Return the adapter of a queue."""
    return PrometheusQueue(config, clock)


def prometheus_ledger(config: PrometheusLedgerSource, clock: Clock) -> Ledger:
    """Return the adapter of a ledger."""
    return PrometheusLedger(config, clock)


class Gauges(Protocol):
    """Where the numbers of a queue come from."""

    def read(self, windows: Windows) -> Mapping[str, Measured | None]:
        """Return each column that is configured; None where there is no such number."""
        ...

    def rejected(self) -> tuple[Rejected, ...]:
        """Return the lines of the last read that could not be used."""
        ...


class Counters(Protocol):
    """Where the spend of a ledger comes from."""

    def read(self, windows: Windows) -> Rises:
        """Return how much was spent in the windows."""
        ...

    def rejected(self) -> tuple[Rejected, ...]:
        """Return the lines of the last read that could not be used."""
        ...


class _Asked:
    """What queue and ledger have in common: one place, asked once at the beginning."""

    name: ClassVar[StoreName]

    def __init__(self, config: PrometheusSource) -> None:
        self._is_server = config.form == "promql"
        self._place = HttpPlace(self.name, config, config.timeout)

    def close(self) -> None:
        """End the reading."""
        self._place.close()

    def clock_skew_seconds(self) -> float | None:
        """Return a server's clock less ours; a page is stamped by our own clock."""
        return self._place.clock_skew_seconds() if self._is_server else None


class PrometheusQueue(_Asked):
    """A queue by its gauges."""

    name: ClassVar = StoreName.QUEUE

    def __init__(self, config: PrometheusQueueSource, clock: Clock) -> None:
        super().__init__(config)
        self._config = config
        self._gauges: Gauges = (
            ServerGauges(config, self._place)
            if self._is_server
            else PageGauges(config, self._place, clock)
        )
        self._found: Mapping[str, Measured] = {}

    def open(self, windows: Windows) -> None:
        """Read everything that is asked for."""
        self._found = {}
        self._place.begin()
        found = self._gauges.read(windows)
        self._found = {name: number for name, number in found.items() if number is not None}

    def newest(self, windows: Windows) -> QueueSample | None:  # noqa: ARG002  (read as of them)
        """Return what was found, as old as its oldest number; None where nothing was."""
        found = self._found
        if not found:
            return None
        values = {name: number.value for name, number in found.items()}
        return QueueSample(
            sampled_at=min(number.at for number in found.values()),
            **{name: values.get(name) for name in COLUMNS[self.name] if name != _SAMPLED_AT},
        )

    def rejected(self) -> tuple[Rejected, ...]:
        """Return the lines that could not be used."""
        return self._gauges.rejected()

    def inspect(self) -> Inspection:
        """Return the columns that no metric said anything of."""
        unstated = (c for c in COLUMNS[self.name] if c != _SAMPLED_AT and c not in self._found)
        notes = [
            f"{key_of(column, said)} finds nothing; check names and labels"
            for column, said in self._config.stated.items()
            if column not in self._found
        ]
        return Inspection(unstated=tuple(unstated), advised=(), notes=tuple(notes))


class PrometheusLedger(_Asked):
    """A ledger by counters: it knows what was spent, and not by which task."""

    name: ClassVar = StoreName.LEDGER

    def __init__(self, config: PrometheusLedgerSource, clock: Clock) -> None:
        super().__init__(config)
        self._config = config
        self._counters: Counters = (
            ServerRises(config, self._place)
            if self._is_server
            else PageRises(config, self._place, clock)
        )
        self._rises = NO_RISES

    def open(self, windows: Windows) -> None:
        """Read the counters."""
        self._rises = NO_RISES
        self._place.begin()
        self._rises = self._counters.read(windows)

    def window(self, windows: Windows) -> LedgerWindow:  # noqa: ARG002  (read as of them)
        """Return what was spent in the windows, by nobody in particular."""
        rises = self._rises
        return LedgerWindow(
            by_key={},
            is_keyed=False,
            unkeyed_tokens=rises.spend,
            baseline_tokens=rises.baseline,
            spend_rows=None if rises.rows is None else round(rises.rows),
        )

    def charges(
        self,
        cutoffs: Collection[Cutoff],  # noqa: ARG002  (no task is known)
        windows: Windows,  # noqa: ARG002  (likewise)
        counting_since: Instant | None,  # noqa: ARG002  (likewise)
    ) -> Mapping[str, Charges] | None:
        """Return None: what a task was charged is unknown."""
        return None

    def rejected(self) -> tuple[Rejected, ...]:
        """Return the lines that could not be used."""
        return self._counters.rejected()

    def inspect(self) -> Inspection:
        """Return why spend is unknown; what a counter can't say at all is told for every one."""
        notes = [
            f"{key_of(what, self._config.stated[what])} finds no counter; check names and labels"
            for what in self._rises.missing
        ]
        if self._rises.spend is None and not notes:
            notes.append(
                "spend is not known yet: a page says what a counter stands at, so serve sees it "
                "rise from one reading to the next, and one look sees nothing"
            )
        return Inspection(unstated=(), advised=(), notes=tuple(notes))
