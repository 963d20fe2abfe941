"""The samples that ``serve`` and drills have kept in the state file."""

from pathlib import Path
from typing import Final, NamedTuple

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import Instant, Micros, micros
from orphanwatch.exporter.state_memory import Memory, load_memory
from orphanwatch.exporter.state_schema import DRILL_SOURCE, open_to_read

SampleKey = tuple[str, Instant]
"""Task and stop: what makes two samples the same."""

_SOUND_DRILLS: Final = frozenset({DRILL_SOURCE, f"{DRILL_SOURCE}:target"})
"""Drills that broke nothing. A hop that was broken on purpose says nothing of the real ones."""


class KeptSample(NamedTuple):
    """One sample of the state file."""

    pool: str
    length: Micros
    is_drill: bool


class KeptSamples(NamedTuple):
    """What the state file holds for one measuring."""

    taken: dict[SampleKey, KeptSample]
    drills: frozenset[SampleKey]
    """Samples of drills that are not taken: the stores may show the same tasks."""
    memory: Memory
    """What the last reading of ``serve`` remembered, for one that goes on from there."""


NOTHING_KEPT: Final = KeptSamples({}, frozenset(), Memory())


def kept_samples(config: Config, at: Instant, *, include_drill: bool) -> KeptSamples:
    """Return the samples of stops within the grace window before an instant.

    Raises ``StateError`` for a state file that can't be read; one that is not there, or that the
    config does not name, holds nothing.
    """
    if config.state_file is None or not Path(config.state_file).exists():
        return NOTHING_KEPT
    with open_to_read(config.state_file) as connection:
        rows = connection.execute(
            "SELECT task_id, stopped_at, pool, seconds, source FROM propagations"
            " WHERE stopped_at > ? AND stopped_at <= ? AND last_sign <= ?",
            (at - config.grace_window, at, at),
        ).fetchall()
        memory = load_memory(connection)
    taken: dict[SampleKey, KeptSample] = {}
    drills: set[SampleKey] = set()
    for task_id, stopped_at, pool, seconds, source in rows:
        key = (task_id, Instant(stopped_at))
        is_drill = source.startswith(DRILL_SOURCE)
        if not is_drill or (include_drill and source in _SOUND_DRILLS):
            taken[key] = KeptSample(config.label(pool), micros(seconds), is_drill)
        else:
            drills.add(key)
    return KeptSamples(taken, frozenset(drills), memory)
