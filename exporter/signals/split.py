"""The split signal: a calm queue beside rising spend after clients left."""

from collections.abc import Iterable
from typing import Final

from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import micros, seconds
from orphanwatch.exporter.model import Attached, QueueSample
from orphanwatch.exporter.readings import Readings
from orphanwatch.exporter.signals.attached import attached_tasks
from orphanwatch.exporter.signals.samples import Gauges, plain_if_known
from orphanwatch.exporter.stores.questions import Windows

SAMPLE_LIFE: Final = micros(60)
"""A queue sample older than this says nothing of now."""

LEAST_FINAL_ROWS: Final = 30
"""A ledger of final rows with fewer in the window is too grainy to tell a rise."""


def fresh_sample(readings: Readings) -> QueueSample | None:
    """Return the newest queue sample, None where there is none of the last minute."""
    sample = readings.queue
    if sample is None or sample.sampled_at is None:
        return None
    return sample if readings.at - sample.sampled_at <= SAMPLE_LIFE else None


def admission_cap(sample: QueueSample | None, config: Config) -> float | None:
    """Return the sample's admission cap, else the configured one."""
    if sample is None:
        return None
    if sample.admission_cap is not None:
        return sample.admission_cap
    return config.stores.queue.admission_cap if config.stores.queue is not None else None


def split_gauges(readings: Readings, config: Config, windows: Windows) -> Gauges:
    """Return queue, spend, attached tasks, and what the three say together."""
    gauges: Gauges = {}
    sample = fresh_sample(readings)
    cap = admission_cap(sample, config)
    attached = attached_tasks(readings, windows)
    depth = sample.depth if sample is not None else None
    plain_if_known(gauges, names.QUEUE_DEPTH, depth)
    plain_if_known(gauges, names.QUEUE_AGE_SECONDS, sample and sample.age_seconds)
    plain_if_known(gauges, names.QUEUE_IN_FLIGHT, sample and sample.in_flight)
    plain_if_known(gauges, names.QUEUE_ADMISSION_CAP, cap)
    if attached is not None:
        plain_if_known(gauges, names.ATTACHED_TASKS, attached.spend_mean)
        plain_if_known(gauges, names.ATTACHED_BASELINE_TASKS, attached.baseline_mean)
    spend, baseline = spend_rates(readings, config)
    plain_if_known(gauges, names.SPEND_TOKENS_PER_SECOND, spend)
    plain_if_known(gauges, names.SPEND_BASELINE_TOKENS_PER_SECOND, baseline)
    plain_if_known(gauges, names.IN_FLIGHT_GAP, in_flight_gap(sample, attached))
    calm = is_calm(depth, cap, config)
    rising = is_rising(readings, config, attached)
    plain_if_known(gauges, names.QUEUE_CALM, calm)
    plain_if_known(gauges, names.SPEND_RISING, rising)
    if calm is not None and rising is not None:
        left = _somebody_left(readings, windows)
        plain_if_known(gauges, names.SPLIT_SIGNAL, calm and rising and left)
    return gauges


def spend_rates(readings: Readings, config: Config) -> tuple[float | None, float | None]:
    """Return tokens per second in the spend and in the baseline window; None is unknown."""
    window = readings.spent
    if window is None:
        return None, None
    spend, baseline = window.spend_tokens, window.baseline_tokens
    return (
        None if spend is None else spend / seconds(config.delta_window),
        None if baseline is None else baseline / seconds(config.baseline_window),
    )


def in_flight_gap(sample: QueueSample | None, attached: Attached | None) -> float | None:
    """Return what engine and queue hold beyond what somebody waits for; None is unknown."""
    if sample is None or sample.in_flight is None or sample.depth is None or attached is None:
        return None
    return max(0.0, sample.in_flight + sample.depth - attached.now)


def is_calm(depth: float | None, cap: float | None, config: Config) -> bool | None:
    """Return whether the queue looks calm under its cap; None is unknown."""
    if depth is None or cap is None:
        return None
    return depth <= config.thresholds.calm_depth_ratio * cap


def is_rising(readings: Readings, config: Config, attached: Attached | None) -> bool | None:
    """Return whether spend rises with nobody to explain it, or stays as clients leave.

    None where spend or the attached tasks are unknown, or final rows too few.
    """
    spend, baseline = spend_rates(readings, config)
    if spend is None or attached is None or _are_too_few(readings, config):
        return None
    if spend <= 0:
        return False
    if baseline is None:
        return None
    if baseline <= 0:
        return attached.spend_mean == 0
    change = _change(attached)
    climbs = _reaches(spend, config.rise_ratio * baseline * max(1.0, change))
    return climbs or _reaches(spend, config.thresholds.flat_ratio * baseline * change)


def _are_too_few(readings: Readings, config: Config) -> bool:
    """Return whether the rows of the window are final ones, and too few to tell a rise."""
    ledger, spent = config.stores.ledger, readings.spent
    if ledger is None or ledger.shape != "final" or spent is None:
        return False
    return spent.spend_rows is None or spent.spend_rows < LEAST_FINAL_ROWS


def _reaches(spend: float, threshold: float) -> bool:
    """Return whether spend is at the threshold or above, whatever the last binary digit says."""
    return spend >= threshold * (1 - 1e-12)


def _change(attached: Attached) -> float:
    if attached.baseline_mean > 0:
        return attached.spend_mean / attached.baseline_mean
    return 1.0 if attached.spend_mean == 0 else float("inf")


def _somebody_left(readings: Readings, windows: Windows) -> bool:
    if readings.gateway is None:
        return False
    stops: Iterable[int] = (stop.at for stop in readings.gateway.stops.values())
    return any(at > windows.baseline_start for at in stops)
