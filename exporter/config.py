"""The loaded configuration: checked, frozen values that everything else is fed from.

What a user may write is pydantic models: the whole here, what stands under ``stores:`` in
``config_stores``. Reading the file, the environment and secret files is ``config_file``'s
business. Lengths of time are microseconds inside.
"""

from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from orphanwatch.exporter.config_drill import Drill
from orphanwatch.exporter.config_stores import Stores
from orphanwatch.exporter.config_values import Duration, PositiveDuration, Strict
from orphanwatch.exporter.instants import Micros, format_duration, micros
from orphanwatch.exporter.names import OTHER_POOL, Action, GraceSource, Role


class Pool(Strict):
    """A group of workers."""

    role: Role
    lease_cap: Annotated[int, Field(ge=0)] | None = None
    grace: PositiveDuration | None = Field(default=None, alias="grace_seconds")
    cancel_channel: bool = True
    """False declares that a cancel can't reach this pool's workers."""
    owner: str = "on-call"


class Thresholds(Strict):
    """Numbers that rules, panels and pages share."""

    calm_depth_ratio: Annotated[float, Field(gt=0)] = 0.5
    rise_ratio: Annotated[float, Field(gt=0)] | None = None
    """None is 1.1, and 1.5 for a ``final`` ledger."""
    flat_ratio: Annotated[float, Field(gt=0)] = 1.5
    token_delta: Annotated[float, Field(ge=0)] = 0.0
    shed_overdue_ratio: Annotated[float, Field(ge=0, le=1)] = 0.1
    unmatched_spend_ratio: Annotated[float, Field(ge=0, le=1)] = 0.05
    waste_budget_ratio: Annotated[float, Field(gt=0, le=1)] = 0.01


class Links(Strict):
    """Where generated links point."""

    runbook_base_url: str = "http://127.0.0.1:9787/runbook"
    dashboard_base_url: str = "http://127.0.0.1:3000"

    @field_validator("*")
    @classmethod
    def _is_absolute(cls, url: str) -> str:
        if not url.startswith(("http://", "https://")):
            raise ValueError("write an absolute URL, starting with http:// or https://")
        return url.rstrip("/")


class Config(Strict):
    """One whole configuration."""

    pools: dict[str, Pool] = Field(default={})
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
    drill: Drill = Drill()
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
        longest = sum(store.timeout for store in self.stores.sources())
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
