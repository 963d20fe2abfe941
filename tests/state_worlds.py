"""Made-up evaluations for the counter book, and a small world to be killed in.

Run as a program it is that world: ``run`` lives in it for ever, ``sweep`` is killed in it at
every single statement.
"""

import json
import os
import signal
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import SECOND, Instant
from orphanwatch.exporter.model import (
    Evaluation,
    Lease,
    Propagation,
    Rejected,
    StoreHealth,
    Tally,
    Verdict,
)
from orphanwatch.exporter.names import (
    CANCEL_PROPAGATION_SECONDS,
    ROWS_REJECTED_TOTAL,
    STRADDLING_TOKENS_TOTAL,
    TOKENS_TOTAL,
    Action,
    Cause,
    RejectReason,
    StoreName,
)
from orphanwatch.exporter.state import CounterBook, Counters, LeaseSight

START = Instant(1_700_000_000 * SECOND)
DAY = 86400 * SECOND
STEPS = 4


def a_config(**changes: Any) -> Config:
    """Return a config with one paid and one overflow pool, and whatever is changed."""
    document = {"pools": {"paid": {"role": "paid"}, "overflow": {"role": "overflow"}}, "stores": {}}
    return Config.model_validate(document | changes)


def after(seconds: float) -> Instant:
    """Return the instant so many seconds after the start."""
    return Instant(START + round(seconds * SECOND))


def a_tally(
    charged: float = 0,
    *,
    task: str = "t1",
    pool: str = "overflow",
    cause: Cause = Cause.CLIENT_CANCEL,
    prorated: float = 0,
    straddling: float = 0,
    before: float = 0,
) -> Tally:
    """Return a task's tokens; ``before`` is the charged part from before counting began."""
    return Tally(
        task, f"r-{task}", pool, cause, charged, prorated, straddling, before, 0, 0
    )  # fmt: skip


def a_propagation(
    seconds: float, *, task: str = "t1", pool: str = "overflow", stopped: float = 0
) -> Propagation:
    """Return a sample whose stop lies so many seconds after the start."""
    return Propagation(task, pool, after(stopped), after(stopped + seconds), seconds)


def a_lease(task: str | None, worker: str = "w1", **changes: Any) -> Lease:
    """Return an unreleased lease, acquired at the start."""
    return Lease(task, worker, "overflow", START, None, None)._replace(**changes)


def an_evaluation(
    at: float,
    *,
    tallies: Sequence[Tally] | None = (),
    propagations: Sequence[Propagation] | None = (),
    open_tasks: Sequence[str] = (),
    rejected: Sequence[Rejected] = (),
    last_evidence: Instant | None = None,
    down: Sequence[StoreName] = (),
) -> Evaluation:
    """Return an evaluation so many seconds after the start."""
    return Evaluation(
        at=after(at),
        gauges={},
        verdict=Verdict(action=Action.SCALE, reasons=()),
        orphans=(),
        stores={store: StoreHealth(up=store not in down) for store in StoreName},
        tallies=None if tallies is None else tuple(tallies),
        propagations=None if propagations is None else tuple(propagations),
        open_tasks=tuple(open_tasks),
        rejected=tuple(rejected),
        last_evidence=last_evidence,
    )


def moved(counters: Counters) -> dict[str, float]:
    """Return every sample that is not 0, written as on the page, histograms by count and sum."""
    samples = {
        f"{family.name}{list(labels)}": value
        for family in (TOKENS_TOTAL, STRADDLING_TOKENS_TOTAL, ROWS_REJECTED_TOTAL)
        for labels, value in counters.counters[family].items()
    }
    for labels, value in counters.histograms[CANCEL_PROPAGATION_SECONDS].items():
        samples[f"propagation_count{list(labels)}"] = value.count
        samples[f"propagation_sum{list(labels)}"] = value.sum
    return {name: value for name, value in samples.items() if value}


def a_step(book: CounterBook, step: int) -> tuple[Evaluation, LeaseSight]:
    """Return what is read at a step of the world: four tasks, a minute between the steps."""
    since = (book.counting_since - START) / SECOND
    at = 60.0 * step
    tasks = [f"t{number}" for number in range(4) if number <= step]
    tallies = [
        a_tally(
            10.0 * (step + 1), task=task, prorated=1.5 * step, straddling=3.0 * step,
            before=10.0 * (1 + since // 60), cause=list(Cause)[number],
        )
        for number, task in enumerate(tasks)
    ]  # fmt: skip
    settled = [
        a_propagation(0.7 * number, task=f"s{number}", stopped=60.0 * number)
        for number in range(1, step + 1)
    ]
    rejected = [
        Rejected(StoreName.LEDGER, RejectReason.UNKNOWN_TOKENS, f"row {number}")
        for number in range(step // 2)
    ]
    seen = an_evaluation(
        at, tallies=tallies, propagations=settled, open_tasks=tasks[-1:], rejected=rejected,
        last_evidence=after(at - 1),
    )  # fmt: skip
    held = [a_lease(task, heartbeat_at=after(at)) for task in tasks if task != f"t{step - 2}"]
    return seen, LeaseSight(listed=held, of_watched=held, watched_ids=frozenset(tasks))


def live_on(path: Path, first: int, last: int, tell: Callable[[str], object]) -> None:
    """Live through the steps from ``first`` on, and tell after each what is counted."""
    config = a_config()
    book = CounterBook.open(path, config, START)
    for step in range(first, last):
        evaluation, sight = a_step(book, step)
        counters = book.apply(evaluation, config, refresh_seconds=0.01, leases=sight)
        tell(json.dumps({"step": step, "moved": moved(counters)}))
    book.close()


def die_at_statement(number: int) -> None:
    """Have this process kill itself when it is about to run its n-th SQL statement."""
    connect, left = sqlite3.connect, [number]

    def count(_statement: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def connect_counting(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **options)
        connection.set_trace_callback(count)
        return connection

    sqlite3.connect = connect_counting  # type: ignore[assignment]  # this process dies of it


def publish(line: str) -> None:
    """Write a line where whoever started this process reads it at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _in_a_child(path: Path, log: Path, first: int, statement: int) -> bool:
    """Live on in a child process; say whether it was killed."""
    child = os.fork()
    if child == 0:
        with log.open("a", buffering=1) as lines:
            if statement:
                die_at_statement(statement)
            live_on(path, first, STEPS, lambda line: lines.write(line + "\n"))
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def sweep() -> None:
    """Kill the world at its first statement, its second, and so on; print how each one ended."""
    statement, killed = 0, True
    while killed:
        statement += 1
        with tempfile.TemporaryDirectory() as folder:
            path, log = Path(folder, "state.db"), Path(folder, "log")
            killed = _in_a_child(path, log, 0, statement)
            published = [json.loads(line) for line in log.read_text().splitlines()]
            # What was committed and not published is simply read again.
            _in_a_child(path, log, len(published), 0)
            lines = [json.loads(line) for line in log.read_text().splitlines()]
        publish(json.dumps({"statement": statement, "killed": killed, "published": lines}))


if __name__ == "__main__":
    if sys.argv[1] == "sweep":
        sweep()
    else:
        live_on(Path(sys.argv[2]), int(sys.argv[3]), sys.maxsize, publish)
