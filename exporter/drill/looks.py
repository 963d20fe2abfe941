"""What all looks of a drill say together, of whichever kind it is."""

from collections import Counter
from collections.abc import Iterable

from orphanwatch.exporter.diagnosis import diagnose
from orphanwatch.exporter.drill.faults import Hop
from orphanwatch.exporter.drill.run import total
from orphanwatch.exporter.model import Evaluation
from orphanwatch.exporter.names import Family


def most(looks: Iterable[Evaluation], family: Family) -> float | None:
    """Return the largest sum over all pools that was seen; None where it was ever unknown."""
    seen = [total(look, family) for look in looks]
    known = [value for value in seen if value is not None]
    return max(known, default=None) if len(known) == len(seen) else None


def hop_of(looks: Iterable[Evaluation]) -> Hop | None:
    """Return the hop that the exporter names: the one that most looks name; None where none does.

    Each look is diagnosed alone, as ``diagnose`` would; of two named as often the first counts.
    """
    named = [diagnose(look.gauges, look.verdict.action, look.verdict.reasons).hop for look in looks]
    counted = Counter(hop for hop in named if hop is not None)
    return counted.most_common(1)[0][0] if counted else None
