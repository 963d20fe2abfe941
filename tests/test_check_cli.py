"""``orphanwatch check``, the real program: what is wrong, how to mend it, and the exit code."""

import time
from collections.abc import Callable
from pathlib import Path

from cli_session import golden, run, session
from stack_file import TABLES, StackFile, charge, lease, sample, task

CHECK = "check --config.file orphanwatch.yml"
SOUND = {
    "tasks": TABLES["tasks"].replace("task_id TEXT", "task_id TEXT PRIMARY KEY"),
    "leases": TABLES["leases"],
    "ledger": TABLES["ledger"],
    "queue": TABLES["queue"],
}
INDEXES = (
    ("tasks", "retry_id"),
    ("tasks", "submitted_at"),
    ("tasks", "deadline_at"),
    ("tasks", "cancelled_at"),
    ("tasks", "finished_at"),
    ("leases", "task_id"),
    ("leases", "worker_id"),
    ("leases", "released_at"),
    ("ledger", "task_id"),
    ("ledger", "charged_at"),
    ("queue", "sampled_at"),
)


def now() -> Callable[[float], object]:
    """Return how a stack of this very moment writes its instants."""
    start = time.time()
    return lambda offset: start + offset


def fill(stack: StackFile, ledger_key: str = "x") -> None:
    """Add one running task of ten seconds."""
    stack.add("tasks", task("x", submitted_at=-10))
    stack.add("leases", lease("x", acquired_at=-10, heartbeat_at=-1))
    stack.add("ledger", charge(ledger_key, 10, -5))
    stack.add("queue", sample(-1))


def test_a_sound_stack_passes(tmp_path: Path) -> None:
    """Nothing is wrong and nothing is to be noted: exit code 0."""
    links = {
        "runbook_base_url": "https://runbooks.example.com",
        "dashboard_base_url": "https://grafana.example.com",
    }
    stack = StackFile(tmp_path, tables=SOUND, write=now(), state_file="state.db", links=links)
    stack.run_sql(*(f"CREATE INDEX {t}_{c} ON {t} ({c})" for t, c in INDEXES))
    fill(stack)

    told = session(tmp_path, CHECK)

    assert told == golden("check-sound.txt", told)
    assert "\nexit 0\n" in told
    assert "note" not in told
    assert "wrong" not in told


def test_a_plain_stack_is_told_which_indexes_it_lacks(tmp_path: Path) -> None:
    """Each missing index is one statement, ready to be run; they are notes, and the exit is 0."""
    stack = StackFile(tmp_path, write=now())
    fill(stack)
    told = session(tmp_path, CHECK)
    assert told == golden("check-indexes.txt", told)

    statements = [
        line.partition("missing; ")[2] for line in told.splitlines() if "index is missing" in line
    ]
    stack.run_sql(*statements)

    after = run(tmp_path, *CHECK.split())
    assert len(statements) == 12
    assert "index is missing" not in after.out
    assert after.code == 0


def test_an_advised_index_can_be_made_whatever_the_names(tmp_path: Path) -> None:
    """The statement is SQL that runs, also for names that need quotes."""
    tables = {name: columns for name, columns in TABLES.items() if name != "ledger"}
    stack = StackFile(
        tmp_path,
        tables={**tables, '"My Ledger"': '"order" TEXT, tokens REAL, "charged at" REAL'},
        stores={
            "ledger": {
                "relation": "My Ledger",
                "columns": {"task_id": "order", "charged_at": "charged at"},
            }
        },
    )
    told = run(tmp_path, *CHECK.split()).out
    statements = [
        line.partition("missing; ")[2]
        for line in told.splitlines()
        if "stores.ledger" in line and "index is missing" in line
    ]

    stack.run_sql(*statements)

    assert len(statements) == 2


def test_what_is_wrong_is_told_with_the_remedy(tmp_path: Path) -> None:
    """A missing table, a misnamed column and a ledger keyed by workers: exit code 1."""
    stack = StackFile(
        tmp_path,
        write=now(),
        stores={
            "gateway": {"columns": {"cancelled_at": "canceled_at"}},
            "leases": {"relation": "lease"},
            "queue": None,
        },
    )
    fill(stack)

    told = session(tmp_path, CHECK)

    assert told == golden("check-wrong.txt", told)
    assert "\nexit 1\n" in told


def test_ids_that_do_not_join_are_wrong(tmp_path: Path) -> None:
    """A ledger keyed by something else looks healthy in every number, so check says it."""
    stack = StackFile(tmp_path, write=now())
    fill(stack, ledger_key="w1")

    answer = run(tmp_path, *CHECK.split())

    assert (
        "wrong  identity: 0 of 1 ledger keys of the newest window are tasks of the gateway "
        "(for example 'w1'); the stores must share one task id"
    ) in answer.out.splitlines()
    assert answer.code == 1


def test_columns_that_are_not_stated_are_noted(tmp_path: Path) -> None:
    """Each missing column that matters is named with what is unknown without it."""
    stack = StackFile(
        tmp_path,
        tables={
            "tasks": "task_id TEXT",
            "leases": "task_id TEXT",
            "ledger": "task_id TEXT, tokens REAL, charged_at REAL",
            "queue": "depth REAL",
        },
    )
    stack.add("tasks", {"task_id": "x"})

    told = session(tmp_path, CHECK)

    assert told == golden("check-columns.txt", told)


def test_rejected_rows_are_noted_one_by_one(tmp_path: Path) -> None:
    """Each row that could not be used is told with its reason and what it holds."""
    stack = StackFile(tmp_path, write=now())
    fill(stack)
    stack.add("ledger", charge("x", None, -4), charge("x", "many", -3))

    lines = run(tmp_path, *CHECK.split()).out.splitlines()

    rejected = [line for line in lines if "not used" in line]
    assert len(rejected) == 2
    assert any("stores.ledger: 1 row not used (unknown_tokens)" in line for line in rejected)
    assert any("stores.ledger: 1 row not used (invalid_tokens)" in line for line in rejected)


def test_a_config_that_can_not_be_read_is_exit_code_2(tmp_path: Path) -> None:
    """The errors of the config are those of every command, and nothing is checked."""
    (tmp_path / "orphanwatch.yml").write_text("stores: 5\n", encoding="utf-8")

    answer = run(tmp_path, *CHECK.split())

    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("Error: orphanwatch.yml: stores: ")


def test_check_changes_nothing(tmp_path: Path) -> None:
    """It only reads: the file is the same to the byte, and none appears beside it."""
    stack = StackFile(tmp_path, write=now(), state_file="state.db")
    fill(stack)
    before = stack.database.read_bytes()

    assert run(tmp_path, *CHECK.split()).code == 0

    assert stack.database.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["orphanwatch.yml", "stack.db"]
