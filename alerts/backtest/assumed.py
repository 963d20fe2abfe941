"""A config for a history of which nobody named one: what the exporter itself showed."""

from orphanwatch.alerts.backtest.history import Grid, Reader
from orphanwatch.exporter import names
from orphanwatch.exporter.config import Config, parse_config
from orphanwatch.exporter.names import OTHER_POOL, Family, Role, StoreName

ASSUMED = (
    "no --config.file: pools and stores are those that the history shows, and every threshold, "
    "window and the scrape_interval is what a config has by default"
)
_LOOKS = 500


def assumed_config(reader: Reader, selector: str, at: int, length: int) -> Config:
    """Return a config with the pools and stores that were seen, and defaults for all else.

    A store counts as configured that was read at least once. Raises ``PrometheusError``.
    """
    step = max(1, length // _LOOKS)
    # Up to the end: an exporter younger than a step would not be seen otherwise.
    grid = Grid.covering(at - length, at, step)

    def shown(family: Family, label: str) -> set[str]:
        matchers = f"{{{selector}}}" if selector else ""
        query = f"group by ({label}) (last_over_time({family}{matchers}[{max(60, step)}s]))"
        return {dict(labels).get(label, "") for labels in reader.present(query, grid)} - {""}

    overflow = shown(names.OVERFLOW_ADMISSION_ALLOWED, names.POOL)
    pools = (shown(names.GRACE_SECONDS, names.POOL) | overflow) - {OTHER_POOL}
    stores = shown(names.STORE_LAST_SUCCESS, names.STORE) or set(StoreName)
    return parse_config(
        {
            "selector": selector,
            "pools": {
                pool: {"role": Role.OVERFLOW if pool in overflow else Role.PAID}
                for pool in sorted(pools)
            },
            "stores": {store: _store(store) for store in sorted(stores)},
        }
    )


def _store(store: str) -> dict[str, str]:
    # Never read: rules depend on which stores there are, not on where they are.
    settings = {"type": "sql", "url": "sqlite:///never-read.db"}
    return settings | ({"shape": "increments"} if store == StoreName.LEDGER else {})
