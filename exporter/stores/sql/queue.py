"""The admission queue in SQL: samples of depth, age and in-flight."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from sqlalchemy import select

from orphanwatch.exporter.columns import COLUMNS
from orphanwatch.exporter.model import QueueSample
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.cells import clean_number
from orphanwatch.exporter.stores.questions import Windows
from orphanwatch.exporter.stores.sql.dialect import InstantColumn
from orphanwatch.exporter.stores.sql.reader import SqlReader

_NAMES: Final = COLUMNS[StoreName.QUEUE]
_BLANK: Final = QueueSample(None, None, None, None, None)
_READERS: Final[Mapping[str, Any]] = dict.fromkeys(_NAMES[1:], clean_number)

# A sample that can't be read costs only itself: the next newest is tried, so many times.
_TRIES: Final = 10
_COUNTED: Final = 1000


class SqlQueue(SqlReader):
    """A table, view or SELECT with one row a sample."""

    name: ClassVar = StoreName.QUEUE
    looked_up: ClassVar = ("sampled_at",)

    def newest(self, windows: Windows) -> QueueSample | None:
        """Return the newest sample taken by now; one without a stamp is taken as of now."""
        sampled = self.relation.instants.get("sampled_at")
        statement = select(*self.relation.selected(_NAMES)).select_from(self.relation.source)
        if sampled is not None:
            self._note_unreadable(statement, sampled, windows)
            statement = statement.where(sampled.by(windows.at)).order_by(sampled.column.desc())
        samples = self.facts(self.rows(statement.limit(_TRIES)), _NAMES, _READERS, _BLANK)
        if not samples:
            return None
        return samples[0] if sampled is not None else samples[0]._replace(sampled_at=windows.at)

    def _note_unreadable(self, statement: Any, sampled: InstantColumn, windows: Windows) -> None:
        """Count the samples whose stamp can't be read: no order finds them."""
        unreadable = sampled.is_unreadable()
        if unreadable is not None:
            in_reach = sampled.reaches(windows.baseline_start)
            rows = self.rows(statement.where(in_reach, unreadable).limit(_COUNTED))
            self.facts(rows, _NAMES, _READERS, _BLANK)
