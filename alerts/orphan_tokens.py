"""Which orphan tokens count: the pager alert and the waste budget go by the same."""

from orphanwatch.alerts.promql import equals, select
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config


def counter(config: Config) -> str:
    """Return the selector of the orphan tokens that count: not those that are only reported."""
    # A stack that drains cancelled streams on purpose keeps prorated tokens off the pager.
    if reports_prorated(config):
        return select(config, names.TOKENS_TOTAL, equals(names.BASIS, names.Basis.CHARGED))
    return select(config, names.TOKENS_TOTAL)


def reports_prorated(config: Config) -> bool:
    """Return whether the stack drains cancelled streams on purpose, and only reports them."""
    ledger = config.stores.ledger
    return ledger is not None and ledger.prorated == "report"
