"""What pages may name of grace and waste budget: the numbers that their rules are made of."""

from orphanwatch.alerts import budget
from orphanwatch.alerts.slow_cancels import LEAST_SAMPLES, allowed_share
from orphanwatch.exporter.config import Config
from orphanwatch.exporter.instants import format_duration
from orphanwatch.runbooks.markdown import table


def context_facts(config: Config) -> dict[str, str]:
    """Return finished Markdown by name."""
    return {
        "grace_quantile": f"{config.grace_quantile:g}",
        "slow_share": _percent(float(allowed_share(config))),
        "least_samples": str(LEAST_SAMPLES),
        "waste_budget": _percent(config.thresholds.waste_budget_ratio),
        "budget_period": format_duration(budget.PERIOD),
        "burn_table": _burn_table(config),
    }


def _burn_table(config: Config) -> str:
    """Return the pairs of windows, with what fires them and how long the budget lasts then."""
    rows = [
        (
            str(burn.severity),
            format_duration(burn.long),
            format_duration(burn.short),
            f"{burn.factor:g}",
            _percent(float(budget.limit(config, burn))),
            format_duration(budget.gone_after(burn)),
        )
        for burn in budget.burns(config)
    ]
    titles = ("severity", "long window", "short window", "factor", "orphan part above", "gone in")
    return table(titles, rows)


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.4g}%"
