"""Every range and ``for`` of the rules, derived from the config: nothing here is typed twice.

The one input behind them all is ``scrape_interval``; the rest follows from what the exporter
itself does (``refresh_interval``) and from what a number means (its window, its grace).
"""

from typing import Final

from orphanwatch.exporter.config import Config
from orphanwatch.exporter.config_stores import LeaseSettings
from orphanwatch.exporter.instants import Micros, micros

# Four scrapes: a range as short as one scrape often holds no sample at all, and with every
# fourth scrape missed the longest gap is two.
LOOKBACK_SCRAPES: Final = 4
HOLD_SCRAPES: Final = 2
FEW_GRACES: Final = 3
# Days at each scrape would cost a server more than the answer is worth.
MOST_LOOKS: Final = 240
# Longer intervals leave gaps that Prometheus' five-minute look-back does not bridge.
LONGEST_EVALUATION_INTERVAL: Final = micros(300)
LONGEST_SPLIT_HOLD: Final = micros(120)
SHED_OVERDUE: Final = micros(300)
GROUP_WAIT: Final = micros(5)
"""How long Alertmanager waits for others of a group: short, an orphan pages by one alert."""


def lookback(config: Config) -> Micros:
    """Return the range over which a gauge is read, so that lost scrapes leave no hole."""
    return Micros(LOOKBACK_SCRAPES * config.scrape_interval)


def charge_window(config: Config) -> Micros:
    """Return the length of the delta window: for so long one charge shows in the token delta."""
    return Micros(config.delta_window + config.lag)


def counter_range(config: Config) -> Micros:
    """Return the delta window in whole scrapes: over others, ``increase`` has to guess."""
    return whole_scrapes(config, charge_window(config))


def lease_ttl(config: Config) -> Micros:
    """Return the age at which a lease without heartbeat expires; the default without a store."""
    leases = config.stores.leases
    return leases.lease_ttl if leases else LeaseSettings.model_fields["lease_ttl"].default


def scrapes(config: Config, length: int) -> int:
    """Return how many scrapes cover a length of time."""
    return -(-length // config.scrape_interval)


def whole_scrapes(config: Config, length: int) -> Micros:
    """Return a length rounded up to whole scrapes, at least two of them."""
    return Micros(max(HOLD_SCRAPES, scrapes(config, length)) * config.scrape_interval)


def settling(config: Config) -> Micros:
    """Return how long a reading may outlive its fact: till a refresh, and two scrapes, saw it."""
    return whole_scrapes(config, config.refresh_interval)


def evaluation_interval(config: Config) -> Micros:
    """Return the rule groups' interval: each scrape is looked at."""
    return min(config.scrape_interval, LONGEST_EVALUATION_INTERVAL)


def looks_over(config: Config, length: int) -> Micros:
    """Return how often it is looked back over a length of time for who was there: seldom."""
    return Micros(max(1, length // MOST_LOOKS // config.scrape_interval) * config.scrape_interval)


def tokens_hold(config: Config) -> Micros:
    """Return how long orphan charges must show to be a leak.

    A single charge shows for one delta window, and then for one look-back more.
    """
    return whole_scrapes(config, charge_window(config) + lookback(config) + settling(config))


def few_graces(config: Config) -> Micros:
    """Return the time past a cutoff after which a worker has had its chance to stop."""
    longest = max(config.grace_of(pool) for pool in config.pool_names)
    return Micros(max(FEW_GRACES * longest, settling(config)))


def leases_hold(config: Config) -> Micros:
    """Return how long an orphan lease must show: a few graces, and the look-back after it."""
    return whole_scrapes(config, lookback(config) + few_graces(config))


def split_hold(config: Config) -> Micros:
    """Return how long the signals must be split: more than one window's noise, at most 2 min."""
    wanted = whole_scrapes(config, config.delta_window + HOLD_SCRAPES * config.scrape_interval)
    return min(wanted, LONGEST_SPLIT_HOLD)


def blind_hold(config: Config) -> Micros:
    """Return how long a store must be out of sight, after the look-back: two scrapes."""
    return whole_scrapes(config, 0)


def stale_age(config: Config) -> Micros:
    """Return the age of a store's last good read, as Prometheus sees it, that is stale.

    What Prometheus holds may itself be two scrapes old when one was missed.
    """
    return Micros(config.stale_after + HOLD_SCRAPES * config.scrape_interval)


def time_to_page(config: Config, hold: int, before: int = 0) -> Micros:
    """Return the longest time from a fact to the first page about it.

    ``before`` is how long the fact itself takes to count, a late row's way to the ledger
    (``lag``) included; then come one refresh, one scrape (two when the first is missed), one
    evaluation, the hold, and Alertmanager's wait for others of the same group, as its generated
    route has it.
    """
    seen = config.refresh_interval + HOLD_SCRAPES * config.scrape_interval
    return Micros(before + seen + evaluation_interval(config) + hold + GROUP_WAIT)


def fault_hold(config: Config) -> Micros:
    """Return how long a fault must show: longer than one reading, shorter than one window.

    A reading shows for the look-back and till the next refresh. A fault that is counted over a
    window shows for that window and the look-back, so a single one is enough.
    """
    return whole_scrapes(config, lookback(config) + settling(config))


def shed_overdue_hold(config: Config) -> Micros:
    """Return how long leases may be overdue for shedding: five minutes."""
    return max(SHED_OVERDUE, whole_scrapes(config, 0))
