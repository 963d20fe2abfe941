"""How leases are written in Redis, and the table that they are read into."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Literal

from orphanwatch.exporter.config_redis import RedisLeaseSource, Unit
from orphanwatch.exporter.instants import Micros
from orphanwatch.exporter.key_patterns import KeyPattern
from orphanwatch.exporter.stores.redis.cells import Instants


@dataclass(frozen=True, kw_only=True)
class LeaseForm:
    """Where leases are and what states what; ``config_redis`` has it in a user's words."""

    key: KeyPattern
    columns: Mapping[str, str] = field(default_factory=dict)
    value: str | None = None
    member: KeyPattern | None = None
    score: Literal["heartbeat_at", "acquired_at", "expires_at"] | None = None
    ttl: Micros | None = None
    unit: Unit = "s"
    zone: tzinfo = UTC

    @classmethod
    def of(cls, config: RedisLeaseSource) -> "LeaseForm":
        """Return the form that a config describes, which was checked when it was loaded."""
        return cls(
            key=KeyPattern.parse(config.key or ""),
            columns=config.columns,
            value=config.value,
            member=None if config.member is None else KeyPattern.parse(config.member),
            score=config.score,
            ttl=config.ttl,
            unit=config.unit or "s",
            zone=config.zone,
        )

    @property
    def scored(self) -> str:
        """The canonical column that a score states, once ``ttl`` is taken off an expiry."""
        return "acquired_at" if self.score == "acquired_at" else "heartbeat_at"

    @property
    def states_instants(self) -> bool:
        """Whether fields of a hash state an instant: one that has none of them is not ours."""
        return any(name.endswith("_at") for name in self.columns)


class LeaseTable:
    """Leases while they are read: cells by column, and the record that each lease came from."""

    def __init__(self, records: Sequence[str] = ()) -> None:
        self.records = list(records)
        self.texts: dict[str, list[str | None]] = {}
        """As they were found."""
        self.instants: dict[str, Instants] = {}

    def put(self, names: Sequence[str], rows: Sequence[Sequence[str | None]]) -> None:
        """Take over cells that come row by row."""
        columns = zip(*rows, strict=True) if rows else ([] for _ in names)
        for name, cells in zip(names, columns, strict=True):
            self.texts[name] = list(cells)

    def keep(self, places: Sequence[int]) -> None:
        """Drop the leases at all other places."""
        if len(places) == len(self.records):
            return
        self.records = [self.records[place] for place in places]
        self.texts = {n: [cells[place] for place in places] for n, cells in self.texts.items()}
        self.instants = {
            n: [cells[place] for place in places] for n, cells in self.instants.items()
        }

    def extend(self, other: "LeaseTable") -> None:
        """Add the leases of another table of the same columns."""
        self.records += other.records
        for name, cells in other.texts.items():
            self.texts.setdefault(name, []).extend(cells)
