"""The thresholds around the configured one, and the rules that each of them would give."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from orphanwatch.alerts.artifacts import rules_text
from orphanwatch.alerts.backtest.replay import Replayed, replayed
from orphanwatch.alerts.lint.read_rules import parse_rule_file
from orphanwatch.alerts.promql import number
from orphanwatch.exporter.config import Config, Thresholds

FACTORS: Final = (Decimal("0.5"), Decimal(1), Decimal(2), Decimal(5))
"""Around a threshold; 0 comes first where the config allows it."""
ABOVE_ZERO: Final = (1, 10, 100, 1000)
"""Around a threshold of 0, of which every multiple is 0."""
HOLD_FACTORS: Final = (Decimal("0.5"), Decimal(1), Decimal(2))


class Variant(NamedTuple):
    """One value of one threshold, and the rules that it changes."""

    setting: str
    """The key in the config."""
    value: str
    rules: tuple[Replayed, ...]


def rules_of(config: Config) -> tuple[Replayed, ...]:
    """Return the rules that ``alerts build`` writes for a config, ready to be replayed."""
    return replayed(parse_rule_file("the generated rules", rules_text(config)))


def variants(config: Config) -> Iterator[Variant]:
    """Yield the neighbours of every threshold that rules depend on, itself left out."""
    own = {rule.key: rule for rule in rules_of(config)}
    for name in Thresholds.model_fields:
        stated = getattr(config.thresholds, name)
        for value in _around(stated) if stated is not None else ():
            changed = _with(config, name, value)
            rules = rules_of(changed) if changed is not None else ()
            # A smaller budget brings back burn rates that the stated one leaves out: of such a
            # rule there is nothing to compare with.
            others = tuple(
                rule for rule in rules if rule.key in own and rule.expr != own[rule.key].expr
            )
            if others:
                yield Variant(f"thresholds.{name}", number(value), others)


def _around(value: float) -> tuple[float, ...]:
    if value == 0:
        return tuple(float(one) for one in ABOVE_ZERO)
    exact = Decimal(repr(value))
    return (0.0, *(float(exact * factor) for factor in FACTORS if factor != 1))


def _with(config: Config, name: str, value: float) -> Config | None:
    """Return the config with another threshold; None where it would be refused."""
    stated: dict[str, Any] = config.thresholds.model_dump() | {name: value}
    try:
        thresholds = Thresholds.model_validate(stated)
    except ValidationError:
        return None
    return config.model_copy(update={"thresholds": thresholds})
