"""The last minutes of an exporter: a few numbers of each evaluation, for the status page's charts.

It is kept in memory only. After a start it begins anew, and the charts say since when.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import Instant, micros, seconds
from orphanwatch.exporter.model import Evaluation, Sample
from orphanwatch.exporter.names import Action, Family

SPAN: Final = micros(900)
"""How far back it reaches."""

SLOT: Final = micros(3)
"""Of the evaluations within one slot the newest is kept, which bounds what is kept at all."""


class Moment(NamedTuple):
    """One evaluation in short. ``None`` is unknown, never zero."""

    at: Instant
    action: Action
    depth: float | None
    calm_limit: float | None
    """The depth up to which the queue counts as calm."""
    spend: float | None
    """Tokens per second, as are the two below."""
    baseline: float | None
    orphan: float | None
    """What was charged past cutoffs, over the delta window."""


History = tuple[Moment, ...]
"""Moments, the oldest first."""


def moment_of(evaluation: Evaluation, config: Config) -> Moment:
    """Return an evaluation in short."""
    gauges = evaluation.gauges
    cap = _total(gauges, names.QUEUE_ADMISSION_CAP)
    delta = _total(gauges, names.TOKEN_DELTA)
    return Moment(
        at=evaluation.at,
        action=evaluation.verdict.action,
        depth=_total(gauges, names.QUEUE_DEPTH),
        calm_limit=None if cap is None else cap * config.thresholds.calm_depth_ratio,
        spend=_total(gauges, names.SPEND_TOKENS_PER_SECOND),
        baseline=_total(gauges, names.SPEND_BASELINE_TOKENS_PER_SECOND),
        orphan=None if delta is None else delta / seconds(config.delta_window + config.lag),
    )


def remember(history: History, moment: Moment) -> History:
    """Return the history with one moment more, and without what is too old by then.

    A clock that was set back begins a new history: time runs one way on an axis.
    """
    kept = [each for each in history if moment.at - SPAN < each.at <= moment.at]
    if len(kept) < len(history) and history[-1].at > moment.at:
        kept = []
    if kept and kept[-1].at // SLOT == moment.at // SLOT:
        kept.pop()
    return (*kept, moment)


def _total(gauges: Mapping[Family, tuple[Sample, ...]], family: Family) -> float | None:
    samples = gauges.get(family, ())
    return sum(sample.value for sample in samples) if samples else None
