"""JSON asked for over HTTP: where the list is, what a broken answer costs, and who may ask."""

from pathlib import Path
from typing import Any

import pytest
from cli_session import run
from live_lists import Settings, Watch, answer, watching, write_config
from pages import Pages, Reply, basic, self_signed, serving
from stack_file import StackFile, read, rejections

from orphanwatch.exporter.config_file import load_config
from orphanwatch.exporter.errors import ConfigError

HELD = {"request": "r1", "holder": "w1", "since": 1_800_000_000, "seen": 1_800_000_029}
"""A lease as some server might list it."""

COLUMNS = {"task_id": "request", "worker_id": "holder", "acquired_at": "since"}


def leases(pages: Pages, **settings: Any) -> Settings:
    """Return the settings of leases that are listed by a server."""
    columns = {**COLUMNS, "heartbeat_at": "seen"}
    store = {"type": "http_json", "url": pages.url("/list"), "columns": columns, "timeout": "1s"}
    return {**store, **settings}


def live_leases(watch: Watch) -> float | None:
    """Return how many leases live, None where that is unknown."""
    return read(watch.look(30), "orphan_live_leases")


LISTS = [
    pytest.param([HELD], {}, 1, id="the answer is the list"),
    pytest.param(
        {"items": [HELD, HELD | {"request": "r2"}]}, {"list_path": "items"}, 2, id="a key"
    ),
    pytest.param(
        {"data": {"held": [HELD]}}, {"list_path": "data.held"}, 1, id="a path of two keys"
    ),
    pytest.param(
        {"data.held": [HELD], "data": {"held": []}},
        {"list_path": "data.held"},
        1,
        id="a key that has a dot goes before a path",
    ),
    pytest.param([{"held": [HELD]}], {"list_path": "0.held"}, 1, id="a place in a list"),
    pytest.param(HELD, {}, 1, id="the answer is the only record"),
    pytest.param({"lease": HELD}, {"list_path": "lease"}, 1, id="the path leads to one record"),
    pytest.param([], {}, 0, id="an empty list"),
    pytest.param({"items": []}, {"list_path": "items"}, 0, id="an empty list at a path"),
    pytest.param(
        [HELD, HELD | {"request": "r2", "state": "idle"}],
        {"where": [{"state": "idle"}]},
        1,
        id="where lets in what is ours",
    ),
    pytest.param(
        [{"spec": {"request": "r1", "owner.id": "w1", "times": [1_800_000_000, 1_800_000_029]}}],
        {
            "columns": {
                "task_id": "spec.request",
                "worker_id": ["spec.holder", "spec.owner.id"],
                "acquired_at": "spec.times.0",
                "heartbeat_at": "spec.times.1",
            }
        },
        1,
        id="fields are found by their paths",
    ),
]


@pytest.mark.parametrize(("document", "settings", "count"), LISTS)
def test_the_list_is_found(
    document: object, settings: Settings, count: int, tmp_path: Path
) -> None:
    """Wherever in the answer it is; what is not ours is no lease."""
    with (
        serving({"/list": answer(document)}) as pages,
        watching(tmp_path, leases=leases(pages, **settings)) as watch,
    ):
        assert live_leases(watch) == count
        assert watch.problem("leases") == ""


BROKEN = [
    pytest.param(
        Reply(body=b"<html>", headers={"Content-Type": "text/html"}),
        {},
        "the answer of HOST is no JSON but text/html; check the url's path",
        id="a web page",
    ),
    pytest.param(
        Reply(), {}, "the answer of HOST is no JSON; check the url's path", id="nothing at all"
    ),
    pytest.param(
        Reply(body=b'[{"request": "r1"}', headers={"Content-Type": "application/json"}),
        {},
        "the answer of HOST is no JSON; check the url's path",
        id="JSON that breaks off",
    ),
    pytest.param(
        Reply(body=b"[" * 100_000), {}, "the answer of HOST is no JSON", id="lists without end"
    ),
    pytest.param(Reply(body=b"[" + b"9" * 5000 + b"]"), {}, "is no JSON", id="a number too long"),
    pytest.param(Reply(body=b'["\xff"]'), {}, "is no JSON", id="bytes that are no text"),
    pytest.param(
        answer(3), {}, "the answer of HOST is neither list nor object; check", id="a number"
    ),
    pytest.param(answer(None), {}, "is neither list nor object", id="null"),
    pytest.param(
        answer({"jobs": []}),
        {"list_path": "items"},
        "the answer of HOST has no list at 'items'; check list_path",
        id="another key than the list's",
    ),
    pytest.param(
        answer({"items": None}),
        {"list_path": "items"},
        "the answer of HOST has no list at 'items'; check list_path",
        id="null where the list belongs: unknown is not empty",
    ),
    pytest.param(
        answer({"items": [HELD]}),
        {},
        "the only record in the answer of HOST can't be read: it has none of the fields of "
        "columns; check list_path and columns",
        id="a list_path that was forgotten",
    ),
    pytest.param(
        answer(["r1", "r2"]),
        {},
        "each of 2 records in the answer of HOST can't be read: it is no JSON object",
        id="a list of texts",
    ),
    pytest.param(
        answer([HELD, HELD | {"request": "r2"}]),
        {"expects": ["request", ["state", "phase"]]},
        "each of 2 records in the answer of HOST can't be read: it has no state or phase",
        id="no record has what each is expected to have",
    ),
    pytest.param(
        answer({"error": "database is down"}),
        {"expects": ["request"]},
        "the only record in the answer of HOST can't be read: it has no request",
        id="an error that is told as a success",
    ),
    pytest.param(
        Reply(status=501),
        {},
        "HOST has this switched off (501 Not Implemented); switch it on, or check the url's path",
        id="switched off in the server",
    ),
    pytest.param(
        Reply(status=404), {}, "HOST has nothing at the url's path (404 Not Found)", id="not found"
    ),
]


@pytest.mark.parametrize(("reply", "settings", "said"), BROKEN)
def test_an_answer_without_a_list_is_told_with_its_remedy(
    reply: Reply, settings: Settings, said: str, tmp_path: Path
) -> None:
    """The store can't be read then, and nothing that rests on it is zero."""
    with (
        serving({"/list": reply}) as pages,
        watching(tmp_path, leases=leases(pages, **settings)) as watch,
    ):
        document = watch.look(30)
        assert said.replace("HOST", f"127.0.0.1:{pages.port}") in watch.problem("leases")
        assert pages.url("/list") not in watch.problem("leases")
        assert read(document, "orphan_live_leases") is None
        assert read(document, "orphan_store_up store=leases") == 0


BAD_RECORDS = [
    pytest.param("r2", "invalid_record", id="a text"),
    pytest.param(None, "invalid_record", id="null"),
    pytest.param([HELD], "invalid_record", id="a list"),
    pytest.param({}, "invalid_record", id="an object without any field that is asked for"),
    pytest.param(HELD | {"request": ["r2"]}, "invalid_record", id="a list as id"),
    pytest.param(HELD | {"request": "r2", "since": "soon"}, "invalid_instant", id="no instant"),
    pytest.param(HELD | {"request": "r2", "seen": True}, "invalid_instant", id="a truth value"),
]


@pytest.mark.parametrize(("record", "reason"), BAD_RECORDS)
def test_a_record_that_can_not_be_read_costs_only_itself(
    record: object, reason: str, tmp_path: Path
) -> None:
    """It is counted once, however often it is met; the others count as ever."""
    with (
        serving({"/list": answer([HELD, record])}) as pages,
        watching(tmp_path, leases=leases(pages)) as watch,
    ):
        for offset in (30, 35, 40):
            document = watch.look(offset)
            assert read(document, "orphan_live_leases") == 1
            assert rejections(document) == {f"leases {reason}": 1}


def test_a_record_without_what_each_has_costs_only_itself(tmp_path: Path) -> None:
    """``expects`` holds for each record, whether ``where`` would let it in or not."""
    records = [HELD | {"state": "busy"}, HELD | {"request": "r2"}]
    rules = {"expects": ["state"], "where": [{"state": "busy"}]}
    with (
        serving({"/list": answer(records)}) as pages,
        watching(tmp_path, leases=leases(pages, **rules)) as watch,
    ):
        document = watch.look(30)
        assert read(document, "orphan_live_leases") == 1
        assert rejections(document) == {"leases invalid_record": 1}


def test_a_bad_record_among_those_that_are_not_ours_costs_only_itself(tmp_path: Path) -> None:
    """The list could be read: there is no lease of ours in it."""
    records = [HELD | {"state": "idle"}, "r2"]
    store = {"where": [{"state": "busy"}]}
    with (
        serving({"/list": answer(records)}) as pages,
        watching(tmp_path, leases=leases(pages, **store)) as watch,
    ):
        document = watch.look(30)
        assert read(document, "orphan_live_leases") == 0
        assert rejections(document) == {"leases invalid_record": 1}


def test_what_a_bad_record_holds_is_not_shown(tmp_path: Path) -> None:
    """``check`` names it by its id and its fault: a slot may hold somebody's prompt."""
    bad = HELD | {"request": "r2", "since": "dear diary", "prompt": "dear diary"}
    StackFile(tmp_path)
    with serving({"/list": answer([HELD, bad])}) as pages:
        write_config(tmp_path, leases=leases(pages))
        told = run(tmp_path, "check", "--config.file", "orphanwatch.yml").out
    assert "1 row not used (invalid_instant): 'r2' has no instant where one belongs" in told
    assert "diary" not in told


def test_a_server_that_comes_back_is_read_again(tmp_path: Path) -> None:
    """An outage is blindness for as long as it lasts."""
    with (
        serving({"/list": answer([HELD])}) as pages,
        watching(tmp_path, leases=leases(pages)) as watch,
    ):
        assert live_leases(watch) == 1
        pages.replies["/list"] = Reply(status=503)
        assert live_leases(watch) is None
        pages.replies["/list"] = answer([HELD])
        assert live_leases(watch) == 1


CREDENTIALS = [
    pytest.param("Bearer s3cr3t", {"token_file": "token"}, id="a token from a file"),
    pytest.param(
        basic("reader", "s3cr3t"),
        {"username": "reader", "password_file": "token"},
        id="a password from a file",
    ),
    pytest.param(
        "Key s3cr3t",
        {"headers": {"Authorization": "Key ${API_KEY}"}},
        id="a header from the environment",
    ),
]


@pytest.mark.parametrize(("key", "settings"), CREDENTIALS)
def test_credentials_are_sent_and_never_shown(key: str, settings: Settings, tmp_path: Path) -> None:
    """The whole program with them; with wrong ones it says that they are refused."""
    StackFile(tmp_path)
    with serving({"/list": answer([HELD])}) as pages:
        pages.key = key
        write_config(tmp_path, leases=leases(pages, **settings))
        command = ("snapshot", "--config.file", "orphanwatch.yml", "--at", "1800000030")
        for secret, count in (("s3cr3t", 1), ("wr0ng", None)):
            (tmp_path / "token").write_text(f"{secret}\n", encoding="utf-8")
            told = run(tmp_path, *command, API_KEY=secret)
            assert told.code == 0
            assert ("orphan_live_leases{" in told.out) == (count is not None)
            assert ("refuses our credentials (401 Unauthorized)" in told.err) == (count is None)
            assert secret not in told.out + told.err
        assert "/list" not in told.err


def test_a_server_is_believed_by_its_certificate(tmp_path: Path) -> None:
    """Over TLS: ``ca_file`` lies beside the config; without it the server is not believed."""
    StackFile(tmp_path)
    certificate = self_signed(tmp_path, "server")
    with serving({"/list": answer([HELD])}, context=certificate.server_context()) as pages:
        for settings, level in (({"ca_file": "server.crt"}, "ok   "), ({}, "wrong")):
            write_config(tmp_path, leases=leases(pages, **settings))
            told = run(tmp_path, "check", "--config.file", "orphanwatch.yml").out
            assert f"{level}  stores.leases: " in told
        assert f"the certificate of 127.0.0.1:{pages.port} is not trusted" in told


REFUSED = [
    pytest.param(
        {"url": "http://reader:hunter2@127.0.0.1/"},
        "stores.leases.url: holds credentials; write them as username and password_file",
        id="credentials in the url",
    ),
    pytest.param(
        {"url": "127.0.0.1:8080/slots"},
        "stores.leases.url: is no HTTP address; write for example http",
        id="a url without http",
    ),
    pytest.param(
        {"alive_when": [{"state": {"is": 1}}]},
        "stores.leases.alive_when: state: 'is' is none of has, not, matches",
        id="a rule that matches nothing",
    ),
    pytest.param(
        {"columns": {"task": "request"}},
        "stores.leases.columns.task: is no key we know; check its spelling",
        id="a column that there is none of",
    ),
]


@pytest.mark.parametrize(("settings", "said"), REFUSED)
def test_settings_that_can_not_work_are_refused(
    settings: Settings, said: str, tmp_path: Path
) -> None:
    """By their key, and without what stands in a secret's place."""
    store = {"type": "http_json", "url": "http://127.0.0.1/", "columns": COLUMNS, **settings}
    with pytest.raises(ConfigError) as error:
        load_config(write_config(tmp_path, leases=store))
    assert said in str(error.value)
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize(
    ("store", "settings", "said"),
    [
        pytest.param(
            "leases", {}, "store leases: its settings name no field; write", id="no columns at all"
        ),
        pytest.param(
            "leases",
            {"columns": {"worker_id": "holder"}},
            "store leases: its settings name no field for task_id; write for example",
            id="leases of no task",
        ),
        pytest.param(
            "ledger",
            {"columns": {"task_id": "id", "tokens": "n"}, "shape": "increments"},
            "store ledger: its settings name no field for charged_at; write for example",
            id="charges of no time",
        ),
    ],
)
def test_settings_that_say_too_little_end_the_command(
    store: str, settings: Settings, said: str, tmp_path: Path
) -> None:
    """Exit code 2, and what is missing."""
    place = {"type": "http_json", "url": "http://127.0.0.1/"}
    write_config(tmp_path, **{store: {**place, **settings}})
    told = run(tmp_path, "check", "--config.file", "orphanwatch.yml")
    assert told.code == 2
    assert said in told.err
