"""Rows that are kept in Redis: which system's they are."""

# ruff: noqa: PLC0415  (the driver is an extra: without it, this costs only those who ask for it)

from collections.abc import Iterable
from importlib.util import find_spec

from orphanwatch.exporter.clock import Clock
from orphanwatch.exporter.columns import COLUMNS
from orphanwatch.exporter.config_redis import RedisLeaseSource, RedisSource
from orphanwatch.exporter.errors import StoreError
from orphanwatch.exporter.model import Rejected
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.questions import Windows
from orphanwatch.exporter.stores.rows import Row, RowSource


def redis_rows(store: StoreName, config: RedisSource, clock: Clock) -> RowSource:
    """Return the source of a store in Redis."""
    if find_spec("redis") is None:
        return _WithoutDriver(store)
    if config.preset == "rq":
        from orphanwatch.exporter.stores.redis.rq import rq_rows

        return rq_rows(store, config, clock)
    if config.preset == "celery":
        from orphanwatch.exporter.stores.redis.celery import celery_rows

        return celery_rows(store, config, clock)
    if config.preset == "bullmq":
        from orphanwatch.exporter.stores.redis.bullmq import bullmq_rows

        return bullmq_rows(store, config, clock)
    if not isinstance(config, RedisLeaseSource):
        raise TypeError(f"no {store} store in Redis without a preset")  # the config checks that
    from orphanwatch.exporter.stores.redis.lease_form import LeaseForm
    from orphanwatch.exporter.stores.redis.leases import RedisLeases

    return RedisLeases(config, clock, LeaseForm.of(config), frozenset(config.stated()))


class _WithoutDriver:
    """A store that can't be read, since the Python package that it needs is not there."""

    keeps = False

    def __init__(self, store: StoreName) -> None:
        self._store = store
        self.columns = COLUMNS[store]

    def read(self, windows: Windows) -> Iterable[Row]:  # noqa: ARG002  (nothing can be read)
        """Say what is missing."""
        raise StoreError(
            self._store,
            "the Python package redis is not installed; pip install 'orphanwatch[redis]'",
        )

    def rejected(self) -> tuple[Rejected, ...]:
        """Return nothing: nothing was read."""
        return ()

    def clock_skew_seconds(self) -> float | None:
        """Return None: there is nobody to ask."""
        return None

    def close(self) -> None:
        """Do nothing: nothing is held."""
