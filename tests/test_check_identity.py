"""``check`` on ids: whether they join, and which lines of the config would make them."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import pytest
import yaml
from cli_session import Answer, golden, run
from stack_file import Row, StackFile, charge, lease, sample, task

IDS = tuple(str(uuid5(NAMESPACE_URL, f"task {number}")) for number in range(12))
HEX = tuple(one.replace("-", "") for one in IDS)
CALLS = tuple(f"chatcmpl-{one}-{0xA0000000 + number:08x}" for number, one in enumerate(IDS))


def now() -> Callable[[float], object]:
    """Return how a stack of this very moment writes its instants."""
    start = time.time()
    return lambda offset: start + offset


def stack_of(
    folder: Path,
    tasks: Sequence[object],
    leases: Sequence[object],
    ledger: Sequence[object],
    stores: Mapping[str, Row | None] | None = None,
) -> StackFile:
    """Return running tasks under some ids, held and charged under others."""
    stack = StackFile(folder, write=now(), stores=stores)
    stack.add("tasks", *(task(one, submitted_at=-30) for one in tasks))
    stack.add("leases", *(lease(one, acquired_at=-30, heartbeat_at=-1) for one in leases))
    stack.add("ledger", *(charge(one, 1, -2) for one in ledger))
    stack.add("queue", sample(-1))
    return stack


def check(stack: StackFile) -> Answer:
    """Return what the program says of a stack."""
    return run(stack.config_file.parent, "check", "--config.file", "orphanwatch.yml")


def of_ids(answer: Answer) -> list[str]:
    """Return the lines that speak of ids, and those that are to be set for their sake."""
    keys = ("strip_prefix: ", "strip_suffix: ", "uuid: ")
    return [
        line
        for line in answer.out.splitlines()
        if "  identity: " in line or any(f".{key}" in line for key in keys)
    ]


def set_lines(stack: StackFile, lines: Sequence[str]) -> None:
    """Set in the config what ``note   stores.STORE.KEY: VALUE`` lines say."""
    document = yaml.safe_load(stack.config_file.read_text(encoding="utf-8"))
    for line in lines:
        if line.startswith("note   stores."):
            path, _, value = line.removeprefix("note   stores.").partition(": ")
            store, _, key = path.partition(".")
            document["stores"][store][key] = yaml.safe_load(value)
    stack.config_file.write_text(yaml.safe_dump(document), encoding="utf-8")


def test_ids_that_join_are_said_to(tmp_path: Path) -> None:
    """Nothing is proposed where nothing is to be mended."""
    answer = check(stack_of(tmp_path, IDS, IDS, IDS))

    assert of_ids(answer) == [
        "ok     identity: 12 of 12 ledger keys of the newest window are tasks of the gateway",
        "ok     identity: 12 of 12 task ids of unreleased leases are tasks of the gateway",
    ]
    assert answer.code == 0


def test_the_lines_to_paste_are_told(tmp_path: Path) -> None:
    """Which normalising at which store, as YAML, and how many ids it would make join."""
    answer = check(stack_of(tmp_path, HEX, IDS, CALLS))

    told = "".join(f"{line}\n" for line in of_ids(answer))
    assert told == golden("check-identity.txt", told)
    assert answer.code == 1


@pytest.mark.parametrize(
    ("tasks", "leases", "ledger", "lines"),
    [
        pytest.param(
            IDS, IDS, [f"chatcmpl-{one}" for one in IDS],
            ["stores.ledger.strip_prefix: chatcmpl-"],
            id="the ledger has the engine's prefix",
        ),
        pytest.param(
            IDS, IDS, [f"{one}:1" for one in IDS], ["stores.ledger.strip_suffix: ':[0-9]+'"],
            id="a value that YAML would misread is quoted",
        ),
        pytest.param(
            HEX, IDS, IDS, ["stores.gateway.uuid: true"],
            id="the gateway writes UUIDs without hyphens",
        ),
        pytest.param(
            [f"req_{one}" for one in IDS], IDS, IDS, ["stores.gateway.strip_prefix: req_"],
            id="the gateway marks its ids",
        ),
        pytest.param(
            IDS, [f"job:{one}" for one in IDS], IDS, ["stores.leases.strip_prefix: 'job:'"],
            id="the queue marks its jobs",
        ),
        pytest.param(
            HEX, IDS, CALLS,
            [
                "stores.gateway.uuid: true",
                "stores.ledger.strip_prefix: chatcmpl-",
                "stores.ledger.strip_suffix: '-[0-9a-f]{8}'",
            ],
            id="all of it at once",
        ),
    ],
)  # fmt: skip
def test_pasted_lines_make_the_ids_join(
    tasks: Sequence[str],
    leases: Sequence[str],
    ledger: Sequence[str],
    lines: Sequence[str],
    tmp_path: Path,
) -> None:
    """What check proposes, set as it is printed, is what it said it would be."""
    stack = stack_of(tmp_path, tasks, leases, ledger)
    told = of_ids(check(stack))
    assert [line.removeprefix("note   ") for line in told if line[7:].startswith("stores.")] == (
        list(lines)
    )

    set_lines(stack, told)

    after = check(stack)
    assert of_ids(after) == [
        "ok     identity: 12 of 12 ledger keys of the newest window are tasks of the gateway",
        "ok     identity: 12 of 12 task ids of unreleased leases are tasks of the gateway",
    ]
    assert after.code == 0


def test_a_rule_that_merges_tasks_is_not_proposed(tmp_path: Path) -> None:
    """What would make one id of two is told as that, and no line stands there to be pasted."""
    tries = [f"{one}:{number}" for one in IDS for number in (1, 2)]

    told = of_ids(check(stack_of(tmp_path, IDS, IDS, tries)))

    first = min(IDS)
    assert told[2:] == [
        (
            f"note   identity: stores.ledger.strip_suffix: ':[0-9]+' would make 24 of 24 {LEDGER} "
            f"(now 0), but is not proposed: it would make '{first}' of both '{first}:1' and "
            f"'{first}:2' in the ledger store; only where these are one task, set it"
        ),
    ]


def test_a_rule_in_the_way_is_proposed_to_be_left_out(tmp_path: Path) -> None:
    """The ids are judged as the stores hold them, and the whole rule of a store is told."""
    rules: dict[str, Row | None] = {
        "gateway": {"uuid": True},
        "ledger": {"strip_prefix": "[0-9a-f]+-", "uuid": True},
    }

    told = of_ids(check(stack_of(tmp_path, HEX, HEX, IDS, rules)))

    assert [line for line in told if line[7:].startswith("stores.")] == [
        "note   stores.leases.uuid: true",
        "note   stores.ledger.strip_prefix: ''",
    ]


ONE_ID = (
    "let the front proxy make one id, send it on as X-Request-Id and as x-litellm-call-id, and "
    "enqueue with it as the job's own (docs/identity.md)"
)
NOTHING = "note   identity: no strip_prefix, strip_suffix or uuid makes"
KEYS = "ledger keys of the newest window"
HELD = "task ids of unreleased leases"
LEDGER = "ledger keys of the newest window tasks of the gateway"
LEASES = "task ids of unreleased leases tasks of the gateway"


@pytest.mark.parametrize(
    ("leases", "ledger", "why"),
    [
        pytest.param(
            IDS, [f"msg_{number}{number}c1Zq8" for number in range(9)],
            f"{NOTHING} {LEDGER}: 'msg_00c1Zq8' is a response id of the provider; map task_id to "
            "where the gateway's own id is kept (columns:, or a SELECT that takes it out of the "
            "metadata), or hand that id on in the header x-litellm-call-id (docs/identity.md)",
            id="a provider's ids are told, with the header to set",
        ),
        pytest.param(
            IDS, [f"user-{number}-of-a-tenant-0001" for number in range(9)],
            f"{NOTHING} {LEDGER}: they speak of different things; {ONE_ID}",
            id="ids of something else",
        ),
        pytest.param(
            IDS, ["a", "b"],
            f"{NOTHING} {LEDGER}: ids as short as 'a' could be equal by chance; {ONE_ID}",
            id="ids that are too short to be told",
        ),
        pytest.param(
            IDS, ["w1"],
            f"{NOTHING} {LEDGER}: 'w1' is a worker's id; charge tokens to the task that they were "
            "decoded for",
            id="a ledger keyed by workers",
        ),
        pytest.param(
            [*range(100, 109)], IDS,
            f"{NOTHING} {LEASES}: ids as short as '100' could be equal by chance; {ONE_ID}",
            id="small numbers of a queue",
        ),
        pytest.param(
            [*range(10**15, 10**15 + 9)], IDS,
            f"{NOTHING} {LEASES}: '1000000000000000' is a number of the queue's own; {ONE_ID}",
            id="large numbers of a queue",
        ),
    ],
)  # fmt: skip
def test_where_nothing_helps_that_is_said(
    leases: Sequence[object], ledger: Sequence[object], why: str, tmp_path: Path
) -> None:
    """No rule is made up: what the ids seem to be is told, and how to come by one id."""
    told = of_ids(check(stack_of(tmp_path, IDS, leases, ledger)))

    assert told[-1] == why
    assert not any(line[7:].startswith("stores.") for line in told)


def test_a_few_strangers_are_only_counted(tmp_path: Path) -> None:
    """Where most ids join, the rest is no matter of spelling."""
    answer = check(stack_of(tmp_path, IDS[:10], IDS, IDS))

    assert of_ids(answer) == [
        "note   identity: 10 of 12 ledger keys of the newest window are tasks of the gateway",
        "note   identity: 10 of 12 task ids of unreleased leases are tasks of the gateway",
    ]
    assert answer.code == 0


@pytest.mark.parametrize(
    ("shape", "level"),
    [
        pytest.param("increments", "note ", id="rows may be of requests that run"),
        pytest.param("final", "wrong", id="a final row's request has ended, and has its line"),
    ],
)
def test_a_log_that_has_no_row_yet_is_no_fault(shape: str, level: str, tmp_path: Path) -> None:
    """A gateway whose rows come at the end does not know what runs: its leases join later."""
    stack = stack_of(
        tmp_path,
        IDS[:6],
        IDS[6:],
        IDS[6:],
        {"gateway": {"rows": "at_end"}, "ledger": {"shape": shape}},
    )

    ledger, leases, *_ = of_ids(check(stack))

    assert ledger.startswith(f"{level}  identity: 0 of 6 ledger keys")
    assert leases == (
        "note   identity: 0 of 6 task ids of unreleased leases are tasks of the gateway; the "
        "others may be yet to come"
    )


def test_without_a_gateway_leases_and_ledger_are_compared(tmp_path: Path) -> None:
    """Two stores are enough to see that they spell ids in two ways."""
    told = of_ids(check(stack_of(tmp_path, (), IDS, CALLS, {"gateway": None})))

    assert told == [
        (
            "note   identity: 0 of 12 task ids of unreleased leases are ledger keys of the newest "
            "window; the others may be yet to come"
        ),
        (
            "wrong  identity: spelled in another way: the next 2 lines, set in the config, would "
            "make 12 of 12 task ids of unreleased leases ledger keys of the newest window (now 0)"
        ),
        "note   stores.ledger.strip_prefix: chatcmpl-",
        "note   stores.ledger.strip_suffix: '-[0-9a-f]{8}'",
    ]


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        pytest.param(
            ("leases",), [f"note   identity: 0 of 12 {KEYS}"], id="ledger and gateway are left"
        ),
        pytest.param(
            ("ledger",), [f"note   identity: 0 of 12 {HELD}"], id="leases and gateway are left"
        ),
        pytest.param(("gateway", "leases"), [], id="a ledger alone has nothing to join"),
        pytest.param(("gateway", "ledger"), [], id="leases alone have nothing to join"),
    ],
)
def test_what_is_not_configured_is_not_judged(
    missing: Sequence[str], said: Sequence[str], tmp_path: Path
) -> None:
    """Ids are compared between the stores that there are."""
    stores: dict[str, Row | None] = {"gateway": {"rows": "at_end"}} | dict.fromkeys(missing)

    told = of_ids(check(stack_of(tmp_path, IDS, CALLS, CALLS, stores)))

    assert [line for line in told if " are " in line] == [
        f"{line} are tasks of the gateway; the others may be yet to come" for line in said
    ]
    assert len([line for line in told if line[7:].startswith("stores.")]) == 2 * len(said)


def test_rows_without_an_id_are_counted(tmp_path: Path) -> None:
    """What carries no id can't be mended by spelling."""
    told = of_ids(check(stack_of(tmp_path, IDS, [*IDS, None, " "], [*IDS, None])))

    assert told[:2] == [
        (
            "note   identity: 1 tokens of the newest window carry no id that can be joined: empty, "
            "or kept as bytes or a fraction; write ids as text"
        ),
        "note   identity: 2 unreleased leases carry no task id: whose work they are is unknown",
    ]


def test_pools_that_nobody_configured_are_named(tmp_path: Path) -> None:
    """Tasks and leases of such a pool are labelled other: a misspelled name is seen here."""
    stack = stack_of(tmp_path, IDS[:1], IDS[:1], IDS[:1])
    stack.add("leases", lease(IDS[0], "w2", pool="gpu", acquired_at=-30, heartbeat_at=-1))

    lines = check(stack).out.splitlines()

    assert [line for line in lines if "  pools: " in line] == [
        "note   pools: the stores name pool 'gpu', which is not configured"
    ]


def test_ids_in_a_log_are_judged_too(tmp_path: Path) -> None:
    """A gateway's log is read again for its ids, whatever was stripped from them."""
    log = tmp_path / "access.log"
    stamp = time.time()
    log.write_text(
        "".join(
            f'{{"id": "{one}", "time": {stamp - 3}, "took": 1.5, "status": 499}}\n' for one in HEX
        ),
        encoding="utf-8",
    )
    gateway: Mapping[str, Any] = {
        "type": "jsonl",
        "path": "access.log",
        "columns": {"task_id": "id", "ended_at": "time", "duration": "took"},
        "cancelled_when": [{"status": 499}],
        "strip_prefix": "[0-9a-f]{4}",
    }
    stack = stack_of(tmp_path, (), (), CALLS, {"ledger": {"shape": "final"}})
    document = yaml.safe_load(stack.config_file.read_text(encoding="utf-8"))
    document["stores"]["gateway"] = dict(gateway)
    stack.config_file.write_text(yaml.safe_dump(document), encoding="utf-8")

    told = of_ids(check(stack))

    assert [line for line in told if line[7:].startswith("stores.")] == [
        "note   stores.gateway.strip_prefix: ''",
        "note   stores.gateway.uuid: true",
        "note   stores.ledger.strip_prefix: chatcmpl-",
        "note   stores.ledger.strip_suffix: '-[0-9a-f]{8}'",
    ]
