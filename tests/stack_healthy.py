"""A Hypothesis strategy for healthy stacks: every cancel arrives in time, so all must read zero."""

from hypothesis import strategies as st
from stack_episodes import UNCONFIGURED_POOL, Draw
from stack_strategies import samples_of, settings_of_stacks, written_forms
from stacks import AT, COLUMNS, Row, Stack


@st.composite
def healthy_stacks(draw: Draw) -> Stack:
    """Draw a stack in which every cancel arrives: whatever its shape, it must read zero."""
    settings = draw(settings_of_stacks()) | {"reopen_hold": 300.0}
    rows: dict[str, list[Row]] = {"tasks": [], "leases": [], "ledger": [], "queue": []}
    for number in range(draw(st.integers(0, 8))):
        _add_healthy_task(draw, settings, rows, f"h{number}")
    rows["queue"] = draw(
        st.lists(samples_of(), max_size=2, unique_by=lambda row: row["sampled_at"])
    )
    return Stack(settings=settings, rows=rows, forms=draw(written_forms()))


def _add_healthy_task(draw: Draw, settings: Row, rows: dict[str, list[Row]], name: str) -> None:
    """Add one task that runs, finished in time, or stopped within its grace."""
    pool = draw(st.sampled_from([*settings["pools"], UNCONFIGURED_POOL]))
    grace = settings["pools"].get(pool, {}).get("grace", settings["grace"])
    fate = draw(st.sampled_from(("running", "finished", "cancelled", "failed")))
    age = draw(st.integers(8, 40)) / 4
    submitted = AT - age - draw(st.sampled_from((0.0, 10.0, settings["delta_window"])))
    end = AT if fate == "running" else submitted + draw(st.integers(1, 8)) / 4
    patient = draw(st.booleans())
    task: Row = dict.fromkeys(COLUMNS["tasks"])
    task |= {"task_id": name, "pool": pool, "submitted_at": submitted, "attempt": 1}
    task |= {"retry_id": draw(st.sampled_from((f"retry-{name}", None, "")))}
    task["deadline_at"] = None if patient else max(end, submitted) + 600.0
    stopped = end
    if fate == "cancelled":
        task["cancelled_at"] = end
        stopped = end + draw(st.sampled_from((0.0, grace / 2, grace)))
    elif fate != "running":
        task |= {"finished_at": end, "outcome": "ok" if fate == "finished" else "error"}
    rows["tasks"].append(task)
    rows["leases"].append(
        {
            "task_id": name,
            "worker_id": f"worker-{name}",
            "pool": pool,
            "acquired_at": submitted,
            "heartbeat_at": stopped,
            "released_at": None if fate == "running" else stopped,
        }
    )
    rows["ledger"] += _healthy_charges(settings, name, submitted, min(stopped, AT))


def _healthy_charges(settings: Row, name: str, start: float, end: float) -> list[Row]:
    steps = [end] if settings["shape"] == "final" else [start, (start + end) / 2, end]
    growth = settings["shape"] == "cumulative"
    return [
        {
            "task_id": name,
            "tokens": 40.0 * (step + 1) if growth else 40.0,
            "charged_at": instant,
            "prompt_tokens": 8.0,
            "started_at": start if settings["shape"] == "final" else None,
            "entry_id": None,
        }
        for step, instant in enumerate(steps)
    ]
