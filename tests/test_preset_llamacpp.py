"""The preset ``llamacpp``: slots as the server's own documentation and source have them."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli_session import run
from documentation import DOCS, configs
from live_lists import Settings, answer, in_turn, watching, write_config
from pages import Pages, Reply, page, serving
from stack_file import ZERO, StackFile, assert_reads, read, rejections, task

NO_SEED = 4294967295
Slot = dict[str, Any]


def slot(number: int, *, busy: bool, task_id: int | None, seed: int = NO_SEED) -> Slot:
    """Return what a slot says whatever the build; without a task it never had one."""
    said: Slot = {"id": number, "n_ctx": 65536, "speculative": False, "is_processing": busy}
    if task_id is None:
        return said
    params: Slot = {
        "n_predict": -1,
        "seed": seed,
        "temperature": 0.8,
        "max_tokens": -1,
        "stream": True,
    }
    params |= {"samplers": ["penalties", "top_k"], "speculative.n_max": 16, "lora": []}
    return {**said, "id_task": task_id, "params": params}


def progress(decoded: int) -> Slot:
    """Return how far a slot's answer is."""
    more = {"has_next_token": True, "has_new_line": False, "n_remain": -1}
    return {**more, "n_decoded": decoded}


def newer(number: int, *, busy: bool, task_id: int | None, decoded: int, **more: Any) -> Slot:
    """Return a slot of a newer build: idle, it names its last task and counts nothing."""
    said = slot(number, busy=busy, task_id=task_id, **more)
    prompt = {"n_prompt_tokens": 900, "n_prompt_tokens_processed": 800, "n_prompt_tokens_cache": 0}
    rest = {**prompt, "next_token": [progress(decoded if busy else 0)]}
    return said if task_id is None else {**said, **rest}


def documented(number: int, *, busy: bool, task_id: int | None, decoded: int, **more: Any) -> Slot:
    """Return a slot as the documentation shows it: the next token is an object."""
    said = slot(number, busy=busy, task_id=task_id, **more)
    return said if task_id is None else {**said, "next_token": progress(decoded)}


def older(number: int, *, busy: bool, task_id: int | None, decoded: int, **more: Any) -> Slot:
    """Return a slot of an older build: idle, it has all of its last task still, or -1."""
    said = slot(number, busy=busy, task_id=-1 if task_id is None else task_id, **more)
    return {**said, "prompt": "dear diary", "next_token": progress(decoded)}


BUILDS = [
    pytest.param(newer, id="newer builds"),
    pytest.param(documented, id="as documented"),
    pytest.param(older, id="older builds"),
]


def stores(pages: Pages, **settings: Any) -> dict[str, Settings]:
    """Return leases and ledger by the preset."""
    store = {"preset": "llamacpp", "url": pages.url("/slots"), **settings}
    return {"leases": store, "ledger": {**store, "timeout": "400ms"}}


def seeded(pages: Pages) -> dict[str, Settings]:
    """Return the stores that the preset's page shows for requests with a seed of their own."""
    page_text = (DOCS / "presets" / "llamacpp.md").read_text(encoding="utf-8")
    [shown] = [text for text in configs(page_text) if "params.seed" in text]
    found = yaml.safe_load(shown)["stores"]
    for name in ("leases", "ledger"):
        found[name]["url"] = pages.url("/slots")
    return {name: found[name] for name in ("leases", "ledger")}


@pytest.mark.parametrize("build", BUILDS)
def test_slots_at_work_are_leases_and_running_totals(build: Any, tmp_path: Path) -> None:
    """One slot works on, one comes, one ends, one was never used: whatever the build says."""
    with serving() as pages, watching(tmp_path, **stores(pages)) as watch:
        for offset, slots, reads in (
            (
                0,
                ((True, 135, 500), (True, 12, 300), (False, None, 0)),
                {"orphan_live_leases": 2, "orphan_unmatched_tokens key=unknown": 0},
            ),
            (
                5,
                ((True, 135, 700), (False, 12, 340), (True, 140, 30)),
                {"orphan_live_leases": 2, "orphan_unmatched_tokens key=unknown": 230},
            ),
            (
                10,
                ((True, 135, 900), (False, 12, 340), (True, 140, 230)),
                {"orphan_live_leases": 2, "orphan_unmatched_tokens key=unknown": 630},
            ),
        ):
            pages.replies["/slots"] = answer(
                [
                    build(number, busy=busy, task_id=task_id, decoded=decoded)
                    for number, (busy, task_id, decoded) in enumerate(slots)
                ]
            )
            document = watch.look(offset)
            assert_reads(document, reads, f"at +{offset}")
            assert rejections(document) == {}
        assert read(document, "orphan_join_leases task=without") == 2


@pytest.mark.parametrize("build", BUILDS)
def test_a_request_that_ends_in_time_leaves_nothing_behind(build: Any, tmp_path: Path) -> None:
    """Neither one that finished nor one whose cancel arrived: an idle slot charges nobody."""
    with serving() as pages, watching(tmp_path, **seeded(pages)) as watch:
        watch.tables.add(
            "tasks", task("7001", finished_at=6), task("7002", cancelled_at=6), task("7003")
        )
        for offset, busy, decoded in ((0, True, 10), (5, True, 200), (10, False, 240)):
            ends = [
                build(number, busy=busy, task_id=40 + number, decoded=decoded, seed=7001 + number)
                for number in range(2)
            ]
            goes_on = build(2, busy=True, task_id=42, decoded=decoded, seed=7003)
            pages.replies["/slots"] = answer([*ends, goes_on])
            document = watch.look(offset)
        assert_reads(
            document,
            {
                "orphan_live_leases": 1,
                "orphan_token_delta": 0,
                "orphan_leases": 0,
                "orphan_leaked_leases": 0,
                "orphan_unmatched_tokens": 0,
            },
        )


def test_an_orphan_is_seen_by_both_arms_where_the_seed_is_the_id(tmp_path: Path) -> None:
    """The config of the page, in the whole program: a single look of ``snapshot`` is enough."""
    now = time.time() - ZERO
    StackFile(tmp_path).add("tasks", task("7001", submitted_at=now - 60, cancelled_at=now - 30))
    no_seed = newer(1, busy=True, task_id=41, decoded=50)
    with serving() as pages:
        write_config(tmp_path, **seeded(pages))
        # The leases ask once and the ledger twice, the second time after both.
        pages.replies["/slots"] = in_turn(
            *(
                [newer(0, busy=True, task_id=40, decoded=decoded, seed=7001), no_seed]
                for decoded in (500, 500, 540, 540, 540, 540, 540)
            )
        )
        command = ("--config.file", "orphanwatch.yml")
        document = json.loads(run(tmp_path, "snapshot", *command, "--format", "json").out)
        told = run(tmp_path, "check", *command).out
    assert_reads(
        document,
        {
            "action": "shed",
            "orphan_leases cause=client_cancel": 1,
            "orphan_leases_confirmed": 1,
            "orphan_token_delta pool=overflow": 40,
            "orphan_live_leases": 1,
        },
    )
    [orphan] = document["orphans"]
    assert (orphan["task_id"], orphan["orphan_tokens"], orphan["lease_live"]) == ("7001", 40, True)
    assert "1 of 1 task ids of unreleased leases are tasks of the gateway" in told


def test_what_works_without_any_join(tmp_path: Path) -> None:
    """Slots at work beyond those that somebody waits for; and it is said that no id joins."""
    metrics = page("llamacpp:requests_processing 2\nllamacpp:requests_deferred 1\n")
    slots = [newer(number, busy=True, task_id=number, decoded=70) for number in range(2)]
    queue = {"preset": "llamacpp", "admission_cap": 8}
    with serving({"/slots": answer(slots), "/metrics": metrics}) as pages:
        queue["url"] = pages.url("/metrics")
        with watching(tmp_path, **stores(pages), queue=queue) as watch:
            watch.tables.add("tasks", task("req-1"), task("req-2", cancelled_at=3))
            document = watch.look(10)
    assert_reads(
        document,
        {
            "orphan_in_flight_gap": 2 + 1 - 1,
            "orphan_leases": 0,
            "orphan_token_delta": 0,
            "orphan_join_leases task=with": 0,
            "orphan_join_leases task=without": 2,
            # Neither a slot's number nor anything else makes a charge one to a worker.
            "orphan_unmatched_tokens key=worker": 0,
        },
    )


def test_check_says_that_no_id_joins(tmp_path: Path) -> None:
    """In the whole program, with an id of either side as the example."""
    StackFile(tmp_path).run_sql("INSERT INTO tasks (task_id) VALUES ('req-1')")
    slots = [newer(0, busy=True, task_id=135, decoded=70)]
    with serving({"/slots": answer(slots)}) as pages:
        write_config(tmp_path, **stores(pages))
        told = run(tmp_path, "check", "--config.file", "orphanwatch.yml")
    assert told.code == 1
    assert "0 of 1 task ids of unreleased leases are tasks of the gateway ('135'" in (
        told.out.replace("(for example ", "(")
    )


def test_a_server_at_rest_is_calm(tmp_path: Path) -> None:
    """No slot at work: zero leases, and nothing that can't be read."""
    slots = [
        newer(0, busy=False, task_id=135, decoded=0),
        newer(1, busy=False, task_id=None, decoded=0),
    ]
    with (
        serving({"/slots": answer(slots)}) as pages,
        watching(tmp_path, **stores(pages)) as watch,
    ):
        reads = {"orphan_live_leases": 0, "orphan_token_delta": 0, "orphan_store_up": 3}
        assert_reads(watch.look(10), reads)


BLIND = [
    pytest.param(
        answer([{"id": 0, "id_task": 135, "state": 1}, {"id": 1, "id_task": -1, "state": 0}]),
        "each of 2 records in the answer of HOST can't be read: it has no is_processing",
        id="a build that says otherwise who is at work",
    ),
    pytest.param(
        answer({"error": {"code": 501, "message": "no slots", "type": "not_supported_error"}}),
        "the only record in the answer of HOST can't be read: it has no is_processing",
        id="an error behind a proxy that hides its status",
    ),
    pytest.param(
        Reply(status=501, body=b'{"error": {"code": 501}}'),
        "HOST has this switched off (501 Not Implemented); switch it on",
        id="started with --no-slots",
    ),
    pytest.param(
        Reply(status=503, body=b'{"error": {"message": "Loading model", "code": 503}}'),
        "HOST answers with an error of its own (503 Service Unavailable); see its log",
        id="loading its model",
    ),
]


@pytest.mark.parametrize(("reply", "said"), BLIND)
def test_a_server_that_tells_no_slots_is_not_calm(reply: Reply, said: str, tmp_path: Path) -> None:
    """The stores are down then: neither leases nor tokens are zero."""
    with serving({"/slots": reply}) as pages, watching(tmp_path, **stores(pages)) as watch:
        document = watch.look(10)
        for store in ("leases", "ledger"):
            assert said.replace("HOST", f"127.0.0.1:{pages.port}") in watch.problem(store)
        unknown = {"orphan_live_leases": None, "orphan_token_delta": None, "action": "blind"}
        assert_reads(document, unknown)


def test_a_server_with_an_api_key(tmp_path: Path) -> None:
    """The key comes from a file beside the config."""
    (tmp_path / "key").write_text("s3cr3t\n", encoding="utf-8")
    slots = [newer(0, busy=True, task_id=135, decoded=7)]
    with serving({"/slots": answer(slots)}) as pages:
        pages.key = "Bearer s3cr3t"
        with watching(tmp_path, **stores(pages, token_file="key")) as watch:  # noqa: S106  (a path)
            assert read(watch.look(10), "orphan_live_leases") == 1


def test_a_slot_that_does_not_say_how_far_it_is(tmp_path: Path) -> None:
    """Its tokens are unknown, once; its lease lives all the same."""
    bare = slot(0, busy=True, task_id=135, seed=7001)
    with serving({"/slots": answer([bare])}) as pages, watching(tmp_path, **stores(pages)) as watch:
        for offset in (10, 15):
            document = watch.look(offset)
            assert read(document, "orphan_live_leases") == 1
            assert rejections(document) == {"ledger unknown_tokens": 1}


def test_ids_that_begin_again_make_no_orphan(tmp_path: Path) -> None:
    """After a restart of the server a number comes back with a lower total: said, not charged."""
    with serving() as pages, watching(tmp_path, **stores(pages)) as watch:
        for offset, decoded in ((0, 900), (5, 950), (10, 20), (15, 220)):
            pages.replies["/slots"] = answer([newer(0, busy=True, task_id=3, decoded=decoded)])
            document = watch.look(offset)
        assert read(document, "orphan_unmatched_tokens key=unknown") == 50
        assert rejections(document) == {"ledger regression": 2}
