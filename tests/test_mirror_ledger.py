"""A ledger that is mirrored counts as one in SQL does, however long its tasks are silent."""

import json
from pathlib import Path
from typing import Any

import pytest
from live_lists import Watch, at, watching
from stack_file import ZERO, charge, lease, task
from test_mirror import Log

from orphanwatch.exporter.config import parse_config
from orphanwatch.exporter.config_stores import JsonlLedgerStore
from orphanwatch.exporter.instants import micros
from orphanwatch.exporter.model import Cutoff
from orphanwatch.exporter.names import TOKENS_TOTAL
from orphanwatch.exporter.stores.mirror import MirroredLedger
from orphanwatch.exporter.stores.questions import Windows

HOUR = 3600
DAY = 24 * HOUR

LEASES = {"type": "sql", "url": "sqlite:///stack.db", "relation": "leases", "lease_ttl": "30d"}
COLUMNS = {"task_id": "id", "tokens": "tok", "charged_at": "at", "started_at": "from"}
IN_SQL = {"type": "sql", "url": "sqlite:///stack.db", "relation": "ledger"}
IN_A_LOG = {"type": "jsonl", "path": "ledger.jsonl", "columns": COLUMNS}


def total(watch: Watch, offset: float) -> float:
    """Return all orphan tokens that are published after a refresh."""
    samples = watch.look(offset)["metrics"][TOKENS_TOTAL.name]
    return float(sum(sample["value"] for sample in samples))


@pytest.mark.parametrize(
    "silence",
    [
        pytest.param(120, id="a short silence"),
        pytest.param(2 * HOUR, id="one longer than the scope"),
        pytest.param(3 * DAY, id="one of days"),
    ],
)
@pytest.mark.parametrize("held", [True, False], ids=["a lease is held", "nothing tells of it"])
@pytest.mark.parametrize(
    ("shape", "tokens", "expected"),
    [
        pytest.param("increments", (100, 50), 150, id="increments"),
        pytest.param("cumulative", (100, 150), 150, id="running totals"),
        pytest.param("final", (100, 50), None, id="rows of whole requests"),
    ],
)
def test_what_comes_after_a_silence_is_counted(
    *,
    shape: str,
    tokens: tuple[int, int],
    expected: float | None,
    held: bool,
    silence: float,
    tmp_path: Path,
) -> None:
    """On top of what came before it: a counter never waits until a sum is reached once more."""
    ledger = tmp_path / "ledger.jsonl"
    ledger.touch()
    for name in ("log", "sql"):
        (tmp_path / name).mkdir()
    log = {**IN_A_LOG, "path": str(ledger), "shape": shape}
    with (
        watching(tmp_path / "log", leases=LEASES, ledger=log) as by_log,
        watching(tmp_path / "sql", leases=LEASES, ledger={**IN_SQL, "shape": shape}) as by_sql,
    ):
        for watch in (by_log, by_sql):
            watch.tables.add("tasks", task("a", submitted_at=1, cancelled_at=3))
            if held:
                watch.tables.add("leases", lease("a", acquired_at=2))

        def spend(count: int, offset: float) -> None:
            row = {"id": "a", "tok": count, "at": ZERO + offset, "from": ZERO + offset - 5}
            with ledger.open("a") as lines:
                lines.write(json.dumps(row) + "\n")
            by_sql.tables.add("ledger", charge("a", count, offset, started_at=offset - 5))

        spend(tokens[0], 10)
        offsets = (11, 80, *(80 + silence * part / 8 for part in range(1, 9)))
        totals = [(total(by_log, offset), total(by_sql, offset)) for offset in offsets]
        spend(tokens[1], 90 + silence)
        totals.append((total(by_log, 91 + silence), total(by_sql, 91 + silence)))

    assert [mine for mine, _ in totals] == [theirs for _, theirs in totals]
    assert totals[-1][0] > totals[0][0] > 0
    if expected is not None:
        assert totals[-1][0] == expected


def rows_left(shape: str, asked: list[str], *readings: float) -> set[str | None]:
    """Return the ids of the rows left of five tasks, after readings at which some are asked for.

    All were charged once at 0: ``a`` to ``c`` past their cutoff, ``d`` before, and one has no id.
    """
    source = Log([(name, 10.0, at(0)) for name in ("a", "b", "c", "d", None)])
    source.columns = ("task_id", "tokens", "charged_at")
    settings: dict[str, Any] = {"type": "jsonl", "path": "log", "shape": shape}
    ledger = MirroredLedger(JsonlLedgerStore.model_validate(settings), micros(5), source)
    config = parse_config({"stores": {"gateway": {"type": "sql", "url": "sqlite://"}}})
    cutoffs = [Cutoff(name, at(1 if name == "d" else -1), None) for name in asked]
    for number, offset in enumerate(readings):
        windows = Windows.ending(at(offset), config)
        ledger.open(windows)
        ledger.charges(cutoffs if number == 0 else [], windows, None)
        ledger.close()
    with ledger._mirror.engine.connect() as connection:
        return {row[0] for row in connection.exec_driver_sql("SELECT task_id FROM rows")}


@pytest.mark.parametrize(
    ("asked", "readings", "left"),
    [
        pytest.param(["a"], [5, 300], {"a", "b", "c", "d", None}, id="all are within the scope"),
        pytest.param(["a"], [5, 2 * HOUR], {"a"}, id="one that is asked for stays"),
        pytest.param(["a", "d"], [5, 2 * HOUR], {"a"}, id="one without an orphan charge does not"),
        pytest.param([], [5, 2 * HOUR], set(), id="nobody asks"),
        pytest.param(["a"], [5, 6 * DAY], {"a"}, id="it stays for days"),
        pytest.param(["a"], [5, 8 * DAY, 9 * DAY], set(), id="and goes in the end"),
        pytest.param(
            ["a", "d"], [9 * DAY], {"a", "b", "c", "d", None}, id="nobody has asked before"
        ),
    ],
)
def test_rows_that_nobody_asks_for_are_forgotten(
    asked: list[str], readings: list[float], left: set[str | None]
) -> None:
    """So memory holds the scope, and the orphans of a week."""
    assert rows_left("increments", asked, *readings) == left


def test_of_running_totals_all_that_were_asked_for_stay() -> None:
    """What a task had reached before its cutoff is what the next row counts from."""
    assert rows_left("cumulative", ["a", "d"], 5, 2 * HOUR) >= {"a", "d"}
