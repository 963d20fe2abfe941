"""Hypothesis strategies that draw any stack, dense in boundary cases."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from stack_episodes import UNCONFIGURED_POOL, crowds, episodes, relatives
from stacks import AT, COLUMNS, FORMS, Row, Stack

NO_IDS = (None, "", "  ", "None", "null")
TASK_IDS = ("t1", "t2", "t3", "t10", "T1")
RETRY_IDS = ("r1", "r2")
WORKERS = ("w1", "w2", "w3")
POOLS = ("paid", "overflow", "batch")

Draw = Callable[[st.SearchStrategy[Any]], Any]


@st.composite
def settings_of_stacks(draw: Draw) -> Row:
    """Draw settings: the contract's defaults, or short windows that make boundaries dense."""
    tight = draw(st.booleans())
    pools: Row = {"paid": {"role": "paid"}, "overflow": {"role": "overflow"}}
    if draw(st.booleans()):
        pools["paid"]["lease_cap"] = draw(st.sampled_from((0, 2)))
        pools["batch"] = {"role": "overflow", "grace": draw(st.sampled_from((0.25, 5.0)))}
    if draw(st.integers(0, 9)) == 9:
        pools["overflow"]["cancel_channel"] = False
    return {
        "pools": pools,
        "grace": draw(st.sampled_from((1.0, 0.25, 5.0))),
        "delta_window": 8.0 if tight else 60.0,
        "baseline_window": 16.0 if tight else 300.0,
        "horizon": 32.0 if tight else 3600.0,
        "clock_skew_allowance": draw(st.sampled_from((0.0, 0.0, 0.5))),
        "reopen_hold": draw(st.sampled_from((300.0, 4.0))),
        "deadline": draw(st.sampled_from(("hard", "hard", "soft"))),
        "rows": draw(st.sampled_from(("live", "live", "live", "at_end"))),
        "lease_ttl": draw(st.sampled_from((60.0, 10.0))),
        "heartbeat": draw(st.sampled_from((None, 4.0))),
        "shape": draw(st.sampled_from(("increments", "cumulative", "final"))),
        "lag": draw(st.sampled_from((0.0, 0.0, 4.0, 30.0))),
        "prorated": draw(st.sampled_from(("page", "report"))),
        "admission_cap": draw(st.sampled_from((None, 8.0))),
    }


def edges(settings: Row) -> list[float]:
    """Return the ages at which something in the contract changes its mind."""
    window, lag = settings["delta_window"], settings["lag"]
    baseline, horizon = settings["baseline_window"], settings["horizon"]
    far = window + lag + baseline + horizon
    return sorted(
        {
            *(0.0, settings["grace"], lag, window, window + lag, window + lag + baseline),
            *(horizon, far, settings["lease_ttl"], settings["reopen_hold"]),
        }
    )


def instants(settings: Row, *, future: bool = True) -> st.SearchStrategy[float]:
    """Draw instants: near T, over the windows, on and just off every edge; some later than T."""
    quarter = st.sampled_from((-0.25, 0.0, 0.25))
    on_edge = st.builds(lambda edge, off: edge + off, st.sampled_from(edges(settings)), quarter)
    recent = st.integers(0, 48).map(lambda step: step / 4)
    wide = st.integers(0, int(settings["delta_window"] * 2)).map(float)
    ages = [recent, recent, wide, on_edge]
    if future:
        ages.append(st.sampled_from((-0.25, -3.0)))
    floor = 0.0 if not future else float("-inf")
    return st.one_of(ages).map(lambda age: AT - max(floor, age))


def maybe(strategy: st.SearchStrategy[Any], *, one_in: int = 2) -> st.SearchStrategy[Any]:
    """Draw a value, or None once in so many."""
    return st.integers(1, one_in).flatmap(lambda n: st.none() if n == 1 else strategy)


@st.composite
def tasks_of(draw: Draw, settings: Row) -> Row:
    """Draw one gateway row."""
    when = instants(settings)
    submitted = draw(maybe(when, one_in=8))
    no_sooner = when.map(lambda instant: max(instant, submitted or 0.0))
    return {
        "task_id": draw(st.sampled_from((*TASK_IDS, *TASK_IDS, *NO_IDS))),
        "retry_id": draw(st.sampled_from((*RETRY_IDS, *RETRY_IDS, *NO_IDS))),
        "attempt": draw(st.sampled_from((None, 1, 1, 2, 3))),
        "pool": draw(st.sampled_from((*POOLS, *POOLS, UNCONFIGURED_POOL, None, ""))),
        "submitted_at": submitted,
        "deadline_at": draw(maybe(no_sooner)),
        "cancelled_at": draw(maybe(when)),
        "finished_at": draw(maybe(no_sooner)),
        "outcome": draw(st.sampled_from((None, "ok", "ok", "error"))),
        "cancellable": draw(st.sampled_from((None, 1, 1, 1, 0))),
    }


def cutoffs(task: Row, settings: Row) -> list[float]:
    """Return instants that may be this task's stop, or its cutoff."""
    graces = {
        settings["grace"],
        *(p.get("grace", settings["grace"]) for p in settings["pools"].values()),
    }
    events = (task["cancelled_at"], task["deadline_at"], task["finished_at"])
    found = [event for event in events if event is not None]
    skew = settings["clock_skew_allowance"]
    return found + [event + grace + skew for event in found for grace in sorted(graces)]


def near(task: Row | None, settings: Row) -> st.SearchStrategy[float]:
    """Draw instants that matter for a task."""
    special = [] if task is None else cutoffs(task, settings)
    if not special:
        return instants(settings)
    quarter = st.sampled_from((-0.25, 0.0, 0.0, 0.25, 2.0))
    exact = st.builds(lambda edge, off: edge + off, st.sampled_from(special), quarter)
    return st.one_of(instants(settings), exact)


@st.composite
def leases_of(draw: Draw, settings: Row, tasks: list[Row]) -> Row:
    """Draw one lease: of a task mostly, of a stranger, or of nobody."""
    task = draw(st.sampled_from([*tasks, *tasks, None]))
    stranger = st.sampled_from((*NO_IDS, "stranger"))
    acquired = draw(near(task, settings))
    later = near(task, settings).map(lambda instant: max(instant, acquired))
    known = draw(st.integers(0, 9)) < 9  # when it was acquired
    return {
        "task_id": draw(stranger) if task is None else task["task_id"],
        "worker_id": draw(st.sampled_from((*WORKERS, *WORKERS, None, ""))),
        "pool": draw(st.sampled_from((*POOLS, UNCONFIGURED_POOL, None))),
        "acquired_at": acquired if known else None,
        "heartbeat_at": draw(maybe(later, one_in=4)),
        "released_at": draw(maybe(later)),
    }


@st.composite
def charges_of(draw: Draw, settings: Row, tasks: list[Row]) -> Row:
    """Draw one ledger row: of a task mostly, of a stranger, a worker or nobody."""
    task = draw(st.sampled_from([*tasks, *tasks, *tasks, None]))
    # Running totals of nobody: the contract doesn't say which of them belong together.
    nobody = () if settings["shape"] == "cumulative" else NO_IDS
    if task is not None and task["task_id"] in NO_IDS and not nobody:
        task = None
    strange = st.sampled_from((*nobody, "stranger", *WORKERS))
    key = draw(strange) if task is None else task["task_id"]
    charged = draw(maybe(near(task, settings), one_in=20))
    started = None
    if settings["shape"] != "cumulative" and charged is not None:
        started = draw(maybe(near(task, settings).map(lambda instant: min(instant, charged))))
    tokens = st.one_of(st.sampled_from((None, 0, 100, 100, 12.5, -7, "many")), st.integers(1, 400))
    return {
        "task_id": key,
        "tokens": draw(tokens),
        "charged_at": charged,
        "prompt_tokens": draw(st.sampled_from((None, 0, 3, 50))),
        "started_at": started,
        "entry_id": None,
    }


@st.composite
def samples_of(draw: Draw) -> Row:
    """Draw one queue sample."""
    return {
        "sampled_at": AT - draw(st.sampled_from((2.0, 0.0, 2.5, 5.0, 59.75, 60.0, 60.25, -1.0))),
        "depth": draw(st.sampled_from((1, 0, 1, 4, 5, 40, None))),
        "age_seconds": draw(st.sampled_from((0.5, 0, 1, 30, None))),
        "in_flight": draw(st.sampled_from((3, 0, 40, 3, None))),
        "admission_cap": draw(st.sampled_from((8, 2, 80, 8, None))),
    }


@st.composite
def stacks(draw: Draw) -> Stack:
    """Draw any stack."""
    settings = draw(settings_of_stacks())
    dropped = draw(dropped_columns(settings))
    tasks = draw(st.lists(tasks_of(settings), max_size=5))
    leases = draw(st.lists(leases_of(settings, tasks), max_size=4))
    ledger = draw(st.lists(charges_of(settings, tasks), max_size=5))
    told = draw(st.lists(episodes(settings), max_size=5))
    told += draw(st.lists(relatives(settings), max_size=1))
    told += draw(st.lists(crowds(settings), max_size=1))
    for episode in told:
        tasks += episode["tasks"]
        leases += episode["leases"]
        ledger += episode["ledger"]
    tasks = _without_ties(tasks, submissions="submitted_at" not in dropped.get("tasks", ()))
    ledger += draw(bursts(settings, tasks))
    queue = draw(st.lists(samples_of(), max_size=3, unique_by=lambda row: row["sampled_at"]))
    absent = {
        table: draw(st.sampled_from((None,) * 28 + ("unconfigured", "missing")))
        for table in COLUMNS
    }
    if set(absent.values()) == {"unconfigured"}:
        absent["queue"] = None  # a config names at least one store
    return Stack(
        settings=settings,
        rows={
            "tasks": tasks,
            "leases": _first_leases_are_clear(leases, tasks),
            "ledger": _starts_are_known(draw(with_copies(ledger)), tasks, settings),
            "queue": queue,
        },
        dropped=dropped,
        unconfigured=tuple(table for table, how in absent.items() if how == "unconfigured"),
        missing=tuple(table for table, how in absent.items() if how == "missing"),
        forms=draw(written_forms()),
    )


@st.composite
def dropped_columns(draw: Draw, settings: Row) -> dict[str, tuple[str, ...]]:
    """Draw the optional columns that the tables do not have; mostly they have them all."""
    needed = {"acquired_at", "sampled_at"}
    # A final row of unknown start is a case for a table test, not for chance.
    needed |= {"submitted_at", "started_at"} if settings["shape"] == "final" else set()
    starred = {"task_id", "tokens", "charged_at"}
    dropped: dict[str, tuple[str, ...]] = {}
    for table, columns in COLUMNS.items():
        optional = [name for name in columns if name not in needed | starred]
        if draw(st.integers(0, 9)) == 9:
            dropped[table] = tuple(
                draw(st.lists(st.sampled_from(optional), min_size=1, max_size=2, unique=True))
            )
    return dropped


@st.composite
def bursts(draw: Draw, settings: Row, tasks: list[Row]) -> list[Row]:
    """Draw nothing, or so many rows in the spend window that a final ledger can be judged."""
    if draw(st.integers(0, 5)) < 5:
        return []
    known = [task["task_id"] for task in tasks if task["task_id"] not in NO_IDS]
    key = draw(st.sampled_from([*known, "stranger"]))
    end = AT - settings["lag"]
    rows: list[Row] = []
    for step in range(draw(st.sampled_from((29, 30, 31)))):
        row: Row = dict.fromkeys(COLUMNS["ledger"])
        charged = end - (step % 28) / 4
        rows.append(row | {"task_id": key, "tokens": 2.0, "charged_at": charged})
        if settings["shape"] == "cumulative":
            rows[-1]["tokens"] = 100.0 - step
        if settings["shape"] == "final":
            rows[-1]["started_at"] = charged - 1.0
    return rows


@st.composite
def with_copies(draw: Draw, ledger: list[Row]) -> list[Row]:
    """Give some rows an entry id, and write one of them twice."""
    named = [
        row | {"entry_id": draw(st.sampled_from((f"e{number}", f"e{number}", *NO_IDS)))}
        if number < 4
        else row
        for number, row in enumerate(ledger)
    ]
    copies = [row for row in named[:2] if draw(st.booleans())]
    return named + [row for row in copies if row["entry_id"] not in NO_IDS]


@st.composite
def written_forms(draw: Draw) -> dict[tuple[str, str], str]:
    """Draw how each column of instants is written."""
    return {
        (table, name): draw(st.sampled_from(FORMS))
        for table, columns in COLUMNS.items()
        for name in columns
        if name.endswith("_at")
    }


def _without_ties(tasks: list[Row], *, submissions: bool) -> list[Row]:
    """Leave out namesakes of equal submission: the contract names no winner."""
    kept: dict[Any, Row] = {}
    for number, task in enumerate(tasks):
        mine = task["submitted_at"] if submissions else None
        key = number if task["task_id"] in NO_IDS else (task["task_id"], mine)
        kept.setdefault(key, task)
    return list(kept.values())


def _first_leases_are_clear(leases: list[Row], tasks: list[Row]) -> list[Row]:
    """Leave no doubt which lease of a request is the first, nor which pool it says.

    Leases of one task that are acquired together get the same pool, since either may be first;
    only the sole lease of a request may have been acquired at an unknown time.
    """
    pools: dict[Any, Any] = {}
    retried = {task["task_id"] for task in tasks if task["retry_id"] not in NO_IDS}
    holders = [lease["task_id"] for lease in leases]
    clear: list[Row] = []
    for lease in leases:
        acquired, task_id = lease["acquired_at"], lease["task_id"]
        if acquired is None and (task_id in retried or holders.count(task_id) > 1):
            acquired = AT - 13.0 if lease["heartbeat_at"] is None else lease["heartbeat_at"]
        pool = pools.setdefault((task_id, acquired), lease["pool"])
        clear.append(lease | {"acquired_at": acquired, "pool": pool})
    return clear


def _starts_are_known(ledger: list[Row], tasks: list[Row], settings: Row) -> list[Row]:
    """Give final rows of tasks without a submission a start of their own."""
    if settings["shape"] != "final":
        return ledger
    vague = {task["task_id"] for task in tasks if task["submitted_at"] is None}
    return [
        row | {"started_at": row["charged_at"] - 2.0}
        if row["task_id"] in vague and row["started_at"] is None and row["charged_at"] is not None
        else row
        for row in ledger
    ]
