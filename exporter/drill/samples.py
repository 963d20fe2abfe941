"""The samples of propagation that a drill measured, kept where the measured grace finds them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.drill.report import DrillReport
from orphanwatch.exporter.errors import StateError
from orphanwatch.exporter.instants import Instant, micros, parse_instant
from orphanwatch.exporter.state_rows import storable
from orphanwatch.exporter.state_schema import DRILL_SOURCE, open_beside

_INSERT: Final = (
    "INSERT INTO propagations VALUES (?, ?, ?, ?, ?, ?, 0, ?)"
    " ON CONFLICT (task_id, stopped_at) DO UPDATE SET source = excluded.source"
)


class DrillSample(NamedTuple):
    """How long one cancel of a drill took to stop its task."""

    task_id: str
    pool: str
    stopped_at: Instant
    seconds: float

    @property
    def last_sign(self) -> Instant:
        """When the work ended."""
        return Instant(self.stopped_at + micros(self.seconds))


def samples_of(report: DrillReport) -> tuple[DrillSample, ...]:
    """Return the settled samples of a drill, in the order of its tasks."""
    start = parse_instant(report.started_at)
    return tuple(
        DrillSample(
            task.task_id,
            task.pool,
            Instant(start + micros(task.cancel_at_s)),
            task.propagation_s,
        )
        for task in report.tasks
        if task.cancel_at_s is not None and task.propagation_s is not None
    )


def source_of(report: DrillReport) -> str:
    """Return the mark of a drill's samples: ``drill``, with the hop that was broken, if any."""
    return DRILL_SOURCE if report.truth.hop is None else f"{DRILL_SOURCE}:{report.truth.hop}"


def keep_samples(report: DrillReport, config: Config) -> str:
    """Write a drill's settled samples into the state file; return what became of them."""
    samples = samples_of(report)
    if not samples:
        return "no cancel of it arrived, so there is no sample of propagation to keep"
    return keep(samples, source_of(report), config)


def keep(samples: Sequence[DrillSample], source: str, config: Config) -> str:
    """Write samples, marked with a source, into the state file; return in a line how it went.

    They are in no histogram and no counter. An exporter that has the file open goes on undisturbed;
    a file that takes nothing costs the samples, not the drill.
    """
    if config.state_file is None:
        return "samples of propagation are in the report alone: the config names no state_file"
    try:
        with open_beside(Path(config.state_file)) as connection:
            connection.executemany(
                _INSERT,
                [
                    (
                        storable(sample.task_id),
                        sample.stopped_at,
                        storable(config.label(sample.pool)),
                        sample.seconds,
                        sample.last_sign,
                        sample.last_sign,
                        source,
                    )
                    for sample in samples
                ],
            )
    except StateError as error:
        return f"samples of propagation are in the report alone: {error}"
    return f"{len(samples)} samples of propagation kept in the state file, marked {source}"
