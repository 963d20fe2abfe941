"""The models that read a config, by the sections of the page that says what they take."""

from collections.abc import Iterator
from typing import get_args

from pydantic import BaseModel

from orphanwatch.exporter import config, config_drill, config_stores
from orphanwatch.exporter.config_documents import DocumentSource, HttpJsonSource, JsonlSource
from orphanwatch.exporter.config_prometheus import (
    LedgerMetrics,
    LedgerQueries,
    PrometheusSource,
    QueueMetrics,
    QueueQueries,
    Series,
)
from orphanwatch.exporter.config_redis import RedisLeaseSource, RedisSource
from orphanwatch.exporter.config_source import HttpAccess, Source
from orphanwatch.exporter.names import StoreName

Model = type[BaseModel]

ROLES: dict[StoreName, Model] = {
    StoreName.GATEWAY: config_stores.GatewaySettings,
    StoreName.LEASES: config_stores.LeaseSettings,
    StoreName.LEDGER: config_stores.LedgerSettings,
    StoreName.QUEUE: config_stores.QueueSettings,
}
KINDS: dict[str, Model] = {
    "sql": config_stores.SqlSource,
    "redis": RedisSource,
    "jsonl": JsonlSource,
    "http_json": HttpJsonSource,
    "prometheus": PrometheusSource,
}
BASES: dict[str, Model] = {
    "Every store": Source,
    "Records that are JSON": DocumentSource,
    "Access over HTTP": HttpAccess,
    **{f"`type: {kind}`": model for kind, model in KINDS.items()},
    "Home-made leases in Redis": RedisLeaseSource,
}
"""What stores are made of: each section has the keys that no other of them has."""

SECTIONS: dict[str, tuple[Model, ...]] = {
    "Top level": (config.Config,),
    "`pools.NAME`": (config.Pool,),
    **{title: (model,) for title, model in BASES.items()},
    **{f"`stores.{name}`": (model,) for name, model in ROLES.items()},
    "`metrics` and `queries` of a queue": (QueueMetrics, QueueQueries),
    "`metrics` and `queries` of a ledger": (LedgerMetrics, LedgerQueries),
    "A series": (Series,),
    "`grace`": (config.GraceSettings,),
    "`thresholds`": (config.Thresholds,),
    "`links`": (config.Links,),
    "`drill`": (config_drill.Drill,),
    "`drill.targets`": (config_drill.DrillTarget,),
}
"""Each section that lists the keys of a model, or of models that have the same."""


def stores() -> Iterator[tuple[StoreName, str, Model]]:
    """Yield role, kind and model of every pair that a config can name."""
    for name in StoreName:
        union, _ = get_args(getattr(config_stores, _UNIONS[name]))
        for model in get_args(union):
            yield name, get_args(model.model_fields["type"].annotation)[0], model


_UNIONS = {
    StoreName.GATEWAY: "GatewayStore",
    StoreName.LEASES: "LeaseStore",
    StoreName.LEDGER: "LedgerStore",
    StoreName.QUEUE: "QueueStore",
}
STORES = {(name, kind): model for name, kind, model in stores()}
