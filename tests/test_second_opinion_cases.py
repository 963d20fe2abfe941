"""Named stacks on which product and second opinion once differed, or easily could."""

from typing import Any

import pytest
import second_opinion
from stacks import AT, Stack
from test_second_opinion import disagreements, orphan_disagreements, product_document

Row = dict[str, Any]


def ago(**rows: list[Row]) -> dict[str, list[Row]]:
    """Return rows whose instants are written as seconds after the look, negative before it."""
    full: dict[str, list[Row]] = {"tasks": [], "leases": [], "ledger": [], "queue": []}
    return full | {
        table: [
            {
                name: value + AT if name.endswith("_at") and value is not None else value
                for name, value in row.items()
            }
            for row in mine
        ]
        for table, mine in rows.items()
    }


def task(**columns: Any) -> Row:
    """Return a gateway row of the task t in the overflow pool, submitted long ago."""
    return {"task_id": "t", "pool": "overflow", "submitted_at": -4000.0, **columns}


def lease(**columns: Any) -> Row:
    """Return a released lease of the task t in the overflow pool."""
    released = {"acquired_at": -60.0, "heartbeat_at": -50.0, "released_at": -50.0}
    return {"task_id": "t", "worker_id": "w", "pool": "overflow", **released, **columns}


def charge(at: float, tokens: float | str, **columns: Any) -> Row:
    """Return a ledger row of the task t."""
    return {"task_id": "t", "charged_at": at, "tokens": tokens, **columns}


DUE = [
    task(task_id=f"b{n}", submitted_at=-20.0 + n, deadline_at=-16.0 + n, finished_at=-17.0 + n)
    for n in range(4)
]
SAMPLE = [{"sampled_at": -1.0, "depth": 0.0, "age_seconds": 0.0}]

CASES = [
    pytest.param(
        {}, ago(tasks=[task(cancelled_at=-3700.0)], ledger=[charge(-100.0, 5)]), "hold",
        id="an orphan older than the horizon holds until its last charge is old enough",
    ),
    pytest.param(
        {},
        ago(tasks=[task(cancelled_at=-3700.0)], leases=[lease(acquired_at=-3900.0)]), "hold",
        id="an orphan lease older than the horizon holds until its end is old enough",
    ),
    pytest.param(
        {"grace": 5.0},
        ago(
            tasks=[*DUE, task(task_id="b0", submitted_at=-30.0, deadline_at=-29.0)], queue=SAMPLE
        ),
        "scale",
        id="a row that a newer submission replaced is in no deadline budget",
    ),
    pytest.param(
        {"shape": "final"},
        ago(
            tasks=[task(submitted_at=-100.0, finished_at=-50.0)],
            leases=[lease()],
            ledger=[charge(-10.0, 100)],
        ),
        "shed",
        id="a final row after the finish is spread from the first lease on",
    ),
    pytest.param(
        {"shape": "final"},
        ago(
            tasks=[task(submitted_at=-100.0, cancelled_at=-50.0)],
            leases=[lease(released_at=-45.0)],
            ledger=[charge(-10.0, 100)],
        ),
        "shed",
        id="a final row after a cancel is spread from the first lease on",
    ),
    pytest.param(
        {},
        ago(
            tasks=[task(), task(submitted_at=0.25, cancelled_at=-3.75)],
            leases=[lease(heartbeat_at=0.0, released_at=None)],
        ),
        "scale",
        id="a row submitted later than the instant replaces nothing, whatever it says",
    ),
    pytest.param(
        {},
        ago(
            tasks=[task(submitted_at=-100.0, finished_at=-50.0, cancellable=0)],
            ledger=[charge(-10.0, 100)],
        ),
        "scale",
        id="an uncancellable task is no orphan after its finish either",
    ),
    pytest.param(
        {"shape": "final", "prorated": "report"},
        ago(
            tasks=[task(submitted_at=-100.0, cancelled_at=-50.0)], ledger=[charge(-10.0, 100)]
        ),
        "scale",
        id="what is drained on purpose is reported, and keeps nothing closed",
    ),
    pytest.param(
        {"shape": "final"},
        ago(tasks=[task(submitted_at=None, cancelled_at=-50.0)], ledger=[charge(-10.0, 9)]),
        "hold",
        id="a final row of unknown start goes to the upper bound alone",
    ),
    pytest.param(
        {},
        ago(
            tasks=[task(submitted_at=-100.0, cancelled_at=-50.0)],
            ledger=[charge(-10.0, "many"), charge(-9.0, 7), charge(-9.0, 7, entry_id="e")],
        ),
        "shed",
        id="a row whose tokens are no number costs only itself",
    ),
    pytest.param(
        {},
        ago(
            tasks=[
                task(task_id="req-1", submitted_at=-40.0, cancelled_at=-30.0),
                task(task_id="req-10", submitted_at=-40.0),
            ],
            ledger=[charge(-10.0, 5, task_id=key) for key in ("req-10", " req-1", "REQ-1")],
        ),
        "scale",
        id="ids match exactly or not at all",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "rows", "action"), CASES)
def test_named_stacks_agree(settings: Row, rows: dict[str, list[Row]], action: str) -> None:
    """Both sides say the same about a stack whose right verdict was worked out by hand."""
    stack = Stack(settings=settings, rows=rows)
    opinion = second_opinion.evaluate(stack.readable(), stack.known_settings(), AT)
    assert opinion["verdict"]["action"] == action
    product = product_document(stack)
    found = disagreements(product, opinion) + orphan_disagreements(product, opinion)
    assert not found, "\n".join(found)
    assert product["verdict"]["action"] == action
