"""PromQL that adds up series, as a config names them."""

import json
import re
from collections.abc import Callable, Sequence

from orphanwatch.exporter.config_prometheus import WINDOW, Labels, Series
from orphanwatch.exporter.instants import Micros

_MICROS_PER_MILLI = 1000


def sum_of(series: Series, labels: Labels) -> str:
    """Return the sum of gauges."""
    return f"sum({_merged(series, labels, lambda selector: selector)})"


def oldest_of(series: Series, labels: Labels) -> str:
    """Return the stamp of the oldest sample that enters the sum."""
    return f"min({_merged(series, labels, lambda selector: f'timestamp({selector})')})"


def rise_of(series: Series, labels: Labels) -> str:
    """Return the sum of the rises of counters over a window that is yet to be filled in."""
    return f"sum({_merged(series, labels, lambda selector: f'increase({selector}[{WINDOW}])')})"


def over(query: str, length: Micros) -> str:
    """Return a query with the length of its window filled in."""
    return query.replace(WINDOW, f"{round(length / _MICROS_PER_MILLI)}ms")


def stamp_of(query: str) -> str:
    """Return the stamp of the oldest sample that a vector is made of, as far as PromQL knows."""
    return f"min(timestamp(\n{query}\n))"  # on lines of their own: a query may end in a comment


def _merged(series: Series, labels: Labels, of: Callable[[str], str]) -> str:
    """Return one element for each thing that is counted.

    Of the names each target says its first only: a newer name may come with labels of its own, so
    that the two would stand side by side in one vector.
    """
    wanted = {**labels, **series.labels}
    merged = ""
    for name in series.names:
        one = of(name + _matchers(wanted))
        merged = f"({merged} or ({one} unless on (job, instance) {merged}))" if merged else one
    if not series.same_over:
        return merged
    return f"max without ({', '.join(series.same_over)}) ({merged})"


def _matchers(labels: Labels) -> str:
    if not labels:
        return ""
    matchers = (f"{name}{_matching(wanted)}" for name, wanted in labels.items())
    return "{" + ",".join(matchers) + "}"


def _matching(wanted: Sequence[str]) -> str:
    if len(wanted) == 1:
        return "=" + _quoted(wanted[0])
    return "=~" + _quoted("|".join(re.escape(value) for value in wanted))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
