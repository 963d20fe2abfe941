"""Join quality as numbers, and what still works where no id joins at all. Grace is 5 s."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cli_session import run
from stack_file import (
    TABLES,
    ZERO,
    Document,
    Row,
    StackFile,
    Story,
    assert_reads,
    assert_story,
    charge,
    lease,
    sample,
    task,
)

GRACE: Row = {"grace_seconds": 5}
TASKS = "orphan_join_abandoned_tasks ledger"
ROWS = "orphan_join_ledger_rows task"
LEASES = "orphan_join_leases task"


def snapshot(stack: StackFile, offset: float) -> Document:
    """Return what the program itself prints, so many seconds after zero."""
    answer = run(
        stack.config_file.parent,
        *("snapshot", "--config.file", "orphanwatch.yml"),
        *("--at", str(ZERO + offset), "--format", "json"),
    )
    assert (answer.code, answer.err) == (0, "")
    document: Document = json.loads(answer.out)
    return document


def joins(name: str, *counts: float | None) -> dict[str, float | None]:
    """Return what a family says: with, without, and no id."""
    keys = (f"{name}={value}" for value in ("with", "without", "no_id"))
    return dict(zip(keys, counts, strict=True))


STORY = Story(
    settings=GRACE,
    tasks=(
        task("charged", cancelled_at=3),
        task("charged-0", cancelled_at=3),
        task("silent", deadline_at=4),
        task("held", cancelled_at=5, cancellable=0),
        task("", cancelled_at=3),
        task("running"),
        task("finished", finished_at=10),
        task("old", submitted_at=-5000, cancelled_at=30 - 3600),
    ),
    leases=(
        lease("charged", heartbeat_at=29),
        lease("running", "w2", heartbeat_at=29),
        lease("stranger", "w3", heartbeat_at=29),
        lease("stranger", "w4", heartbeat_at=-90),
        lease("stranger", "w5", heartbeat_at=8, released_at=9),
        lease(None, "w6", heartbeat_at=29),
    ),
    ledger=(
        charge("charged", 10, 2),
        charge("charged", 10, 20),
        charge("charged-0", 0, 20),
        charge("finished", 3, 20),
        charge("silent", None, 20),
        charge("running", 1, 21),
        charge("chatcmpl-running", 5, 22),
        charge("w3", 5, 23),
        charge(" ", 5, 24),
        charge(None, 5, 25),
        charge("old", 5, 20),
        charge("running", 7, -31),
    ),
    looks={
        30: {
            # A charge of zero tokens joins, one of unknown tokens is no usable row. What went on
            # after its finish was not abandoned, and what stopped a horizon ago is too old.
            **joins(TASKS, 2, 1, 1),
            **joins(ROWS, 6, 2, 2),
            **joins(LEASES, 2, 2, 1),
            "orphan_abandoned_tasks": 4,
        },
        # Before anything happened, all of it is there, at zero.
        -6000: {**joins(TASKS, 0, 0, 0), **joins(ROWS, 0, 0, 0), **joins(LEASES, 0, 0, 0)},
    },
)


def without(store: str) -> Story:
    """Return the story as it is told without one of the stores."""
    return Story(**{**vars_of(STORY), "stores": {store: None}, "looks": {30: BLIND[store]}})


def vars_of(story: Story) -> dict[str, Any]:
    """Return what a story is made of."""
    return {name: getattr(story, name) for name in story.__dataclass_fields__}


BLIND: dict[str, Mapping[str, float | str | None]] = {
    "gateway": {
        **joins(TASKS, None, None, None),
        **joins(ROWS, None, None, 2),
        **joins(LEASES, None, None, 1),
    },
    "leases": {**joins(TASKS, 2, 1, 1), **joins(ROWS, 6, 2, 2), **joins(LEASES, None, None, None)},
    "ledger": {
        **joins(TASKS, None, None, None),
        **joins(ROWS, None, None, None),
        **joins(LEASES, 2, 2, 1),
    },
}
"""What is known without a store: unknown is absent, never zero."""

AT_END = Story(
    **{
        **vars_of(STORY),
        "stores": {"gateway": {"rows": "at_end"}},
        # What has no row may be running still: only an abandoned task is known to have ended.
        "looks": {
            30: {**joins(TASKS, 2, 1, 1), **joins(ROWS, 6, None, 2), **joins(LEASES, 2, None, 1)}
        },
    }
)

LAGGING = Story(
    settings=GRACE,
    stores={"ledger": {"lag": "60s"}},
    tasks=(task("x", cancelled_at=3),),
    ledger=(charge("x", 10, 20), charge("y", 10, 20)),
    looks={
        # The spend window ends a lag ago: what may still be landing is not judged.
        30: {**joins(TASKS, 1, 0, 0), **joins(ROWS, 0, 0, 0)},
        85: {**joins(TASKS, 1, 0, 0), **joins(ROWS, 1, 1, 0)},
    },
)

TOTALS = Story(
    settings=GRACE,
    stores={"ledger": {"shape": "cumulative"}},
    tasks=(task("x", cancelled_at=3),),
    ledger=(charge("x", 10, 20), charge("x", 10, 21), charge("x", 30, 22), charge("y", 5, 22)),
    # Rows are counted, not what they add.
    looks={30: {**joins(TASKS, 1, 0, 0), **joins(ROWS, 3, 1, 0)}},
)


@pytest.mark.parametrize(
    "story",
    [
        pytest.param(STORY, id="each task, row and lease is counted once, by what it joins"),
        pytest.param(without("gateway"), id="without a gateway only missing ids are known"),
        pytest.param(without("leases"), id="without leases the rest stays known"),
        pytest.param(without("ledger"), id="without a ledger the leases' ids are still judged"),
        pytest.param(AT_END, id="a log has no row of what is running: that is unknown"),
        pytest.param(LAGGING, id="rows count once the ledger's lag has passed"),
        pytest.param(TOTALS, id="running totals are rows too"),
    ],
)
def test_join_quality_is_told_as_numbers(story: Story, tmp_path: Path) -> None:
    """With and without a counterpart, and without an id; what can't be told is absent."""
    assert_story(story, tmp_path)


def test_the_parts_add_up(tmp_path: Path) -> None:
    """Nothing is counted twice or lost: the joins are a partition of what other numbers say."""
    document = STORY.write(tmp_path).document(30)

    assert_reads(
        document,
        {
            "orphan_join_abandoned_tasks": 4,
            "orphan_abandoned_tasks": 4,
            "orphan_join_leases": 5,
            "orphan_live_leases": 4,
            "orphan_expired_leases": 1,
        },
    )


# Field case C2: three names for one request.

SPEND = {**TABLES, "spend": "request_id TEXT, metadata TEXT, tokens REAL, charged_at REAL"}
BY_RESPONSE = {"relation": "spend", "columns": {"task_id": "request_id"}}
BY_CALL = {
    "relation": "(SELECT json_extract(metadata, '$.call_id') AS task_id, tokens, charged_at"
    " FROM spend)"
}


@pytest.mark.parametrize(
    ("ledger", "expected"),
    [
        pytest.param(
            BY_CALL,
            {
                "orphan_token_delta": 500,
                "orphan_unmatched_tokens": 0,
                **joins(TASKS, 1, 0, 0),
                **joins(ROWS, 1, 0, 0),
                "action": "shed",
            },
            id="mapped to the call id that its metadata keeps",
        ),
        pytest.param(
            BY_RESPONSE,
            {
                "orphan_token_delta": 0,
                "orphan_unmatched_tokens key=unknown": 500,
                **joins(TASKS, 0, 1, 0),
                **joins(ROWS, 0, 1, 0),
            },
            id="mapped to the provider's response id",
        ),
    ],
)
def test_three_names_for_one_request(
    ledger: Row, expected: Mapping[str, float | str | None], tmp_path: Path
) -> None:
    """Field case C2: a wrong join key is seen in the joins, not taken for perfect health."""
    stack = StackFile(tmp_path, tables=SPEND, stores={"ledger": ledger}, **GRACE)
    stack.add("tasks", task("u1", cancelled_at=3))
    row = {"request_id": "msg_9", "metadata": '{"call_id": "u1"}', "tokens": 500}
    stack.add("spend", {**row, "charged_at": 20})

    assert_reads(snapshot(stack, 30), expected)


# Field case A10: one id, three spellings.

SPELLINGS = {
    "tasks": "3f2504e04f8911d39a0c0305e82c3301",
    "leases": "3F2504E0-4F89-11D3-9A0C-0305E82C3301",
    "ledger": " 3f2504e0-4f89-11d3-9a0c-0305e82c3301",
}
EACH_UUID: dict[str, Row] = {store: {"uuid": True} for store in ("gateway", "leases", "ledger")}
JOINED = {
    "orphan_token_delta": 7,
    "orphan_leases": 1,
    "orphan_unmatched_tokens": 0,
    "orphan_spend_tokens_per_second": 7 / 60,
    **joins(TASKS, 1, 0, 0),
    **joins(ROWS, 1, 0, 0),
    **joins(LEASES, 1, 0, 0),
    "action": "shed",
}
APART = {
    "orphan_token_delta": 0,
    "orphan_leases": 0,
    "orphan_live_leases": 1,
    "orphan_unmatched_tokens key=unknown": 7,
    **joins(TASKS, 0, 1, 0),
    **joins(ROWS, 0, 1, 0),
    **joins(LEASES, 0, 1, 0),
}


def spelled(folder: Path, ids: Mapping[str, object], **rules: Row) -> StackFile:
    """Return one orphan, cancelled, held and charged under an id of each store."""
    stack = StackFile(folder, stores=rules, **GRACE)
    stack.add("tasks", task(ids["tasks"], cancelled_at=3))
    stack.add("leases", lease(ids["leases"], heartbeat_at=29))
    stack.add("ledger", charge(ids["ledger"], 7, 20))
    return stack


@pytest.mark.parametrize(
    ("rules", "ids", "expected"),
    [
        pytest.param(
            EACH_UUID,
            SPELLINGS, JOINED, id="with uuid the three spellings are one task",
        ),
        pytest.param({}, SPELLINGS, APART, id="without it they are three, and seen not to join"),
        pytest.param(
            EACH_UUID,
            {"tasks": "ABC", "leases": "abc", "ledger": "Abc"}, APART,
            id="what is no uuid keeps its case",
        ),
        pytest.param(
            {
                "gateway": {"uuid": True},
                "leases": {"strip_prefix": "job:"},
                "ledger": {"strip_prefix": "chatcmpl-|cmpl-", "strip_suffix": "-[0-9a-f]{8}"},
            },
            {
                "tasks": "3f2504e04f8911d39a0c0305e82c3301",
                "leases": "job:3f2504e0-4f89-11d3-9a0c-0305e82c3301",
                "ledger": "chatcmpl-3f2504e0-4f89-11d3-9a0c-0305e82c3301-0badcafe",
            },
            JOINED, id="each store has a disguise of its own",
        ),
        pytest.param(
            {"leases": {"strip_prefix": "[a-z]+:"}, "ledger": {"strip_suffix": "-.*"}},
            {"tasks": 7, "leases": "job:7", "ledger": "7-1"}, JOINED,
            id="what is left may be a number elsewhere",
        ),
    ],
)  # fmt: skip
def test_spellings_are_brought_to_one(
    rules: dict[str, Row],
    ids: Mapping[str, object],
    expected: Mapping[str, float | str | None],
    tmp_path: Path,
) -> None:
    """Field case A10: each store's rule bares its ids; off, nothing is touched or guessed."""
    assert_reads(snapshot(spelled(tmp_path, ids, **rules), 30), expected)


def test_an_id_of_which_nothing_is_left_is_none(tmp_path: Path) -> None:
    """Two such ids are no common task; their tokens are seen to carry none."""
    rule = {"strip_prefix": "chatcmpl-"}
    ids = {"tasks": "chatcmpl-", "leases": "chatcmpl-None", "ledger": "chatcmpl- "}

    document = snapshot(spelled(tmp_path, ids, gateway=rule, leases=rule, ledger=rule), 30)

    assert_reads(
        document,
        {
            "orphan_unmatched_tokens key=empty": 7,
            **joins(TASKS, 0, 0, 1),
            **joins(ROWS, 0, 0, 1),
            **joins(LEASES, 0, 0, 1),
        },
    )


def test_several_spellings_in_one_store_are_one_task(tmp_path: Path) -> None:
    """Charges under each of them add up, and two leases of one task are a duplicate."""
    stack = spelled(tmp_path, SPELLINGS, **EACH_UUID)
    stack.add("ledger", charge(SPELLINGS["tasks"], 3, 21), charge(SPELLINGS["leases"], 1, 4))
    stack.add("leases", lease(SPELLINGS["tasks"], "w2", heartbeat_at=29))

    document = snapshot(stack, 30)

    assert_reads(
        document,
        {"orphan_token_delta": 10, "orphan_leases": 2, "orphan_duplicate_in_flight": 1},
    )
    assert [orphan["task_id"] for orphan in document["orphans"]] == [
        "3f2504e0-4f89-11d3-9a0c-0305e82c3301"
    ]


# What needs no join


@pytest.mark.parametrize(
    "ids",
    [
        pytest.param({"tasks": "u1", "leases": "job-1", "ledger": "msg_9"}, id="other ids"),
        pytest.param({"tasks": None, "leases": None, "ledger": None}, id="no ids at all"),
    ],
)
def test_the_gap_needs_no_join(ids: Mapping[str, object], tmp_path: Path) -> None:
    """Three of four clients left and the engine still holds four: three too many, whoever's."""
    stack = StackFile(tmp_path, **GRACE)
    mark = "" if ids["tasks"] is None else "x"
    for number in range(4):
        mine = {name: f"{id_}{number}" if mark else id_ for name, id_ in ids.items()}
        stack.add("tasks", task(mine["tasks"], cancelled_at=10 if number else None))
        stack.add("leases", lease(mine["leases"], f"w{number}", heartbeat_at=59))
        stack.add("ledger", charge(mine["ledger"], 5, 58))
    stack.add("queue", sample(5, in_flight=4), sample(59, in_flight=4))

    for offset, attached, gap in ((6, 4, 0), (60, 1, 3)):
        document = snapshot(stack, offset)
        assert_reads(
            document,
            {"orphan_in_flight_gap": gap, "orphan_queue_in_flight": 4, f"{ROWS}=with": 0},
            f"at +{offset}, with {attached} attached",
        )
    assert_reads(
        document,
        {"orphan_token_delta": 0, "orphan_leases": 0, **joins(TASKS, 0, *missing(ids))},
    )


def missing(ids: Mapping[str, object]) -> tuple[int, int]:
    """Return how many of the three abandoned tasks have no row, and how many no id."""
    return (0, 3) if ids["tasks"] is None else (3, 0)
