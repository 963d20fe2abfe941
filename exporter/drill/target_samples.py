"""The samples of propagation that a drill on a real gateway measured, kept with all others."""

from typing import Final

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.drill.samples import DrillSample, keep
from orphanwatch.exporter.drill.target_rehearsed import Rehearsed, propagation_of
from orphanwatch.exporter.drill.target_verdict import Judgement
from orphanwatch.exporter.state_schema import DRILL_SOURCE

TARGET_SOURCE: Final = f"{DRILL_SOURCE}:target"
"""The mark of their samples: work that nobody wanted, on workers that nobody had broken."""


def keep_target_samples(rehearsed: Rehearsed, judgement: Judgement, config: Config) -> str:
    """Write the settled samples into the state file; return what became of all, in a line.

    They stand under the ids of the gateway's store. One that is still open has no place there:
    the file holds how long a cancel took, and not that it took longer than something.
    """
    leavers = [ask for ask in rehearsed.plan.asks if ask.leaves]
    samples = tuple(
        DrillSample(found.task_id, found.pool, found.stopped_at, found.seconds)
        for ask in leavers
        if (found := propagation_of(rehearsed, ask)) is not None
    )
    if not samples:
        return "no propagation was over and known, so there is no sample of it to keep"
    if judgement.doubts:
        # Of clocks that disagree, or of work that was not seen to its end.
        return "samples of propagation are in the report alone: the drill left doubts"
    said = keep(samples, TARGET_SOURCE, config)
    rest = len(leavers) - len(samples)
    return f"{said}; {rest} more open or unknown, which it can't hold" if rest else said
