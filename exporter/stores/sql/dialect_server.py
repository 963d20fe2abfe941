"""What servers have in common against SQLite: a column has one type, and its cells are of it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import tzinfo
from typing import Any, ClassVar, Final

from sqlalchemy import (
    CTE,
    TIMESTAMP,
    BigInteger,
    ColumnElement,
    Connection,
    Date,
    Double,
    Float,
    FromClause,
    Integer,
    LargeBinary,
    Numeric,
    Select,
    Text,
    cast,
    func,
    literal,
    null,
)

from orphanwatch.exporter.ids import IdRule
from orphanwatch.exporter.instants import LARGEST_INSTANT, Instant, Micros
from orphanwatch.exporter.stores.cells import Form, form_of
from orphanwatch.exporter.stores.sql.dialect import InstantColumn, Sample
from orphanwatch.exporter.stores.sql.dialect_server_instants import (
    OrderedInstants,
    Scale,
    TextInstants,
    scale_of_epochs,
)
from orphanwatch.exporter.stores.sql.dialect_zones import WallClock, wall_clock_of
from orphanwatch.exporter.stores.sql.text_layouts import layout_of

# Numbers whose size tells a unit: above zero, and not beyond all times in the smallest one.
_LARGEST_EPOCH: Final = LARGEST_INSTANT * 1000


class ServerDialect(ABC):
    """Columns told apart by type; ids, numbers and flags are brought to one form within SQL."""

    dot_is_any: ClassVar[str] = ""
    """What a pattern begins with, so that its dot is any character, newlines included."""
    very_end: ClassVar[str] = "$"
    """What matches behind the last character, and nowhere before it."""

    @abstractmethod
    def text_of(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return whatever a column holds as text that compares exactly."""

    @abstractmethod
    def number_of_text(self, text: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return the number that a text spells; blank is null, and what is none is beyond all."""

    @abstractmethod
    def number_of_decimal(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return a decimal as a double, also where it is beyond all of those."""

    @abstractmethod
    def instant_of_text(self, text: ColumnElement[Any], clock: WallClock) -> ColumnElement[Any]:
        """Return the microseconds of a stamp written as text, null where it can't be read."""

    @abstractmethod
    def uuid_of_text(self, text: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return a UUID in one spelling, and all else as it is."""

    @abstractmethod
    def scale_of_stamps(self, column: ColumnElement[Any], zone: tzinfo, at: Instant) -> Scale:
        """Return the scale of a column of native stamps or days."""

    def limit(self, connection: Connection, timeout: Micros) -> None:  # noqa: B027  (see below)
        """Leave it at the limit that the transaction began with: it holds for each statement."""

    def tolerates(self, connection: Connection, error: Exception) -> bool:  # noqa: ARG002  (none is)
        """Return that nothing is: what can't be read is told apart by SQL."""
        return False

    def holding_bytes(
        self,
        connection: Connection,  # noqa: ARG002  (the type says it)
        source: FromClause,  # noqa: ARG002  (likewise)
        columns: Sequence[ColumnElement[Any]],
    ) -> Sequence[ColumnElement[Any]]:
        """Return the columns of a binary type."""
        return [column for column in columns if isinstance(column.type, LargeBinary)]

    def as_id(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return an id as text; bytes and fractions are none."""
        if isinstance(column.type, LargeBinary) or is_double(column):
            return cast(null(), Text())
        return self.text_of(column)

    def spelled(self, column: ColumnElement[Any], rule: IdRule) -> ColumnElement[Any]:
        """Return what the server's own patterns leave of an id."""
        dot, end = self.dot_is_any, self.very_end
        patterns = (
            rule.strip_prefix and f"{dot}^(?:{rule.strip_prefix})",
            rule.strip_suffix and f"{dot}(?:{rule.strip_suffix}){end}",
        )
        for pattern in filter(None, patterns):
            column = func.regexp_replace(column, literal(pattern, Text()), "", type_=Text())
        return self.uuid_of_text(column) if rule.uuid else column

    def as_flag(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return a truth value or a status as text."""
        return self.text_of(column)

    def as_text(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return the id: it is text already."""
        return column

    def as_number(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return a number as a double: sums of those don't overflow."""
        if is_double(column) or isinstance(column.type, Integer):
            return cast(column, Double())
        if isinstance(column.type, Numeric):
            return self.number_of_decimal(column)
        return self.number_of_text(self.text_of(column))

    def is_number(self, column: ColumnElement[Any]) -> ColumnElement[bool] | None:  # noqa: ARG002  (see below)
        """Return None: what is no number is greater than all that are."""
        return None

    def sample(self, column: ColumnElement[Any]) -> Sample | None:
        """Return numbers that tell a unit, texts that are not null; of native stamps nothing."""
        if is_stamp(column):
            return None
        if is_epoch(column):
            return Sample(self.as_number(column), column.between(*_epochs(column)))
        return Sample(self.text_of(column), column.is_not(None))

    def instants(
        self, column: ColumnElement[Any], values: list[object], zone: tzinfo, at: Instant
    ) -> InstantColumn:
        """Return a column of native stamps, epoch numbers or text, by its type."""
        if is_stamp(column):
            return OrderedInstants(column, self.scale_of_stamps(column, zone, at))
        form = form_of(values) or Form()
        if is_epoch(column):
            return OrderedInstants(column, scale_of_epochs(column, form.micros_per_unit))
        clock = wall_clock_of(zone, at)
        sorts_by_day = form.sorts_by_day and is_text(column)
        return TextInstants(
            column,
            self.text_of,
            lambda text: self.instant_of_text(text, clock),
            sorts_by_day=sorts_by_day,
            layout=layout_of(values, clock) if sorts_by_day else None,
        )

    def materialized(self, statement: Select[Any], name: str) -> CTE:
        """Return a common table expression that the planner leaves alone."""
        return statement.cte(name).prefix_with("MATERIALIZED")


def _epochs(column: ColumnElement[Any]) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    """Return the bounds of what tells a unit, such that an index of the column serves."""
    if isinstance(column.type, Integer):
        return literal(1, BigInteger()), literal(2**63 - 1, BigInteger())
    return literal(1, column.type), literal(_LARGEST_EPOCH, column.type)


def is_text(column: ColumnElement[Any]) -> bool:
    """Return whether a column is of text."""
    return isinstance(column.type, Text)


def is_double(column: ColumnElement[Any]) -> bool:
    """Return whether a column is of binary fractions."""
    return isinstance(column.type, Double)


def is_stamp(column: ColumnElement[Any]) -> bool:
    """Return whether a column is of native stamps or days."""
    return isinstance(column.type, TIMESTAMP | Date)


def is_epoch(column: ColumnElement[Any]) -> bool:
    """Return whether a column is of numbers."""
    return isinstance(column.type, Integer | Numeric | Float)
