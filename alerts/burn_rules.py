"""The rules of the waste budget: how much of all tokens was orphan, over each pair of windows."""

from typing import Final

from orphanwatch.alerts import budget, timing
from orphanwatch.alerts.alert import Recording, Rule, Severity
from orphanwatch.alerts.budget import Burn
from orphanwatch.alerts.orphan_tokens import counter
from orphanwatch.alerts.promql import indented, number, per_exporter, select, summed, within
from orphanwatch.alerts.templates import told_of_own_job
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import Micros, format_duration

NAME: Final = "OrphanWasteBudgetBurn"

WINDOW: Final = "window"
"""The label that tells the rules apart: their long window, a constant."""

# ``rate`` carries float noise; to this step, what burns exactly at the limit is within it. Its
# inverse, by which Prometheus rounds, is a whole number as a float too: not so for a billionth.
_STEP: Final = "0.00000001"
_DO: Final = {
    Severity.CRITICAL: "Shed the orphan work and close overflow; do not scale, and do not retry.",
    Severity.WARNING: (
        "In working time, find the hop that loses cancels, by its page; do not scale meanwhile."
    ),
}


def waste_ratio(length: Micros) -> str:
    """Return the name under which the orphan part of all tokens is recorded."""
    return f"job:orphan_tokens_per_spend_tokens:ratio_rate{format_duration(length)}"


def recordings(config: Config) -> tuple[Recording, ...]:
    """Return the orphan part of all tokens, for each window.

    Orphan tokens and all tokens are aggregated apart and then divided. Where nothing was spent,
    or spend is unknown, there is no ratio.
    """
    return tuple(
        Recording(record=waste_ratio(length), expr=ratio(config, length))
        for length in budget.windows(config)
    )


def ratio(config: Config, length: Micros) -> str:
    """Return the orphan part of all tokens over a length of time."""
    wasted = f"sum without ({names.POOL}) (\n{indented(orphans(config, length))}\n)"
    spend = within(select(config, names.SPEND_TOKENS_PER_SECOND), length)
    # The mean over time, since the gauge itself covers no more than one spend window; of all
    # samples, since a pod and its successor saw different parts of that time.
    total, samples = (
        summed(config, f"{read}({spend})") for read in ("sum_over_time", "count_over_time")
    )
    spent = f"{total}\n/\n{samples}"
    return f"{wasted}\n/\n(\n{indented(spent)}\n  > 0\n)"


def orphans(config: Config, length: Micros) -> str:
    """Return orphan tokens per second by pool."""
    rate = f"rate({within(counter(config), length)})"
    shown = f"present_over_time({within(counter(config), timing.lookback(config))})"
    counted, there = (
        f"sum without ({names.CAUSE}, {names.BASIS}) (\n  {vector}\n)" for vector in (rate, shown)
    )
    return per_exporter(config, counted, there, length, timing.looks_over(config, length))


def rules(config: Config) -> tuple[Rule, ...]:
    """Return one rule for each pair of windows: that much was wasted, and it goes on."""
    return tuple(
        Rule(
            expr="\nand\n".join(_above(config, burn, part) for part in (burn.long, burn.short)),
            hold=budget.hold(config, burn),
            severity=burn.severity,
            description=_description(config, burn),
            time_to_page=budget.time_to_page(config, burn),
            labels={WINDOW: format_duration(burn.long)},
        )
        for burn in budget.burns(config)
    )


def _above(config: Config, burn: Burn, length: Micros) -> str:
    ratio = select(config, waste_ratio(length))
    return f"round({ratio}, {_STEP}) > {number(float(budget.limit(config, burn)))}"


def _description(config: Config, burn: Burn) -> str:
    allowed = f"{100 * config.thresholds.waste_budget_ratio:.4g}%"
    return (
        f"{{{{ $value | humanizePercentage }}}} of all tokens of {format_duration(burn.long)} were "
        "charged for tasks that nobody waits for, and it goes on: the waste budget, "
        f"{allowed} of {format_duration(budget.PERIOD)}, is gone in "
        f"{format_duration(budget.gone_after(burn))} or sooner."
        f"{pools_sentence(config, burn)} {_DO[burn.severity]}"
    )


def pools_sentence(config: Config, burn: Burn) -> str:
    """Return the template that names each pool with what it wastes, the most first."""
    return told_of_own_job(
        f"sort_desc({orphans(config, burn.long)} > 0)",
        " Pool {{ .Labels.pool }} wastes {{ .Value | humanize }} tokens per second.",
    )
