"""The loaded configuration: checked, frozen values that everything else is fed from.

What a user may write is this module's pydantic models; reading the file, the environment and
secret files is ``config_file``'s business. Lengths of time are microseconds inside.
"""

from datetime import tzinfo
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

from orphanwatch.exporter.instants import Micros, format_duration, micros, parse_duration
from orphanwatch.exporter.names import (
    OTHER_POOL,
    Action,
    GraceSource,
    Role,
    StoreName,
)


def _read_duration(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("write a duration such as 60s")  # noqa: TRY004  (pydantic wants it)
    if isinstance(value, int | float):
        if not abs(value) < _LONGEST_SECONDS:
            raise ValueError("is longer than any window; write a duration such as 60s")
        return micros(value)
    if not isinstance(value, str):
        return value
    try:
        return parse_duration(value)
    except ValueError:
        # Without the value, which may have come out of the environment.
        raise ValueError("is no duration; write for example 60s, 5m or 1h30m") from None


Duration = Annotated[Micros, BeforeValidator(_read_duration), Field(ge=0)]
"""A length of time: ``60s``, ``5m``; a bare number is seconds."""

PositiveDuration = Annotated[Micros, BeforeValidator(_read_duration), Field(gt=0)]


# A duration beyond this is a slip of the keyboard, and no integer of microseconds.
_LONGEST_SECONDS = 1e10


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Pool(_Strict):
    """A group of workers."""

    role: Role
    lease_cap: Annotated[int, Field(ge=0)] | None = None
    grace: PositiveDuration | None = Field(default=None, alias="grace_seconds")
    cancel_channel: bool = True
    """False declares that a cancel can't reach this pool's workers."""
    owner: str = "on-call"


class SqlStore(_Strict):
    """What every SQL store has: where it is, and how its names and stamps read."""

    type: Literal["sql"]
    url: SecretStr
    relation: Annotated[str, Field(min_length=1)]
    columns: dict[str, str] = {}
    timezone: str = "UTC"
    timeout: PositiveDuration = micros(5)

    @field_validator("timezone")
    @classmethod
    def _zone_is_known(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ValueError(
                "is no known time zone; write for example UTC or Europe/Berlin"
            ) from error
        return name

    @property
    def zone(self) -> tzinfo:
        """The zone of stamps that carry none."""
        return ZoneInfo(self.timezone)


class GatewayStore(SqlStore):
    """Requests, their cancels, deadlines and ends."""

    relation: Annotated[str, Field(min_length=1)] = "tasks"
    deadline: Literal["hard", "soft"] = "hard"
    rows: Literal["live", "at_end"] = "live"


class LeaseStore(SqlStore):
    """Workers' claims on tasks."""

    relation: Annotated[str, Field(min_length=1)] = "leases"
    lease_ttl: PositiveDuration = micros(60)
    heartbeat: PositiveDuration | None = None


class LedgerStore(SqlStore):
    """Tokens charged."""

    relation: Annotated[str, Field(min_length=1)] = "ledger"
    shape: Literal["increments", "cumulative", "final"]
    lag: Duration = Micros(0)
    prorated: Literal["page", "report"] = "page"


class QueueStore(SqlStore):
    """Samples of the admission queue."""

    relation: Annotated[str, Field(min_length=1)] = "queue"
    admission_cap: Annotated[float, Field(ge=0)] | None = None


class Stores(_Strict):
    """The four logical stores; one that is absent is unknown, never zero."""

    gateway: GatewayStore | None = None
    leases: LeaseStore | None = None
    ledger: LedgerStore | None = None
    queue: QueueStore | None = None

    def configured(self) -> tuple[StoreName, ...]:
        """Return the stores that the config names."""
        return tuple(name for name in StoreName if getattr(self, name) is not None)


class Thresholds(_Strict):
    """Numbers that rules, panels and pages share."""

    calm_depth_ratio: Annotated[float, Field(gt=0)] = 0.5
    rise_ratio: Annotated[float, Field(gt=0)] | None = None
    """None is 1.1, and 1.5 for a ``final`` ledger."""
    flat_ratio: Annotated[float, Field(gt=0)] = 1.5
    token_delta: Annotated[float, Field(ge=0)] = 0.0
    shed_overdue_ratio: Annotated[float, Field(ge=0, le=1)] = 0.1
    unmatched_spend_ratio: Annotated[float, Field(ge=0, le=1)] = 0.05
    waste_budget_ratio: Annotated[float, Field(gt=0, le=1)] = 0.01


class Links(_Strict):
    """Where generated links point."""

    runbook_base_url: str = "http://127.0.0.1:9787/runbook"
    dashboard_base_url: str = "http://127.0.0.1:3000"

    @field_validator("*")
    @classmethod
    def _is_absolute(cls, url: str) -> str:
        if not url.startswith(("http://", "https://")):
            raise ValueError("write an absolute URL, starting with http:// or https://")
        return url.rstrip("/")


class Config(_Strict):
    """One whole configuration."""

    pools: dict[str, Pool] = {}
    stores: Stores
    grace: PositiveDuration = Field(default=micros(1), alias="grace_seconds")
    delta_window: PositiveDuration = micros(60)
    baseline_window: PositiveDuration = micros(300)
    horizon: PositiveDuration = micros(3600)
    clock_skew_allowance: Duration = Micros(0)
    refresh_interval: PositiveDuration = micros(5)
    scrape_interval: PositiveDuration = micros(15)
    replica_labels: tuple[str, ...] = ("instance", "pod", "container", "endpoint", "node")
    reopen_hold: Duration = micros(300)
    grace_window: PositiveDuration = micros(7 * 86400)
    grace_quantile: Annotated[float, Field(gt=0, lt=1)] = 0.99
    grace_margin: Annotated[float, Field(ge=1)] = 1.5
    thresholds: Thresholds = Thresholds()
    links: Links = Links()
    capacity_alerts: str = 'alertname=~".*(Scale|Capacity|Saturat|QueueDeep).*"'
    """Alertmanager matcher of the capacity alerts that an orphan alert inhibits."""
    service: str = "llm-inference"
    state_file: str | None = None

    @field_validator("pools")
    @classmethod
    def _other_is_reserved(cls, pools: dict[str, Pool]) -> dict[str, Pool]:
        if OTHER_POOL in pools:
            raise ValueError(
                f"the name {OTHER_POOL!r} is kept for tasks of pools that are not configured; "
                "choose another"
            )
        return pools

    @model_validator(mode="after")
    def _window_holds_four_scrapes(self) -> Self:
        if self.delta_window < 4 * self.scrape_interval:
            raise ValueError(
                f"delta_window {format_duration(self.delta_window)} is shorter than 4 scrapes of "
                f"{format_duration(self.scrape_interval)}; raise it to at least "
                f"{format_duration(4 * self.scrape_interval)}, or lower scrape_interval"
            )
        return self

    @model_validator(mode="after")
    def _stores_answer_in_time(self) -> Self:
        stores = (self.stores.gateway, self.stores.leases, self.stores.ledger, self.stores.queue)
        longest = sum(store.timeout for store in stores if store is not None)
        if longest > self.stale_after:
            raise ValueError(
                f"stores: their timeouts add up to {format_duration(longest)}, and an evaluation "
                f"is stale after {format_duration(self.stale_after)}, before it would be there; "
                "lower them, or raise refresh_interval"
            )
        return self

    @property
    def pool_names(self) -> tuple[str, ...]:
        """The values of the ``pool`` label: the configured ones, and ``other``."""
        return (*sorted(self.pools), OTHER_POOL)

    @property
    def overflow_pools(self) -> tuple[str, ...]:
        """The configured pools of role overflow."""
        return tuple(name for name in sorted(self.pools) if self.pools[name].role is Role.OVERFLOW)

    @property
    def lag(self) -> Micros:
        """How late ledger rows may land."""
        return self.stores.ledger.lag if self.stores.ledger else Micros(0)

    @property
    def rise_ratio(self) -> float:
        """How much spend must exceed its baseline to count as rising."""
        if self.thresholds.rise_ratio is not None:
            return self.thresholds.rise_ratio
        ledger = self.stores.ledger
        return 1.5 if ledger is not None and ledger.shape == "final" else 1.1

    @property
    def stale_after(self) -> Micros:
        """Age at which an evaluation or a store's last good read is stale."""
        return Micros(max(micros(30), 3 * self.refresh_interval))

    def label(self, pool: str | None) -> str:
        """Return the value of the ``pool`` label for a pool that a store names."""
        return pool if pool is not None and pool in self.pools else OTHER_POOL

    def role(self, pool: str | None) -> Role | None:
        """Return a pool's role; None where it is not configured."""
        return self.pools[pool].role if pool is not None and pool in self.pools else None

    def grace_of(self, pool: str) -> Micros:
        """Return the grace in force for a value of the ``pool`` label."""
        configured = self.pools.get(pool)
        return configured.grace if configured and configured.grace else self.grace

    def grace_source(self, pool: str) -> GraceSource:  # noqa: ARG002  (the measurement file decides by pool)
        """Return where a pool's grace comes from: nothing has measured it yet."""
        return GraceSource.PROPOSAL


# What a verdict asks of the on-call, in one sentence; page, rules and runbooks say the same.
ACTION_WORDS: dict[Action, str] = {
    Action.SHED: "Shed the orphan work, do not scale.",
    Action.BLIND: "Restore sight first, change nothing.",
    Action.HOLD: "Hold: do not scale until the signal has stayed at zero.",
    Action.SCALE: "No orphan work: capacity decisions are safe.",
}


def parse_config(document: Any) -> Config:
    """Return the checked configuration; raises pydantic's ``ValidationError``."""
    return Config.model_validate(document)
