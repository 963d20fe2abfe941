"""What the refresh loop hands to the web app: frozen values, and the seam between the two."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from orphanwatch.exporter.gate import Gate
from orphanwatch.exporter.history import History
from orphanwatch.exporter.instants import Instant
from orphanwatch.exporter.model import Evaluation
from orphanwatch.exporter.names import (
    CANCEL_PROPAGATION_SECONDS,
    PROPAGATION_BUCKETS,
    REFRESH_BUCKETS,
    REFRESH_DURATION_SECONDS,
    Family,
)

LabelValues = tuple[str, ...]
"""The values of a family's labels, in the family's order."""

BUCKET_EDGES: Final[Mapping[Family, tuple[float, ...]]] = {
    CANCEL_PROPAGATION_SECONDS: PROPAGATION_BUCKETS,
    REFRESH_DURATION_SECONDS: REFRESH_BUCKETS,
}
"""The upper edges of each histogram, in seconds, ``+Inf`` left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramValue:
    """One histogram: ``buckets`` holds how many samples were at most each edge, cumulative."""

    buckets: tuple[float, ...]
    sum: float
    count: float
    """All samples: the ``+Inf`` bucket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exemplar:
    """One task that stands for a counter's increase."""

    labels: Mapping[str, str]
    value: float
    timestamp: float | None = None
    """Epoch seconds."""


class ConfigReload(NamedTuple):
    """How the last load of the config file went."""

    is_successful: bool
    succeeded_at: Instant
    """When a config was last taken; the start counts."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Published:
    """All that may be served now. Two are the same only if they are one object.

    ``evaluation`` is None before the first one, and once the last one is too old to be served as
    if it were current. A family that is absent from a mapping is unknown.
    """

    version: str
    evaluation: Evaluation | None
    counters: Mapping[Family, Mapping[LabelValues, float]] = field(default_factory=dict)
    histograms: Mapping[Family, Mapping[LabelValues, HistogramValue]] = field(default_factory=dict)
    exemplars: Mapping[tuple[Family, LabelValues], Exemplar] = field(default_factory=dict)
    last_evaluated_at: Instant | None = None
    """When the last evaluation was, however old; None before the first."""
    history: History = ()
    """The last minutes in short, the present evaluation included."""
    gate: Gate | None = None
    """Whether overflow may be admitted; None without a current evaluation: it may not."""
    config_reload: ConfigReload | None = None
    """None where nothing can be loaded again, as in a snapshot."""


class Board(Protocol):
    """Where the web app reads; answers at once, never from a store."""

    def current(self) -> Published:
        """Return what may be served now: the same object as long as nothing has changed."""
        ...
