"""The loaded configuration: checked, frozen values that everything else is fed from.

What a user may write is pydantic models: the whole here, what stands under ``stores:`` in
``config_stores``. Reading the file, the environment and secret files is ``config_file``'s
business. Lengths of time are microseconds inside.
"""

from typing import Annotated, Any, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator

from orphanwatch.exporter.config_drill import Drill
from orphanwatch.exporter.config_selector import Matcher, parse_selector
from orphanwatch.exporter.config_stores import Stores
from orphanwatch.exporter.config_values import Duration, PositiveDuration, Strict
from orphanwatch.exporter.instants import Instant, Micros, format_duration, micros
from orphanwatch.exporter.measurement import Bond, Measurement, MeasurementFile
from orphanwatch.exporter.names import OTHER_POOL, Action, GraceSource, Role


class Pool(Strict):
    """A group of workers."""

    role: Role
    lease_cap: Annotated[int, Field(ge=0)] | None = None
    grace: PositiveDuration | None = Field(default=None, alias="grace_seconds")
    cancel_channel: bool = True
    """False declares that a cancel can't reach this pool's workers."""
    owner: str = "on-call"


class GraceSettings(Strict):
    """Where the measured grace is kept."""

    file: str = Field(min_length=1)
    """What ``orphanwatch grace --save`` wrote."""


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
    """The proposal, until a pool is measured."""
    measured_grace: GraceSettings | None = Field(default=None, alias="grace")
    delta_window: PositiveDuration = micros(60)
    baseline_window: PositiveDuration = micros(300)
    horizon: PositiveDuration = micros(3600)
    clock_skew_allowance: Duration = Micros(0)
    refresh_interval: PositiveDuration = micros(5)
    scrape_interval: PositiveDuration = micros(15)
    replica_labels: tuple[str, ...] = ("instance", "pod", "container", "endpoint", "node")
    selector: str = ""
    """Label matchers that pick this service's series in a Prometheus that has several."""
    replicas: Annotated[int, Field(ge=1)] = 1
    """How many exporters of this service must report before the gate command opens."""
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

    # What the file of ``grace`` holds: read at the border, never written by a user.
    _measured: MeasurementFile | None = PrivateAttr(default=None)

    @field_validator("pools")
    @classmethod
    def _other_is_reserved(cls, pools: dict[str, Pool]) -> dict[str, Pool]:
        if OTHER_POOL in pools:
            raise ValueError(
                f"the name {OTHER_POOL!r} is kept for tasks of pools that are not configured; "
                "choose another"
            )
        return pools

    @field_validator("selector")
    @classmethod
    def _selector_is_matchers(cls, text: str) -> str:
        return ",".join(str(matcher) for matcher in parse_selector(text))

    @model_validator(mode="after")
    def _selector_looks_past_replicas(self) -> Self:
        for matcher in self.selector_matchers:
            if matcher.label in self.replica_labels:
                raise ValueError(
                    f"selector: label {matcher.label} is one of replica_labels, which the rules "
                    "drop; choose by another label, or take it out of replica_labels"
                )
        return self

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
    def selector_matchers(self) -> tuple[Matcher, ...]:
        """The matchers of ``selector``, parsed; none where it is empty."""
        return parse_selector(self.selector)

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

    @property
    def measurement(self) -> Measurement | None:
        """The measured grace; None where there is none that may be used: all is a proposal."""
        return self._measured.measurement if self._measured is not None else None

    @property
    def measurement_problem(self) -> str:
        """Why the measured grace that the config names is not used; empty where it is."""
        return self._measured.problem if self._measured is not None else ""

    def with_measurement(self, found: MeasurementFile) -> Self:
        """Return the config with what a measurement file holds, as far as the two fit."""
        roles = {name: pool.role for name, pool in self.pools.items()}
        bond = Bond(self.service, self.grace_quantile, self.grace_margin, roles)
        return self._with(found.fitting(bond))

    def as_of(self, at: Instant) -> Self:
        """Return the config as it holds at an instant: a measurement that has expired is out.

        The one place that decides what grace is in force when. ``measurement_problem`` says why
        a measurement is not.
        """
        if self._measured is None:
            return self
        held = self._measured.as_of(at)
        return self if held is self._measured else self._with(held)

    def _with(self, found: MeasurementFile) -> Self:
        copy = self.model_copy()
        copy._measured = found  # noqa: SLF001  (a copy of this very class)
        return copy

    def grace_of(self, pool: str) -> Micros:
        """Return the grace in force for a value of the ``pool`` label.

        What was measured wins over every proposal, the pool's own ``grace_seconds`` too.
        """
        if self.measurement is not None and pool in self.measurement.pools:
            return self.measurement.pools[pool].in_force
        configured = self.pools.get(pool)
        return configured.grace if configured and configured.grace else self.grace

    def grace_source(self, pool: str) -> GraceSource:
        """Return whether a pool's grace in force was measured, or is a proposal."""
        is_measured = self.measurement is not None and pool in self.measurement.pools
        return GraceSource.MEASURED if is_measured else GraceSource.PROPOSAL


# What a verdict asks of the on-call, in one sentence; page, rules and runbooks say the same.
ACTION_WORDS: dict[Action, str] = {
    Action.SHED: "Shed the orphan work, do not scale.",
    Action.BLIND: "Restore sight first, change nothing.",
    Action.HOLD: "Hold: do not scale until the signal has stayed at zero.",
    Action.SCALE: "No orphan work: capacity decisions are safe.",
}


def default_config() -> Config:
    """Return what holds where no config is at hand, only a Prometheus: no pool, no store."""
    return Config(stores=Stores())


def parse_config(document: Any) -> Config:
    """Return the checked configuration; raises pydantic's ``ValidationError``."""
    return Config.model_validate(document)
