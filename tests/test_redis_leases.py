"""Home-made leases in a real Redis: each form, and what one bad key costs."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from redis import Redis
from redis_stores import Store, client, clock_at, leases
from stack_file import ZERO

from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.instants import instant_of_epoch
from orphanwatch.exporter.key_patterns import KeyPattern
from orphanwatch.exporter.model import Lease
from orphanwatch.exporter.names import RejectReason
from orphanwatch.exporter.stores.redis.wire import BATCH, RedisDatabase

pytestmark = pytest.mark.servers

NOW = ZERO + 100.0
CLOCK = clock_at(NOW)
FORM: dict[str, Any] = {"type": "redis", "key": "lease:{task_id}"}
HASH: dict[str, Any] = {
    **FORM,
    "columns": {"worker_id": "owner", "acquired_at": "since", "heartbeat_at": "beat"},
    "unit": "s",
}
BEAT = {**FORM, "columns": {"heartbeat_at": "beat"}, "unit": "s"}
STRING = {**FORM, "value": "heartbeat_at", "unit": "s"}
TTL = {**FORM, "ttl": "30s"}
SET = {
    "type": "redis",
    "key": "running",
    "member": "{worker_id}/{task_id}",
    "score": "heartbeat_at",
    "unit": "s",
}


@pytest.fixture
def redis(redis_url: str) -> Iterator[Redis]:
    """Return a client of an empty database."""
    with client(redis_url) as connected:
        yield connected


def lease(task_id: str | None, **stated: Any) -> Lease:
    """Return a lease; its instants are epoch seconds."""
    cells: dict[str, Any] = {
        name: instant_of_epoch(cell) if name.endswith("_at") else cell
        for name, cell in stated.items()
    }
    return Lease(**{name: cells.get(name) for name in Lease._fields} | {"task_id": task_id})


def write(redis: Redis, key: str, said: object) -> None:
    """Write a hash, a string, or the scores of a sorted set."""
    if isinstance(said, list):
        redis.zadd(key, dict(said))
    elif isinstance(said, dict):
        redis.hset(key, mapping=said)
    else:
        redis.set(key, str(said))


FORMS = [
    pytest.param(
        HASH,
        {"lease:t1": {"owner": "w1", "since": ZERO, "beat": ZERO + 90.25}},
        [lease("t1", worker_id="w1", acquired_at=ZERO, heartbeat_at=ZERO + 90.25)],
        id="fields of a hash",
    ),
    pytest.param(
        HASH,
        {"lease:t1": {"owner": "w1", "since": ZERO, "beat": ""}},
        [lease("t1", worker_id="w1", acquired_at=ZERO)],
        id="no beat yet",
    ),
    pytest.param(
        {**HASH, "columns": {**HASH["columns"], "released_at": "done"}},
        {
            "lease:t1": {"owner": "w1", "since": ZERO, "beat": ZERO + 9, "done": ZERO + 10},
            "lease:t2": {"owner": "w1", "since": ZERO - 7200, "beat": ZERO, "done": ZERO + 99},
        },
        [
            lease("t1", worker_id="w1", acquired_at=ZERO, heartbeat_at=ZERO + 9,
                  released_at=ZERO + 10),
            lease("t2", worker_id="w1", acquired_at=ZERO - 7200, heartbeat_at=ZERO,
                  released_at=ZERO + 99),
        ],
        id="released ones, whose hash stays",
    ),
    pytest.param(
        {**HASH, "key": "lease:*", "columns": {"task_id": "job", "heartbeat_at": "beat"}},
        {"lease:9": {"job": "t1", "beat": ZERO}},
        [lease("t1", heartbeat_at=ZERO)],
        id="the id in a field",
    ),
    pytest.param(
        {**FORM, "key": "{pool}:{worker_id}:{task_id}"},
        {"paid:w1:t1": "x"},
        [lease("t1", worker_id="w1", pool="paid")],
        id="a key alone: the lease lives for as long as it does",
    ),
    pytest.param(
        {**FORM, "key": "the{{one}}", "columns": {"task_id": "job"}},
        {"the{one}": {"job": "t1"}},
        [lease("t1")],
        id="one key alone",
    ),
    pytest.param(
        {**FORM, "columns": {"worker_id": "owner"}},
        {"lease:t1": {"owner": "w1"}, "lease:t2": {"other": "x"}},
        [lease("t1", worker_id="w1"), lease("t2")],
        id="a hash that does not say everything",
    ),
    pytest.param(
        STRING, {"lease:t1": ZERO + 90.25}, [lease("t1", heartbeat_at=ZERO + 90.25)],
        id="a string that is the beat",
    ),
    pytest.param(
        {**FORM, "value": "worker_id"}, {"lease:t1": "w1"}, [lease("t1", worker_id="w1")],
        id="a string that is the owner",
    ),
    pytest.param(
        SET,
        {"running": [("w1/t1", ZERO + 90.25), ("w1/t2", ZERO), ("stray", ZERO)]},
        [
            lease("t1", worker_id="w1", heartbeat_at=ZERO + 90.25),
            lease("t2", worker_id="w1", heartbeat_at=ZERO),
        ],
        id="a sorted set by beat",
    ),
    pytest.param(
        {**SET, "score": "acquired_at"}, {"running": [("w1/t1", ZERO)]},
        [lease("t1", worker_id="w1", acquired_at=ZERO)],
        id="a sorted set by start",
    ),
    pytest.param(
        {**SET, "score": "expires_at", "ttl": "30s"}, {"running": [("w1/t1", ZERO + 120)]},
        [lease("t1", worker_id="w1", heartbeat_at=ZERO + 90)],
        id="a sorted set by expiry",
    ),
    pytest.param(
        {**SET, "key": "running:{pool}"},
        {"running:paid": [("w1/t1", ZERO)], "running:overflow": [("w2/t2", ZERO)]},
        [
            lease("t1", worker_id="w1", pool="paid", heartbeat_at=ZERO),
            lease("t2", worker_id="w2", pool="overflow", heartbeat_at=ZERO),
        ],
        id="a sorted set for each pool",
    ),
    pytest.param(SET, {}, [], id="a sorted set of which nothing is left"),
    pytest.param(
        {**STRING, "key": "l[?]{task_id}"}, {"l[?]t1": ZERO, "l?t2": ZERO},
        [lease("t1", heartbeat_at=ZERO)],
        id="a key with what is special in a glob",
    ),
    pytest.param(
        {**BEAT, "strip_prefix": "chatcmpl-", "uuid": True},
        {"lease:chatcmpl-7F3A0000000000000000000000000001": {"beat": ZERO}},
        [lease("7f3a0000-0000-0000-0000-000000000001", heartbeat_at=ZERO)],
        id="an id spelt otherwise",
    ),
    pytest.param(
        BEAT, {"lease:none": {"beat": ZERO}, "lease: ": {"beat": ZERO}},
        [lease(None, heartbeat_at=ZERO), lease(None, heartbeat_at=ZERO)],
        id="ids that are none",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("form", "written", "expected"), FORMS)
def test_each_form_of_lease_is_read(
    form: dict[str, Any],
    written: dict[str, object],
    expected: list[Lease],
    *,
    redis: Redis,
    redis_url: str,
    tmp_path: Path,
) -> None:
    """What a key says comes out as a lease; other keys of the database are none of ours."""
    redis.set("something:else", "x")
    for key, said in written.items():
        write(redis, key, said)
    assert leases(tmp_path, redis_url, CLOCK, **form) == sorted(expected, key=str)


@pytest.mark.parametrize(
    ("unit", "written"),
    [
        ("s", str(ZERO + 90)), ("s", f"{ZERO + 90}.000000"), ("s", "1.80000009e9"),
        ("ms", f"{ZERO + 90}000"), ("us", f"{ZERO + 90}000000"), ("ns", f"{ZERO + 90}000000000"),
        ("iso", "2027-01-15T08:01:30Z"), ("iso", "2027-01-15T09:01:30+01:00"),
        ("iso", "2027-01-15 03:01:30"),
    ],
)  # fmt: skip
def test_each_unit_is_read_as_it_is_declared(
    unit: str, written: str, redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    """Nothing is told by size; a stamp without a zone is in the store's."""
    redis.hset("lease:t1", "beat", written)
    form = {**BEAT, "unit": unit, "timezone": "America/New_York"}
    assert leases(tmp_path, redis_url, CLOCK, **form) == [lease("t1", heartbeat_at=ZERO + 90)]


@pytest.mark.parametrize(
    ("left", "since"),
    [
        pytest.param(30_000, 0, id="just renewed"),
        pytest.param(21_000, 9, id="9 s ago"),
        pytest.param(90_000, 0, id="further ahead than is declared: it is now"),
    ],
)
def test_what_is_left_of_the_expiry_tells_the_last_beat(
    left: int, since: float, redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    """By our own clock, so that the workers' don't matter."""
    redis.set("lease:t1", "w1", px=left)
    [found] = leases(tmp_path, redis_url, CLOCK, **TTL, value="worker_id")
    assert found.worker_id == "w1"
    assert found.heartbeat_at is not None
    assert instant_of_epoch(NOW) - found.heartbeat_at == pytest.approx(since * 1e6, abs=1e6)


def test_a_hash_may_expire_too(redis: Redis, redis_url: str, tmp_path: Path) -> None:
    """What its fields say besides is taken along."""
    for task, field in (("t1", "owner"), ("t2", "other")):
        redis.hset(f"lease:{task}", field, "w1")
        redis.pexpire(f"lease:{task}", 30_000)
    found = leases(tmp_path, redis_url, CLOCK, **TTL, columns={"worker_id": "owner"})
    assert [(it.task_id, it.worker_id) for it in found] == [("t1", "w1"), ("t2", None)]
    assert all(it.heartbeat_at is not None for it in found)


Spoil = Callable[[Redis], object]
NOTHING = RejectReason.INVALID_RECORD
NO_INSTANT = RejectReason.INVALID_INSTANT


@pytest.mark.parametrize(
    ("form", "spoil", "reason"),
    [
        pytest.param(BEAT, lambda r: r.set("lease:bad", "x"), NOTHING, id="no hash"),
        pytest.param(
            BEAT, lambda r: r.hset("lease:bad", "x", 1), NOTHING, id="a hash without our fields"
        ),
        pytest.param(
            BEAT, lambda r: r.hset("lease:bad", "beat", "soon"), NO_INSTANT, id="no number"
        ),
        pytest.param(
            BEAT, lambda r: r.hset("lease:bad", "beat", "nan"), NO_INSTANT, id="not a number"
        ),
        pytest.param(
            BEAT, lambda r: r.hset("lease:bad", "beat", "1e300"), NO_INSTANT, id="beyond all times"
        ),
        pytest.param(
            {**BEAT, "unit": "iso"}, lambda r: r.hset("lease:bad", "beat", str(ZERO)), NO_INSTANT,
            id="a number where ISO 8601 is declared",
        ),
        pytest.param(STRING, lambda r: r.lpush("lease:bad", 1), NOTHING, id="no string"),
        pytest.param(STRING, lambda r: r.set("lease:bad", "soon"), NO_INSTANT, id="no beat in it"),
        pytest.param(TTL, lambda r: r.set("lease:bad", "x"), NO_INSTANT, id="a key for ever"),
        pytest.param(SET, lambda r: r.zadd("running", {"w/bad": "inf"}), NO_INSTANT, id="no end"),
        pytest.param(
            {**SET, "key": "running*"}, lambda r: r.set("running:bad", "x"), NOTHING,
            id="no sorted set",
        ),
    ],
)  # fmt: skip
def test_one_bad_key_costs_only_itself(
    form: dict[str, Any],
    spoil: Spoil,
    reason: RejectReason,
    *,
    redis: Redis,
    redis_url: str,
    tmp_path: Path,
) -> None:
    """It is counted, by its name; all others are leases as ever."""
    stamp = "2027-01-15T08:01:30Z" if form.get("unit") == "iso" else str(ZERO + 90)
    for task in ("t1", "t2"):
        if form is TTL:
            redis.set(f"lease:{task}", "x", px=30_000)
        elif "member" in form:
            redis.zadd("running", {f"w/{task}": ZERO + 90})
        elif "value" in form:
            redis.set(f"lease:{task}", stamp)
        else:
            redis.hset(f"lease:{task}", "beat", stamp)
    spoil(redis)
    store = Store(tmp_path, "leases", CLOCK, url=redis_url, **form)
    for _ in range(2):
        read = store.read()
        assert {it.task_id for it in read.rows} == {"t1", "t2"}
        [bad] = read.rejected
        assert (bad.reason, bad.count) == (reason, 1)
        assert "bad" in bad.key


def test_the_one_key_that_is_no_set_is_no_empty_set(
    redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    """Without it nothing is known; that is blind."""
    redis.set("running", "x")
    with pytest.raises(StoreError, match="keeps another kind of value at a key that is read whole"):
        leases(tmp_path, redis_url, CLOCK, **SET)


def test_bytes_that_are_no_text_are_no_id(redis_url: str, tmp_path: Path) -> None:
    """Such a lease lives and joins nothing; its bytes go back to the server as they came."""
    with Redis.from_url(redis_url) as raw:
        raw.hset(b"lease:\xff\xfe", mapping={b"beat": str(ZERO), b"owner": b"w\xe9"})
        raw.hset("lease:käse".encode(), mapping={b"beat": str(ZERO), b"owner": b"w1"})
        raw.set(b"lease:\xfa", b"bad")
    read = Store(
        tmp_path, "leases", CLOCK, url=redis_url, **{
            **BEAT, "columns": {"worker_id": "owner", "heartbeat_at": "beat"}
        },
    ).read()  # fmt: skip
    assert {(it.task_id, it.worker_id) for it in read.rows} == {(None, None), ("käse", "w1")}
    assert [bad.key for bad in read.rejected] == [r"lease:\xfa: is no hash"]


@pytest.mark.parametrize("form", [BEAT, STRING, TTL], ids=["hash", "string", "expiry"])
def test_a_key_that_vanishes_under_our_hands_is_no_lease(
    form: dict[str, Any],
    redis: Redis,
    redis_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between the scan and the read: it was released, and nothing was wrong with it."""
    for task in ("t1", "t2"):
        if form is BEAT:
            redis.hset(f"lease:{task}", "beat", ZERO)
        else:
            redis.set(f"lease:{task}", ZERO, px=30_000)
    scan = RedisDatabase.keys

    def scan_and_lose_one(database: RedisDatabase, pattern: KeyPattern) -> Iterator[list[str]]:
        for keys in scan(database, pattern):
            redis.delete("lease:t2")
            yield keys

    monkeypatch.setattr(RedisDatabase, "keys", scan_and_lose_one)
    assert [it.task_id for it in leases(tmp_path, redis_url, CLOCK, **form)] == ["t1"]


def test_a_key_that_a_scan_shows_twice_is_one_lease(
    redis: Redis, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis promises to show each key, and not to show it once."""
    redis.hset("lease:t1", "beat", ZERO)
    ask = RedisDatabase.ask
    replies = iter((["7", ["lease:t1", "lease:t1"]], ["0", ["lease:t1"]]))

    def ask_twice(database: RedisDatabase, *words: str) -> Any:
        return next(replies) if words[0] == "SCAN" else ask(database, *words)

    monkeypatch.setattr(RedisDatabase, "ask", ask_twice)
    assert [it.task_id for it in leases(tmp_path, redis_url, CLOCK, **BEAT)] == ["t1"]


@pytest.mark.parametrize("form", [BEAT, STRING, TTL, SET], ids=["hash", "string", "expiry", "set"])
def test_more_leases_than_one_pipeline_holds_are_all_read(
    form: dict[str, Any], redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    """Batch after batch."""
    count = 2 * BATCH + 7
    with redis.pipeline(transaction=False) as pipeline:
        for number in range(count):
            if form is SET:
                pipeline.zadd("running", {f"w/t{number}": ZERO})
            elif form is BEAT:
                pipeline.hset(f"lease:t{number}", "beat", ZERO)
            else:
                pipeline.set(f"lease:t{number}", ZERO, px=30_000)
        pipeline.execute()
    found = leases(tmp_path, redis_url, CLOCK, **form)
    assert {it.task_id for it in found} == {f"t{number}" for number in range(count)}
    assert len(found) == count


@pytest.mark.parametrize("form", [TTL, FORM], ids=["what is left of an expiry", "a key's being"])
def test_what_is_known_of_now_alone_is_not_told_of_the_past(
    form: dict[str, Any], redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    """``snapshot --at`` of a store that keeps no stamps is blind, and says so."""
    redis.set("lease:t1", ZERO, px=30_000)
    store = Store(tmp_path, "leases", CLOCK, url=redis_url, **form)
    with pytest.raises(StoreError, match="tells only of now, and is asked about 2027-01-15T08:01"):
        store.read(instant_of_epoch(ZERO + 60))


def test_a_list_of_now_says_nothing_of_the_past(
    redis: Redis, redis_url: str, tmp_path: Path
) -> None:
    """Leases that ended since then are gone: their absence would read as calm."""
    redis.set("lease:t1", ZERO)
    store = Store(tmp_path, "leases", CLOCK, url=redis_url, **STRING)
    with pytest.raises(StoreError, match="tells only of now"):
        store.read(instant_of_epoch(ZERO + 60))


def test_whether_leases_beat_is_as_the_form_says(redis_url: str, tmp_path: Path) -> None:
    """Without a heartbeat anywhere, a lease does not expire by itself."""
    forms: Sequence[tuple[dict[str, Any], bool]] = (
        (BEAT, True), (STRING, True), (TTL, True), (SET, True), (FORM, False),
        ({**SET, "score": "acquired_at"}, False),
    )  # fmt: skip
    for form, beats in forms:
        store = Store(tmp_path, "leases", CLOCK, url=redis_url, **form)
        assert store.leases is not None
        assert store.leases.states_heartbeats is beats
