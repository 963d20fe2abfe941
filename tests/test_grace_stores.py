"""``grace --config.file``: from the stores and the state file to the measured grace."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli_session import golden, run, session
from graces import AT, add, cancelled, keep, many
from stack_file import ZERO, StackFile, task

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.grace import stores
from orphanwatch.exporter.grace.estimate import PoolGrace
from orphanwatch.exporter.grace.finding import find_in_stores
from orphanwatch.exporter.instants import Instant, Micros, micros
from orphanwatch.exporter.measurement import MeasuredFrom
from orphanwatch.exporter.model import StoreHealth
from orphanwatch.exporter.names import GraceSource, StoreName
from orphanwatch.exporter.readings import Readings
from orphanwatch.exporter.refresh import Refresher
from orphanwatch.exporter.state import CounterBook, Memory


@pytest.fixture
def stack(tmp_path: Path) -> StackFile:
    """Return an empty stack whose config names a state file."""
    return StackFile(tmp_path, state_file="watch.state")


def found(stack: StackFile, **options: Any) -> PoolGrace:
    """Return what is found of the overflow pool at zero."""
    return find_in_stores(stack.config, AT, 0.5, **options).pools["overflow"]


def counts(stack: StackFile, **options: Any) -> tuple[int | None, int | None]:
    """Return how many are settled and open."""
    pool = found(stack, **options)
    return pool.settled, pool.open


@pytest.mark.parametrize(
    ("story", "expected"),
    [
        pytest.param(cancelled("t", 20, 0.3), (1, 0), id="a task that stopped is settled"),
        pytest.param(cancelled("t", 20, None), (0, 1), id="one with an unreleased lease is open"),
        pytest.param(
            cancelled("t", 5 * 86400, 0.3), (1, 0), id="however long ago, within the grace window"
        ),
        pytest.param(cancelled("t", 5 * 86400, None), (0, 1), id="open ones likewise"),
        pytest.param(cancelled("t", 8 * 86400, 0.3), (0, 0), id="not those of before the window"),
        pytest.param(cancelled("t", 8 * 86400, None), (0, 0), id="open or not"),
        pytest.param(cancelled("t", 20, 0.3, pool="paid"), (0, 0), id="each pool has its own"),
    ],
)
def test_what_the_stores_show(
    stack: StackFile, story: dict[str, Any], expected: tuple[int, int]
) -> None:
    """Tasks of which a client's cancel is known, and of which a lease was held then."""
    add(stack, story)
    assert counts(stack) == expected


def test_an_open_one_has_lasted_since_its_stop(stack: StackFile) -> None:
    """Its last charge was long before those that settled, and it does not vanish from the curve."""
    add(stack, *many(6), *(cancelled(f"o{number}", 100, None) for number in range(7)))
    grace = found(stack)
    assert (grace.settled, grace.open) == (6, 7)
    assert grace.estimate is None
    assert "7 of 13 have not stopped" in grace.reason


@pytest.mark.parametrize(
    ("kept", "options", "expected", "source"),
    [
        pytest.param(
            [("a", 90_000, "overflow", 0.4, "observed")], {}, (1, 0), MeasuredFrom.STORES,
            id="what serve has kept counts",
        ),
        pytest.param(
            [("a", 8 * 86400, "overflow", 0.4, "observed")], {}, (0, 0), MeasuredFrom.STORES,
            id="not from before the window",
        ),
        pytest.param(
            [("a", 90, "overflow", 0.4, "drill"), ("b", 90, "overflow", 0.4, "drill:target")],
            {}, (0, 0), MeasuredFrom.STORES,
            id="a drill's samples are left out",
        ),
        pytest.param(
            [("a", 90, "overflow", 0.4, "drill"), ("b", 90, "overflow", 0.4, "drill:target")],
            {"include_drill": True}, (2, 0), MeasuredFrom.STORES_AND_DRILLS,
            id="unless they are asked for, and then it is said",
        ),
        pytest.param(
            [("a", 90, "overflow", 4.0, "drill:heartbeat")],
            {"include_drill": True}, (0, 0), MeasuredFrom.STORES,
            id="those of a hop that was broken on purpose never count",
        ),
    ],
)  # fmt: skip
def test_what_the_state_file_holds(
    stack: StackFile,
    kept: list[tuple[str, float, str, float, str]],
    options: dict[str, Any],
    expected: tuple[int, int],
    source: MeasuredFrom,
) -> None:
    """Samples by when their task was stopped, marked with where they come from."""
    keep(stack, kept)
    pool = found(stack, **options)
    assert ((pool.settled, pool.open), pool.source) == (expected, source)


def test_a_task_that_is_in_both_counts_once_and_as_the_longer(stack: StackFile) -> None:
    """A charge that landed late is in the stores alone."""
    add(stack, cancelled("t", 60, 0.9))
    keep(stack, [("t", 60, "overflow", 0.4, "observed")])
    grace = found(stack)
    assert (grace.settled, grace.estimate) == (1, 900_000)


def test_a_task_that_was_settled_and_is_open_again_is_open(stack: StackFile) -> None:
    """Somebody took it up again: it is not fast any more."""
    add(stack, cancelled("t", 60, None))
    keep(stack, [("t", 60, "overflow", 0.4, "observed")])
    assert counts(stack) == (0, 1)


def test_a_task_counts_once_where_its_stop_has_moved(stack: StackFile) -> None:
    """A row that landed late says that it was cancelled earlier than was known."""
    add(stack, cancelled("t", 60, 0.9))
    keep(stack, [("t", 59.5, "overflow", 0.4, "observed"), ("t", 59, "overflow", 0.1, "observed")])
    grace = found(stack)
    assert (grace.settled, grace.estimate) == (1, 900_000)


def test_a_task_that_was_open_is_so_however_its_stop_has_moved(stack: StackFile) -> None:
    """What was kept of another stop of it must not stand beside it as a fast one."""
    add(stack, cancelled("t", 60, None))
    keep(stack, [("t", 59.5, "overflow", 0.4, "observed")])
    assert counts(stack) == (0, 1)


def test_a_stop_that_turned_out_to_be_no_cancel_is_not_counted(stack: StackFile) -> None:
    """A sibling had finished before; its row landed late."""
    story = cancelled("t", 60, 0.4)
    story["tasks"]["retry_id"] = "r"
    add(stack, story)
    keep(stack, [("t", 60, "overflow", 0.4, "observed")])
    assert counts(stack) == (1, 0)
    sibling = task("u", retry_id="r", submitted_at=-80, finished_at=-62, outcome="ok")
    stack.add("tasks", sibling)
    assert counts(stack) == (0, 0)


def watched_once(stack: StackFile) -> None:
    """Let an exporter see the stack at zero, and stop."""
    book = CounterBook.open(stack.config.state_file, stack.config, AT)
    refresher = Refresher(stack.config, lambda: AT, book)
    refresher.refresh()
    refresher.stop()
    book.close()


def test_an_open_task_does_not_vanish_with_its_row_of_the_gateway(stack: StackFile) -> None:
    """Its lease is held on, and nobody knows since when: it counts as one that never stops."""
    add(stack, *many(6), *(cancelled(f"o{number}", 100, None) for number in range(7)))
    watched_once(stack)
    stack.run_sql("DELETE FROM tasks WHERE task_id LIKE 'o%'")
    grace = found(stack, is_present=True)
    assert (grace.settled, grace.open, grace.estimate) == (6, 7, None)


def test_open_tasks_that_no_store_knows_any_more_are_told(stack: StackFile) -> None:
    """Whether they have stopped can't be known; that they are missing can."""
    add(stack, *many(6), *(cancelled(f"o{number}", 100, None) for number in range(7)))
    watched_once(stack)
    stack.run_sql("DELETE FROM tasks WHERE task_id LIKE 'o%'")
    stack.run_sql("DELETE FROM leases WHERE task_id LIKE 'o%'")
    (note,) = find_in_stores(stack.config, AT, 0.5, is_present=True).notes
    assert note.startswith("7 tasks whose stop was awaited are in no store any more")


def test_a_task_of_a_drill_is_not_counted_from_the_stores_either(stack: StackFile) -> None:
    """Its rows look like any other's; the mark in the state file tells."""
    add(stack, cancelled("t", 60, 0.4))
    keep(stack, [("t", 60, "overflow", 0.4, "drill")])
    assert counts(stack) == (0, 0)
    assert counts(stack, include_drill=True) == (1, 0)


def test_where_a_store_can_t_be_read_nothing_is_measured(stack: StackFile) -> None:
    """What is open then is unknown, and unknown is not none."""
    add(stack, *many(40))
    keep(stack, [("a", 90, "overflow", 0.4, "observed")])
    stack.configure(stores={"leases": {"relation": "gone"}}, state_file="watch.state")
    grace = found(stack)
    assert (grace.status, grace.settled, grace.open) == (GraceSource.PROPOSAL, None, None)
    assert grace.reason.startswith("unknown: store leases can't be read")
    answer = run(stack.config_file.parent, "grace", "--config.file", "orphanwatch.yml")
    assert answer.code == 2


def test_a_lease_that_is_no_longer_listed_ended_now(stack: StackFile) -> None:
    """As for ``serve``, whose memory of it is in the state file; at a past instant nobody knows."""
    add(stack, cancelled("t", 10, None))
    config = stack.config
    book = CounterBook.open(config.state_file, config, AT)
    refresher = Refresher(config, lambda: AT, book)
    refresher.refresh()
    stack.run_sql("DELETE FROM leases")
    try:
        later = Instant(AT + micros(5))
        now = find_in_stores(config, later, 0.5, is_present=True).pools["overflow"]
        past = find_in_stores(config, later, 0.5).pools["overflow"]
    finally:
        refresher.stop()
        book.close()
    assert (now.settled, now.open, now.estimate) == (1, 0, 15_000_000)
    assert (past.settled, past.open) == (0, 0)


def test_where_all_of_the_window_is_too_much_the_horizon_is_read(
    stack: StackFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it is said; what is older is what was kept."""
    add(stack, cancelled("t", 60, 0.4), cancelled("older", 7200, 0.4))
    keep(stack, [("a", 90_000, "overflow", 0.4, "observed")])
    reads: list[Micros] = []

    def read_over(config: Config, horizon: Micros, at: Instant, memory: Memory) -> Readings:
        reads.append(horizon)
        if horizon == config.grace_window:
            broken = StoreHealth(up=False, problem="took too long")
            found = whole(config, horizon, at, memory)
            return replace(found, stores={**found.stores, StoreName.GATEWAY: broken})
        return whole(config, horizon, at, memory)

    whole = stores._read_over
    monkeypatch.setattr(stores, "_read_over", read_over)
    found = find_in_stores(stack.config, AT, 0.5)
    assert reads == [7 * 86400 * 10**6, 3600 * 10**6]
    assert found.pools["overflow"].settled == 2
    assert found.notes == ("the stores could be read for the last 1h only, the rest is as kept",)


def test_a_session(stack: StackFile, tmp_path: Path) -> None:
    """Measured, saved, and read by the config from then on."""
    add(stack, *many(900), *many(40, pool="paid", name="p"), cancelled("o", 400, None))
    asked = f"grace --config.file orphanwatch.yml --at {ZERO}"
    told = session(
        tmp_path,
        asked,
        f"{asked} --format json --quantile 0.95",
        f"{asked} --quantile 0.95 --save grace.yml",
        f"{asked} --save grace.yml --engine vllm=0.11.0",
    )
    assert told == golden("grace.txt", told)
    text = (tmp_path / "grace.yml").read_text(encoding="utf-8")
    assert text == golden("grace-file.txt", text)

    stack.configure(state_file="watch.state", grace={"file": "grace.yml"})
    stack.add("queue", {"sampled_at": -1, "depth": 0})
    sample = {"labels": {"pool": "overflow", "source": "measured"}, "value": 0.75}
    document = stack.document(0)
    assert sample in document["metrics"]["orphan_grace_seconds"]
    assert document["metrics"]["orphan_grace_valid_until_timestamp_seconds"] == [
        {"labels": {"pool": "overflow"}, "value": ZERO + 30 * 86400.0}
    ]
    assert document["notes"] == []


def test_nothing_is_saved_where_nothing_is_measured(stack: StackFile, tmp_path: Path) -> None:
    """The file that is there stays."""
    add(stack, *many(40))
    (tmp_path / "grace.yml").write_text("as it was", encoding="utf-8")
    asked = ("grace", "--config.file", "orphanwatch.yml", "--at", str(ZERO), "--save", "grace.yml")
    answer = run(tmp_path, *asked)
    assert (answer.code, answer.err) == (
        1, "Error: grace.yml is not written: no pool is measured\n",
    )  # fmt: skip
    assert (tmp_path / "grace.yml").read_text(encoding="utf-8") == "as it was"


def test_the_document_is_that_of_the_contract(stack: StackFile) -> None:
    """Null is what the curve does not reach; a proposal is in force where nothing is measured."""
    folder = stack.config_file.parent
    answer = run(folder, "grace", "--config.file", "orphanwatch.yml", "--format", "json")
    document = json.loads(answer.out)
    assert set(document) == {"at", "pools"}
    assert set(document["pools"]) == {"overflow", "paid", "other"}
    assert document["pools"]["overflow"] == {
        "quantile": 0.99,
        "estimate_seconds": None,
        "upper_seconds": None,
        "in_force_seconds": 1.0,
        "settled": 0,
        "open": 0,
        "status": "proposal",
        "reason": "no client cancelled a task that held a lease",
        "source": "stores",
    }


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param((), "name --config.file, or --prometheus.url", id="nowhere to look"),
        pytest.param(
            ("--config.file", "orphanwatch.yml", "--engine", "vllm"),
            "'vllm' is no name with a version; write vllm=0.11.0",
            id="an engine without a version",
        ),
        pytest.param(
            ("--config.file", "orphanwatch.yml", "--valid-for", "0s"),
            "write more than nothing, for example 30d",
            id="valid for no time",
        ),
        pytest.param(
            ("--config.file", "orphanwatch.yml", "--at", "yesterday"),
            "'yesterday' is no instant; write 2026-11-30T02:17:00Z or epoch seconds",
            id="no instant",
        ),
        pytest.param(
            ("--config.file", "orphanwatch.yml", "--quantile", "1"),
            "1.0 is not in the range 0<x<1", id="a quantile that nothing reaches",
        ),
        pytest.param(
            ("--config.file", "orphanwatch.yml", "--quantile", "nan"),
            "nan is no number; write for example 0.99", id="a quantile that is no number",
        ),
    ],
)  # fmt: skip
def test_wrong_usage(stack: StackFile, options: tuple[str, ...], said: str) -> None:
    """Exit code 2, with the remedy."""
    answer = run(stack.config_file.parent, "grace", *options)
    assert answer.code == 2
    assert said in answer.err
