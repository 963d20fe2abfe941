"""The verdict in one panel: what the exporter would say, put together from its metrics."""

from typing import Final

from orphanwatch.alerts import promql
from orphanwatch.alerts.timing import stale_age
from orphanwatch.dashboards import panels, queries
from orphanwatch.dashboards.links import Panel
from orphanwatch.dashboards.panels import AnyPanel, Canvas, Frame, Query, State
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import format_duration, seconds
from orphanwatch.exporter.names import Action, Condition, Family

_NUMBER: Final = {Action.SHED: 3, Action.BLIND: 2, Action.HOLD: 1, Action.SCALE: 0}
STATES: Final = (
    State(_NUMBER[Action.SHED], "SHED: don't scale", panels.RED),
    State(_NUMBER[Action.BLIND], "BLIND: restore sight", panels.PURPLE),
    State(_NUMBER[Action.HOLD], "HOLD: don't scale", panels.YELLOW),
    State(_NUMBER[Action.SCALE], "SCALE: no orphan", panels.GREEN),
)
_EVIDENCE: Final = (names.TOKEN_DELTA, names.LEASES, names.DUPLICATE_IN_FLIGHT)
_LASTING: Final = (names.TOKEN_DELTA, names.LEASES)
"""Evidence that a hold outlives."""


def verdict(config: Config) -> AnyPanel:
    """Return the panel of the verdict."""
    hold = format_duration(config.reopen_hold)
    return Canvas(config).big_number(
        Frame(
            Panel.VERDICT,
            "Verdict",
            "The first that holds. Shed: an orphan is seen. Blind: a store that the two arms need "
            f"can't be read. Hold: the last orphan was seen within {hold}, or overflow fails "
            "closed. Scale: none of these. It looks at every pool, whichever are chosen.",
            "the exporter isn't scraped, so it is blind: change nothing, and restore sight.",
            width=4,
            height=6,
        ),
        (Query("A", expr(config), "{{job}}"),),
        STATES,
    )


def expr(config: Config) -> str:
    """Return the verdict as a number, the first row of the contract's table that holds."""
    rows = (
        *((Action.SHED, f"{_worst(config, family)} > 0") for family in _EVIDENCE),
        *((Action.BLIND, condition) for condition in _blind(config)),
        *((Action.HOLD, condition) for condition in _hold(config)),
        (Action.SCALE, f"{_sight(config)} == 1"),
    )
    return "\nor\n".join(f"({condition}) * 0 + {_NUMBER[action]}" for action, condition in rows)


def _worst(config: Config, family: Family, *matchers: str) -> str:
    selector = queries.select(config, family, *matchers, every_pool=True)
    return queries.highest(config, selector, *family.labels)


def _worst_lately(config: Config, family: Family) -> str:
    selector = queries.select(config, family, every_pool=True)
    lately = f"max_over_time({promql.within(selector, config.reopen_hold)})"
    return queries.highest(config, lately, *family.labels)


def _sight(config: Config) -> str:
    """Return 1 where every store that the arms need is read, by whichever replica."""
    read = queries.highest(config, queries.select(config, names.STORE_UP, queries.arms()))
    return f"min without ({names.STORE}) ({read})"


def _blind(config: Config) -> tuple[str, ...]:
    read_at = queries.select(config, names.STORE_LAST_SUCCESS, queries.arms())
    age = f"max without ({names.STORE}) ({queries.lowest(config, f'time() - {read_at}')})"
    return (
        f"{_sight(config)} == 0",
        f"{age} > {promql.number(seconds(stale_age(config)))}",
        f"{queries.highest(config, queries.select(config, 'up'))} == 0",
        # A ledger that can be read, but names no task: the exporter says so by this condition.
        f"{_worst(config, names.FAIL_CLOSED, promql.equals(names.CONDITION, Condition.BLIND))} > 0",
    )


def _hold(config: Config) -> tuple[str, ...]:
    lately = (
        (*(_worst_lately(config, family) for family in _LASTING), _counted_lately(config))
        if config.reopen_hold
        else ()
    )
    return (*(f"{sign} > 0" for sign in lately), f"{_worst(config, names.FAIL_CLOSED)} > 0")


def _counted_lately(config: Config) -> str:
    """Return how much the counter rose at once: a row that lands late shows only there.

    Charged tokens alone, as the gate asks: a share of a straddling row is no reading.
    """
    charged = promql.equals(names.BASIS, names.Basis.CHARGED)
    selector = queries.select(config, names.TOKENS_TOTAL, charged, every_pool=True)
    rose = f"increase({selector}[{queries.RATE_RANGE}])[{format_duration(config.reopen_hold)}:]"
    return queries.highest(config, f"max_over_time({rose})", *names.TOKENS_TOTAL.labels)
