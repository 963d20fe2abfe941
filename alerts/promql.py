"""Small pieces of PromQL: exact numbers, durations, and one verdict from all replicas."""

import re
from decimal import Decimal

from orphanwatch.alerts import timing
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.config_selector import Matcher, Operator
from orphanwatch.exporter.instants import SECOND, format_duration
from orphanwatch.exporter.names import Family


def number(value: float) -> str:
    """Return a number as an exact decimal without exponent: 0.1 is ``0.1``, 5.0 is ``5``."""
    return _plain(Decimal(repr(value)))


def percent(ratio: float) -> str:
    """Return a ratio as an exact percentage: 0.07 is ``7%``."""
    return f"{_plain(Decimal(repr(ratio)) * 100)}%"


def part_of(ratio: float, whole: float) -> float:
    """Return that part of a whole, multiplied as decimals: 0.07 of 1000 is 70."""
    return float(Decimal(repr(ratio)) * Decimal(repr(whole)))


def seconds(length: int) -> str:
    """Return a length of time as exact seconds, for a comparison with a metric in seconds."""
    return _plain(Decimal(length) / SECOND)


def select(config: Config, metric: object, *matchers: str) -> str:
    """Return the selector of a metric's series: of this service only, where ``selector`` is set.

    ``matchers`` are PromQL, such as ``key="worker"``. Every selector of a rule, a page and a
    panel is made here, and so are those within ``absent_over_time``.
    """
    every = (*matchers, *(str(matcher) for matcher in config.selector_matchers))
    return f"{metric}{{{','.join(every)}}}" if every else str(metric)


def equals(label: str, *values: str) -> str:
    """Return the matcher of a label that has one of these values, each taken literally."""
    if len(values) == 1:
        return str(Matcher(label, Operator.EQUAL, values[0]))
    alternatives = "|".join(_literal(value) for value in values)
    return str(Matcher(label, Operator.MATCHES, alternatives))


def within(selector: object, length: int) -> str:
    """Return a range selector over a length of time."""
    return f"{selector}[{format_duration(length)}]"


def across_replicas(config: Config, vector: str) -> str:
    """Return the highest value among the exporter's replicas, which all read the same stores."""
    return f"max {without_replicas(config)} (\n{indented(vector)}\n)"


def highest_seen(config: Config, family: Family, *matchers: str) -> str:
    """Return a gauge's highest value among the replicas and over the look-back.

    So a scrape that was missed, or a replica that read a moment too early, hides nothing.
    """
    seen = within(select(config, family, *matchers), timing.lookback(config))
    return across_replicas(config, f"max_over_time({seen})")


def last_seen(config: Config, family: Family, *matchers: str) -> str:
    """Return a gauge's last sample within the look-back, of each replica.

    For two gauges that are held against each other: one scrape brought both, while the highest of
    each would mix two times. And for a noisy one, whose spike must not linger.
    """
    seen = within(select(config, family, *matchers), timing.lookback(config))
    return f"last_over_time({seen})"


def per_exporter(config: Config, counted: str, shown: str, length: int, step: int) -> str:
    """Return what one exporter counted over a length of time, whoever of several counted it.

    Replicas count the same, each once; a pod's successors count one after the other. So all are
    added, and divided by how many there were at once, on average. ``counted`` is of each replica,
    ``shown`` is there while it is, and has the same labels.
    """
    at_once = f"count {without_replicas(config)} (\n{indented(shown)}\n)"
    looks = f"[{format_duration(length)}:{format_duration(step)}]"
    return f"{summed(config, counted)}\n/\navg_over_time((\n{indented(at_once)}\n){looks})"


def summed(config: Config, vector: str) -> str:
    """Return the sum over the exporter's replicas, present and past ones."""
    return f"sum {without_replicas(config)} (\n{indented(vector)}\n)"


def without_replicas(config: Config, *labels: str) -> str:
    """Return the grouping that folds the exporter's replicas, and further labels, into one."""
    return f"without ({', '.join((*config.replica_labels, *labels))})"


def indented(expr: str) -> str:
    """Return an expression moved right by one level."""
    return "\n".join(f"  {line}" for line in expr.splitlines())


def _literal(value: str) -> str:
    # Not re.escape: RE2 refuses some of what that escapes, such as a space.
    return re.sub(r"[.+*?()|\[\]{}^$\\]", r"\\\g<0>", value)


def _plain(value: Decimal) -> str:
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
