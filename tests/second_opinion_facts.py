"""The second opinion's facts: who stopped waiting when, who still works, what was charged.

Written from the contract's words, row by row, sharing nothing with the product but its names.
Slow on purpose: every question walks every row. Instants are epoch seconds, None is "not said".
"""

from typing import Any

from orphanwatch.exporter.names import Basis, Cause

Row = dict[str, Any]


def id_or_none(value: object) -> str | None:
    """Return an id; None for what the contract calls "no id"."""
    if value is None or str(value).strip().lower() in ("", "none", "null"):
        return None
    return str(value)


def happened(instant: float | None, at: float) -> float | None:
    """Return an event's instant if it has happened by ``at``."""
    return instant if instant is not None and instant <= at else None


def read_tasks(rows: list[Row], at: float) -> list[Row]:
    """Return the tasks that exist at ``at``, one per task id: the newest submission."""
    tasks: list[Row] = []
    for row in rows:
        submitted = row.get("submitted_at")
        if submitted is not None and submitted > at:
            continue
        cancelled = happened(row.get("cancelled_at"), at)
        if cancelled is not None and submitted is not None and cancelled < submitted:
            cancelled = None  # it was meant for somebody else
        cancellable = row.get("cancellable")
        attempt = row.get("attempt")
        tasks.append(
            {
                "task_id": id_or_none(row.get("task_id")),
                "retry_id": id_or_none(row.get("retry_id")),
                "attempt": 1 if attempt is None else attempt,
                "pool": id_or_none(row.get("pool")),
                "submitted_at": submitted,
                "deadline_at": row.get("deadline_at"),
                "cancelled_at": cancelled,
                "finished_at": happened(row.get("finished_at"), at),
                "ok": row.get("outcome") in (None, "ok"),
                "cancellable": cancellable is None or bool(cancellable),
                "events": [
                    row.get(name)
                    for name in ("submitted_at", "cancelled_at", "deadline_at", "finished_at")
                ],
            }
        )
    return [task for task in tasks if not _has_newer_namesake(task, tasks)]


def _has_newer_namesake(task: Row, tasks: list[Row]) -> bool:
    if task["task_id"] is None:
        return False
    mine = float("-inf") if task["submitted_at"] is None else task["submitted_at"]
    return any(
        other is not task
        and other["task_id"] == task["task_id"]
        and other["submitted_at"] is not None
        and other["submitted_at"] > mine
        for other in tasks
    )


def read_leases(rows: list[Row], settings: Row, at: float) -> list[Row]:
    """Return the leases acquired by ``at``, each with its age and state."""
    leases: list[Row] = []
    for row in rows:
        acquired = row.get("acquired_at")
        heartbeat = row.get("heartbeat_at")
        if acquired is None and heartbeat is None:
            continue
        if acquired is not None and acquired > at:
            continue
        if heartbeat is not None and heartbeat > at:
            heartbeat = at
        released = happened(row.get("released_at"), at)
        last: Any = acquired if heartbeat is None else heartbeat
        age = max(0.0, at - last)
        fresh = not settings["maps_heartbeat"] or age <= settings["lease_ttl"]
        leases.append(
            {
                "task_id": id_or_none(row.get("task_id")),
                "worker_id": id_or_none(row.get("worker_id")),
                "pool": id_or_none(row.get("pool")),
                "acquired_at": acquired,
                "heartbeat_at": heartbeat,
                "released_at": released,
                "age": age,
                "live": released is None and fresh,
                "expired": released is None and not fresh,
                "ended_at": _end(settings, last, released),
            }
        )
    return leases


def read_workers(rows: list[Row], at: float) -> set[str]:
    """Return the id of every worker that some lease by ``at`` names, whatever else it says."""
    named = {
        id_or_none(row.get("worker_id"))
        for row in rows
        if row.get("acquired_at") is None or row["acquired_at"] <= at
    }
    return {worker for worker in named if worker is not None}


def _end(settings: Row, last_beat: float, released: float | None) -> float:
    """Return when the lease stopped, or will stop, being live."""
    ends = [float("inf")]
    if released is not None:
        ends.append(released)
    if settings["maps_heartbeat"]:
        ends.append(last_beat + settings["lease_ttl"])
    return min(ends)


def read_charges(rows: list[Row], at: float) -> list[Row]:
    """Return the ledger rows charged by ``at`` that say a number of tokens, zero included."""
    charges: list[Row] = []
    seen: list[str] = []
    for row in rows:
        tokens, charged = row.get("tokens"), row.get("charged_at")
        if charged is None or charged > at:
            continue
        if not isinstance(tokens, int | float) or tokens < 0:
            continue
        entry = id_or_none(row.get("entry_id"))
        if entry is not None and entry in seen:
            continue
        if entry is not None:
            seen.append(entry)
        charges.append(
            {
                "key": id_or_none(row.get("task_id")),
                "tokens": float(tokens),
                "charged_at": charged,
                "started_at": row.get("started_at"),
                "prompt_tokens": row.get("prompt_tokens") or 0.0,
            }
        )
    return charges


def read_queue(rows: list[Row], settings: Row, at: float) -> Row:
    """Return the newest sample, with what is unknown as None; older than 60 s is unknown."""
    nothing: Row = {"depth": None, "age_seconds": None, "in_flight": None, "admission_cap": None}
    samples = [row for row in rows if row.get("sampled_at") is not None and row["sampled_at"] <= at]
    if not samples:
        return nothing
    newest = max(samples, key=lambda row: float(row["sampled_at"]))
    if at - newest["sampled_at"] > 60:
        return nothing
    sample = {name: newest.get(name) for name in nothing}
    if sample["admission_cap"] is None:
        sample["admission_cap"] = settings["admission_cap"]
    return sample


def first_lease(task_id: str | None, leases: list[Row]) -> Row | None:
    """Return the task's earliest acquired lease; one of unknown time was there before."""
    if task_id is None:
        return None
    mine = [lease for lease in leases if lease["task_id"] == task_id]
    if not mine:
        return None
    return min(
        mine,
        key=lambda lease: (
            lease["acquired_at"] is not None,
            lease["acquired_at"] or 0.0,
            lease["worker_id"] or "",
        ),
    )


def find_stop(task: Row, tasks: list[Row], settings: Row, at: float) -> tuple[float, Cause] | None:
    """Return the moment nobody waits for the task any more, and why; None if somebody does."""
    stops: list[tuple[float, int, Cause]] = []
    if task["cancelled_at"] is not None:
        stops.append((task["cancelled_at"], 0, Cause.CLIENT_CANCEL))
    deadline = happened(task["deadline_at"], at)
    if deadline is not None and settings["deadline"] == "hard":
        stops.append((deadline, 1, Cause.DEADLINE))
    for other in tasks:
        if other is task or task["retry_id"] is None or other["retry_id"] != task["retry_id"]:
            continue
        done = completion(other)
        if done is None:
            continue
        if task["submitted_at"] is not None and done <= task["submitted_at"]:
            continue
        stops.append((done, 2, Cause.SIBLING_COMPLETED))
    if not stops:
        return None
    stop, _, cause = min(stops)
    finished = task["finished_at"]
    if finished is not None and finished < stop:
        return None
    if finished is not None and finished == stop and cause is not Cause.CLIENT_CANCEL:
        return None
    return stop, cause


def completion(task: Row) -> float | None:
    """Return when the task finished well: ok, before its own cancel, not after its deadline."""
    finished: float | None = task["finished_at"]
    if finished is None or not task["ok"]:
        return None
    if task["cancelled_at"] is not None and task["cancelled_at"] <= finished:
        return None
    if task["deadline_at"] is not None and finished > task["deadline_at"]:
        return None
    return finished


def split_charges(charges: list[Row], shape: str) -> list[Row]:
    """Return what each row adds: running totals become their increases over the maximum."""
    if shape != "cumulative":
        return charges
    # A row that names nobody joins no other: its total is all its own.
    added: list[Row] = [charge for charge in charges if charge["key"] is None]
    for key in {charge["key"] for charge in charges} - {None}:
        highest = 0.0
        mine = [charge for charge in charges if charge["key"] == key]
        for charge in sorted(mine, key=lambda row: float(row["charged_at"])):
            added.append({**charge, "tokens": max(0.0, charge["tokens"] - highest)})
            highest = max(highest, charge["tokens"])
    return added


def orphan_parts(charges: list[Row], shape: str, cutoff: float, start: float | None) -> list[Row]:
    """Return the orphan part of each row charged after the cutoff: basis, tokens, whole row.

    ``start`` is when the task began, for final rows that do not say so themselves.
    """
    parts: list[Row] = []
    for charge in split_charges(charges, shape):
        charged, tokens = charge["charged_at"], charge["tokens"]
        if charged <= cutoff:
            continue
        began: Any = charge["started_at"] if charge["started_at"] is not None else start
        part: Row = {"at": charged, "basis": Basis.CHARGED, "tokens": tokens, "straddling": 0.0}
        if shape == "final" and began is None:
            # Nobody can say which part; the whole row is the upper bound of it.
            part |= {"basis": Basis.PRORATED, "tokens": 0.0, "straddling": tokens}
        elif shape == "final" and began <= cutoff:
            spread = max(0.0, tokens - charge["prompt_tokens"])
            part["basis"] = Basis.PRORATED
            part["tokens"] = spread * (charged - cutoff) / (charged - began)
            part["straddling"] = tokens
        parts.append(part)
    return parts
