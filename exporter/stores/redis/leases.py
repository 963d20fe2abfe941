"""Leases in Redis, each a key or a member of a sorted set, as a form says."""

from collections.abc import Sequence
from itertools import compress
from typing import Final

from orphanwatch.exporter.clock import Clock
from orphanwatch.exporter.columns import COLUMNS
from orphanwatch.exporter.config_redis import RedisSource
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import Instant, Micros
from orphanwatch.exporter.key_patterns import KeyPattern
from orphanwatch.exporter.names import RejectReason, StoreName
from orphanwatch.exporter.stores.questions import Windows
from orphanwatch.exporter.stores.redis.cells import (
    Instants,
    instants_of,
    task_ids_of,
    texts_of,
)
from orphanwatch.exporter.stores.redis.lease_form import LeaseForm, LeaseTable
from orphanwatch.exporter.stores.redis.source import RedisRows
from orphanwatch.exporter.stores.redis.wire import BATCH, WRONG_TYPE
from orphanwatch.exporter.stores.rows import Row

# What PTTL says of a key that has no expiry; of one that is not there it is less.
_FOR_EVER: Final = -1

_SET: Final = "zset"
"""What Redis calls a sorted set."""


class RedisLeases(RedisRows):
    """Leases that are found by a form; what it does not know, ``complete`` may add.

    A lease that has ended is gone: nothing tells of the past.
    """

    tells_only_of_now = True

    def __init__(
        self, config: RedisSource, clock: Clock, form: LeaseForm, columns: frozenset[str]
    ) -> None:
        """Take the form, and the canonical columns that it and ``complete`` state."""
        super().__init__(StoreName.LEASES, config, clock)
        self._form = form
        self.columns = tuple(name for name in COLUMNS[StoreName.LEASES] if name in columns)

    def rows(self, windows: Windows) -> Sequence[Row]:  # noqa: ARG002  (the list is as of now)
        """Return the leases there are."""
        rows: list[Row] = []
        for keys in self._database.keys(self._form.key):
            table = _meant(self._form.key, keys)
            if self._form.member is None:
                self._read_keys(table)
            else:
                table = self._read_sets(table, self._form.member)
            self.complete(table)
            rows += self._rows_of(table)
        if self._rejected and not rows:
            last = self._rejected[-1]
            raise StoreError(
                StoreName.LEASES,
                f"none of its {len(self._rejected)} records can be used, the last of them "
                f"{last.key} ({last.reason}); check key, columns and unit",
            )
        return rows

    def complete(self, table: LeaseTable) -> None:
        """Add cells from elsewhere; ids are still as they were found."""

    def _read_keys(self, table: LeaseTable) -> None:
        """Add what the keys hold; one that has gone since the scan is no lease any more."""
        form = self._form
        if form.ttl is not None:
            self._read_expiries(table, form.ttl)
        if form.columns:
            self._read_hashes(table)
        elif form.value is not None:
            self._read_strings(table, form.value)
        elif form.ttl is None and form.key.only_key is not None:
            table.keep([*compress((0,), self._database.ask_each(table.records, "EXISTS"))])

    def _read_expiries(self, table: LeaseTable, ttl: Micros) -> None:
        """Read heartbeats: each has set the expiry to ``ttl`` from then on."""
        asked_at = self._clock()
        left = self._database.ask_each(table.records, "PTTL")
        for key in compress(table.records, (number == _FOR_EVER for number in left)):
            self.reject(RejectReason.INVALID_INSTANT, f"{key}: has no expiry")
        table.instants["heartbeat_at"] = [
            Instant(asked_at - ttl + number * 1000) for number in left
        ]
        table.keep([place for place, number in enumerate(left) if number > _FOR_EVER])

    def _read_hashes(self, table: LeaseTable) -> None:
        fields = list(self._form.columns.values())
        found = self._database.ask_each(table.records, "HMGET", *fields)
        bad: set[int] = set()
        if WRONG_TYPE in found:
            bad.update(place for place, cells in enumerate(found) if cells is WRONG_TYPE)
        for place in bad:
            self.reject(RejectReason.INVALID_RECORD, f"{table.records[place]}: is no hash")
        empty = [None] * len(fields)
        if self._form.ttl is None and empty in found:
            bad.update(self._unfit(table, [p for p, cells in enumerate(found) if cells == empty]))
        if bad:
            good = [place for place in range(len(found)) if place not in bad]
            table.keep(good)
            found = [found[place] for place in good]
        table.put(list(self._form.columns), found)

    def _unfit(self, table: LeaseTable, places: Sequence[int]) -> list[int]:
        """Return those of the places whose key has gone, or is a hash of somebody else."""
        keys = [table.records[place] for place in places]
        present = self._database.ask_each(keys, "EXISTS")
        if not self._form.states_instants:
            return [place for place, is_there in zip(places, present, strict=True) if not is_there]
        fields = ", ".join(self._form.columns.values())
        for key in compress(keys, present):
            self.reject(RejectReason.INVALID_RECORD, f"{key}: has none of {fields}")
        return [*places]

    def _read_strings(self, table: LeaseTable, name: str) -> None:
        keys = table.records
        parts = [keys[at : at + BATCH] for at in range(0, len(keys), BATCH)]
        texts = self._database.ask_all(("MGET", *part) for part in parts)
        found: list[str | None] = [text for part in texts for text in part]
        missing = [key for key, text in zip(keys, found, strict=True) if text is None]
        for key in compress(missing, self._database.ask_each(missing, "EXISTS")):
            self.reject(RejectReason.INVALID_RECORD, f"{key}: is no string")
        table.texts[name] = found
        table.keep([place for place, text in enumerate(found) if text is not None])

    def _read_sets(self, sets: LeaseTable, member: KeyPattern) -> LeaseTable:
        """Return the leases that are members of the sets; of many keys, some may be no set."""
        whole, kinds = LeaseTable(), [_SET]
        if self._form.key.only_key is None:
            kinds = self._database.ask_each(sets.records, "TYPE")
        for place, (key, kind) in enumerate(zip(sets.records, kinds, strict=True)):
            if kind not in (_SET, "none"):
                self.reject(RejectReason.INVALID_RECORD, f"{key}: is no sorted set")
                continue
            scores = self._database.members(key)
            table = _meant(member, list(scores))
            table.texts[self._form.scored] = [scores[text] for text in table.records]
            table.records = [f"{key} {text}" for text in table.records]
            for name, cells in sets.texts.items():
                table.texts[name] = [cells[place]] * len(table.records)
            whole.extend(table)
        return whole

    def _rows_of(self, table: LeaseTable) -> list[Row]:
        """Return the leases as rows, without those that state an instant which is none."""
        if not table.records:
            return []
        bad: set[int] = set()
        columns: list[Sequence[object]] = []
        for name in self.columns:
            if name == "task_id":
                columns.append(task_ids_of(table.texts[name], self._config.id_rule))
            elif name.endswith("_at"):
                columns.append(self._instants(table, name, bad))
            else:
                columns.append(texts_of(table.texts[name]))
        rows: list[Row] = list(zip(*columns, strict=True))
        return [row for place, row in enumerate(rows) if place not in bad] if bad else rows

    def _instants(self, table: LeaseTable, name: str, bad: set[int]) -> Instants:
        """Return a column of instants, noting the places of those that are none."""
        if name in table.instants:
            return table.instants[name]
        form = self._form
        instants, unread = instants_of(table.texts[name], form.unit, form.zone)
        for place in unread:
            self.reject(RejectReason.INVALID_INSTANT, f"{table.records[place]}: {name}")
        bad.update(unread)
        if form.score == "expires_at" and name == form.scored and form.ttl is not None:
            return [None if it is None else Instant(it - form.ttl) for it in instants]
        return instants


def _meant(pattern: KeyPattern, records: Sequence[str]) -> LeaseTable:
    """Return the records that a pattern means, with what it captures."""
    captured = pattern.read(records)
    table = LeaseTable(records)
    if None in captured:
        table.keep([place for place, found in enumerate(captured) if found is not None])
    table.put(pattern.captures, [found for found in captured if found is not None])
    return table
