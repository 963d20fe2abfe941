"""Which adapter answers for which settings: the one place that knows all kinds of stores.

What a kind needs is imported where it is configured, so that an extra that is not installed
costs only those who ask for it.
"""

# ruff: noqa: PLC0415  (see above)

from orphanwatch.exporter.clock import Clock
from orphanwatch.exporter.config_stores import (
    GatewayStore,
    HttpJsonGatewayStore,
    HttpJsonLeaseStore,
    HttpJsonLedgerStore,
    HttpJsonQueueStore,
    JsonlGatewayStore,
    JsonlLedgerStore,
    LeaseStore,
    LedgerStore,
    PrometheusLedgerStore,
    PrometheusQueueStore,
    QueueStore,
    RedisGatewayStore,
    RedisLeaseStore,
    RedisQueueStore,
    SqlGatewayStore,
    SqlLeaseStore,
    SqlLedgerStore,
    SqlQueueStore,
)
from orphanwatch.exporter.names import StoreName
from orphanwatch.exporter.stores.questions import Gateway, Leases, Ledger, Queue
from orphanwatch.exporter.stores.rows import RowSource

RowStore = (
    JsonlGatewayStore
    | JsonlLedgerStore
    | RedisGatewayStore
    | RedisLeaseStore
    | RedisQueueStore
    | HttpJsonGatewayStore
    | HttpJsonLeaseStore
    | HttpJsonLedgerStore
    | HttpJsonQueueStore
)


def gateway_of(config: GatewayStore, clock: Clock) -> Gateway:
    """Return the adapter of a gateway."""
    if isinstance(config, SqlGatewayStore):
        from orphanwatch.exporter.stores.sql.gateway import SqlGateway

        return SqlGateway(config)
    from orphanwatch.exporter.stores.mirror import MirroredGateway

    return MirroredGateway(config, config.timeout, _rows_of(StoreName.GATEWAY, config, clock))


def leases_of(config: LeaseStore, clock: Clock) -> Leases:
    """Return the adapter of a lease store."""
    if isinstance(config, SqlLeaseStore):
        from orphanwatch.exporter.stores.sql.leases import SqlLeases

        return SqlLeases(config)
    from orphanwatch.exporter.stores.listed import ListedLeases

    return ListedLeases(_rows_of(StoreName.LEASES, config, clock))


def ledger_of(config: LedgerStore, clock: Clock) -> Ledger:
    """Return the adapter of a ledger."""
    if isinstance(config, SqlLedgerStore):
        from orphanwatch.exporter.stores.sql.ledger import SqlLedger

        return SqlLedger(config)
    if isinstance(config, PrometheusLedgerStore):
        from orphanwatch.exporter.stores.prometheus.adapters import prometheus_ledger

        return prometheus_ledger(config, clock)
    if isinstance(config, HttpJsonLedgerStore) and config.shape == "cumulative":
        from orphanwatch.exporter.stores.http.documents import HttpDocuments
        from orphanwatch.exporter.stores.http.live_totals import LiveLedger

        source = HttpDocuments(StoreName.LEDGER, config, clock)
        return LiveLedger(config, config.timeout, source)
    from orphanwatch.exporter.stores.mirror import MirroredLedger

    return MirroredLedger(config, config.timeout, _rows_of(StoreName.LEDGER, config, clock))


def queue_of(config: QueueStore, clock: Clock) -> Queue:
    """Return the adapter of a queue."""
    if isinstance(config, SqlQueueStore):
        from orphanwatch.exporter.stores.sql.queue import SqlQueue

        return SqlQueue(config)
    if isinstance(config, PrometheusQueueStore):
        from orphanwatch.exporter.stores.prometheus.adapters import prometheus_queue

        return prometheus_queue(config, clock)
    from orphanwatch.exporter.stores.listed import ListedQueue

    return ListedQueue(_rows_of(StoreName.QUEUE, config, clock))


def _rows_of(store: StoreName, config: RowStore, clock: Clock) -> RowSource:
    if isinstance(config, JsonlGatewayStore | JsonlLedgerStore):
        from orphanwatch.exporter.stores.logs.jsonl import JsonLines

        return JsonLines(store, config)
    if isinstance(config, RedisGatewayStore | RedisLeaseStore | RedisQueueStore):
        from orphanwatch.exporter.stores.redis.rows import redis_rows

        return redis_rows(store, config, clock)
    from orphanwatch.exporter.stores.http.documents import HttpDocuments

    return HttpDocuments(store, config, clock)
