"""The product against the second opinion where no store can be asked: all four are row sources.

The rows of the random stacks are handed over as a log or a list would, some of them later than
others; mirror and lists must give the very numbers that SQL gives.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import second_opinion
import stack_strategies
from hypothesis import given
from hypothesis import strategies as st
from stacks import AT, STORES, Stack, config_document
from test_second_opinion import BRIEF, disagreements, orphan_disagreements

from orphanwatch.exporter import columns as canonical
from orphanwatch.exporter.channel import Channel, Channels
from orphanwatch.exporter.config import Config, parse_config
from orphanwatch.exporter.evaluation import evaluate
from orphanwatch.exporter.instants import instant_of_epoch, micros
from orphanwatch.exporter.model import Rejected
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.reading import read_stores
from orphanwatch.exporter.snapshot import snapshot_document
from orphanwatch.exporter.stores.cells import clean_id
from orphanwatch.exporter.stores.lane import Lane
from orphanwatch.exporter.stores.listed import ListedLeases, ListedQueue
from orphanwatch.exporter.stores.mirror import MirroredGateway, MirroredLedger
from orphanwatch.exporter.stores.questions import Windows
from orphanwatch.exporter.stores.rows import Row

IDS = frozenset({"task_id", "retry_id", "worker_id", "pool"})


class Rows:
    """A source whose rows are known beforehand; a log gives them in two reads."""

    def __init__(self, stack: Stack, table: str, *, keeps: bool) -> None:
        store = StoreName(STORES[table])
        gone = stack.dropped.get(table, ())
        self.keeps = keeps
        self.columns = tuple(name for name in canonical.COLUMNS[store] if name not in gone)
        self._rows = [self._cells(row) for row in stack.rows.get(table, [])]

    def _cells(self, row: dict[str, Any]) -> Row:
        return tuple(self._cell(name, row.get(name)) for name in self.columns)

    def _cell(self, name: str, value: Any) -> object:
        if value is not None and name.endswith("_at"):
            return instant_of_epoch(value)
        return clean_id(value) if name in IDS else value

    def read(self, windows: Windows) -> Iterable[Row]:  # noqa: ARG002  (all are told)
        """Return half of the rows, and the rest at the next read; a list gives all each time."""
        if not self.keeps:
            return self._rows
        half = (len(self._rows) + 1) // 2
        given, self._rows = self._rows[:half], self._rows[half:]
        return given

    def rejected(self) -> tuple[Rejected, ...]:
        """Return nothing: every row is sound."""
        return ()

    def clock_skew_seconds(self) -> float | None:
        """Return None: there is no clock."""
        return None

    def close(self) -> None:
        """Nothing is held."""


def channels_on(stack: Stack, config: Config, *, keeps: bool) -> Channels:
    """Return channels whose stores are row sources, apart from those that are not configured."""
    channels, stores = Channels(config), config.stores
    if stores.gateway is not None:
        tasks = Rows(stack, "tasks", keeps=keeps)
        channels.gateway = _channel(
            StoreName.GATEWAY, MirroredGateway(stores.gateway, stores.gateway.timeout, tasks)
        )
    if stores.ledger is not None:
        charges = Rows(stack, "ledger", keeps=keeps)
        channels.ledger = _channel(
            StoreName.LEDGER, MirroredLedger(stores.ledger, stores.ledger.timeout, charges)
        )
    if stores.leases is not None:
        leases = Rows(stack, "leases", keeps=False)
        channels.leases = _channel(StoreName.LEASES, ListedLeases(leases))
    if stores.queue is not None:
        samples = Rows(stack, "queue", keeps=False)
        channels.queue = _channel(StoreName.QUEUE, ListedQueue(samples))
    return channels


def _channel(name: StoreName, store: Any) -> Channel[Any]:
    return Channel(name, store, Lane(name, micros(5)))


@BRIEF
@given(stack=stack_strategies.stacks(), keeps=st.booleans())
def test_every_number_agrees(*, stack: Stack, keeps: bool) -> None:
    """Product and second opinion agree on every sample, orphan and verdict, absences included."""
    present = replace(stack, missing=())  # a source whose table is missing has no rows to hand over
    config = parse_config(config_document(present))
    channels = channels_on(present, config, keeps=keeps)
    try:
        at = instant_of_epoch(AT)
        for _ in range(len(max(present.rows.values(), key=len, default=[])).bit_length()):
            read_stores(channels, config, at)
        readings = read_stores(channels, config, at).readings
        product = snapshot_document(evaluate(readings, config), config)
    finally:
        channels.stop()
    opinion = second_opinion.evaluate(present.readable(), present.known_settings(), AT)
    found = disagreements(product, opinion) + orphan_disagreements(product, opinion)
    if "verdict" not in opinion["doubtful"]:
        mine, theirs = product["verdict"]["action"], opinion["verdict"]["action"]
        found += [] if mine == theirs else [f"action: {mine} is not {theirs}"]
    assert not found, "\n".join(found)
