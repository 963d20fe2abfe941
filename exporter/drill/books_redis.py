"""A drill's leases in Redis, written in the very form that the config describes."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple, TypeVar, cast

from redis import exceptions

from orphanwatch.exporter.config_redis import RedisLeaseSource
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.key_patterns import KeyPattern
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.redis.cells import MICROS_PER_UNIT
from orphanwatch.exporter.stores.redis.lease_form import LeaseForm
from orphanwatch.exporter.stores.redis.problems import code_of
from orphanwatch.exporter.stores.redis.wire import WRONG_TYPE, RedisDatabase

_MILLI: Final = 1000

_REFUSALS: Final = {
    "NOPERM": "does not let this user write leases; grant it the right to write, on the keys of "
    "key: (+hset +set +zadd +pexpire +del +zrem +multi)",
    "READONLY": "is a replica, which takes no writes; name the master in url:",
    "OOM": "has no memory left; free some",
    "MISCONF": "takes no writes, its disk is at fault; see the server's log",
    "WRONGTYPE": "keeps another kind of value where key: names leases; check key: and database",
}

Answer = TypeVar("Answer")

_Owned = Callable[[str | None], bool]
"""Whether a task id is one of ours."""


class _Place(NamedTuple):
    """Where one lease stands."""

    key: str
    member: str | None


@dataclass(slots=True)
class _Lease:
    place: _Place
    beat_at: Instant


class RedisLeaseBook:
    """Leases of the generic form: a hash, a string, a bare key, or a member of a sorted set."""

    def __init__(self, config: RedisLeaseSource) -> None:
        """Raises ``StoreError`` for a job queue's leases, and where keys can't hold our ids."""
        if config.preset is not None:
            raise StoreError(
                StoreName.LEASES,
                f"holds the jobs of {config.preset}, into which a drill writes nothing; run the "
                "drill on a copy of the config whose leases are a table or keys of your own",
            )
        self._config = config
        self._form = LeaseForm.of(config)
        self._stated = frozenset(config.stated())
        self._database = RedisDatabase(StoreName.LEASES, config)
        self._pending: list[tuple[str, ...]] = []
        self._held: dict[tuple[str, str], _Lease] = {}
        self._expires = self._form.ttl is not None and self._form.score is None
        """Redis itself reckons the age of a heartbeat: by its clock, not by the drill's."""

    def states(self, name: str) -> bool:
        """Return whether the form states a canonical column."""
        return name in self._stated

    @property
    def tells_workers_apart(self) -> bool:
        """Whether two leases of one task can be there at once."""
        patterns = [p for p in (self._form.key, self._form.member) if p is not None]
        return any("worker_id" in p.captures or p.has_wildcard for p in patterns)

    def kept(self, name: str, at: Instant) -> Instant:
        """Return an instant as its place will hold it."""
        form = self._form
        if name not in self._stated or form.unit == "iso":
            return at
        step = max(1, round(MICROS_PER_UNIT[form.unit])) if self._is_written(name) else _MILLI
        if name == "heartbeat_at" and (form.score == "expires_at" or self._expires):
            # What is written is the expiry: it, less the ttl, is what will be read.
            ahead = at + (form.ttl or 0)
            return Instant(ahead - ahead % step - (form.ttl or 0))
        return Instant(at - at % step)

    def add(self, row: Mapping[str, object]) -> None:
        """Write a lease."""
        ids = {name: str(row[name]) for name in ("task_id", "worker_id", "pool")}
        place = self._place(ids)
        at = Instant(cast("int", row["acquired_at"]))
        self._held[ids["task_id"], ids["worker_id"]] = _Lease(place, at)
        form = self._form
        if form.member is not None:
            self._write_score(place, at)
        elif form.columns:
            cells = {form.columns[n]: self._text(n, row[n]) for n in form.columns if n in row}
            flat = [word for pair in cells.items() for word in pair]
            self._pending.append(("HSET", place.key, *flat))
        else:
            value = "1" if form.value is None else self._text(form.value, row[form.value])
            self._pending.append(("SET", place.key, value))
        self._expire(place, at, at)

    def stamp(self, row: Mapping[str, object], **key: str) -> None:
        """Write a heartbeat, or another cell of a hash."""
        lease = self._held[key["task_id"], key["worker_id"]]
        form, place = self._form, lease.place
        for name, value in row.items():
            if name == "heartbeat_at":
                lease.beat_at = Instant(cast("int", value))
            if name in form.columns:
                field = form.columns[name]
                self._pending.append(("HSET", place.key, field, self._text(name, value)))
            elif name == form.value:
                self._pending.append(("SET", place.key, self._text(name, value)))
            elif name == "heartbeat_at" and form.score in ("heartbeat_at", "expires_at"):
                self._write_score(place, lease.beat_at)
        self._expire(place, lease.beat_at, lease.beat_at)

    def drop(self, **key: str) -> None:
        """Take a lease away."""
        place = self._held.pop((key["task_id"], key["worker_id"])).place
        if place.member is None:
            self._pending.append(("DEL", place.key))
        else:
            self._pending.append(("ZREM", place.key, place.member))

    def as_of(self, at: Instant) -> None:
        """Let what Redis reckons by its own clock be as if it were that instant."""
        for lease in self._held.values():
            self._expire(lease.place, lease.beat_at, at)

    def flush(self) -> None:
        """Send the step."""
        pending, self._pending = self._pending, []
        if pending:
            self._ask(lambda: self._database.ask_all(pending))

    def rehearse(self) -> None:
        """Send the step within a transaction that is discarded: rights are looked at, no more."""
        pending, self._pending = self._pending, []
        self._held.clear()
        self._ask(lambda: self._database.ask_all([("MULTI",), *pending, ("DISCARD",)]))

    def give_up(self) -> None:
        """Forget what was not flushed."""
        self._pending = []
        self._database.disconnect()

    def remove(self, prefix: str, spared: Collection[str] = ()) -> int:
        """Delete the leases whose task id begins with a prefix, but for those of ``spared``."""

        def is_owned(task_id: str | None) -> bool:
            return (
                task_id is not None
                and task_id.startswith(prefix)
                and not any(task_id.startswith(other) for other in spared)
            )

        return self._ask(lambda: sum(self._remove(prefix, is_owned)))

    def remove_sampled(self, samples: Iterable[Mapping[str, int | float]]) -> int:  # noqa: ARG002  (the protocol's)
        """Return 0: leases are no samples."""
        return 0

    def close(self) -> None:
        """Let go of the server."""
        self._database.disconnect()

    def _remove(self, prefix: str, is_owned: _Owned) -> Iterator[int]:
        form = self._form
        for keys in self._database.keys(form.key.beginning(prefix)):
            for key, ids in zip(keys, self._ids(form.key, keys), strict=True):
                if ids is None:
                    continue
                if form.member is not None:
                    yield self._remove_members(key, form.member, ids, is_owned)
                elif is_owned(ids.get("task_id") or self._task_in(key)):
                    yield int(self._database.ask("DEL", key))

    def _remove_members(
        self, key: str, member: KeyPattern, ids: Mapping[str, str], is_owned: _Owned
    ) -> int:
        members = list(self._database.members(key) or ())
        ours = [
            text
            for text, found in zip(members, self._ids(member, members), strict=True)
            if found is not None and is_owned({**ids, **found}.get("task_id"))
        ]
        return int(self._database.ask("ZREM", key, *ours)) if ours else 0

    def _task_in(self, key: str) -> str | None:
        """Return the task id that the hash at a key states."""
        field = self._form.columns.get("task_id")
        if field is None:
            return None
        [said] = self._database.ask_each([key], "HGET", field)
        return None if said is WRONG_TYPE else said

    def _ids(self, pattern: KeyPattern, texts: Sequence[str]) -> list[dict[str, str] | None]:
        return [
            None if found is None else dict(zip(pattern.captures, found, strict=True))
            for found in pattern.read(texts)
        ]

    def _place(self, ids: Mapping[str, str]) -> _Place:
        """Return where a lease goes; raises ``StoreError`` where it would be read as another."""
        filled = {}
        for name, pattern in (("key", self._form.key), ("member", self._form.member)):
            if pattern is None:
                continue
            filled[name] = pattern.filled(ids, f"{ids['task_id']}.{ids['worker_id']}")
            [found] = self._ids(pattern, [filled[name]])
            if found != {capture: ids[capture] for capture in pattern.captures}:
                raise StoreError(
                    StoreName.LEASES,
                    f"{name}: takes the ids of a drill apart at the wrong place, since they hold "
                    "hyphens; run the drill on a copy of the config with another sign between ids",
                )
        return _Place(filled["key"], filled.get("member"))

    def _is_written(self, name: str) -> bool:
        """Return whether a cell of ours holds the instant, in the form's unit."""
        form = self._form
        return name in form.columns or name == form.value or form.score is not None

    def _write_score(self, place: _Place, at: Instant) -> None:
        form = self._form
        ahead = (form.ttl or 0) if form.score == "expires_at" else 0
        score = self._text("heartbeat_at", at + ahead)
        self._pending.append(("ZADD", place.key, score, cast("str", place.member)))

    def _expire(self, place: _Place, beat_at: Instant, at: Instant) -> None:
        if self._expires and self._form.ttl is not None:
            left = (beat_at + self._form.ttl) // _MILLI - at // _MILLI
            self._pending.append(("PEXPIRE", place.key, str(left)))

    def _text(self, name: str, value: object) -> str:
        if not name.endswith("_at") or not isinstance(value, int):
            return str(value)
        if self._form.unit == "iso":
            stamp = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
            return stamp.isoformat(timespec="microseconds").replace("+00:00", "Z")
        unit = MICROS_PER_UNIT[self._form.unit]
        return str(value * round(1 / unit) if unit < 1 else value // round(unit))

    def _ask(self, action: Callable[[], Answer]) -> Answer:
        def attempt() -> Answer:
            try:
                return action()
            except exceptions.NoPermissionError as error:
                raise self._refused("NOPERM") from error
            except exceptions.ReadOnlyError as error:
                raise self._refused("READONLY") from error
            except exceptions.OutOfMemoryError as error:
                raise self._refused("OOM") from error
            except exceptions.ResponseError as error:
                if code_of(error) not in _REFUSALS:
                    raise
                raise self._refused(code_of(error)) from error

        return self._database.reading(attempt)

    def _refused(self, code: str) -> StoreError:
        self._database.disconnect()  # replies may still be on their way
        return StoreError(StoreName.LEASES, f"the Redis at {self._config.place} {_REFUSALS[code]}")
