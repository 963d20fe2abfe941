"""Small pieces of PromQL: exact numbers, durations, and one verdict from all replicas."""

from decimal import Decimal

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import SECOND, format_duration


def number(value: float) -> str:
    """Return a number as an exact decimal without exponent: 0.1 is ``0.1``, 5.0 is ``5``."""
    return _plain(Decimal(repr(value)))


def seconds(length: int) -> str:
    """Return a length of time as exact seconds, for a comparison with a metric in seconds."""
    return _plain(Decimal(length) / SECOND)


def within(selector: object, length: int) -> str:
    """Return a range selector over a length of time."""
    return f"{selector}[{format_duration(length)}]"


def across_replicas(config: Config, vector: str) -> str:
    """Return the highest value among the exporter's replicas, which all read the same stores."""
    return f"max without ({', '.join(config.replica_labels)}) (\n{indented(vector)}\n)"


def indented(expr: str) -> str:
    """Return an expression moved right by one level."""
    return "\n".join(f"  {line}" for line in expr.splitlines())


def _plain(value: Decimal) -> str:
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
