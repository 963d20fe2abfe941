"""What may stand under ``stores:``: where each store is, and how what it says is read.

A store's settings are its source's (where the rows are: ``type``) and its role's (what they
mean: gateway, leases, ledger or queue). Every pair that makes sense is one class below; ``type``
picks it. Another kind of source is one module like ``config_redis``, and a line for each role.
"""

from typing import Annotated, Final, Literal, Self, get_args

from pydantic import Field, SecretStr, model_validator

from orphanwatch.exporter.config_documents import HttpJsonSource, JsonlSource, Rules
from orphanwatch.exporter.config_prometheus import PrometheusLedgerSource, PrometheusQueueSource
from orphanwatch.exporter.config_redis import RedisLeaseSource, RedisSource
from orphanwatch.exporter.config_source import Source
from orphanwatch.exporter.config_values import Duration, PositiveDuration, Strict
from orphanwatch.exporter.instants import Micros, micros
from orphanwatch.exporter.names import StoreName


class SqlSource(Source):
    """A table, a view or a SELECT of any SQL database."""

    type: Literal["sql"]
    url: SecretStr
    relation: Annotated[str, Field(min_length=1)]
    columns: dict[str, str] = Field(default={})


class GatewaySettings(Strict):
    """Requests, their cancels, deadlines and ends."""

    deadline: Literal["hard", "soft"] = "hard"
    rows: Literal["live", "at_end"] = "live"


class LeaseSettings(Strict):
    """Workers' claims on tasks."""

    lease_ttl: PositiveDuration = micros(60)
    heartbeat: PositiveDuration | None = None


class LedgerSettings(Strict):
    """Tokens charged."""

    shape: Literal["increments", "cumulative", "final"]
    lag: Duration = Micros(0)
    prorated: Literal["page", "report"] = "page"


class QueueSettings(Strict):
    """Samples of the admission queue."""

    admission_cap: Annotated[float, Field(ge=0)] | None = None


class SqlGatewayStore(SqlSource, GatewaySettings):
    """A gateway in SQL."""

    relation: Annotated[str, Field(min_length=1)] = "tasks"
    longest_request: PositiveDuration | None = None
    """No task is cancelled, due or finished longer after its submission than this: an index on
    ``submitted_at`` serves then where the others have none. None is no such promise."""


class SqlLeaseStore(SqlSource, LeaseSettings):
    """Leases in SQL."""

    relation: Annotated[str, Field(min_length=1)] = "leases"


class SqlLedgerStore(SqlSource, LedgerSettings):
    """A ledger in SQL."""

    relation: Annotated[str, Field(min_length=1)] = "ledger"
    longest_request: PositiveDuration | None = None
    """No row starts longer before its end than this: an index on ``started_at`` serves then where
    ``charged_at`` has none. None is no such promise."""


class SqlQueueStore(SqlSource, QueueSettings):
    """A queue in SQL."""

    relation: Annotated[str, Field(min_length=1)] = "queue"


class RedisGatewayStore(RedisSource, GatewaySettings):
    """A job queue in Redis that says when a job was cancelled."""


class RedisLeaseStore(RedisLeaseSource, LeaseSettings):
    """Leases in Redis."""


class RedisQueueStore(RedisSource, QueueSettings):
    """A queue in Redis."""


class JsonlGatewayStore(JsonlSource, GatewaySettings):
    """A gateway's access log."""

    rows: Literal["live", "at_end"] = "at_end"


class JsonlLedgerStore(JsonlSource, LedgerSettings):
    """A log with a line for each charge."""


class HttpJsonGatewayStore(HttpJsonSource, GatewaySettings):
    """A gateway that lists its requests over HTTP."""


class HttpJsonLeaseStore(HttpJsonSource, LeaseSettings):
    """Leases that are listed over HTTP."""

    alive_when: Rules = Field(default=[])
    """The worker is at work as the list is read: that is a heartbeat, where none is stated."""


class HttpJsonLedgerStore(HttpJsonSource, LedgerSettings):
    """Running totals, or charges, that are listed over HTTP."""


class HttpJsonQueueStore(HttpJsonSource, QueueSettings):
    """A queue that is told over HTTP."""


class PrometheusLedgerStore(PrometheusLedgerSource, LedgerSettings):
    """A token counter of whole engines: spend without any task."""

    shape: Literal["increments", "cumulative", "final"] = "increments"

    @model_validator(mode="after")
    def _shape_is_one_of_counters(self) -> Self:
        if self.shape == "cumulative":
            raise ValueError(
                "shape: a counter of whole engines is read by its rises; write increments, or "
                "final where it moves only as a request finishes"
            )
        if self.shape == "final" and "rows" not in self.stated:
            raise ValueError(
                "a final shape needs rows beside tokens: a counter of finished requests"
            )
        return self


class PrometheusQueueStore(PrometheusQueueSource, QueueSettings):
    """A queue by its metrics."""


GatewayStore = Annotated[
    SqlGatewayStore | RedisGatewayStore | JsonlGatewayStore | HttpJsonGatewayStore,
    Field(discriminator="type"),
]
LeaseStore = Annotated[
    SqlLeaseStore | RedisLeaseStore | HttpJsonLeaseStore, Field(discriminator="type")
]
LedgerStore = Annotated[
    SqlLedgerStore | JsonlLedgerStore | HttpJsonLedgerStore | PrometheusLedgerStore,
    Field(discriminator="type"),
]
QueueStore = Annotated[
    SqlQueueStore | RedisQueueStore | HttpJsonQueueStore | PrometheusQueueStore,
    Field(discriminator="type"),
]


class Stores(Strict):
    """The four logical stores; one that is absent is unknown, never zero."""

    gateway: GatewayStore | None = None
    leases: LeaseStore | None = None
    ledger: LedgerStore | None = None
    queue: QueueStore | None = None

    def configured(self) -> tuple[StoreName, ...]:
        """Return the stores that the config names."""
        return tuple(name for name in StoreName if getattr(self, name) is not None)

    def sources(self) -> tuple[Source, ...]:
        """Return the settings of the stores that the config names, in the stores' order."""
        stores = (self.gateway, self.leases, self.ledger, self.queue)
        return tuple(store for store in stores if store is not None)


def _types_of(store: StoreName) -> tuple[str, ...]:
    choice, _ = get_args(Stores.model_fields[store].annotation)  # and None
    union, _ = get_args(choice)  # and what picks one of it
    return tuple(
        value
        for settings in get_args(union)
        for value in get_args(settings.model_fields["type"].annotation)
    )


SOURCE_TYPES: Final = {store: _types_of(store) for store in StoreName}
"""The values that ``type`` can have, by store."""
