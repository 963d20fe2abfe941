"""The ledger in SQL: tokens charged, summed where they are.

Only a ``final`` row of a watched task is read as a row: its share is computed and not summed.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Final

from sqlalchemy import (
    ColumnElement,
    and_,
    case,
    func,
    literal,
    null,
    select,
)

from orphanwatch.exporter.config_stores import SqlLedgerStore
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.model import Charges, Cutoff, KeySpend, LedgerWindow
from orphanwatch.exporter.names import RejectReason, StoreName
from orphanwatch.exporter.stores.cells import clean_ids, clean_number
from orphanwatch.exporter.stores.questions import Windows
from orphanwatch.exporter.stores.sql.final_rows import FinalRow, sum_final_rows
from orphanwatch.exporter.stores.sql.ledger_rows import Increments, LedgerRows
from orphanwatch.exporter.stores.sql.reader import SqlReader, may_end_after, portions
from orphanwatch.exporter.stores.sql.running_totals import running_totals

_CARRIED: Final = ("cutoff", "started")


class SqlLedger(SqlReader):
    """A table, view or SELECT with one row a charge."""

    name: ClassVar = StoreName.LEDGER
    looked_up: ClassVar = ("task_id", "charged_at")

    def __init__(self, config: SqlLedgerStore) -> None:
        super().__init__(config)
        self._shape = config.shape
        self._longest = config.longest_request

    def window(self, windows: Windows) -> LedgerWindow:
        """Return all charges of the newest windows, summed by key."""
        needed = self._needed_since(windows.baseline_start, windows)
        by_key, spend_rows = _by_key(
            [row for part in needed for row in self._spend_by_key(part, windows)]
        )
        self._note_unusable_in(windows)
        for part in needed:
            self._note_odd(self._all_rows, part)
        return LedgerWindow(
            by_key=by_key,
            baseline_tokens=sum(self._baseline_tokens(part, windows) for part in needed),
            spend_rows=spend_rows,
        )

    def charges(
        self, cutoffs: Collection[Cutoff], windows: Windows, counting_since: Instant | None
    ) -> Mapping[str, Charges]:
        """Return each task's charges past its cutoff; a task without any row is absent."""
        found: dict[str, Charges] = {}
        for portion in portions(list(cutoffs)):
            rows = self._rows_of(portion)
            by_now = rows.charged.by(windows.at)
            if self._shape == "final":
                found.update(self._final_charges(rows, by_now, windows, counting_since))
            else:
                increments = rows.increments(by_now)
                found.update(self._summed_charges(increments, windows, counting_since))
            self._note_unusable(rows, by_now)
        return found

    def _spend_by_key(self, needed: ColumnElement[bool], windows: Windows) -> Sequence[Any]:
        """Return tokens in the spend window, last charge and rows by key, of some needed rows."""
        in_window = self._within(windows.delta_start, windows)
        # The steps of a running total need its rows before the window too.
        selection = needed if self._shape == "cumulative" else in_window
        rows = self._all_rows.increments(selection)
        spend = rows.charged.within(windows.spend_start, windows.spend_end)
        statement = (
            select(
                rows.task_id,
                func.coalesce(func.sum(case((spend, rows.tokens), else_=0)), 0),
                func.max(rows.charged.epoch_micros()),
                func.sum(case((spend, 1), else_=0)),
            )
            .select_from(rows.source)
            .where(rows.charged.within(windows.delta_start, windows.at))
            .group_by(rows.task_id)
        )
        return self.rows(statement)

    def _baseline_tokens(self, needed: ColumnElement[bool], windows: Windows) -> float:
        rows = self._all_rows.increments(needed)
        statement = (
            select(func.coalesce(func.sum(rows.tokens), 0))
            .select_from(rows.source)
            .where(rows.charged.within(windows.baseline_start, windows.spend_start))
        )
        return float(self.rows(statement)[0][0])

    def _summed_charges(
        self, rows: Increments, windows: Windows, counting_since: Instant | None
    ) -> dict[str, Charges]:
        is_orphan = rows.charged.after_micros(rows.source.c.cutoff)
        is_recent = rows.charged.after(windows.delta_start)
        stamp = rows.charged.epoch_micros()

        def total(*conditions: Any) -> ColumnElement[Any]:
            return func.coalesce(func.sum(case((and_(*conditions), rows.tokens), else_=0)), 0)

        statement = (
            select(
                rows.task_id,
                total(is_orphan),
                total(is_orphan, is_recent),
                literal(0)
                if counting_since is None
                else total(is_orphan, rows.charged.by(counting_since)),
                func.max(stamp),
                func.max(case((and_(is_orphan, rows.tokens > 0), stamp))),
            )
            .select_from(rows.source)
            .group_by(rows.task_id)
        )
        return {
            str(task_id): Charges(
                charged=float(orphan),
                delta_charged=float(delta),
                charged_before=float(before),
                last_charge=Instant(round(last)),
                last_orphan_charge=None if newest is None else Instant(round(newest)),
            )
            for task_id, orphan, delta, before, last, newest in self.rows(statement)
        }

    def _final_charges(
        self,
        rows: LedgerRows,
        by_now: ColumnElement[bool],
        windows: Windows,
        counting_since: Instant | None,
    ) -> dict[str, Charges]:
        source = rows.accepted(by_now)
        columns = ("charged_at", "started_at", "tokens", "prompt_tokens", *_CARRIED)
        instants = {
            name: stamp.moved_to(source.c[name]).cell()
            for name, stamp in rows.relation.instants.items()
            if name in source.c
        }
        cells = {**dict(source.c.items()), **instants}
        statement = select(cells["task_id"], *(cells.get(name, null()) for name in columns))
        listed: dict[str, list[FinalRow]] = {}
        for task_id, *cells in self.rows(statement):
            row = self._final_row(rows, task_id, cells)
            if row is not None:
                listed.setdefault(str(task_id), []).append(row)
        return {
            task_id: sum_final_rows(rows_of_task, windows, counting_since)
            for task_id, rows_of_task in listed.items()
        }

    def _final_row(self, rows: LedgerRows, task_id: str, cells: Sequence[Any]) -> FinalRow | None:
        """Return a row as it counts, None for one that can't be read and costs only itself."""
        charged, started, tokens, prompt, cutoff, fallback = cells
        key = repr((task_id, charged, tokens, started))
        starts = rows.relation.instants.get("started_at", rows.charged)
        try:
            charged_at, started_at = rows.charged.reader()(charged), starts.reader()(started)
        except (ValueError, TypeError, OverflowError):
            self.reject(RejectReason.INVALID_INSTANT, key)
            return None
        try:
            prompt_tokens = clean_number(prompt) or 0.0
        except (ValueError, TypeError, OverflowError):
            self.reject(RejectReason.INVALID_TOKENS, key)
            return None
        if charged_at is None:
            return None
        start = started_at if started_at is not None else fallback
        row = FinalRow(charged_at, start, float(tokens), prompt_tokens, Instant(cutoff))
        if row.has_unknown_start(row.cutoff):
            self.reject(RejectReason.UNKNOWN_START, key)
        return row

    # Which rows are meant

    @property
    def _all_rows(self) -> LedgerRows:
        return LedgerRows(self.relation, self.dialect, self._shape)

    def _rows_of(self, cutoffs: Sequence[Cutoff]) -> LedgerRows:
        """Return the rows of these tasks, each beside its task's cutoff and start.

        The ids are compared as text, whatever the column holds; an index finds the rows first.
        """
        relation = self.relation
        handed = self.dialect.rows_of(cutoffs, ("task_id", *_CARRIED))
        selected = (
            select(
                *(cell.label(name) for name, cell in relation.columns.items()),
                self.dialect.as_text(relation["task_id"]).label("id_text"),
            )
            .select_from(relation.source)
            .where(
                self.is_among(relation, "task_id", [cutoff.task_id for cutoff in cutoffs]),
                self._ends_after(self._earliest(cutoffs)),
            )
        )
        # So few rows are joined in no time; a planner that joins first is lost.
        named = self.dialect.materialized(selected, "named")
        joined = named.join(handed, named.c.id_text == handed.c.task_id)
        columns = {name: named.c[name] for name in relation.columns}
        return LedgerRows(
            relation.moved_to(joined, columns | {"task_id": handed.c.task_id}),
            self.dialect,
            self._shape,
            carried={name: handed.c[name] for name in _CARRIED},
        )

    def _ends_after(self, at: Instant) -> ColumnElement[bool]:
        """Return whether a row can have been charged after an instant, by when it started."""
        return may_end_after(self.relation, "started_at", at, self._longest)

    def _earliest(self, cutoffs: Sequence[Cutoff]) -> Instant:
        """Return an instant before which none of the tasks' charges matters."""
        starts = (min(cutoff.at, cutoff.started_at or cutoff.at) for cutoff in cutoffs)
        # As much again as a request lasts: a stop lies before its cutoff, and clocks differ.
        return Instant(min(starts) - (self._longest or 0))

    def _within(self, start: Instant, windows: Windows) -> ColumnElement[bool]:
        """Return whether a row was charged in (start, at]."""
        charged = self.relation.instants["charged_at"]
        return and_(charged.within(start, windows.at), self._ends_after(start))

    def _needed_since(self, start: Instant, windows: Windows) -> list[ColumnElement[bool]]:
        """Return selections of the rows needed to know what was charged in (start, at].

        No two of them hold rows of one task. A running total needs the rows before the window of
        each task that has one in it.
        """
        in_window = self._within(start, windows)
        if self._shape != "cumulative":
            return [in_window]
        by_now = self.relation.instants["charged_at"].by(windows.at)
        return running_totals(self, in_window, by_now)

    # Rows that can't be used

    def _note_unusable_in(self, windows: Windows) -> None:
        rows = self._all_rows
        is_later = case((rows.charged.after(windows.at), 1), else_=0) == 1
        is_recent = self._ends_after(windows.baseline_start)
        in_reach = and_(rows.charged.reaches(windows.baseline_start), ~is_later)
        # Apart: joined by "or", no index would serve either, and the ledger be read whole.
        self._note_rejected(rows.rejects(and_(rows.charged.is_missing(), is_recent)))
        self._note_rejected(rows.rejects(and_(in_reach, is_recent)))

    def _note_unusable(self, rows: LedgerRows, by_now: ColumnElement[bool]) -> None:
        self._note_rejected(rows.rejects(by_now))
        self._note_odd(rows, by_now)

    def _note_rejected(self, statement: Any) -> None:
        for reason, count, *key in self.rows(statement):
            self.reject(RejectReason(reason), repr(tuple(key)), count)

    def _note_odd(self, rows: LedgerRows, selection: ColumnElement[bool]) -> None:
        if self._shape == "cumulative":
            for key in self.rows(rows.steps_back(selection)):
                self.reject(RejectReason.REGRESSION, repr(tuple(key)))
        if rows.may_repeat_entries:
            for count, *ids in self.rows(rows.repeats(selection)):
                self.reject(RejectReason.DUPLICATE_ENTRY_ID, repr(tuple(ids)), count)


def _by_key(rows: Sequence[Any]) -> tuple[dict[str | None, KeySpend], int]:
    """Return sums by key, with the keys that are no id as one, and the number of spend rows."""
    by_key: dict[str | None, KeySpend] = {}
    spend_rows = 0
    keys = clean_ids(row[0] for row in rows)
    for key, (_, tokens, newest, count) in zip(keys, rows, strict=True):
        last = Instant(round(newest))
        before = by_key.get(key)
        by_key[key] = (
            KeySpend(float(tokens), last, count)
            if before is None
            else KeySpend(
                before.spend + tokens, max(last, before.last_charge or last), before.rows + count
            )
        )
        spend_rows += int(count)
    return by_key, spend_rows
