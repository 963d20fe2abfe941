"""A ledger keyed by workers, once their leases have gone from a store that lists what is held."""

from pathlib import Path
from typing import Any

import pytest
from live_lists import Settings, Watch, answer, watching
from pages import Pages, serving
from stack_file import Document, charge, lease, read, task

LEASES: Settings = {"type": "sql", "url": "sqlite:///stack.db", "relation": "leases"}


def ledger(**settings: Any) -> Settings:
    """Return the settings of a ledger in which each row adds."""
    store = {"type": "sql", "url": "sqlite:///stack.db", "relation": "ledger"}
    return {**store, "shape": "increments", **settings}


def listed(pages: Pages) -> Settings:
    """Return the settings of a list of jobs, each with its worker."""
    store = {"type": "http_json", "url": pages.url("/jobs"), "timeout": "1s"}
    return {**store, "columns": {"task_id": "job", "worker_id": "worker"}}


def says(document: Document, key: str) -> tuple[float | None, float | None]:
    """Return the tokens charged to such a key, and whether overflow is closed because of it."""
    return (
        read(document, f"orphan_unmatched_tokens key={key}"),
        read(document, "orphan_fail_closed pool=overflow condition=ledger_keyed_by_host"),
    )


def test_a_lease_that_vanished_still_tells_whose_key_it_is(tmp_path: Path) -> None:
    """The worker's tokens stay a worker's until they leave the spend window."""
    with (
        serving({"/jobs": answer([{"job": "x", "worker": "w1"}])}) as pages,
        watching(tmp_path, leases=listed(pages), ledger=ledger()) as watch,
    ):
        watch.tables.add("tasks", task("x"))
        watch.tables.add("ledger", charge("w1", 500, 2))
        assert says(watch.look(5), "worker") == (500, 1)
        pages.replies["/jobs"] = answer([])
        for offset in (10, 15, 40, 61):
            document = watch.look(offset)
            assert says(document, "worker") == (500, 1), offset
            assert says(document, "unknown") == (0, 1), offset
            assert document["verdict"]["action"] == "hold", offset
        assert says(watch.look(66), "worker") == (0, 0)


def test_a_row_that_was_deleted_still_tells_whose_key_it_is(tmp_path: Path) -> None:
    """Tables in which a lease is gone with its end are lists of what is held too."""
    with watching(tmp_path, leases=LEASES, ledger=ledger()) as watch:
        watch.tables.add("tasks", task("x"))
        watch.tables.add("leases", lease("x", "w1", heartbeat_at=5))
        watch.tables.add("ledger", charge("w1", 500, 2))
        assert says(watch.look(5), "worker") == (500, 1)
        watch.tables.run_sql("DELETE FROM leases")
        assert says(watch.look(10), "worker") == (500, 1)
        assert says(watch.look(15), "worker") == (500, 1)


@pytest.mark.parametrize("lag", [0, 30])
def test_it_is_known_for_as_long_as_the_ledger_may_be_late(lag: int, tmp_path: Path) -> None:
    """Rows land ``lag`` later, and their window ends so much earlier."""
    with watching(tmp_path, leases=LEASES, ledger=ledger(lag=f"{lag}s")) as watch:
        watch.tables.add("tasks", task("x"))
        watch.tables.add("leases", lease("x", "w1", heartbeat_at=5))
        watch.look(5)
        watch.tables.run_sql("DELETE FROM leases")
        look_every_five_seconds(watch, 10, 60 + lag)
        watch.tables.add("ledger", charge("w1", 500, 9))
        assert says(watch.look(65 + lag), "worker") == (500, 1)


def test_a_key_that_never_held_a_lease_stays_unknown(tmp_path: Path) -> None:
    """And a worker that left long ago is no worker any more."""
    with watching(tmp_path, leases=LEASES, ledger=ledger()) as watch:
        watch.tables.add("tasks", task("x"))
        watch.tables.add("leases", lease("x", "w1", heartbeat_at=5))
        watch.look(5)
        watch.tables.run_sql("DELETE FROM leases")
        look_every_five_seconds(watch, 10, 100)
        watch.tables.add("ledger", charge("w1", 500, 99), charge("w2", 70, 99))
        document = watch.look(105)
        assert says(document, "worker") == (0, 0)
        assert says(document, "unknown") == (570, 0)


def look_every_five_seconds(watch: Watch, first: int, last: int) -> None:
    """Read the stores as ``serve`` does."""
    for offset in range(first, last + 1, 5):
        watch.look(offset)
