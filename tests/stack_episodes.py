"""Hypothesis strategies for whole episodes: a task together with its leases and its charges.

Rows drawn one by one seldom meet; these tell the stories that the contract is about.
"""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from stacks import AT, COLUMNS, Row

Draw = Callable[[st.SearchStrategy[Any]], Any]
Rows = dict[str, list[Row]]

QUARTERS = (-0.25, 0.0, 0.25)
UNCONFIGURED_POOL = "mystery"


def likely_pools(settings: Row) -> tuple[str | None, ...]:
    """Return pools to draw from: mostly configured ones."""
    return (*settings["pools"], *settings["pools"], UNCONFIGURED_POOL, None)


@st.composite
def episodes(draw: Draw, settings: Row) -> Rows:
    """Draw one task that loses its client, or finishes, and what its workers did about it."""
    grace = settings["grace"] + settings["clock_skew_allowance"]
    windows = settings["delta_window"] + settings["lag"]
    old = st.sampled_from((windows, settings["horizon"], settings["horizon"] + windows))
    recent = st.integers(0, 40).map(lambda step: step / 4)
    since = draw(st.one_of(recent, recent, st.just(grace), old))
    since = max(0.0, since + draw(st.sampled_from(QUARTERS)))
    end = AT - since
    task: Row = dict.fromkeys(COLUMNS["tasks"])
    task["task_id"] = draw(st.sampled_from(("t1", "t2", "t3", "t10", "T1", "t4", "t5")))
    task["retry_id"] = draw(st.sampled_from(("r1", "r1", "r2", None, "null")))
    task["attempt"] = draw(st.sampled_from((None, 1, 2)))
    task["pool"] = draw(st.sampled_from(likely_pools(settings)))
    task["submitted_at"] = end - draw(st.sampled_from((0.0, 0.25, 3.0, 12.0)))
    task["outcome"] = draw(st.sampled_from((None, "ok", "error")))
    task["cancellable"] = draw(st.sampled_from((1, 1, 1, 1, 0)))
    for event in draw(st.sampled_from(ENDS)):
        task[event] = end + draw(st.sampled_from((0.0, 0.0, 0.0, 2.0, -0.25)))
    leases = draw(st.lists(_work(settings, task, end, grace), max_size=2))
    charges = draw(st.lists(_charge(settings, task, end, grace), min_size=1, max_size=4))
    return {"tasks": [task], "leases": leases, "ledger": charges}


ENDS: tuple[tuple[str, ...], ...] = (
    ("cancelled_at",),
    ("cancelled_at",),
    ("cancelled_at",),
    ("deadline_at",),
    ("finished_at",),
    ("finished_at",),
    ("cancelled_at", "deadline_at"),
    ("cancelled_at", "finished_at"),
    ("deadline_at", "finished_at"),
    (),
)
"""The events that end a task, at about the same instant."""


@st.composite
def _work(draw: Draw, settings: Row, task: Row, end: float, grace: float) -> Row:
    """Draw a lease that begins around the task's life, and goes on after its end or does not."""
    submitted = task["submitted_at"]
    acquired = draw(st.sampled_from((submitted, submitted, submitted + 0.25, end, end + 0.25)))
    after = st.sampled_from((0.0, grace - 0.25, grace, grace + 0.25, grace + 3.0))
    last = end + draw(after)
    fresh = AT - settings["lease_ttl"]
    beat = draw(st.sampled_from((last, last, AT, AT - 1.0, fresh, fresh - 0.25, None)))
    ended = after.map(lambda length: end + length)
    released = draw(st.one_of(ended, ended, st.none()))
    return {
        "task_id": task["task_id"],
        "worker_id": draw(st.sampled_from(("w1", "w2", "w3", "w4"))),
        "pool": draw(st.sampled_from(likely_pools(settings))),
        "acquired_at": acquired,
        "heartbeat_at": None if beat is None else max(beat, acquired),
        "released_at": None if released is None else max(released, acquired),
    }


@st.composite
def _charge(draw: Draw, settings: Row, task: Row, end: float, grace: float) -> Row:
    """Draw a charge around the task's end, its cutoff, or the edge of the delta window."""
    edge = AT - settings["delta_window"] - settings["lag"] - end
    ages = (0.0, grace, grace + 0.25, grace + 2.0, grace + 5.0, edge, edge + 0.25)
    charged = end + draw(st.sampled_from((*ages, AT - end)))
    started = None
    if settings["shape"] == "final":
        before = st.sampled_from((task["submitted_at"], end, end + grace, end + grace + 0.25))
        started = draw(st.one_of(st.none(), before))
    return {
        "task_id": task["task_id"],
        "tokens": draw(st.sampled_from((100, 7, 250, 12.5, 100, 64, 0, None, -3))),
        "charged_at": charged,
        "prompt_tokens": draw(st.sampled_from((None, 0, 5, 50))),
        "started_at": None if started is None else min(started, charged),
        "entry_id": None,
    }


@st.composite
def relatives(draw: Draw, settings: Row) -> Rows:
    """Draw two attempts at one request, of which the first finishes well."""
    rows: Rows = {"tasks": [], "leases": [], "ledger": []}
    for task_id in ("s1", "s2"):
        told = draw(episodes(settings))
        for table, mine in told.items():
            rows[table] += [row | {"task_id": task_id} for row in mine]
    first, second = rows["tasks"]
    first |= {"retry_id": "s", "outcome": "ok", "cancelled_at": None, "deadline_at": None}
    second |= {"retry_id": "s", "attempt": 2}
    apart = draw(st.sampled_from((-2.0, 0.0, 0.25, 3.0)))
    first["finished_at"] = max(first["submitted_at"], second["submitted_at"] + apart)
    second["cancelled_at"] = draw(st.sampled_from((None, None, first["finished_at"])))
    second["finished_at"] = draw(st.sampled_from((None, None, first["finished_at"], AT)))
    return rows


@st.composite
def crowds(draw: Draw, settings: Row) -> Rows:
    """Draw four to six alike tasks: a deadline budget, or cancels that nobody hears."""
    rows: Rows = {"tasks": [], "leases": [], "ledger": []}
    pool = draw(st.sampled_from(likely_pools(settings)))
    submitted = AT - settings["lag"] - draw(st.sampled_from((0.0, 2.0, settings["delta_window"])))
    budget = draw(st.sampled_from((0.25, 3.0, 12.0, 40.0)))
    cancelled = draw(st.sampled_from((None, 0.0, 1.0)))
    released = draw(st.sampled_from((None, None, 0.0, 2.0)))
    for number in range(draw(st.integers(4, 6))):
        task: Row = dict.fromkeys(COLUMNS["tasks"])
        begin = min(AT, submitted + number / 4)
        task |= {"task_id": f"c{number}", "pool": pool, "submitted_at": begin}
        task["deadline_at"] = begin + budget + number
        task["cancelled_at"] = None if cancelled is None else begin + cancelled
        rows["tasks"].append(task)
        lease = dict.fromkeys(COLUMNS["leases"]) | {"task_id": f"c{number}", "pool": pool}
        lease |= {"worker_id": f"cw{number}", "acquired_at": begin, "heartbeat_at": begin}
        if released is not None and number == 0:
            lease["released_at"] = begin + released
        rows["leases"].append(lease)
    return rows
