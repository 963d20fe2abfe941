"""Stores in Redis: where it is, who writes it, and how home-made leases are written.

Job queues have presets. Leases that somebody wrote by hand are described by a few keys::

    leases:
      type: redis
      url: redis://127.0.0.1:6379/0
      key: "lease:{task_id}"               # braces capture, * is anything

and one of these, which says where the heartbeat is:

    columns: {heartbeat_at: beat, worker_id: owner}   # fields of the hash at the key
    unit: ms                                          # of every instant in it

    value: heartbeat_at                    # the key holds a string, and that is all it says
    unit: s

    ttl: 30s                               # each beat sets the key to expire after so long

    key: running                           # one sorted set, and who is in it
    member: "{worker_id}/{task_id}"
    score: expires_at                      # or heartbeat_at, or acquired_at
    ttl: 30s                               # only for expires_at: a beat moves it so far ahead
    unit: s

With none of them a lease lives for as long as its key does.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from orphanwatch.exporter.columns import COLUMNS
from orphanwatch.exporter.config_source import Source
from orphanwatch.exporter.config_values import PositiveDuration
from orphanwatch.exporter.key_patterns import KeyPattern
from orphanwatch.exporter.names import StoreName

REDIS_PRESETS: Final = ("rq", "celery", "bullmq")
"""The systems whose keys we know."""

Unit = Literal["s", "ms", "us", "ns", "iso"]
"""How instants are written: epoch numbers of a unit, or ISO 8601."""

_URL_REMEDY: Final = "write for example redis://127.0.0.1:6379/0, rediss:// for TLS"
_DEFAULT_PORT: Final = 6379


@dataclass(frozen=True)
class RedisPlace:
    """One database of one server. Its text names no user and no password."""

    host: str = "127.0.0.1"
    port: int = _DEFAULT_PORT
    socket: str | None = None
    """The path of a Unix socket, which is in the place of host and port."""
    database: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False

    def __str__(self) -> str:
        """Return where it is, for messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.socket or f'{host}:{self.port}'}, database {self.database}"


def parse_place(url: str) -> RedisPlace:
    """Return the place that a URL names; raises ``ValueError``, with nothing of the URL in it."""
    try:
        parts = urlsplit(url)
        port = parts.port
        database = _database_of(parts)
    except ValueError:
        raise ValueError(f"is no Redis URL; {_URL_REMEDY}") from None
    if parts.scheme not in ("redis", "rediss", "unix"):
        raise ValueError(f"is no Redis URL; {_URL_REMEDY}")
    if database is None:
        raise ValueError(f"has more in it than server and database; {_URL_REMEDY}")
    return RedisPlace(
        host=parts.hostname or "127.0.0.1",
        port=port or _DEFAULT_PORT,
        socket=unquote(parts.path) if parts.scheme == "unix" else None,
        database=database,
        username=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        tls=parts.scheme == "rediss",
    )


def _database_of(parts: SplitResult) -> int | None:
    """Return the database's number, None where the URL says what we don't take from one."""
    words = parse_qs(parts.query, strict_parsing=True) if parts.query else {}
    if parts.fragment or not words.keys() <= {"db"}:
        return None
    path = "" if parts.scheme == "unix" else parts.path.strip("/")
    number = int(words["db"][-1]) if words else int(path or 0)
    return number if number >= 0 else None


class RedisSource(Source):
    """One database of a Redis server, and the job queue that lives in it."""

    type: Literal["redis"]
    url: SecretStr
    username: str | None = None
    """Goes before the one in the URL; likewise the password."""
    password: SecretStr | None = None
    ca_file: str | None = None
    """Certificates that sign the server's, for ``rediss://``; None is the system's."""
    cert_file: str | None = None
    key_file: str | None = None
    insecure_skip_verify: bool = False
    prefix: str = ""
    """What all keys of the job queue begin with, where its users set that."""
    queues: tuple[str, ...] = ()
    """The queues that are looked at; for ``rq``, none named is all of them."""
    acks_late: bool = False
    """Of ``celery``: its tasks are acknowledged late, and workers prefetch one at a time."""

    @field_validator("url")
    @classmethod
    def _url_can_be_read(cls, url: SecretStr) -> SecretStr:
        parse_place(url.get_secret_value())
        return url

    @model_validator(mode="after")
    def _preset_is_ours(self) -> Self:
        self._check_preset()
        if self.preset == "bullmq" and not self.queues:
            raise ValueError("queues: is missing; name BullMQ's queues, for example [generate]")
        if self.acks_late and self.preset != "celery":
            raise ValueError("acks_late: is for preset celery only; take it out")
        if (self.prefix or self.queues) and self.preset is None:
            raise ValueError("prefix and queues: are of a job queue; name its preset, or drop them")
        return self

    def _check_preset(self) -> None:
        if self.preset not in REDIS_PRESETS:
            raise ValueError(
                f"preset: is missing; write {', '.join(REDIS_PRESETS[:-1])} or {REDIS_PRESETS[-1]}"
            )

    @property
    def place(self) -> RedisPlace:
        """Where it is, and as whom it is asked."""
        place = parse_place(self.url.get_secret_value())
        password = self.password.get_secret_value() if self.password else place.password
        return RedisPlace(
            host=place.host,
            port=place.port,
            socket=place.socket,
            database=place.database,
            username=self.username or place.username,
            password=password,
            tls=place.tls,
        )


class RedisLeaseSource(RedisSource):
    """Leases of a job queue, or home-made ones."""

    key: str | None = None
    columns: dict[str, str] = Field(default={})
    """Canonical column to the field of the hash that states it."""
    value: Literal["heartbeat_at", "acquired_at", "worker_id", "pool"] | None = None
    """What the string at the key states."""
    member: str | None = None
    score: Literal["heartbeat_at", "acquired_at", "expires_at"] | None = None
    ttl: PositiveDuration | None = None
    """How far ahead each beat sets the expiry; a ``lease_ttl`` that is not given is this."""
    unit: Unit | None = None

    @model_validator(mode="before")
    @classmethod
    def _expiry_is_the_lease_ttl(cls, data: Any) -> Any:
        if isinstance(data, dict) and "ttl" in data and "lease_ttl" not in data:
            return {**data, "lease_ttl": data["ttl"]}
        return data

    @field_validator("key", "member")
    @classmethod
    def _is_a_key_pattern(cls, text: str | None) -> str | None:
        if text is not None:
            if not text:
                raise ValueError("is empty; write for example lease:{task_id}")
            KeyPattern.parse(text)
        return text

    @field_validator("columns")
    @classmethod
    def _are_columns_of_leases(cls, columns: dict[str, str]) -> dict[str, str]:
        if not columns.keys() <= set(COLUMNS[StoreName.LEASES]):
            raise ValueError(f"a lease has {', '.join(COLUMNS[StoreName.LEASES])}")
        return columns

    @model_validator(mode="after")
    def _form_is_whole(self) -> Self:
        problem = next(self._form_problems(), None)
        if problem is not None:
            raise ValueError(problem)
        return self

    def _check_preset(self) -> None:
        if self.preset is not None:
            super()._check_preset()

    def _form_problems(self) -> Iterator[str]:
        form = (self.key, self.value, self.member, self.score, self.unit)
        if self.preset is not None:
            if self.columns or any(part is not None for part in form):
                yield "preset: says where the leases are; drop key and what goes with it"
            if self.ttl is not None and self.preset != "bullmq":
                yield "ttl: is none that this preset's leases have; drop it"
            return
        if self.key is None:
            yield "key: is missing; write for example lease:{task_id}, or name a preset"
            return
        yield from self._shape_problems()
        yield from self._statement_problems()

    def _shape_problems(self) -> Iterator[str]:
        """Yield what does not go together."""
        shapes = [bool(self.columns), self.value is not None, self.member is not None]
        if sum(shapes) > 1:
            yield "columns, value, member: keep one, for a hash, a string or a sorted set"
        if (self.member is None) != (self.score is None):
            yield "member and score: belong together; write both for a sorted set, else neither"
        if self.score == "expires_at" and self.ttl is None:
            yield "ttl: is missing; say how far ahead a beat sets expires_at"
        if self.score in ("heartbeat_at", "acquired_at") and self.ttl is not None:
            yield "ttl: goes with score expires_at only; drop it"

    def _statement_problems(self) -> Iterator[str]:
        """Yield what is stated twice, or not at all."""
        stated = list(self.stated())
        twice = sorted({name for name in stated if stated.count(name) > 1})
        if twice:
            yield f"{', '.join(twice)}: is stated twice; keep one place"
        if "task_id" not in stated:
            yield "key: names no task; capture it with {task_id}, or map task_id under columns"
        written = {*self.columns, self.value}
        reads_instants = self.score is not None or any(
            name is not None and name.endswith("_at") for name in written
        )
        if reads_instants and self.unit is None:
            yield "unit: is missing; declare s, ms, us, ns or iso (it is never guessed)"
        if self.unit == "iso" and self.score is not None:
            yield "unit: a score is a number; declare s, ms, us or ns"

    def stated(self) -> Iterator[str]:
        """Yield the canonical columns that home-made leases state, one for each place."""
        for pattern in (self.key, self.member):
            if pattern is not None:
                yield from KeyPattern.parse(pattern).captures
        yield from self.columns
        if self.value is not None:
            yield self.value
        if self.score == "acquired_at":
            yield "acquired_at"
        elif self.score is not None or self.ttl is not None:
            yield "heartbeat_at"
