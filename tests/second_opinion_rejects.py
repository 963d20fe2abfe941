"""The second opinion on rejected rows: between which bounds their count must lie.

The contract says that a bad row is counted once, not which old rows are read: what a watched task
or the spend window needs must be counted, what the store does not hold must not.
"""

from typing import Any

from second_opinion import SecondOpinion
from second_opinion_facts import Row, id_or_none

from orphanwatch.exporter.names import RejectReason, StoreName

Bounds = dict[tuple[str, str], tuple[int, int]]


def rejected_bounds(stack: dict[str, list[Row] | None], settings: Row, at: float) -> Bounds:
    """Return (least, most) for each store and reason that a stack of numbers can give."""
    opinion = SecondOpinion(stack, settings, at)
    bounds: dict[tuple[StoreName, RejectReason], tuple[int, int]] = {}
    if stack.get("tasks") is not None:
        bounds[StoreName.GATEWAY, RejectReason.DUPLICATE_TASK_ID] = _duplicates(
            stack["tasks"] or [], opinion
        )
    rows = stack.get("ledger")
    if rows is not None:
        for reason, pair in _ledger(rows, settings, opinion).items():
            bounds[StoreName.LEDGER, reason] = pair
    return {(str(store), str(reason)): pair for (store, reason), pair in bounds.items()}


def _duplicates(rows: list[Row], opinion: SecondOpinion) -> tuple[int, int]:
    kept = {task["task_id"]: task["submitted_at"] for task in opinion.all_tasks}
    since = opinion.at - opinion.window - opinion.lag - opinion.baseline - opinion.horizon
    least = most = 0
    for row in rows:
        task_id, submitted = id_or_none(row.get("task_id")), row.get("submitted_at")
        if task_id is None or (submitted is not None and submitted > opinion.at):
            continue
        if submitted != kept[task_id]:
            most += 1
            least += submitted is not None and submitted > since
    return least, most


def _ledger(
    rows: list[Row], settings: Row, opinion: SecondOpinion
) -> dict[RejectReason, tuple[int, int]]:
    watched = {task["task_id"] for task in opinion.tasks if task["watched"] and task["abandoned"]}
    watched.discard(None)
    bounds: dict[RejectReason, tuple[int, int]] = {}
    seen: list[Any] = []
    for row in rows:
        charged, entry = row.get("charged_at"), id_or_none(row.get("entry_id"))
        copy = entry is not None and entry in seen
        needed = charged is not None and opinion.in_spend_window(charged)
        needed = needed or id_or_none(row.get("task_id")) in watched
        reasons = _reasons(row, rows, settings["shape"])
        if charged is not None and charged > opinion.at:
            continue
        if charged is not None:
            seen.append(entry)
        if copy:
            reasons.append((RejectReason.DUPLICATE_ENTRY_ID, False))
        for reason, certain in reasons:
            least, most = bounds.get(reason, (0, 0))
            bounds[reason] = (least + (certain and needed and not copy), most + 1)
    return bounds


def _reasons(row: Row, rows: list[Row], shape: str) -> list[tuple[RejectReason, bool]]:
    """Return the reasons to reject a row, each with whether it must be this one."""
    tokens = row.get("tokens")
    if row.get("charged_at") is None:
        return [(RejectReason.MISSING_INSTANT, False)]
    if tokens is None:
        return [(RejectReason.UNKNOWN_TOKENS, True)]
    if not isinstance(tokens, int | float):
        return [(RejectReason.INVALID_TOKENS, True)]
    if tokens < 0 and shape == "increments":
        return [(RejectReason.ADJUSTMENT, True)]
    # The contract names a negative row only among increments; any of these is a fair word for it.
    negative = (RejectReason.ADJUSTMENT, RejectReason.INVALID_TOKENS, RejectReason.REGRESSION)
    fair = {
        **dict.fromkeys(negative, tokens < 0),
        RejectReason.REGRESSION: tokens < 0 or (shape == "cumulative" and _is_step_back(row, rows)),
        RejectReason.UNKNOWN_START: shape == "final" and row.get("started_at") is None,
    }
    return [(reason, False) for reason, holds in fair.items() if holds]


def _is_step_back(row: Row, rows: list[Row]) -> bool:
    return any(
        other.get("task_id") == row.get("task_id")
        and other.get("charged_at") is not None
        and other["charged_at"] <= row["charged_at"]
        and isinstance(other.get("tokens"), int | float)
        and other["tokens"] > row["tokens"]
        for other in rows
    )
