"""How many tasks somebody waits for: submitted, not finished, not stopped."""

from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.model import Attached, Task
from orphanwatch.exporter.readings import Readings
from orphanwatch.exporter.stores.questions import Windows


def is_attached(readings: Readings, task: Task) -> bool:
    """Return whether somebody waits for the task now."""
    span = _span(readings, task)
    return span is not None and span[1] is None


def attached_tasks(readings: Readings, windows: Windows) -> Attached | None:
    """Return the number now and the means of two windows; None where they can't be known.

    The store has summed most of them; the rest were looked at one by one and are added here.
    """
    gateway = readings.gateway
    if gateway is None or gateway.attached is None:
        return None
    now = spend = baseline = 0
    for task in gateway.counted:
        span = _span(readings, task)
        if span is None:
            continue
        start, end = span
        now += end is None
        stop = readings.at if end is None else end
        spend += _overlap(start, stop, windows.spend_start, windows.spend_end)
        baseline += _overlap(start, stop, windows.baseline_start, windows.spend_start)
    summed = gateway.attached
    return Attached(
        summed.now + now,
        summed.spend_mean + spend / (windows.spend_end - windows.spend_start),
        summed.baseline_mean + baseline / (windows.spend_start - windows.baseline_start),
    )


def _span(readings: Readings, task: Task) -> tuple[Instant, Instant | None] | None:
    """Return from when to when somebody waits; the end is None while somebody still does."""
    if task.submitted_at is None or readings.gateway is None:
        return None
    ends = []
    if task.finished_at is not None and task.finished_at <= readings.at:
        ends.append(task.finished_at)
    stop = readings.gateway.stops.get(id(task))
    if stop is not None:
        ends.append(stop.at)
    return task.submitted_at, min(ends, default=None)


def _overlap(start: Instant, end: Instant, lower: Instant, upper: Instant) -> int:
    return max(0, min(end, upper) - max(start, lower))
