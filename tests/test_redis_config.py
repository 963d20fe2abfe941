"""Stores in Redis, as a user may write them: what is taken, and what is wrong with the rest."""

from pathlib import Path
from typing import Any

import pytest
from redis_stores import config_of

from orphanwatch.exporter.config_redis import RedisPlace, parse_place
from orphanwatch.exporter.errors import ConfigError
from orphanwatch.exporter.instants import micros
from orphanwatch.exporter.key_patterns import KeyPattern

WORD = "a/b@c"
HERE = {"type": "redis", "url": "redis://127.0.0.1:6379/0"}
FORM = {"key": "lease:{task_id}"}
HASH: dict[str, Any] = {**FORM, "columns": {"heartbeat_at": "beat"}, "unit": "s"}
SET = {"key": "running", "member": "{task_id}", "score": "heartbeat_at", "unit": "s"}


@pytest.mark.parametrize(
    ("url", "place"),
    [
        pytest.param("redis://cache", RedisPlace("cache"), id="port and database have defaults"),
        pytest.param("redis://cache:7000/3", RedisPlace("cache", 7000, database=3), id="all said"),
        pytest.param("redis:///2", RedisPlace(database=2), id="no host is the loopback"),
        pytest.param("rediss://cache", RedisPlace("cache", tls=True), id="TLS"),
        pytest.param("redis://[::1]:7000", RedisPlace("::1", 7000), id="a host by IPv6"),
        pytest.param(
            "redis://me:a%2Fb%40c@cache", RedisPlace("cache", username="me", password=WORD),
            id="an awkward password is quoted",
        ),
        pytest.param(
            "redis://:a%2Fb%40c@cache", RedisPlace("cache", password=WORD), id="a password alone"
        ),
        pytest.param(
            "unix:///run/redis.sock?db=4", RedisPlace(socket="/run/redis.sock", database=4),
            id="a Unix socket",
        ),
    ],
)  # fmt: skip
def test_a_url_names_a_place(url: str, place: RedisPlace) -> None:
    """As Redis' own clients read it."""
    assert parse_place(url) == place


def test_a_place_shows_neither_user_nor_password() -> None:
    """Its text stands in messages."""
    place = parse_place("redis://somebody:secret@[::1]:7000/3")
    assert str(place) == "[::1]:7000, database 3"
    assert "secret" not in repr(place)


def test_user_and_password_of_their_own_go_before_those_in_the_url(tmp_path: Path) -> None:
    """So that a URL can be public and the password a file."""
    (tmp_path / "word").write_text("from the file\n")
    url = "redis://early:bird@cache"
    config = config_of(
        tmp_path,
        leases={**HERE, **FORM, "url": url, "username": "late", "password_file": "word"},
    )
    assert config.stores.leases is not None
    place = config.stores.leases.place  # type: ignore[union-attr]  # a Redis store has one
    assert (place.username, place.password) == ("late", "from the file")


PROBLEMS = [
    ("leases", {"url": "http://cache:1/0", **FORM}, "url: is no Redis URL"),
    ("leases", {"url": "redis://me:p@ss:word", **FORM}, "url: is no Redis URL"),
    ("leases", {"url": "redis://cache/first", **FORM}, "url: is no Redis URL"),
    ("leases", {"url": "redis://cache/-1", **FORM}, "url: has more in it than server and database"),
    ("leases", {"url": "redis://cache?ssl=1", **FORM}, "url: has more in it than server and"),
    ("leases", {}, "key: is missing; write for example lease:{task_id}, or name a preset"),
    ("leases", {"key": ""}, "key: is empty"),
    ("leases", {"key": "lease:*"}, "key: names no task; capture it with {task_id}"),
    ("leases", {"key": "lease:{task}"}, "key: captures something we don't know; {task_id}"),
    ("leases", {"key": "lease:{task_id"}, "key: has a lone brace; write {{ or }}"),
    ("leases", {"key": "{task_id}{task_id}"}, "key: captures {task_id} twice"),
    ("leases", {**HASH, "unit": None}, "unit: is missing; declare s, ms, us, ns or iso"),
    ("leases", {**FORM, "value": "acquired_at"}, "unit: is missing; declare s, ms, us, ns or iso"),
    ("leases", {**HASH, "value": "pool"}, "columns, value, member: keep one"),
    ("leases", {**HASH, **SET}, "columns, value, member: keep one"),
    ("leases", {**HASH, "ttl": "30s"}, "heartbeat_at: is stated twice; keep one place"),
    ("leases", {**HASH, "columns": {"task_id": "id"}}, "task_id: is stated twice"),
    ("leases", {**HASH, "columns": {"tokens": "n"}}, "columns.tokens: is no key we know"),
    ("leases", {**HASH, "columns": {"ended_at": "n"}}, "columns: a lease has task_id, worker_id"),
    ("leases", {**SET, "score": None}, "member and score: belong together"),
    ("leases", {**SET, "unit": "iso"}, "unit: a score is a number"),
    ("leases", {**SET, "unit": None}, "unit: is missing"),
    ("leases", {**SET, "score": "expires_at"}, "ttl: is missing; say how far ahead"),
    ("leases", {**SET, "ttl": "30s"}, "ttl: goes with score expires_at only"),
    ("leases", {**SET, "member": "{who}"}, "member: captures something we don't know"),
    ("leases", {**FORM, "queues": ["gpu"]}, "prefix and queues: are of a job queue"),
    ("leases", {**FORM, "acks_late": True}, "acks_late: is for preset celery only"),
    ("leases", {**FORM, "preset": "rq"}, "preset: says where the leases are; drop key"),
    ("leases", {"preset": "rq", "ttl": "30s"}, "ttl: is none that this preset's leases have"),
    ("leases", {"preset": "bullmq"}, "queues: is missing; name BullMQ's queues"),
    ("gateway", {}, "preset: is missing; write rq, celery or bullmq"),
    ("queue", {"queues": ["gpu"]}, "preset: is missing; write rq, celery or bullmq"),
    ("gateway", {"preset": "bullmq"}, "bullmq is no gateway store"),
    ("queue", {"preset": "celery", "ttl": "3s"}, "ttl: is no key we know"),
]


@pytest.mark.parametrize(
    ("role", "settings", "problem"), PROBLEMS, ids=[problem for _, _, problem in PROBLEMS]
)
def test_what_is_wrong_is_said_with_the_remedy(
    role: str, settings: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    """The key is named, and no value is shown: a URL may hold a password anywhere."""
    settings = {name: value for name, value in settings.items() if value is not None}
    with pytest.raises(ConfigError) as refusal:
        config_of(tmp_path, **{role: {**HERE, **settings}})
    assert problem in str(refusal.value)
    assert f"stores.{role}" in str(refusal.value)
    assert "ss:word" not in str(refusal.value)


@pytest.mark.parametrize(
    ("settings", "lease_ttl"),
    [
        pytest.param({**FORM, "ttl": "2m"}, 120, id="it is the expiry that a beat sets"),
        pytest.param({**FORM, "ttl": "2m", "lease_ttl": "30s"}, 30, id="unless it is given"),
        pytest.param(FORM, 60, id="without expiry it is that of all leases"),
        pytest.param({"preset": "bullmq", "queues": ["q"]}, 30, id="BullMQ's lockDuration"),
        pytest.param({"preset": "bullmq", "queues": ["q"], "ttl": "1m"}, 60, id="or the user's"),
        pytest.param({"preset": "rq"}, 90, id="RQ's executions live for 90 s"),
    ],
)
def test_a_lease_lives_for_as_long_as_its_key(
    settings: dict[str, Any], lease_ttl: float, tmp_path: Path
) -> None:
    """A lease that Redis still holds must not count as expired."""
    config = config_of(tmp_path, leases={**HERE, **settings})
    assert config.stores.leases is not None
    assert config.stores.leases.lease_ttl == micros(lease_ttl)


@pytest.mark.parametrize(
    ("pattern", "glob", "meant"),
    [
        pytest.param("lease:{task_id}", "lease:*", {"lease:a": ("a",)}, id="one part of a key"),
        pytest.param(
            "{pool}:{worker_id}:{task_id}", "*:*:*", {"a:b:c": ("a", "b", "c")}, id="three parts"
        ),
        pytest.param(
            "{pool}:{task_id}", "*:*", {"a:b:c": ("a", "b:c")}, id="the last takes what is left"
        ),
        pytest.param(
            "job:{task_id}:lock", "job:*:lock", {"job:a:b:lock": ("a:b",)}, id="an end is heeded"
        ),
        pytest.param("*:{task_id}:*", "*:*:*", {"x:a:y": ("a",)}, id="anything around it"),
        pytest.param("l:{task_id}", "l:*", {"l:": None, "L:a": None}, id="an empty id is none"),
        pytest.param(
            "l[0]?^\\{task_id}", r"l\[0\]\?\^\\*", {"l[0]?^\\a": ("a",), "l0x^\\a": None},
            id="what is special in a glob stands for itself",
        ),
        pytest.param(
            "{{bull}}:{task_id}", "{bull}:*", {"{bull}:a": ("a",)}, id="doubled braces are meant"
        ),
        pytest.param("l.{task_id}", "l.*", {"l.a": ("a",), "lxa": None}, id="no regex"),
        pytest.param("l:{task_id}", "l:*", {"l:a\nb": ("a\nb",)}, id="an id of several lines"),
    ],
)  # fmt: skip
def test_a_pattern_says_which_keys_are_meant(
    pattern: str, glob: str, meant: dict[str, tuple[str, ...] | None]
) -> None:
    """And which part of them is an id; Redis is asked for no more keys than needed."""
    parsed = KeyPattern.parse(pattern)
    assert parsed.glob == glob
    assert parsed.read(meant) == list(meant.values())


def test_a_pattern_without_anything_open_is_one_key() -> None:
    """No scan is needed for it."""
    assert KeyPattern.parse("run{{ning}}").only_key == "run{ning}"
    assert KeyPattern.parse("run*").only_key is None
