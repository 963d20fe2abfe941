"""One measuring, whole: where the samples come from, and what each pool's say."""

from typing import Final

from orphanwatch.exporter.config import Config, default_config
from orphanwatch.exporter.grace.estimate import Findings, PoolSamples, Terms, pool_grace
from orphanwatch.exporter.grace.prometheus import samples_of_server
from orphanwatch.exporter.grace.stores import samples_of_stores
from orphanwatch.exporter.instants import Instant, Micros
from orphanwatch.exporter.measurement import MeasuredFrom


def find_in_stores(
    config: Config,
    at: Instant,
    quantile: float | None = None,
    *,
    include_drill: bool = False,
    is_present: bool = False,
) -> Findings:
    """Return what the stores and the state file say; see ``samples_of_stores``."""
    config = config.as_of(at)
    terms = Terms.of(config, quantile)
    samples, notes = samples_of_stores(
        config, at, include_drill=include_drill, is_present=is_present
    )
    if config.measurement_problem:
        notes = (*notes, f"the saved grace is not in force: {config.measurement_problem}")
    return Findings(
        at=at,
        terms=terms,
        pools={name: pool_grace(found, terms) for name, found in samples.items()},
        in_force=_in_force(config),
        notes=notes,
    )


def find_in_prometheus(
    url: str,
    selector: str | None,
    config: Config | None,
    at: Instant,
    quantile: float | None = None,
) -> Findings:
    """Return what a server says, by the settings of a config or the defaults.

    See ``samples_of_server``.
    """
    config = None if config is None else config.as_of(at)
    settings = config or default_config()
    terms = Terms.of(settings, quantile)
    matchers = settings.selector if selector is None else selector
    found = samples_of_server(url, matchers, terms.window, at, settings.replica_labels)
    names = sorted(found.pools) if config is None else config.pool_names
    return Findings(
        at=at,
        terms=terms,
        pools={name: pool_grace(found.pools.get(name, _NOTHING), terms) for name in names},
        in_force=found.in_force if config is None else _in_force(config),
        notes=found.notes,
    )


_NOTHING: Final = PoolSamples(
    samples=None,
    source=MeasuredFrom.PROMETHEUS,
    settled=None,
    open=None,
    unknown="unknown: the server has no samples of this pool",
)


def _in_force(config: Config) -> dict[str, Micros | None]:
    return {name: config.grace_of(name) for name in config.pool_names}
